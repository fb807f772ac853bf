/* Kills at every call and at random, and every folder that a loss of power may leave: `make check-crash`, minutes. */
#include "base/size.h"
#include "suites/integration/crash_try.h"
#include <stdint.h>
#include <stdlib.h>

enum { RANDOM_KILLS_OF_CHECK = 400, RANDOM_KILLS = 60, MOST_MIXED = 400, TIMEOUT_S = 3000 };

static void every_call(struct kg_record *rec, const void *arg) {
    kg_crash_kill_at_calls(rec, arg, SIZE_MAX);
}

static void random_moments(struct kg_record *rec, const void *arg) {
    const bool whole_run = arg == &KG_CRASH_SCENES[0];
    kg_crash_kill_at_random(rec, arg, whole_run ? RANDOM_KILLS_OF_CHECK : RANDOM_KILLS);
}

static void power_loss(struct kg_record *rec, const void *arg) {
    kg_crash_lose_power(rec, arg, SIZE_MAX, MOST_MIXED);
}

static void build(struct kg_case_list *list) {
    static void (*const RUNS[])(struct kg_record *, const void *) = { every_call, random_moments, power_loss };
    static const char *const NAMES[] = { "killed_at_every_call", "killed_at_random", "power_loss" };
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++)
        for (size_t k = 0; k < KG_N_CRASH_SCENES; k++)
            kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                      .op = "crash",
                                                      .name = NAMES[i],
                                                      .shape = KG_CRASH_SCENES[k].name,
                                                      .timeout_s = TIMEOUT_S,
                                                      .run = RUNS[i],
                                                      .arg = &KG_CRASH_SCENES[k] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
