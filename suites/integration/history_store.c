#include "suites/integration/history_store.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_CALLS = 5, N_REINDEX_CALLS = 3, VERB_TIMEOUT_S = 600 };

static double processor_s(void) {
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Of all processes since the machine started: the first line of /proc/stat, "cpu user nice system idle iowait irq
 * softirq steal ..." in clock ticks (proc(5)). 0 where there is none. */
static double busy_s(void) {
    double user = 0, nice = 0, system = 0, irq = 0, softirq = 0, steal = 0;
    FILE *file = fopen("/proc/stat", "r");
    const int n =
        file ? fscanf(file, "cpu %lf %lf %lf %*f %*f %lf %lf %lf", &user, &nice, &system, &irq, &softirq, &steal) : 0;
    if (file) fclose(file);
    return n == 6 ? (user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK) : 0;
}

struct meter {
    uint64_t begun_ns;
    double own_s, busy_s;
};

static struct meter start_meter(void) {
    return (struct meter){ kg_clock_monotonic_ns(), processor_s(), busy_s() };
}

static void read_meter(const struct meter *begun, struct kg_cost *cost) {
    const double wall = (double)(kg_clock_monotonic_ns() - begun->begun_ns) / 1e9, own = processor_s() - begun->own_s;
    const double others = fmax(0, busy_s() - begun->busy_s - own);
    const bool first = cost->wall_s == 0;
    cost->processor_s = first ? own : fmin(cost->processor_s, own);
    if (!first && wall >= cost->wall_s) return;
    cost->wall_s = wall;
    cost->others_share = others / wall / (double)sysconf(_SC_NPROCESSORS_ONLN);
}

/* What `kigo <verb> [argument] --bundles <root> --json` prints; the caller's reference. Exit code 0, or 1 of a regress:
 * 1000 figures with noise may well have one that is reported. */
static json_t *ask(const struct kg_history_lab *lab, const char *verb, const char *argument, struct kg_cost *cost) {
    const char *const argv[] = { kg_program_path(), verb, "--bundles", lab->root, "--json", argument, NULL };
    const struct kg_process process = { .argv = argv, .timeout_s = VERB_TIMEOUT_S };
    struct kg_process_result result;
    struct kg_error err;
    const struct meter begun = start_meter();
    kg_must(kg_process_run(&process, &result, &err), &err);
    read_meter(&begun, cost);
    const int most = strcmp(verb, "regress") == 0 ? KG_EXIT_FAILED : KG_EXIT_OK;
    ck_assert_msg(result.exit_code >= 0 && result.exit_code <= most, "kigo %s ended with %d: %.300s%.300s", verb,
                  result.exit_code, result.out, result.err);
    json_t *answer = json_loads(result.out, 0, NULL);
    ck_assert_msg(answer != NULL, "kigo %s --json: %.300s", verb, result.out);
    kg_process_result_free(&result);
    return answer;
}

static int64_t integer(const json_t *answer, const char *name) {
    return json_integer_value(json_object_get(answer, name));
}

static void measure_reindex(const struct kg_history_lab *lab, size_t n_runs, double enough_wall_s,
                            struct kg_cost *cost) {
    for (int i = 0; i < N_REINDEX_CALLS && (i == 0 || cost->wall_s > enough_wall_s); i++) {
        json_t *answer = ask(lab, "reindex", NULL, cost);
        ck_assert_int_eq(integer(answer, "n_indexed"), (int64_t)n_runs);
        json_decref(answer);
    }
}

static void measure_regress(const struct kg_history_lab *lab, size_t n_cases, struct kg_cost *cost) {
    json_t *answer = ask(lab, "regress", NULL, cost);
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "baseline")), 20);
    ck_assert_int_eq(integer(answer, "n_cases"), (int64_t)n_cases + 1); /* and the canaries' */
    ck_assert_int_eq(integer(answer, "n_noisy"), (int64_t)n_cases);
    json_decref(answer);
}

static void measure_history(const struct kg_history_lab *lab, size_t n_runs, struct kg_cost *cost) {
    json_t *answer = ask(lab, "history", kg_made_case_key(7), cost);
    ck_assert_uint_eq(json_array_size(answer), n_runs);
    json_decref(answer);
}

static double file_bytes(const char *dir, const char *name) {
    struct stat info;
    char *path = kg_xasprintf("%s/%s", dir, name);
    const double bytes = stat(path, &info) == 0 ? (double)info.st_size : 0;
    free(path);
    return bytes;
}

static void record(struct kg_record *rec, const char *verb, const struct kg_cost *cost) {
    char *wall = kg_xasprintf("%s_wall", verb), *processor = kg_xasprintf("%s_processor", verb);
    char *others = kg_xasprintf("%s_others", verb);
    kg_record_metric(rec, wall, "s", cost->wall_s);
    kg_record_metric(rec, processor, "s", cost->processor_s);
    kg_record_metric(rec, others, "ratio", cost->others_share);
    free(others);
    free(processor);
    free(wall);
}

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= exp(0.01 * kg_rng_normal(arg));
}

void kg_store_measure(struct kg_record *rec, size_t n_runs, size_t n_cases, double enough_wall_s,
                      struct kg_store_costs *costs) {
    struct kg_history_lab lab;
    struct kg_rng rng;
    *costs = (struct kg_store_costs){ 0 };
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), n_runs);
    kg_history_lab_runs(&lab, 0, n_runs,
                        (struct kg_made_run){ .n_cases = n_cases, .canary = 1, .fill = fill, .arg = &rng });
    measure_reindex(&lab, n_runs, enough_wall_s, &costs->reindex);
    costs->index_bytes = file_bytes(lab.root, "index.sqlite") + file_bytes(lab.root, "index.sqlite-wal");
    ck_assert_double_gt(costs->index_bytes, 0);
    for (int i = 0; i < N_CALLS; i++) {
        measure_regress(&lab, n_cases, &costs->regress);
        measure_history(&lab, n_runs, &costs->history);
    }
    record(rec, "reindex", &costs->reindex);
    record(rec, "regress", &costs->regress);
    record(rec, "history", &costs->history);
    kg_record_metric(rec, "reindexed_per_s", "1/s", (double)n_runs / costs->reindex.wall_s);
    kg_record_metric(rec, "index", "bytes", costs->index_bytes);
    kg_history_lab_close(&lab);
}
