#include "suites/integration/fleet_reruns.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/git.h"
#include "bundle/records.h"
#include "run/publish.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/fleet_both.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

void kg_fleet_reruns_as_a_folder(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    struct kg_process_result result;
    struct kg_fleet_both both;
    (void)arg;
    kg_lab_open(&lab, rec);
    if (!kg_fleet_both_open(&both, rec, lab.bundles)) return kg_lab_close(&lab);
    kg_lab_add(&lab, "test_green", "test_green");
    kg_lab_check(&lab, ARGS("--quiet", "--seed", "41"), &result);
    ck_assert_msg(result.exit_code == KG_EXIT_OK, "kigo check ended with %d: %.1000s", result.exit_code, result.err);
    kg_process_result_free(&result);
    char *dir = kg_lab_bundle(&lab);
    const char *const id = strrchr(dir, '/') + 1;
    kg_fleet_both_push(&both, "runner_a", id);
    json_t *plan = kg_lab_lines(dir, "plan.ndjson");
    const char *key = kg_json_text(json_array_get(plan, 0), "key");
    kg_fleet_both_expect(&both, ARGS("rerun", id, "--here", "--suites", lab.suites), "--json");
    kg_fleet_both_expect(&both, ARGS("rerun", "latest", key, "--here", "--suites", lab.suites), NULL);
    kg_fleet_both_expect(&both, ARGS("rerun", id, "no/such/case", "--here"), "--json");
    kg_fleet_both_expect(&both, ARGS("rerun", "latest~1", "--here"), "--json");
    json_decref(plan);
    free(dir);
    kg_fleet_both_close(&both);
    kg_lab_close(&lab);
}

static const char SPRINT[] =
    "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"FT-1\", \"title\": \"one\","
    " \"cases\": [{\"what\": \"all pass\", \"match\": \"unit/sample/*\", \"at_least\": 2}], \"figures\": ["
    "{\"what\": \"errors\", \"figure\": \"max_abs <= 1e-2\", \"of\": {\"match\": \"unit/sample/*\", \"error\": "
    "\"logits\"}}]}]}";

static void git(const char *dir, const char *const *args) {
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_git(dir, args, 4096, &out, NULL, &err), err);
    kg_buffer_free(&out);
}

static void write_text(const char *path, const char *text) {
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
}

/* A repository with a source file in a commit. */
static void make_repository(const char *repository) {
    struct kg_error err;
    char *src = kg_path_join(repository, "src"), *file = kg_path_join(src, "main.c");
    EXPECT_OK(kg_dir_make(src, &err), err);
    write_text(file, "int main(void) { return 0; }\n");
    git(repository, ARGS("init", "-q"));
    git(repository, ARGS("add", "-A"));
    git(repository, ARGS("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false", "commit",
                         "-q", "-m", "sources"));
    free(file);
    free(src);
}

/* A sealed run of two passing cases from a repository's sources; its id malloc'ed. */
static char *make_run(const char *root, const char *repository) {
    json_t *run = json_pack("{s:[s]}", "argv", "check");
    const struct kg_bundle_options options = { .root = root, .source_dir = repository, .run = run, .seed = 7 };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; i < 2; i++) {
        json_t *line = kg_maker_plan_line(i);
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    for (size_t i = 0; i < 2; i++) EXPECT_OK(kg_maker_run(bundle, i, "pass", &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    char *id = kg_xstrdup(strrchr(kg_bundle_dir(bundle), '/') + 1);
    kg_bundle_close(bundle);
    json_decref(run);
    return id;
}

/* The statement of a sign-off, but for when it was: the documents beside it say that, too, and have other hashes. */
static char *statement_of(const char *dir) {
    char *path = kg_path_join(dir, "statement.intoto.json");
    json_t *statement = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *subject = NULL;
    ck_assert_msg(statement != NULL, "%s is no JSON", path);
    ck_assert_int_eq(
        json_object_del(json_object_get(json_object_get(statement, "predicate"), "kigo"), "signed_off_utc"), 0);
    size_t i;
    json_array_foreach(json_object_get(statement, "subject"), i, subject) {
        if (strncmp(kg_json_text(subject, "name"), "signoff.", 8) == 0) json_object_del(subject, "digest");
    }
    char *text = json_dumps(statement, JSON_SORT_KEYS);
    json_decref(statement);
    free(path);
    return text;
}

void kg_fleet_signs_off_as_a_folder(struct kg_record *rec, const void *arg) {
    const char *const scratch = kg_scratch_dir(rec);
    char *repository = kg_path_join(scratch, "repository"), *root = kg_path_join(scratch, "bundles of the folder"),
         *sprint = kg_path_join(scratch, "sample.json"), *here = kg_path_join(scratch, "here"),
         *there = kg_path_join(scratch, "there");
    struct kg_fleet_both both;
    (void)arg;
    if (kg_fleet_both_open(&both, rec, root)) {
        make_repository(repository);
        write_text(sprint, SPRINT);
        char *id = make_run(root, repository);
        kg_fleet_both_push(&both, "runner_a", id);
        kg_fleet_both_expect(&both, ARGS("signoff", sprint, id, "--figures"), "--json");
        kg_fleet_both_expect(&both, ARGS("signoff", sprint, "latest", "--figures"), "--markdown");
        kg_fleet_both_expect(&both, ARGS("signoff", sprint, id, "--repository", repository, "-o", there), "--json");
        kg_fleet_both_expect(
            &both, ARGS("signoff", sprint, id, id, "--unsigned", "--repository", repository, "-o", there), "--json");
        kg_fleet_both_expect(&both, ARGS("signoff", sprint, "no such run", "--figures"), "--json");
        kg_verb_expect(root, ARGS("signoff", sprint, id, "--unsigned", "--repository", repository, "-o", here),
                       KG_EXIT_OK, NULL);
        kg_fleet_lab_kigo(&both.fleet, "reader",
                          ARGS("signoff", sprint, id, "--unsigned", "--repository", repository, "-o", there),
                          KG_EXIT_OK, "met", NULL);
        char *of_folder = statement_of(here), *of_fleet = statement_of(there);
        ck_assert_msg(strcmp(of_folder, of_fleet) == 0, "%.2000s\n%.2000s", of_folder, of_fleet);
        kg_fleet_lab_kigo(&both.fleet, "reader", ARGS("signoff", sprint, id, "--unsigned"), KG_EXIT_USAGE,
                          "a fleet keeps no documents", NULL);
        free(of_fleet);
        free(of_folder);
        free(id);
        kg_fleet_both_close(&both);
    }
    char *const all[] = { there, here, sprint, root, repository };
    for (size_t i = 0; i < KG_COUNT_OF(all); i++) free(all[i]);
}
