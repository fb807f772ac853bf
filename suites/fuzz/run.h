/* The inputs of a target by number, and running one of them under the limits. */
#ifndef KIGO_SUITES_FUZZ_RUN_H
#define KIGO_SUITES_FUZZ_RUN_H

#include "suites/fuzz/targets.h"
#include <stdbool.h>

struct kg_fuzz_inputs {
    const struct kg_fuzz_target *target;
    uint64_t seed;
    struct kg_buffer *seeds; /* the target's, and those that were added */
    size_t n_seeds;
};
void kg_fuzz_inputs_open(const struct kg_fuzz_target *target, uint64_t seed, struct kg_fuzz_inputs *inputs);
void kg_fuzz_inputs_add(struct kg_fuzz_inputs *inputs, const void *data, size_t size);
void kg_fuzz_inputs_close(struct kg_fuzz_inputs *inputs);

/* The input of that number: it follows from seed, number and seeds alone. */
void kg_fuzz_make_input(const struct kg_fuzz_inputs *inputs, uint64_t number, struct kg_buffer *image);

/* Runs one input from an allocation of exactly its size, so that a read past its end is one past the allocation's.
 * Gives up on memory over the limit (limits.h) and on memory that is not freed. *peak_bytes: the most in use. */
enum kg_status kg_fuzz_run(const struct kg_fuzz_target *target, const uint8_t *data, size_t size, int64_t *peak_bytes);

/* Calls it where Check's assertions may be used, which seeds and folders are made with; outside of a case they end the
 * process. False, with the assertion on standard output, if one fails. */
bool kg_fuzz_under_check(void (*call)(void *arg), void *arg);

#endif
