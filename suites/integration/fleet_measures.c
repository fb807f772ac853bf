#include "suites/integration/fleet_measures.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/fleet_line.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_RUNS = 20, N_ALIKE = 7 };

/* A build whose n-th run in a folder gives always the same: a script that copies a bundle. malloc'ed. */
static char *make_build(struct kg_fleet_line *line, struct kg_record *rec, bool slower) {
    static const char SCRIPT[] =
        "#!/bin/sh\n"
        "here=$(dirname \"$0\")\n"
        "for root; do :; done\n"
        "count=$here/count-$(basename \"$root\")\n"
        "echo >>\"$count\"\n"
        "cp -r \"$here/runs/$(ls \"$here/runs\" | sed -n \"$(wc -l <\"$count\")p\")\" \"$root\"\n";
    char *dir = kg_path_join(kg_scratch_dir(rec), slower ? "after" : "before"), *runs = kg_path_join(dir, "runs"),
         *kigo = kg_path_join(dir, "kigo");
    struct kg_error err;
    EXPECT_OK(kg_dir_make(runs, &err), err);
    EXPECT_OK(kg_file_write(kigo, SCRIPT, strlen(SCRIPT), &err), err);
    ck_assert_int_eq(chmod(kigo, 0755), 0);
    for (size_t i = 0; i < MOST_RUNS; i++) kg_fleet_line_measure(line, runs, slower, slower, 2 * i + slower);
    free(kigo);
    free(runs);
    return dir;
}

static int64_t n_kept(const struct kg_fleet_line *line, const char *kind) {
    char *sql = kg_xasprintf("SELECT count(*) FROM kigo.annotation WHERE kind = '%s'", kind);
    const int64_t n = kg_fleet_lab_number(&line->fleet, sql);
    free(sql);
    return n;
}

/* What was flagged is measured by runs here, and the run that says how to measure comes from the fleet. Who may write
 * annotations keeps what was found. */
void kg_fleet_confirms_as_a_folder(struct kg_record *rec, const void *arg) {
    struct kg_fleet_line line;
    (void)arg;
    if (!kg_fleet_line_open(&line, rec, KG_FLEET_LINE_FEWEST)) return;
    char *before = make_build(&line, rec, false), *after = make_build(&line, rec, true);
    const char *const confirm[] = { "confirm",          "latest~1", "--rounds", "5",   "--repo", "@",
                                    "--baseline-build", before,     "--build",  after, NULL },
                      *const regress[] = { "regress",          "latest~1", "--confirm", "--repo", "@",
                                           "--baseline-build", before,     "--build",   after,    NULL },
                      *const nothing[] = { "confirm", "latest~2", "--repo", "@", "--baseline", "line~10", NULL };
    kg_fleet_line_expect(&line, confirm, "--json", "\"verdict\": \"confirmed\"");
    kg_fleet_line_expect(&line, regress, "--json", "\"verdict\": \"confirmed\"");
    kg_fleet_line_expect(&line, nothing, NULL, "nothing to measure again");
    ck_assert_int_eq(n_kept(&line, "confirm"), 0);
    const char *by_admin[KG_COUNT_OF(confirm)];
    for (size_t i = 0; i < KG_COUNT_OF(confirm); i++)
        by_admin[i] = confirm[i] && strcmp(confirm[i], "@") == 0 ? line.folder.repository : confirm[i];
    kg_fleet_lab_kigo(&line.fleet, "reader", by_admin, KG_EXIT_FAILED, "what was found is not kept", NULL);
    kg_fleet_lab_kigo(&line.fleet, "postgres", by_admin, KG_EXIT_FAILED, NULL, NULL);
    ck_assert_int_eq(n_kept(&line, "confirm"), 1);
    free(after);
    free(before);
    kg_fleet_line_close(&line);
}

/* Runs of one commit, named, against each other; what comes of it is in the next regress. */
void kg_fleet_selfchecks_as_a_folder(struct kg_record *rec, const void *arg) {
    const char *args[N_ALIKE + 3] = { "selfcheck" };
    struct kg_fleet_line line;
    struct kg_process_result local;
    char *ids[N_ALIKE], *root = kg_path_join(kg_scratch_dir(rec), "alike"), *fleet = NULL;
    struct kg_dir_list list;
    struct kg_error err;
    (void)arg;
    if (!kg_fleet_line_open(&line, rec, KG_FLEET_LINE_FEWEST)) return;
    EXPECT_OK(kg_dir_make(root, &err), err);
    for (size_t i = 0; i < N_ALIKE; i++) kg_fleet_line_measure(&line, root, 0, false, i);
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    ck_assert_uint_eq(list.n_names, N_ALIKE);
    kg_fleet_lab_kigo(&line.fleet, "runner_b", ARGS("push", "--all", "--bundles", root), KG_EXIT_OK, NULL, NULL);
    for (size_t i = 0; i < N_ALIKE; i++) args[1 + i] = ids[i] = list.names[i];
    static const char *const FORMS[] = { NULL, "--json" };
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++) {
        args[1 + N_ALIKE] = FORMS[i];
        kg_verb_run(root, args, false, &local);
        ck_assert_msg(local.exit_code == KG_EXIT_OK, "%s", local.err);
        kg_fleet_lab_kigo(&line.fleet, "postgres", args, KG_EXIT_OK, NULL, &fleet);
        ck_assert_str_eq(fleet, local.out);
        kg_process_result_free(&local);
        free(fleet);
    }
    ck_assert_int_eq(n_kept(&line, "selfcheck"), 2);
    args[1 + N_ALIKE] = NULL;
    kg_fleet_lab_kigo(&line.fleet, "reader", args, KG_EXIT_INCOMPLETE, "permission denied", NULL);
    kg_fleet_lab_kigo(&line.fleet, "reader", ARGS("regress", ids[0], "--repo", line.folder.repository),
                      KG_EXIT_INCONCLUSIVE, "false alarms", NULL);
    kg_fleet_lab_kigo(&line.fleet, "reader", ARGS("selfcheck", ids[0], ids[1]), KG_EXIT_USAGE, "a selfcheck takes",
                      NULL);
    kg_fleet_lab_kigo(&line.fleet, "reader", ARGS("selfcheck", "no such run"), KG_EXIT_USAGE, "no such run", NULL);
    kg_dir_list_free(&list);
    free(root);
    kg_fleet_line_close(&line);
}
