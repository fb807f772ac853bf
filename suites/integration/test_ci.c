/* The CI recipe of docs/ci.md and the README's commands, run as they stand there: in a checkout of two commits, with a
 * history, on this machine. Where a GPU would decide, a program plays the runs: it publishes bundles that the case has
 * sealed. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "run/publish.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/ci_recipe.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_ENV = 9 };

/* A runner's machine: the checkout, what the job has, and the runs to play. */
struct runner {
    struct kg_recipe recipe;
    char *dir, *checkout, *bundles, *summary, *proof, *played, *player;
    char *env[N_ENV + 1];
};

static char *text_of(const char *path) {
    char *text;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    return text;
}

static char *folder(const char *parent, const char *name) {
    char *dir = kg_path_join(parent, name);
    struct kg_error err;
    EXPECT_OK(kg_dir_make(dir, &err), err);
    return dir;
}

static void shell(const struct runner *r, const char *text, const char *dir) {
    struct kg_process_result result;
    kg_recipe_shell(text, dir, (const char *const *)r->env, &result);
    ck_assert_msg(result.exit_code == 0, "%s: %d: %.1000s%.1000s", text, result.exit_code, result.out, result.err);
    kg_process_result_free(&result);
}

#define COMMIT "git -c user.name=a -c user.email=a@b commit -q -m "

/* kigo, but for the verbs that make runs: these publish the next of the prepared ones and end as was said. There are no
 * hardware counters. */
static const char PLAYER[] =
    "#!/bin/sh\n"
    "case \"$*\" in *' --ncu '*) exit 2 ;; esac\n"
    "case $1 in check | bench) ;; synth) exit 0 ;; *) exec \"$KIGO_TRUE\" \"$@\" ;; esac\n"
    "next=$(ls \"$KIGO_PLAYED\" | sort -n | head -n 1)\n"
    "[ -n \"$next\" ] || { echo 'nothing to play' >&2; exit 99; }\n"
    "mv \"$KIGO_PLAYED/$next\" \"$KIGO_PLAYED/../now\"\n"
    "for run in \"$KIGO_PLAYED\"/../now/2*; do [ ! -d \"$run\" ] || mv \"$run\" \"$KIGO_BUNDLES\"; done\n"
    "read -r code <\"$KIGO_PLAYED/../now/exit_code\"; rm -r \"$KIGO_PLAYED/../now\"; exit \"$code\"\n";

static bool open_runner(struct runner *r, struct kg_record *rec, bool plays, bool request, const char *check_flags) {
    *r = (struct runner){ .dir = kg_xstrdup(kg_scratch_dir(rec)) };
    if (kg_archive_missing()) {
        kg_record_skip(rec, "%s", kg_archive_missing());
        free(r->dir);
        return false;
    }
    char *page = text_of(kg_fixture_path("../docs/ci.md")), *ci = kg_xstrdup(kg_fixture_path("../.ci"));
    char *sanitizer = kg_xstrdup(kg_fixture_path("../build-aux/check-sanitizer"));
    struct kg_error err;
    kg_recipe_read(&r->recipe, page);
    /* A true kigo would make models of gigabytes to measure. */
    if (!plays) ck_assert_str_eq(r->recipe.flags_request, "--only-check");
    r->checkout = folder(r->dir, "checkout");
    r->bundles = folder(r->dir, "history");
    r->played = folder(r->dir, "played");
    r->player = kg_path_join(r->dir, "kigo");
    r->summary = kg_path_join(r->dir, "summary.md");
    r->proof = kg_path_join(r->dir, "proof");
    EXPECT_OK(kg_file_write(r->player, PLAYER, sizeof PLAYER - 1, &err), err);
    ck_assert_int_eq(chmod(r->player, 0755), 0);
    char *const env[N_ENV + 1] = { kg_xasprintf("KIGO_BUNDLES=%s", r->bundles),
                                   kg_xasprintf("KIGO_GPU_FLAGS=%s",
                                                request ? r->recipe.flags_request : r->recipe.flags),
                                   kg_xasprintf("RUNNER_TEMP=%s", r->dir),
                                   kg_xasprintf("GITHUB_STEP_SUMMARY=%s", r->summary),
                                   kg_xasprintf("KIGO=%s", plays ? r->player : kg_program_path()),
                                   kg_xasprintf("KIGO_TRUE=%s", kg_program_path()),
                                   kg_xasprintf("KIGO_PLAYED=%s", r->played),
                                   kg_xasprintf("GIT_CEILING_DIRECTORIES=%s", r->dir),
                                   check_flags ? kg_xasprintf("KIGO_CHECK_FLAGS=%s", check_flags) : NULL };
    memcpy(r->env, env, sizeof env);
    char *make = kg_xasprintf(
        "git init -q && cp -R '%s' . && mkdir build-aux && cp '%s' build-aux && git add . && " COMMIT "first", ci,
        sanitizer);
    shell(r, make, r->checkout);
    free(make);
    free(sanitizer);
    free(ci);
    free(page);
    return true;
}

static void close_runner(struct runner *r) {
    for (size_t i = 0; i < N_ENV; i++) free(r->env[i]);
    kg_recipe_free(&r->recipe);
    free(r->proof);
    free(r->summary);
    free(r->player);
    free(r->played);
    free(r->bundles);
    free(r->checkout);
    free(r->dir);
}

/* Seals a run of the checkout's commit below root: case i has statuses[i]: p(ass), f(ail), s(kip). */
static void seal(const struct runner *r, const char *root, const char *verb, const char *statuses) {
    json_t *run = json_pack("{s:[s]}", "argv", verb);
    const struct kg_bundle_options options = {
        .root = root, .source_dir = r->checkout, .run = run, .seed = 7, .compress = true
    };
    struct kg_bundle *bundle = NULL;
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; statuses[i]; i++) {
        json_t *line = kg_maker_plan_line(i);
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    for (size_t i = 0; statuses[i]; i++)
        EXPECT_OK(kg_maker_run(bundle, i,
                               statuses[i] == 'p'   ? "pass"
                               : statuses[i] == 'f' ? "fail"
                                                    : "skip",
                               &err),
                  err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    kg_bundle_close(bundle);
    json_decref(run);
}

/* The next run that is played; statuses NULL: none is published. */
static void play(const struct runner *r, const char *name, const char *verb, const char *statuses, int exit_code) {
    char *root = folder(r->played, name), *code = kg_path_join(root, "exit_code");
    char *digits = kg_xasprintf("%d\n", exit_code);
    struct kg_error err;
    if (statuses) seal(r, root, verb, statuses);
    EXPECT_OK(kg_file_write(code, digits, strlen(digits), &err), err);
    free(digits);
    free(code);
    free(root);
}

static size_t count_of(const char *dir, const char *ending) {
    struct kg_dir_list list = { 0 };
    size_t n = 0;
    if (kg_dir_list(dir, &list, NULL) != KG_OK) return 0;
    for (size_t i = 0; i < list.n_names; i++) {
        const size_t len = strlen(list.names[i]), want = strlen(ending);
        n += len > want && strcmp(list.names[i] + len - want, ending) == 0;
    }
    kg_dir_list_free(&list);
    return n;
}

/* What .ci/gpu makes where it measures: check, the operations, attention beside its peer, the report, models of MXFP4.
 */
enum { N_RUNS = 5 };
static const char *const VERBS[N_RUNS] = { "check", "bench", "bench", "bench", "bench" };
static const char *const NAMES[N_RUNS] = { "1", "2", "3", "4", "5" };

struct job {
    const char *name;
    const char *before;      /* statuses of the run of the commit before; NULL: there is none */
    const char *now[N_RUNS]; /* of this commit's runs, as VERBS; NULL: publishes none */
    int check_code;          /* what kigo check ends with */
    int gpu_code, judge_code;
    const char *says; /* in the job's summary, or its output */
    bool push;        /* and no pull request: bench runs as well */
};

static const struct job JOBS[] = {
    { "nothing_worse", "ppp", { "ppp" }, 0, 0, 0, "nothing worse, nothing missing", false },
    { "first_run_is_not_red", NULL, { "ppp" }, 0, 0, 0, "too little to judge by", false },
    { "missing_case_is_red", "ppp", { "pp" }, 0, 0, 1, "| missing |", false },
    { "skipped_case_is_red", "ppp", { "pps" }, 0, 0, 1, "- regression: it was pass, now skip", false },
    { "failed_case_is_red", "ppp", { "ppf" }, 1, 1, 1, "| regression |", false },
    { "failed_case_of_a_first_run", NULL, { "ppf" }, 1, 1, 0, "too little to judge by", false },
    { "no_gpu_is_red", "ppp", { NULL }, 5, 5, 5, "no run to judge", false },
    { "branch_measures_too", "ppp", { "ppp", "pp", "p", "p", "p" }, 0, 0, 0, "bench --report fp16 --model", true },
};

static void played_job(struct kg_record *rec, const void *arg) {
    const struct job *job = arg;
    struct runner r;
    struct kg_job_result result;
    size_t n_runs = 0;
    if (!open_runner(&r, rec, true, !job->push, NULL)) return;
    if (job->before) seal(&r, r.bundles, "check", job->before);
    shell(&r, "echo more >>.ci/gpu && git add . && " COMMIT "second", r.checkout);
    for (size_t i = 0; i < (job->push ? N_RUNS : 1); i++) {
        play(&r, NAMES[i], VERBS[i], job->now[i], i == 0 ? job->check_code : 0);
        n_runs += job->now[i] != NULL;
    }
    kg_recipe_run(&r.recipe, r.checkout, (const char *const *)r.env, &result);
    ck_assert_uint_eq(r.recipe.n_steps, 2);
    kg_record_attach(rec, "job.txt", result.output, strlen(result.output));
    ck_assert_msg(result.exit_codes[0] == job->gpu_code && result.exit_codes[1] == job->judge_code,
                  "ended with %d and %d, not %d and %d", result.exit_codes[0], result.exit_codes[1], job->gpu_code,
                  job->judge_code);
    ck_assert(result.red == (job->gpu_code || job->judge_code));
    char *summary = n_runs > 0 ? text_of(r.summary) : kg_xstrdup("");
    kg_record_attach(rec, "summary.md", summary, strlen(summary));
    ck_assert_msg(strstr(summary, job->says) || strstr(result.output, job->says), "neither summary nor output has '%s'",
                  job->says);
    if (n_runs > 0) ck_assert_msg(strstr(summary, "| verdict | **") != NULL, "no verdict of the run itself");
    /* Whatever the verdict: each run as a file, and its JUnit. */
    ck_assert_uint_eq(count_of(r.proof, ".tar.zst"), n_runs);
    ck_assert_uint_eq(count_of(r.proof, ".junit.xml"), n_runs);
    ck_assert_uint_eq(count_of(r.played, ""), 0);
    free(summary);
    free(result.output);
    close_runner(&r);
}

/* What a runner of GitHub's takes from the page besides the steps. */
static void paths_of_the_page(struct kg_record *rec, const void *arg) {
    char *page = text_of(kg_fixture_path("../docs/ci.md"));
    struct kg_recipe recipe;
    (void)rec;
    (void)arg;
    kg_recipe_read(&recipe, page);
    ck_assert_str_eq(recipe.cache_path, recipe.bundles);
    ck_assert_msg(recipe.bundles[0] == '/' && !strstr(recipe.bundles, ".."), "actions/cache refuses %s",
                  recipe.bundles);
    ck_assert_str_eq(recipe.upload_path, "${{ runner.temp }}/proof"); /* where kg_recipe_run's judge attaches */
    kg_recipe_free(&recipe);
    free(page);
}

/* The workflow that GitHub reads is the page's, byte for byte. */
static void workflow_is_the_page(struct kg_record *rec, const void *arg) {
    static const char BEGIN[] = "\n```yaml\n";
    char *page = text_of(kg_fixture_path("../docs/ci.md")), *yaml = strstr(page, BEGIN);
    char *workflow = text_of(kg_fixture_path("../.github/workflows/gpu.yml"));
    (void)rec;
    (void)arg;
    ck_assert_ptr_nonnull(yaml);
    yaml += sizeof BEGIN - 1;
    *strstr(yaml, "\n```\n") = '\0';
    workflow[strlen(workflow) - 1] = '\0'; /* its last newline */
    ck_assert_str_eq(workflow, yaml);
    free(workflow);
    free(page);
}

/* The engine's own program over suites that it finds here, then what a reviewer does with what the job attached, twice.
 */
static void true_check(struct kg_record *rec, const void *arg) {
    const bool fails = arg != NULL;
    struct runner r;
    struct kg_lab lab;
    struct kg_job_result result;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, fails ? "test_mixed" : "test_green", "test_it");
    char *flags = kg_xasprintf("--suites %s", lab.suites);
    if (!open_runner(&r, rec, false, true, flags)) goto cleanup;
    kg_recipe_run(&r.recipe, r.checkout, (const char *const *)r.env, &result);
    kg_record_attach(rec, "job.txt", result.output, strlen(result.output));
    ck_assert_msg(result.exit_codes[0] == (fails ? 1 : 0) && result.exit_codes[1] == 0, "ended with %d and %d",
                  result.exit_codes[0], result.exit_codes[1]);
    ck_assert_uint_eq(count_of(r.proof, ".tar.zst"), 1);
    ck_assert_uint_eq(count_of(r.proof, ".junit.xml"), 1);
    free(result.output);

    char *own = folder(r.dir, "reviewer"), *link = kg_path_join(own, "kigo"), *page = kg_path_join(own, "report.html");
    char *again = kg_xasprintf("%s\n./kigo verify --all", r.recipe.reviewer);
    struct kg_process_result shell_result;
    free(r.env[0]);
    r.env[0] = kg_xasprintf("KIGO_BUNDLES=%s/bundles", own);
    ck_assert_int_eq(symlink(kg_program_path(), link), 0);
    shell(&r, "ln -s ../proof proof", own);
    shell(&r, r.recipe.reviewer, own);
    ck_assert(kg_path_exists(page));
    kg_recipe_shell(again, own, (const char *const *)r.env, &shell_result);
    ck_assert_msg(shell_result.exit_code == 0 && strstr(shell_result.out, "already here"), "%d: %.1000s%.1000s",
                  shell_result.exit_code, shell_result.out, shell_result.err);
    kg_process_result_free(&shell_result);
    free(again);
    free(page);
    free(link);
    free(own);
    close_runner(&r);
cleanup:
    free(flags);
    kg_lab_close(&lab);
}

/* A history from attachments, a signature, a strict job; what is not sound is red and stops nothing else. */
static void options_of_judge(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args;
        int exit_code;
    } CALLS[] = {
        { "../list", 0 },
        { "--history ../proof --strict ../list", 0 },
        { "--history ../proof --budget 1m --strict ../list", 0 },
        { "--history ../proof --push ../list", 2 },
        { "--history ../proof --push ../worse", 1 }, /* the verdict, though the push ended with 2 */
        { "--history ../proof --strict --attach ../more ../list", 4 },
        { "", 2 },
        { "--loud ../list", 2 },
        { "../list ../list", 2 },
        { "../none", 5 },
    };
    struct runner r;
    (void)arg;
    if (!open_runner(&r, rec, false, true, NULL)) return;
    char *elsewhere = folder(r.dir, "elsewhere");
    seal(&r, elsewhere, "check", "ppp");
    shell(&r, "mkdir ../proof && for run in ../elsewhere/2*; do $KIGO export $run -o ../proof/${run##*/}.tar.zst; done",
          r.checkout);
    shell(&r, "echo more >>.ci/gpu && git add . && " COMMIT "second", r.checkout);
    seal(&r, r.bundles, "check", "ppp");
    shell(&r, "ls ../history | grep '^2' >../list; ! .ci/judge --strict ../list", r.checkout); /* no history yet: 3 */
    seal(&r, r.bundles, "check", "pp");
    shell(&r, "ls ../history | grep '^2' | grep -vxFf ../list >../worse", r.checkout);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        char *call = kg_xasprintf("KIGO_HISTORY= .ci/judge %s", CALLS[i].args);
        struct kg_process_result result;
        if (CALLS[i].exit_code == 4) shell(&r, "echo not an archive >../proof/a.tar.zst", r.checkout);
        kg_recipe_shell(call, r.checkout, (const char *const *)r.env, &result);
        ck_assert_msg(result.exit_code == CALLS[i].exit_code, "%s: %d, not %d: %.1000s%.1000s", call, result.exit_code,
                      CALLS[i].exit_code, result.out, result.err);
        ck_assert(!strstr(call, "--push") == !strstr(result.err, "judge: not all runs were pushed (exit code 2)"));
        kg_process_result_free(&result);
        free(call);
    }
    char *more = kg_path_join(r.dir, "more");
    ck_assert_uint_eq(count_of(more, ".tar.zst"), 1);
    if (system("command -v ssh-keygen >/dev/null") == 0)
        shell(&r,
              "ssh-keygen -q -t ed25519 -N '' -f ../key; .ci/judge --key ../key --attach ../signed ../list\n"
              "$KIGO import ../signed/2*.tar.zst --bundles ../own && ls ../own/2*/tagmanifest-sha256.txt.sig",
              r.checkout);
    free(more);
    free(elsewhere);
    close_runner(&r);
}

/* The README's lines that a GPU's owner types. */
static void readme_commands(struct kg_record *rec, const void *arg) {
    static const char LINE[] = "\n    .ci/gpu";
    struct runner r;
    size_t n = 0;
    (void)arg;
    if (!open_runner(&r, rec, true, false, NULL)) return;
    char *readme = text_of(kg_fixture_path("../README.md"));
    for (const char *at = readme; (at = strstr(at, LINE)); n++) {
        char *line = kg_xstrndup(at + 1, strcspn(at + 1, "\n"));
        for (size_t i = 0; i < (strstr(line, "--only-check") ? 1 : N_RUNS); i++) play(&r, NAMES[i], VERBS[i], "p", 0);
        shell(&r, line, r.checkout);
        ck_assert_uint_eq(count_of(r.played, ""), 0);
        at += strlen(LINE);
        free(line);
    }
    ck_assert_uint_eq(n, 2);
    free(readme);
    close_runner(&r);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "ci", .name = #function, .source_tree = true, .run = function }

static const struct kg_case CASES[] = {
    CASE(paths_of_the_page),
    CASE(workflow_is_the_page),
    { .layer = "integration", .op = "ci", .name = "true_check", .source_tree = true, .run = true_check },
    { .layer = "integration",
      .op = "ci",
      .name = "true_check_that_fails",
      .source_tree = true,
      .run = true_check,
      .arg = "fails" },
    CASE(options_of_judge),
    CASE(readme_commands),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(JOBS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "ci_job",
                                                  .name = JOBS[i].name,
                                                  .source_tree = true,
                                                  .run = played_job,
                                                  .arg = &JOBS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
