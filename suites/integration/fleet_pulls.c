#include "suites/integration/fleet_pulls.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 4, MOST_ARGS = 12, FIRST_S = 1614600000, DAY_S = 86400 };

/* An operation of the run's own. */
static void fill(void *arg, size_t i, struct kg_made_case *c) {
    static const char *const OPS[N_RUNS] = { "linear", "linear", "rope", "norm" };
    (void)i;
    c->op = OPS[*(const size_t *)arg];
}

/* Runs of a case each on two kinds of machines, pushed. */
static bool open_with_runs(struct kg_fleet_lab *lab, struct kg_record *rec) {
    static const char *const GPUS[N_RUNS] = { "First GPU", "Second GPU", "First GPU", "Other GPU" };
    if (!kg_fleet_lab_open(lab, rec, true)) return false;
    for (size_t i = 0; i < N_RUNS; i++) {
        struct kg_error err;
        const struct kg_made_run run = { .started_us = (FIRST_S + (int64_t)i * DAY_S) * 1000000,
                                         .n_cases = 1,
                                         .gpu = GPUS[i],
                                         .fill = fill,
                                         .arg = &i };
        EXPECT_OK(kg_made_run_write(lab->bundles, &run, NULL, &err), err);
    }
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", "--all", "--bundles", lab->bundles), KG_EXIT_OK, ": pushed", NULL);
    return true;
}

static int64_t count(const json_t *said, const char *name) {
    return json_integer_value(json_object_get(said, name));
}

/* `kigo pull` with these arguments into a folder, and how it must end. The caller's reference. */
static json_t *pull_into(const struct kg_fleet_lab *lab, const char *to, const char *const *args, int exit_code) {
    const char *all[MOST_ARGS + 4] = { "pull", "--bundles", to };
    size_t n = 3;
    for (; *args; args++) all[n++] = *args;
    return kg_fleet_lab_json(lab, "reader", all, exit_code);
}

/* What came is what `kigo list` lists with the same words, in the same order. */
static void expect_listed(const struct kg_fleet_lab *lab, const char *const *args, const json_t *said) {
    const char *all[MOST_ARGS + 4] = { "list" };
    const json_t *runs = json_object_get(said, "runs");
    size_t n = 1;
    for (; *args; args++)
        if (strcmp(*args, "--all") != 0) all[n++] = *args;
    json_t *listed = kg_fleet_lab_json(lab, "reader", all, KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(runs), json_array_size(listed));
    for (size_t i = 0; i < json_array_size(runs); i++)
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(runs, i), "bundle_id")),
                         json_string_value(json_object_get(json_array_get(listed, i), "bundle_id")));
    json_decref(listed);
}

/* By a commit's first digits, 7 or more. */
static void expect_by_commit(const struct kg_fleet_lab *lab, const char *to) {
    static const char COMMIT[] = "0123456789abcdef0123456789abcdef01234567";
    char *sql = kg_xasprintf("UPDATE kigo.bundle SET git_commit = '%s'"
                             " WHERE bundle_id = (SELECT max(bundle_id) FROM kigo.bundle)",
                             COMMIT);
    free(kg_fleet_lab_sql(lab, "postgres", sql));
    free(sql);
    json_t *said = pull_into(lab, to, ARGS("0123456"), KG_EXIT_OK);
    ck_assert_int_eq(count(said, "n_pulled"), 1);
    json_decref(said);
    said = pull_into(lab, to, ARGS(COMMIT), KG_EXIT_OK);
    ck_assert_int_eq(count(said, "n_here"), 1);
    json_decref(said);
    kg_fleet_lab_kigo(lab, "reader", ARGS("pull", "012345", "--bundles", to), KG_EXIT_USAGE, "has no run 012345", NULL);
}

void kg_fleet_pulls_what_list_lists(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[6];
        int n;
    } CALLS[] = { { { "--machine", "first" }, 2 },
                  { { "--op", "lin*" }, 2 },
                  { { "--op", "lin*", "--machine", "first" }, 1 },
                  { { "--limit", "3" }, 3 },
                  { { "-n", "1", "--machine", "first" }, 1 },
                  { { "--all" }, N_RUNS } };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!open_with_runs(&lab, rec)) return;
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        char *to = kg_xasprintf("%s/to-%zu", kg_scratch_dir(rec), i);
        json_t *said = pull_into(&lab, to, CALLS[i].args, KG_EXIT_OK);
        ck_assert_int_eq(count(said, "n_pulled"), CALLS[i].n);
        ck_assert_uint_eq(kg_maker_count(to, "2"), (size_t)CALLS[i].n);
        expect_listed(&lab, CALLS[i].args, said);
        kg_verb_expect(to, ARGS("verify", "--all"), KG_EXIT_OK, NULL);
        json_decref(said);
        free(to);
    }
    /* Some are here already: they are not fetched, or what the fleet has of them would be found unsound. */
    char *to = kg_path_join(kg_scratch_dir(rec), "to-0");
    free(kg_fleet_lab_sql(&lab, "postgres",
                          "DELETE FROM kigo.archive_chunk WHERE tagmanifest_sha256 IN (SELECT a.tagmanifest_sha256"
                          " FROM kigo.archive a JOIN kigo.run r ON r.run = a.bundle_id WHERE gpu_name = 'First GPU')"));
    json_t *said = pull_into(&lab, to, ARGS("--all"), KG_EXIT_OK);
    ck_assert_int_eq(count(said, "n_here"), 2);
    ck_assert_int_eq(count(said, "n_pulled"), N_RUNS - 2);
    json_decref(said);
    json_decref(pull_into(&lab, to, ARGS("--op", "none"), KG_EXIT_NOTHING_TO_DO));
    char *of_commit = kg_path_join(kg_scratch_dir(rec), "of-commit");
    expect_by_commit(&lab, of_commit);
    free(of_commit);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", "2", "--all"), KG_EXIT_USAGE, "runs, or --all", NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull"), KG_EXIT_USAGE, "runs, or --all", NULL);
    free(to);
    kg_fleet_lab_close(&lab);
}

/* States of the runs, newest first, each by its first letter. */
static void expect_states(const json_t *said, const char *letters) {
    const json_t *runs = json_object_get(said, "runs");
    for (size_t i = 0; i < strlen(letters); i++)
        ck_assert_msg(json_string_value(json_object_get(json_array_get(runs, i), "state"))[0] == letters[i],
                      "run %zu is not %c", i, letters[i]);
    ck_assert_uint_eq(json_array_size(runs), strlen(letters));
}

void kg_fleet_pulls_past_the_unsound(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!open_with_runs(&lab, rec)) return;
    char *to = kg_path_join(kg_scratch_dir(rec), "to");
    /* The second of four has another chunk than was pushed. */
    free(kg_fleet_lab_sql(&lab, "postgres",
                          "UPDATE kigo.archive_chunk SET data = set_byte(data, 99, get_byte(data, 99) # 1)"
                          " WHERE tagmanifest_sha256 = (SELECT a.tagmanifest_sha256 FROM kigo.archive a"
                          " JOIN kigo.run r ON r.run = a.bundle_id ORDER BY r.started_utc DESC OFFSET 1 LIMIT 1)"));
    json_t *said = pull_into(&lab, to, ARGS("--all"), KG_EXIT_INTEGRITY);
    expect_states(said, "pfpp");
    ck_assert_uint_eq(kg_maker_count(to, "2"), N_RUNS - 1);
    kg_verb_expect(to, ARGS("verify", "--all"), KG_EXIT_OK, NULL);
    /* One that is here is changed by hand: it is said, and stays as it is. */
    const char *id = json_string_value(json_object_get(json_array_get(json_object_get(said, "runs"), 2), "bundle_id"));
    char *dir = kg_path_join(to, id);
    kg_maker_append(dir, "data/dirty.diff", "by hand\n");
    json_t *again = pull_into(&lab, to, ARGS("--all"), KG_EXIT_INTEGRITY);
    expect_states(again, "hffh");
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", id, "--bundles", to), KG_EXIT_INTEGRITY, "nothing was replaced",
                      NULL);
    json_decref(again);
    json_decref(said);
    free(dir);
    free(to);
    kg_fleet_lab_close(&lab);
}

/* `.ci/judge --push` over the runs of a list. */
static void judge(const struct kg_fleet_lab *lab, const char *history, const char *list, int exit_code,
                  const char *says) {
    const char *const env[] = { kg_xasprintf("KIGO_HISTORY=%s", history), kg_xasprintf("KIGO_BUNDLES=%s", lab->bundles),
                                kg_xasprintf("KIGO=%s", kg_program_path()), "GITHUB_STEP_SUMMARY=/dev/null", NULL };
    char *script = kg_xstrdup(kg_fixture_path("../.ci/judge"));
    const char *const argv[] = { "/usr/bin/env", "bash", script, "--push", list, NULL };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv, .env = env, .timeout_s = 200 }, &result, &err), err);
    ck_assert_msg(result.exit_code == exit_code && (strstr(result.out, says) || strstr(result.err, says)),
                  "%d, not %d: %.1000s%.1000s", result.exit_code, exit_code, result.out, result.err);
    kg_process_result_free(&result);
    free(script);
    for (size_t i = 0; i < 3; i++) free((char *)env[i]);
}

void kg_fleet_judge_pushes(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_error err;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *first = kg_maker_sealed(lab.bundles, 1), *second = kg_verb_seal(lab.bundles),
         *list = kg_path_join(kg_scratch_dir(rec), "list"), *url = kg_fleet_lab_url(&lab, "runner_a"),
         *names = kg_xasprintf("%s\n%s\n", strrchr(first, '/') + 1, strrchr(second, '/') + 1);
    EXPECT_OK(kg_file_write(list, names, strlen(names), &err), err);
    judge(&lab, "no URL", list, KG_EXIT_USAGE, "not all runs were pushed (exit code 2)");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive"), 0);
    judge(&lab, url, list, KG_EXIT_OK, ": pushed");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive"), 2);
    free(names);
    free(url);
    free(list);
    free(second);
    free(first);
    kg_fleet_lab_close(&lab);
}
