/* The verbs whose calls fail one after another, and the folders they work on. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/program.h"
#include "base/size.h"
#include "bundle/git.h"
#include "bundle/transfer.h"
#include "history/annotation.h"
#include "run/publish.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/integration/fault_sweep.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_COMMITS = 6, N_RUNS = 4, N_CASES = 3 };

static void put(const char *world, const char *name, const char *text) {
    char *path = kg_path_join(world, name);
    struct kg_error err;
    kg_must(kg_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

static char *make_dir(const char *world, const char *name) {
    char *path = kg_path_join(world, name);
    struct kg_error err;
    kg_must(kg_dir_make(path, &err), &err);
    return path;
}

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

static void with_notes(const char *world) {
    static const char *const KINDS[] = { "waive", "note" };
    char *root = kg_path_join(world, "bundles"), kind[8], key[] = "bench/linear/case_1*", author[] = "x",
         text[] = "why";
    struct kg_error err;
    make_history(world, true);
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        snprintf(kind, sizeof kind, "%s", KINDS[i]);
        const struct kg_annotation a = { .kind = kind,
                                         .case_key = key,
                                         .until_us = INT64_C(4100000000000000),
                                         .utc_us = INT64_C(1760000000000000) + (int64_t)i,
                                         .author = author,
                                         .text = text };
        kg_must(kg_annotation_add(root, &a, NULL, NULL, &err), &err);
    }
    free(root);
}

static void slow_down(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == 1) c->time_ns *= 2;
}

/* In the place of a build: a program that publishes the next of the runs made before, whatever it is asked for. */
static const char FAKE_BUILD[] = "#!/bin/sh\n"
                                 "for root; do :; done\n" /* kigo ends its calls with --bundles DIR */
                                 "n=0; for run in \"$root\"/2*; do [ -d \"$run\" ] && n=$((n + 1)); done\n"
                                 "for run in \"${0%/*}\"/2*; do\n"
                                 "[ $n -gt 0 ] || exec cp -a \"$run\" \"$root\"; n=$((n - 1)); done\n";

/* A slow run, and builds for `confirm`: it asks for baseline, run; run, baseline; ... */
static void with_builds(const char *world) {
    enum { N_BEFORE = 5, N_AGAIN = 10, SECOND_US = 1000000 };
    struct kg_history_lab lab;
    struct kg_error err;
    char *build = make_dir(world, "build"), *program = kg_path_join(build, "kigo");
    kg_history_lab_open_in(&lab, world, N_COMMITS);
    lab.clock_us = INT64_C(1760000000000000);
    kg_history_lab_runs(&lab, 0, N_BEFORE, (struct kg_made_run){ .n_cases = N_CASES });
    kg_history_lab_runs(&lab, N_BEFORE, 1, (struct kg_made_run){ .n_cases = N_CASES, .fill = slow_down });
    for (int64_t i = 0; i < N_AGAIN; i++) {
        const struct kg_made_run run = { .started_us = lab.clock_us + i * SECOND_US,
                                         .commit = lab.commits[N_BEFORE],
                                         .n_cases = N_CASES,
                                         .fill = (i + i / 2) % 2 ? slow_down : NULL };
        kg_must(kg_made_run_write(build, &run, NULL, &err), &err);
    }
    kg_history_lab_close(&lab);
    put(build, "kigo", FAKE_BUILD);
    ck_assert_int_eq(chmod(program, 0755), 0);
    free(program);
    free(build);
}

static void seal(const char *world, const char *folder, size_t n) {
    char *root = kg_path_join(world, folder);
    for (size_t i = 0; i < n; i++) free(kg_maker_sealed(root, 2));
    free(root);
}

static void sealed_runs(const char *world) {
    seal(world, "bundles", 3);
}

static void run_tool(const char *const *argv) {
    const struct kg_program program = { .argv = argv, .max_out_bytes = 4096 };
    struct kg_program_result result;
    struct kg_error err;
    kg_must(kg_program_run(&program, &result, &err), &err);
    ck_assert_msg(result.exit_code == 0, "%s: %s", argv[0], kg_buffer_text(&result.errors));
    kg_program_result_free(&result);
}

static void with_key(const char *world) {
    char *path = kg_path_join(world, "key");
    run_tool(ARGS("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", path));
    seal(world, "bundles", 2);
    free(path);
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

static void with_sprint(const char *world) {
    seal(world, "bundles", 1);
    put(world, "sprint.json",
        "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"A-1\", \"title\": \"one\","
        " \"cases\": [{\"what\": \"all pass\", \"match\": \"unit/sample/*\", \"at_least\": 2}], \"figures\": ["
        "{\"what\": \"errors\", \"figure\": \"max_abs <= 1\", \"of\": {\"match\": \"unit/sample/*\", \"error\":"
        " \"logits\"}}]}]}");
}

static void seal_run(const char *root, const char *sources, size_t n_cases, bool compress) {
    json_t *run = json_pack("{s:[s]}", "argv", "check");
    const struct kg_bundle_options options = {
        .root = root, .source_dir = sources, .run = run, .seed = 7, .compress = compress
    };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    kg_must(kg_bundle_create(&options, &bundle, &err), &err);
    for (size_t i = 0; i < n_cases; i++) {
        json_t *line = kg_maker_plan_line(i);
        kg_must(kg_bundle_plan(bundle, line, &err), &err);
        json_decref(line);
    }
    kg_must(kg_bundle_plan_done(bundle, &err), &err);
    for (size_t i = 0; i < n_cases; i++) kg_must(kg_maker_run(bundle, i, "pass", &err), &err);
    kg_must(kg_run_seal(bundle, &summary, &err), &err);
    kg_bundle_close(bundle);
    json_decref(run);
}

/* Records that are large enough to be compressed. */
static void compressed_run(const char *world) {
    char *root = kg_path_join(world, "bundles");
    seal_run(root, NULL, 40, true);
    free(root);
}

/* The same with a run that can be signed off: of sources in a commit. */
static void with_commit(const char *world) {
    char *root = kg_path_join(world, "bundles"), *repository = make_dir(world, "repository");
    with_sprint(world);
    put(repository, "main.c", "int main(void) { return 0; }\n");
    run_tool(ARGS("git", "-C", repository, "init", "-q"));
    run_tool(ARGS("git", "-C", repository, "add", "-A"));
    run_tool(ARGS("git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@example.org", "-c",
                  "commit.gpgsign=false", "commit", "-q", "-m", "sources"));
    seal_run(root, repository, 2, false);
    free(repository);
    free(root);
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

/* The cheapest first. */
const struct kg_fault_verb KG_FAULT_VERBS[] = {
    { .name = "waive",
      .args = { "waive", "unit/sample/*", "--until", "2099-12-31", "--why", "known", "--author", "x" },
      .make = sealed_runs },
    { .name = "annotate",
      .args = { "annotate", "break", "latest", "--why", "new machine", "--author", "x" },
      .make = sealed_runs },
    { .name = "accept", .args = { "accept", "unit/sample/*", "--why", "meant", "--author", "x" }, .make = sealed_runs },
    { .name = "pin", .args = { "pin", "latest", "--why", "kept", "--author", "x" }, .make = sealed_runs },
    { .name = "checkpoint", .args = { "checkpoint", "-o", "@checkpoint" }, .make = sealed_runs },
    { .name = "reindex", .args = { "reindex" }, .make = sealed_runs },
    { .name = "query",
      .args = { "query", "SELECT bundle_id, verdict FROM bundle ORDER BY 1" },
      .make = green_history,
      .only_answers = true,
      .in_check = true },
    { .name = "history", .args = { "history", "bench/linear/case_1*" }, .make = green_history, .only_answers = true },
    { .name = "annotate_list", .args = { "annotate", "list" }, .make = with_notes, .only_answers = true },
    { .name = "list", .args = { "list" }, .make = green_history, .only_answers = true, .in_check = true },
    { .name = "verify", .args = { "verify", "--all", "--chain" }, .make = sealed_runs, .only_answers = true },
    { .name = "verify_compressed", .args = { "verify", "--all" }, .make = compressed_run, .only_answers = true },
    { .name = "signoff_figures",
      .args = { "signoff", "@sprint.json", "latest", "--figures" },
      .make = with_sprint,
      .only_answers = true },
    { .name = "signoff",
      .args = { "signoff", "@sprint.json", "latest", "--unsigned", "--repository", "@repository" },
      .make = with_commit },
    { .name = "rerun",
      .args = { "rerun", "latest", "--build", "@build" },
      .runs_again = true,
      .make = with_builds,
      .only_answers = true },
    { .name = "export",
      .args = { "export", "latest", "-o", "@out.tar.zst" },
      .make = sealed_runs,
      .of_archives = true },
    { .name = "import",
      .args = { "import", "@run.tar.zst" },
      .make = with_archive,
      .leaves = ".import-",
      .of_archives = true,
      .again = KG_EXIT_OK },
    { .name = "sign",
      .needs = "ssh-keygen",
      .args = { "sign", "latest", "--key", "@key" },
      .make = with_key,
      .again = KG_EXIT_USAGE },
    { .name = "recover", .args = { "recover" }, .make = with_dead_run },
    { .name = "show",
      .args = { "show", "latest" },
      .make = sealed_runs,
      .lacks = "not compared: ",
      .only_answers = true },
    { .name = "diff",
      .args = { "diff", "20251009T085320Z", "20251009T095320Z" },
      .make = green_history,
      .only_answers = true,
      .in_check = true },
    { .name = "report",
      .args = { "report", "latest", "--markdown" },
      .make = sealed_runs,
      .lacks = "not compared: ",
      .only_answers = true },
    { .name = "steps", .args = { "steps" }, .make = green_history, .only_answers = true },
    { .name = "regress_green", .args = { "regress" }, .make = green_history, .only_answers = true, .in_check = true },
    { .name = "regress_red",
      .args = { "regress" },
      .make = red_history,
      .again = KG_EXIT_FAILED,
      .only_answers = true },
    { .name = "regress_waived", .args = { "regress" }, .make = with_notes, .only_answers = true },
    { .name = "prune",
      .by_steps = true,
      .leaves = ".pruned-",
      .args = { "prune", "--keep", "1", "--apply", "--author", "x" },
      .make = sealed_runs },
    { .name = "check",
      .args = { "check", "--suites", "@suites" },
      .make = with_suites,
      .leaves = ".tmp-",
      .lacks = "not indexed: ",
      .runs_cases = true },
    { .name = "confirm",
      .args = { "confirm", "latest", "--rounds", "5", "--baseline-build", "@build", "--build", "@build" },
      .runs_again = true,
      .make = with_builds },
};
const size_t KG_N_FAULT_VERBS = KG_COUNT_OF(KG_FAULT_VERBS);
