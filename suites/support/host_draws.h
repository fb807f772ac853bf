/* Draws in host memory: lets the cpu back end go the way of one that draws on its device, step ahead and all. */
#ifndef KIGO_SUITES_HOST_DRAWS_H
#define KIGO_SUITES_HOST_DRAWS_H

#include "backend/backend.h"

extern const struct kg_draw_ops kg_host_draw_ops;

/* Draws asked for and given out, of all sessions, since the program began. */
extern uint64_t kg_host_draws_asked, kg_host_draws_given;

#endif
