/* What a case's result holds, for people: a line a figure, each number with its unit. */
#ifndef KIGO_CLI_SHOW_FIGURES_H
#define KIGO_CLI_SHOW_FIGURES_H

#include "base/buffer.h"
#include <jansson.h>

/* Errors, timings, metrics and memory of a result, in this order. */
void kg_show_figures(const json_t *result, struct kg_buffer *out);

#endif
