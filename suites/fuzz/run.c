#include "suites/fuzz/run.h"
#include "suites/fuzz/limits.h"
#include "base/size.h"
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status run_once(const struct kg_fuzz_target *target, const uint8_t *data, size_t size, int64_t *left,
                               int64_t *peak) {
    kg_fuzz_memory_begin(KG_FUZZ_BASE_BYTES + KG_FUZZ_TIMES_SIZE * (uint64_t)size);
    kg_fuzz_begin(target->name, data, size);
    const enum kg_status status = target->run(target, data, size);
    *left = kg_fuzz_memory_end(peak);
    return status;
}

/* What a library keeps for the next call is there once; a leak grows each time. */
static void expect_no_leak(const struct kg_fuzz_target *target, const uint8_t *data, size_t size) {
    int64_t left, peak;
    for (int i = 0; i < 4; i++) {
        (void)run_once(target, data, size, &left, &peak);
        if (left <= 0) return;
    }
    kg_fuzz_give_up("%" PRId64 " bytes are not freed, each time", left);
}

enum kg_status kg_fuzz_run(const struct kg_fuzz_target *target, const uint8_t *data, size_t size, int64_t *peak) {
    uint8_t *bytes = kg_xmalloc(size);
    int64_t left;
    if (size) memcpy(bytes, data, size);
    const enum kg_status status = run_once(target, bytes, size, &left, peak);
    if (left > 0) expect_no_leak(target, bytes, size);
    free(bytes);
    return status;
}

void kg_fuzz_make_input(const struct kg_fuzz_inputs *inputs, uint64_t number, struct kg_buffer *image) {
    struct kg_rng rng;
    kg_rng_init(&rng, inputs->seed, number);
    const struct kg_buffer *seed = &inputs->seeds[kg_rng_below(&rng, inputs->n_seeds)];
    const struct kg_buffer *other = &inputs->seeds[kg_rng_below(&rng, inputs->n_seeds)];
    kg_buffer_clear(image);
    kg_buffer_append(image, seed->data, seed->len);
    kg_mutate(inputs->target->form, image, other, &rng);
}

void kg_fuzz_inputs_open(const struct kg_fuzz_target *target, uint64_t seed, struct kg_fuzz_inputs *inputs) {
    *inputs = (struct kg_fuzz_inputs){ .target = target, .seed = seed };
    inputs->seeds = kg_xcalloc(KG_FUZZ_MAX_SEEDS, sizeof *inputs->seeds);
    inputs->n_seeds = target->make_seeds(target, inputs->seeds);
}

void kg_fuzz_inputs_add(struct kg_fuzz_inputs *inputs, const void *data, size_t size) {
    inputs->seeds = kg_xrealloc(inputs->seeds, (inputs->n_seeds + 1) * sizeof *inputs->seeds);
    inputs->seeds[inputs->n_seeds] = (struct kg_buffer)KG_BUFFER_INIT;
    kg_buffer_append(&inputs->seeds[inputs->n_seeds++], data, size);
}

void kg_fuzz_inputs_close(struct kg_fuzz_inputs *inputs) {
    for (size_t i = 0; i < inputs->n_seeds; i++) kg_buffer_free(&inputs->seeds[i]);
    free(inputs->seeds);
    *inputs = (struct kg_fuzz_inputs){ 0 };
}

static struct {
    void (*call)(void *arg);
    void *arg;
} checked;

START_TEST(call_checked) {
    checked.call(checked.arg);
}
END_TEST

bool kg_fuzz_under_check(void (*call)(void *arg), void *arg) {
    Suite *suite = suite_create("fuzz");
    TCase *tcase = tcase_create("fuzz");
    checked.call = call;
    checked.arg = arg;
    tcase_add_test(tcase, call_checked);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const int n_failed = srunner_ntests_failed(runner);
    if (n_failed) srunner_print(runner, CK_NORMAL);
    srunner_free(runner);
    return n_failed == 0;
}
