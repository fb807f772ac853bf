/* Fuzz targets: each hands bytes of any content to a reader and looks at all that comes out.
 *
 * A target returns the status that the reader ended with, KG_OK where it took the bytes. Where the reader breaks a
 * promise (an error without a message, a message that is no UTF-8, memory that is not given back) the target says
 * which, and of what input, and aborts: it has no case to fail. test_mutations.c runs every target in every check,
 * fuzz.c many inputs of each on all processors, coverage.c one of them under libFuzzer or AFL++. */
#ifndef KIGO_SUITES_FUZZ_TARGETS_H
#define KIGO_SUITES_FUZZ_TARGETS_H

#include "suites/fuzz/mutate.h"
#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_FUZZ_MAX_SEEDS = 6 };

struct kg_fuzz_target {
    const char *name;
    enum kg_status (*run)(const struct kg_fuzz_target *target, const uint8_t *data, size_t size);
    /* Small good files; returns how many. Called once, before the process forks: what run needs is opened here too. */
    size_t (*make_seeds)(const struct kg_fuzz_target *target, struct kg_buffer seeds[KG_FUZZ_MAX_SEEDS]);
    enum kg_fuzz_form form;
    const char *file;  /* of targets that stand for one file of a folder; NULL: the bytes are read from memory */
    unsigned n_quick;  /* inputs of each `make check` */
    unsigned thousand; /* inputs in thousands of `make check-fuzz` with FUZZ_SCALE=1: 11 million over all targets */
};
extern const struct kg_fuzz_target KG_FUZZ_TARGETS[];
extern const size_t KG_FUZZ_N_TARGETS;
/* NULL if there is none of that name. */
const struct kg_fuzz_target *kg_fuzz_find(const char *name);

/* What kg_fuzz_give_up reports: the target and its input. The bytes stay until the target returns. */
void kg_fuzz_begin(const char *target, const uint8_t *data, size_t size);

/* For who runs targets: which input comes next, if there is a better way to say it than its bytes. */
void kg_fuzz_name_input(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line to standard error, of the target, what was violated, and the input, and aborts. */
_Noreturn void kg_fuzz_give_up(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Gives up unless the error is a good one. Returns its status. */
enum kg_status kg_fuzz_expect_error(const struct kg_error *err);
struct kg_bundle_findings;
/* Gives up unless every finding can be written as JSON. */
void kg_fuzz_expect_findings(const struct kg_bundle_findings *findings);

#endif
