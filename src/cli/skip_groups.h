/* Skipped cases as people read them: a line for each reason, with how many cases gave it and the first few names. */
#ifndef KIGO_CLI_SKIP_GROUPS_H
#define KIGO_CLI_SKIP_GROUPS_H

#include "base/escape.h"
#include <jansson.h>
#include <stddef.h>

/* {0} has none. */
struct kg_skip_groups {
    json_t *keys; /* "skip, no CUDA device": ["unit/...", ...] */
};

/* what: what happened, "skip"; of the reason the first line counts, and NULL or "" is none. */
void kg_skip_groups_add(struct kg_skip_groups *groups, const char *what, const char *reason, const char *key);
/* A line for each, in the order in which they first came; margin: what each begins with. */
void kg_skip_groups_put(const struct kg_skip_groups *groups, const char *margin, enum kg_medium medium,
                        struct kg_buffer *out);
size_t kg_skip_groups_count(const struct kg_skip_groups *groups); /* lines */
void kg_skip_groups_free(struct kg_skip_groups *groups);

#endif
