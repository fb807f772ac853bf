/* The verbs whose calls fail one after another, and the folders they work on. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/transfer.h"
#include "suites/harness/must.h"
#include "suites/integration/fault_sweep.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_COMMITS = 6, N_RUNS = 4, N_CASES = 3 };

static void break_last(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == 1) c->status = "fail";
}

/* Runs of commits one after another; the last has a case that fails, or none. */
static void make_history(const char *world, bool red) {
    struct kg_history_lab lab;
    kg_history_lab_open_in(&lab, world, N_COMMITS);
    lab.clock_us = INT64_C(1760000000000000);
    kg_history_lab_runs(&lab, 0, N_RUNS - 1, (struct kg_made_run){ .n_cases = N_CASES });
    kg_history_lab_runs(&lab, N_RUNS - 1, 1,
                        (struct kg_made_run){ .n_cases = N_CASES, .fill = red ? break_last : NULL });
    kg_history_lab_close(&lab);
}

static void green_history(const char *world) {
    make_history(world, false);
}

static void red_history(const char *world) {
    make_history(world, true);
}

static void seal(const char *world, const char *folder, size_t n) {
    char *root = kg_path_join(world, folder);
    for (size_t i = 0; i < n; i++) free(kg_maker_sealed(root, 2));
    free(root);
}

static void sealed_runs(const char *world) {
    seal(world, "bundles", 3);
}

/* An archive of a run that the folder of bundles lacks. */
static void with_archive(const char *world) {
    char *other = kg_path_join(world, "other"), *archive = kg_path_join(world, "run.tar.zst");
    struct kg_error err;
    kg_must(kg_dir_make(other, &err), &err);
    char *dir = kg_maker_sealed(other, 2);
    seal(world, "bundles", 1);
    kg_must(kg_bundle_export(dir, archive, &err), &err);
    kg_must(kg_path_remove(other, &err), &err);
    free(dir);
    free(archive);
    free(other);
}

/* A run that died after its first case. */
static void with_dead_run(const char *world) {
    char *root = kg_path_join(world, "bundles");
    seal(world, "bundles", 1);
    const pid_t child = fork();
    if (child == 0) {
        struct kg_bundle *bundle;
        const bool good =
            kg_maker_open(root, 3, &bundle, NULL) == KG_OK && kg_maker_run(bundle, 0, "pass", NULL) == KG_OK;
        _exit(good ? 0 : 1);
    }
    int state = 0;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(state, 0);
    free(root);
}

static void put(const char *world, const char *name, const char *text) {
    char *path = kg_path_join(world, name);
    struct kg_error err;
    kg_must(kg_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

static void with_sprint(const char *world) {
    seal(world, "bundles", 1);
    put(world, "sprint.json",
        "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"A-1\", \"title\": \"one\","
        " \"cases\": [{\"what\": \"all pass\", \"match\": \"unit/sample/*\", \"at_least\": 2}], \"figures\": ["
        "{\"what\": \"errors\", \"figure\": \"max_abs <= 1\", \"of\": {\"match\": \"unit/sample/*\", \"error\":"
        " \"logits\"}}]}]}");
}

/* A folder of suites with one program. */
static void with_suites(const char *world) {
    char *suites = kg_path_join(world, "suites"), *link = kg_path_join(suites, "test_green");
    struct kg_error err;
    kg_must(kg_dir_make(suites, &err), &err);
    ck_assert_int_eq(symlink(kg_suites_path("harness/selftest/test_green"), link), 0);
    seal(world, "bundles", 1);
    free(link);
    free(suites);
}

const struct kg_fault_verb KG_FAULT_VERBS[] = {
    { .name = "list", .args = { "list" }, .make = green_history, .only_answers = true },
    { .name = "regress_green", .args = { "regress" }, .make = green_history, .only_answers = true },
    { .name = "regress_red",
      .args = { "regress" },
      .make = red_history,
      .again = KG_EXIT_FAILED,
      .only_answers = true },
    { .name = "show", .args = { "show", "latest" }, .make = sealed_runs, .only_answers = true },
    { .name = "query",
      .args = { "query", "SELECT bundle_id, verdict FROM bundle ORDER BY 1" },
      .make = green_history,
      .only_answers = true },
    { .name = "verify", .args = { "verify", "--all", "--chain" }, .make = sealed_runs, .only_answers = true },
    { .name = "diff",
      .args = { "diff", "20251009T085320Z", "20251009T095320Z" },
      .make = green_history,
      .only_answers = true },
    { .name = "reindex", .args = { "reindex" }, .make = sealed_runs },
    { .name = "checkpoint", .args = { "checkpoint", "-o", "@checkpoint" }, .make = sealed_runs },
    { .name = "export", .args = { "export", "latest", "-o", "@out.tar.zst" }, .make = sealed_runs },
    { .name = "import",
      .args = { "import", "@run.tar.zst" },
      .make = with_archive,
      .leaves = ".import-",
      .again = KG_EXIT_OK },
    { .name = "prune",
      .by_steps = true,
      .args = { "prune", "--keep", "1", "--apply", "--author", "x" },
      .make = sealed_runs },
    { .name = "pin", .args = { "pin", "latest", "--why", "kept", "--author", "x" }, .make = sealed_runs },
    { .name = "recover", .args = { "recover" }, .make = with_dead_run },
    { .name = "signoff_figures",
      .args = { "signoff", "@sprint.json", "latest", "--figures" },
      .make = with_sprint,
      .only_answers = true },
    { .name = "check", .args = { "check", "--suites", "@suites" }, .make = with_suites, .leaves = ".tmp-" },
};
const size_t KG_N_FAULT_VERBS = KG_COUNT_OF(KG_FAULT_VERBS);
