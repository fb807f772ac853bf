/* A few of the moments that `make check-crash` tries: kills and losses of power while kigo writes. */
#include "base/size.h"
#include "suites/integration/crash_try.h"
#include <stdlib.h>

enum { MOST_KILLS = 2, MOST_PLAIN = 1, MOST_MIXED = 1, TIMEOUT_S = 120 };

static void killed(struct kg_record *rec, const void *arg) {
    kg_crash_kill_at_calls(rec, arg, MOST_KILLS);
}

static void power_loss(struct kg_record *rec, const void *arg) {
    kg_crash_lose_power(rec, arg, MOST_PLAIN, MOST_MIXED);
}

static void build(struct kg_case_list *list) {
    static void (*const RUNS[])(struct kg_record *, const void *) = { killed, power_loss };
    static const char *const NAMES[] = { "killed", "power_loss" };
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
