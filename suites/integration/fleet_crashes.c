#include "suites/integration/fleet_crashes.h"
#include "base/file.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char N_ROWS[] = "SELECT (SELECT count(*) FROM kigo.archive) + (SELECT count(*) FROM kigo.archive_chunk)"
                             " + (SELECT count(*) FROM kigo.bundle) + (SELECT count(*) FROM kigo.tcase)"
                             " + (SELECT count(*) FROM kigo.result_row) + (SELECT count(*) FROM kigo.metric_row)";

/* A bundle that is about to be pushed. */
static char *begin(struct kg_fleet_lab *lab, struct kg_record *rec) {
    if (!kg_fleet_lab_open(lab, rec, true)) return NULL;
    /* Runner and month are known from a run before: they have separate transactions. */
    char *before = kg_verb_seal(kg_scratch_dir(rec));
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", before), KG_EXIT_OK, NULL, NULL);
    free(before);
    return kg_maker_sealed(lab->bundles, 3);
}

static void restart(const char *const *settings) {
    kg_fleet_server_kill();
    kg_fleet_server_start(settings);
}

static void end(struct kg_fleet_lab *lab, char *dir) {
    free(dir);
    kg_fleet_lab_close(lab);
}

static void expect(struct kg_fleet_job *job, int exit_code, const char *says) {
    struct kg_process_result result;
    kg_fleet_job_end(job, &result);
    ck_assert_msg(result.exit_code == exit_code, "kigo push ended with %d, not %d: %.1000s%.1000s", result.exit_code,
                  exit_code, result.out, result.err);
    ck_assert_msg(strstr(result.out, says) || strstr(result.err, says), "'%s' is not in: %.1000s%.1000s", says,
                  result.out, result.err);
    kg_process_result_free(&result);
}

/* Everything but the figures' rows is sent and waits for the rest. */
void kg_fleet_killed_before_commit(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char *dir = begin(&lab, rec);
    (void)arg;
    if (!dir) return;
    const int64_t n_before = kg_fleet_lab_number(&lab, N_ROWS);
    struct kg_fleet_beside *beside = kg_fleet_lab_hold(&lab, "kigo.metric_row");
    struct kg_fleet_job *push = kg_fleet_lab_begin(&lab, "runner_a", ARGS("push", dir, "--wait", "0"));
    kg_fleet_lab_wait(&lab, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted"
                            " AND relation = 'kigo.metric_row'::regclass");
    kg_fleet_server_kill();
    expect(push, KG_EXIT_INCOMPLETE, "nothing of it is in the fleet");
    kg_fleet_server_start(NULL);
    kg_fleet_lab_release(beside);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ROWS), n_before);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    end(&lab, dir);
}

/* The server has written the commit and waits for a standby that does not exist, so that nobody is answered. */
static struct kg_fleet_job *push_without_answer(const struct kg_fleet_lab *lab, const char *dir, const char *wait_s) {
    restart(ARGS("-c", "synchronous_standby_names=nobody"));
    struct kg_fleet_job *push = kg_fleet_lab_begin(lab, "runner_a", ARGS("push", dir, "--wait", wait_s));
    kg_fleet_lab_wait(lab,
                      "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'");
    return push;
}

void kg_fleet_killed_at_commit_and_gone(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char *dir = begin(&lab, rec);
    (void)arg;
    if (!dir) return;
    struct kg_fleet_job *push = push_without_answer(&lab, dir, "0");
    kg_fleet_server_kill();
    expect(push, KG_EXIT_INCOMPLETE, "not known whether the fleet has the run");
    kg_fleet_server_start(NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, "there already", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row"), 3 + 1);
    end(&lab, dir);
}

void kg_fleet_killed_at_commit_and_back(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char *dir = begin(&lab, rec);
    (void)arg;
    if (!dir) return;
    struct kg_fleet_job *push = push_without_answer(&lab, dir, "50");
    kg_fleet_server_kill();
    kg_fleet_server_start(NULL);
    expect(push, KG_EXIT_OK, ": pushed");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row"), 3 + 1);
    end(&lab, dir);
}
