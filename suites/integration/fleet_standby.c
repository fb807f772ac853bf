#include "suites/integration/fleet_standby.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/fleet_holds.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char BOTH[] = "5432,5433", STANDBY[] = "5433";

/* What a reader asks, and what the answer holds; "@" is a run. */
static const struct {
    const char *args[4], *says;
} READS[] = {
    { { "list", "--json" }, "@" },
    { { "show", "@" }, "@" },
    { { "history", "*" }, "" },
    { { "query", "SELECT run FROM run ORDER BY run" }, "@" },
    { { "report", "@", "--markdown" }, "@" },
    { { "pin", "@" }, "" },
};
enum { N_READS = KG_COUNT_OF(READS) - 1 }; /* the last one writes */

static void ask(const struct kg_fleet_lab *lab, const char *user, size_t i, const char *id, int exit_code,
                const char *says, char **out) {
    const char *args[5] = { NULL };
    for (size_t k = 0; k < 4 && READS[i].args[k]; k++)
        args[k] = strcmp(READS[i].args[k], "@") == 0 ? id : READS[i].args[k];
    kg_fleet_lab_kigo(lab, user, args, exit_code, says, out);
}

/* Whoever reads has brought nothing yet. */
static void fresh_cache(struct kg_record *rec, const char *name) {
    char *cache = kg_path_join(kg_scratch_dir(rec), name);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    free(cache);
}

static void expect_same(char *const before[N_READS], const struct kg_fleet_lab *lab, const char *id) {
    for (size_t i = 0; i < N_READS; i++) {
        char *out;
        ask(lab, "reader", i, id, KG_EXIT_OK, strcmp(READS[i].says, "@") == 0 ? id : READS[i].says, &out);
        ck_assert_msg(strcmp(out, before[i]) == 0, "kigo %s said\n%.1500s\nand says\n%.1500s", READS[i].args[0],
                      before[i], out);
        free(out);
    }
}

static bool start_web(struct kg_web_child *web, struct kg_record *rec, const struct kg_fleet_lab *lab) {
    char *url = kg_fleet_lab_url(lab, "reader");
    const bool started = kg_web_child_start(rec, NULL, ARGS("--history", url), web);
    free(url);
    return started;
}

static void expect_page(const struct kg_web_child *web, const char *id) {
    char *page = kg_web_page(web, "/");
    ck_assert_msg(strstr(page, id) != NULL, "%.3000s", page);
    free(page);
}

/* Only reads are let in by a standby. */
static void expect_only_reads(struct kg_fleet_lab *lab, const char *dir, const char *id) {
    lab->servers = STANDBY;
    kg_fleet_lab_kigo(lab, "reader", ARGS("query", "SELECT pg_is_in_recovery()::int AS standby"), KG_EXIT_OK, "1",
                      NULL);
    kg_fleet_lab_kigo(lab, "reader", ARGS("list"), KG_EXIT_OK, id, NULL); /* as soon as it was acknowledged */
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", dir, "--wait", "0"), KG_EXIT_INCOMPLETE, "session is read-only",
                      NULL);
    lab->servers = BOTH;
}

void kg_fleet_standby_takes_over(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_web_child web;
    struct kg_process_result result;
    char *before[N_READS], *to = kg_path_join(kg_scratch_dir(rec), "to");
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dirs[] = { kg_verb_seal(lab.bundles), kg_verb_seal(lab.bundles) }, *id = strrchr(dirs[0], '/') + 1;
    kg_fleet_server_add_standby();
    lab.servers = BOTH;
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dirs[0]), KG_EXIT_OK, ": pushed", NULL);
    expect_only_reads(&lab, dirs[1], id);
    fresh_cache(rec, "cache");
    for (size_t i = 0; i < N_READS; i++) ask(&lab, "reader", i, id, KG_EXIT_OK, NULL, &before[i]);
    const bool has_web = start_web(&web, rec, &lab);
    if (has_web) expect_page(&web, id);

    kg_fleet_server_kill();
    if (has_web) expect_page(&web, id);
    fresh_cache(rec, "another");
    expect_same(before, &lab, id);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("fleet", "status"), KG_EXIT_OK, "runner_a", NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dirs[1], "--wait", "1"), KG_EXIT_INCOMPLETE, "cannot be reached",
                      NULL);
    struct kg_fleet_job *push = kg_fleet_lab_begin(&lab, "runner_a", ARGS("push", dirs[1], "--wait", "50"));
    kg_fleet_server_promote();
    kg_fleet_job_end(push, &result);
    ck_assert_msg(result.exit_code == KG_EXIT_OK && strstr(result.out, ": pushed"), "%.1000s%.1000s", result.out,
                  result.err);
    kg_process_result_free(&result);
    if (has_web) expect_page(&web, strrchr(dirs[1], '/') + 1);
    kg_fleet_expect_whole(&lab, dirs[0]);
    kg_fleet_expect_whole(&lab, dirs[1]);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", "--all", "--bundles", to), KG_EXIT_OK, id, NULL);
    ask(&lab, "postgres", N_READS, id, KG_EXIT_OK, NULL, NULL);
    if (has_web) ck_assert_int_eq(kg_web_child_end(&web, SIGTERM), 0);
    kg_fleet_server_drop_standby();
    for (size_t i = 0; i < N_READS; i++) free(before[i]);
    for (size_t i = 0; i < KG_COUNT_OF(dirs); i++) free(dirs[i]);
    free(to);
    kg_fleet_lab_close(&lab);
}

void kg_fleet_standby_promoted_at_random(struct kg_record *rec, const void *n) {
    struct kg_fleet_lab lab;
    struct kg_rng rng;
    int n_whole = 0;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 2);
    for (int i = 0; i < *(const int *)n; i++) {
        struct kg_process_result result;
        char *dirs[] = { kg_verb_seal(lab.bundles), kg_verb_seal(lab.bundles) };
        kg_fleet_server_add_standby();
        lab.servers = BOTH;
        const uint64_t begun_ns = kg_clock_monotonic_ns();
        kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dirs[0]), KG_EXIT_OK, ": pushed", NULL);
        const double seconds = (double)(kg_clock_monotonic_ns() - begun_ns) / 1e9;
        struct kg_fleet_job *push =
            kg_fleet_lab_begin(&lab, "runner_a", ARGS("push", dirs[1], "--json", "--wait", "30"));
        usleep((useconds_t)(1.2e6 * seconds * kg_rng_uniform(&rng)));
        kg_fleet_server_kill();
        kg_fleet_server_promote();
        kg_fleet_job_end(push, &result);
        kg_fleet_expect_said(&lab, dirs[1], &result);
        n_whole += strstr(result.out, "\"pushed\"") != NULL;
        for (size_t k = 0; k < KG_COUNT_OF(dirs); k++) kg_fleet_expect_whole(&lab, dirs[k]);
        ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive"), 2 * (i + 1));
        kg_fleet_server_drop_standby();
        lab.servers = NULL;
        kg_process_result_free(&result);
        for (size_t k = 0; k < KG_COUNT_OF(dirs); k++) free(dirs[k]);
    }
    kg_record_metric(rec, "whole", "count", n_whole);
    kg_fleet_lab_close(&lab);
}
