#include "suites/integration/fleet_line.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 4, VICTIM = 2, MOST_ARGS = 16 };

struct story {
    struct kg_rng rng;
    double victim;
    bool red;
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= exp(0.005 * kg_rng_normal(&story->rng));
    if (i == VICTIM) c->time_ns *= story->victim;
    if (i == VICTIM && story->red) c->status = "fail";
}

/* From some run on a case takes 8% longer. The last is of another machine, the last but two red, one is of a side
 * branch, one dirty. */
static void write_runs(struct kg_history_lab *lab, size_t n_runs) {
    struct story story = { .victim = 1 };
    kg_rng_init(&story.rng, 3, 0);
    const size_t step_at = n_runs - (n_runs == KG_FLEET_LINE_FEWEST ? 3 : 10);
    for (size_t i = 0; i < n_runs; i++) {
        story.victim = i < step_at ? 1 : 1.08;
        story.red = i == n_runs - 3;
        const struct kg_made_run run = { .commit = i == 4 ? lab->side : lab->commits[i],
                                         .n_cases = N_CASES,
                                         .canary = 1,
                                         .dirty = i == 6,
                                         .sm_mhz = i < step_at ? 1900 : 1700,
                                         .os_kernel = i < step_at ? NULL : "6.2",
                                         .gpu = i == n_runs - 1 ? "Other GPU" : NULL,
                                         .fill = fill,
                                         .arg = &story };
        free(kg_history_lab_run(lab, run));
    }
}

void kg_fleet_line_fresh_cache(struct kg_record *rec, const char *name) {
    char *cache = kg_path_join(kg_scratch_dir(rec), name);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    free(cache);
}

bool kg_fleet_line_open(struct kg_fleet_line *both, struct kg_record *rec, size_t n_runs) {
    if (!kg_fleet_lab_open(&both->fleet, rec, true)) return false;
    kg_fleet_line_fresh_cache(rec, "cache");
    char *dir = kg_path_join(kg_scratch_dir(rec), "repository");
    kg_history_lab_open_in(&both->folder, dir, n_runs + 1);
    free(dir);
    write_runs(&both->folder, n_runs);
    kg_fleet_lab_kigo(&both->fleet, "runner_a", ARGS("push", "--all", "--bundles", both->folder.root), KG_EXIT_OK, NULL,
                      NULL);
    return true;
}

/* What is kept of a fleet lies in a folder that is named by 32 digits of its place's hash: each fleet has its own. */
static void expect_folders_by_hash(void) {
    char *kept = kg_path_join(getenv("XDG_CACHE_HOME"), "kigo");
    struct kg_dir_list names;
    struct kg_error err;
    EXPECT_OK(kg_dir_list(kept, &names, &err), err);
    for (size_t i = 0; i < names.n_names; i++) {
        if (strncmp(names.names[i], "fleet-", 6) != 0) continue;
        const size_t n_digits = strspn(names.names[i] + 6, "0123456789abcdef");
        ck_assert_msg(n_digits == 32 && !names.names[i][6 + n_digits], "'%s' is no hash", names.names[i]);
    }
    kg_dir_list_free(&names);
    free(kept);
}

void kg_fleet_line_close(struct kg_fleet_line *both) {
    expect_folders_by_hash();
    kg_history_lab_close(&both->folder);
    kg_fleet_lab_close(&both->fleet);
}

void kg_fleet_line_expect(const struct kg_fleet_line *both, const char *const *args, const char *form,
                          const char *says) {
    const char *all[MOST_ARGS + 3] = { NULL };
    struct kg_process_result local;
    char *fleet = NULL;
    size_t n = 0;
    for (; args[n]; n++) all[n] = strcmp(args[n], "@") == 0 ? both->folder.repository : args[n];
    if (form) all[n++] = form;
    kg_verb_run(both->folder.root, all, false, &local);
    ck_assert_msg(strstr(local.out, says) != NULL, "kigo %s %s: '%s' is not in %zu bytes that end\n%.3000s", all[0],
                  all[1], says, local.out_len, local.out + (local.out_len > 3000 ? local.out_len - 3000 : 0));
    kg_fleet_lab_kigo(&both->fleet, "reader", all, local.exit_code, NULL, &fleet);
    if (strcmp(fleet, local.out) != 0)
        ck_abort_msg("kigo %s %s %s: the folder says\n%.2000s\nand the fleet\n%.2000s", args[0], args[1] ? args[1] : "",
                     form ? form : "", local.out, fleet);
    free(fleet);
    kg_process_result_free(&local);
}

void kg_fleet_line_go_on(struct kg_fleet_line *both, size_t n_runs) {
    kg_fleet_line_measure(both, both->folder.root, n_runs, true, 0);
    kg_fleet_lab_kigo(&both->fleet, "runner_b", ARGS("push", "latest", "--bundles", both->folder.root), KG_EXIT_OK,
                      NULL, NULL);
}

void kg_fleet_line_measure(struct kg_fleet_line *both, const char *root, size_t commit, bool slower, size_t number) {
    struct story story = { .victim = slower ? 1.08 : 1 };
    struct kg_error err;
    kg_rng_init(&story.rng, 5, 2 * number + slower);
    const struct kg_made_run run = { .started_us = both->folder.clock_us + (int64_t)number * 1000000,
                                     .commit = both->folder.commits[commit],
                                     .n_cases = N_CASES,
                                     .canary = 1,
                                     .sm_mhz = 1700,
                                     .os_kernel = "6.2",
                                     .fill = fill,
                                     .arg = &story };
    EXPECT_OK(kg_made_run_write(root, &run, NULL, &err), err);
}
