/* What prune deletes and what it keeps, and what the chain says of it afterwards. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "run/publish.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 6 };

/* Six runs of one comparison key, oldest first; only to be freed. */
static void make_runs(const char *root, char *dirs[N_RUNS]) {
    for (size_t i = 0; i < N_RUNS; i++) dirs[i] = kg_verb_seal(root);
}

static void free_runs(char *dirs[N_RUNS]) {
    for (size_t i = 0; i < N_RUNS; i++) free(dirs[i]);
}

static const char *id_of(const char *dir) {
    return strrchr(dir, '/') + 1;
}

/* Why prune keeps the run, "" where it goes. malloc'ed. */
static char *why_kept(const json_t *answer, const char *dir) {
    const json_t *rows = json_object_get(answer, "bundles"), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (strcmp(json_string_value(json_object_get(row, "bundle_id")), id_of(dir)) != 0) continue;
        const char *kept = json_string_value(json_object_get(row, "kept"));
        ck_assert(json_is_boolean(json_object_get(row, "goes")));
        ck_assert_int_eq(json_is_true(json_object_get(row, "goes")), !kept);
        return kg_xstrdup(kept ? kept : "");
    }
    ck_abort_msg("prune says nothing of %s", dir);
    return NULL;
}

static void expect_kept(const json_t *answer, const char *dir, const char *why) {
    char *got = why_kept(answer, dir);
    ck_assert_msg(*why ? strstr(got, why) != NULL : !*got, "%s: '%s', not '%s'", dir, got, why);
    free(got);
}

static void dry_run_changes_nothing(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dirs[N_RUNS];
    (void)arg;
    make_runs(root, dirs);
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "2"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(answer, "n_gone"), N_RUNS - 2);
    ck_assert(json_is_false(json_object_get(answer, "applied")));
    for (size_t i = 0; i < N_RUNS; i++) ck_assert(kg_path_is_dir(dirs[i]));
    ck_assert_uint_eq(kg_maker_count(root, "tombstones"), 0);
    json_decref(answer);
    answer = kg_verb_json(root, ARGS("prune"), KG_EXIT_OK); /* the newest 50 stay */
    ck_assert_int_eq(kg_verb_integer(answer, "n_gone"), 0);
    json_decref(answer);
    free_runs(dirs);
}

static void old_runs_go(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dirs[N_RUNS];
    (void)arg;
    make_runs(root, dirs);
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "2", "--apply", "--author", "x"), KG_EXIT_OK);
    ck_assert(json_is_true(json_object_get(answer, "applied")));
    for (size_t i = 0; i < N_RUNS; i++) {
        char *tombstone = kg_xasprintf("%s/tombstones/%s.json", root, id_of(dirs[i]));
        expect_kept(answer, dirs[i], i < N_RUNS - 2 ? "" : "newest 2");
        ck_assert_int_eq(kg_path_is_dir(dirs[i]), i >= N_RUNS - 2);
        ck_assert_int_eq(kg_path_exists(tombstone), i < N_RUNS - 2);
        free(tombstone);
    }
    ck_assert_uint_eq(kg_maker_count(root, ".pruned-"), 0);
    json_t *rows = kg_verb_json(root, ARGS("list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 2);
    json_decref(rows);
    char *live = kg_maker_dump(root);
    kg_verb_expect(root, ARGS("reindex"), KG_EXIT_OK, NULL);
    char *rebuilt = kg_maker_dump(root);
    kg_maker_expect_same(live, rebuilt);
    free(rebuilt);
    free(live);
    /* Pruning is no removal in secret. */
    kg_verb_expect(root, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
    json_decref(answer);
    free_runs(dirs);
}

/* A tombstone explains the gap of the bundle it is for, and of no other that had its name. */
static void forged_tombstone(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dirs[N_RUNS];
    struct kg_error err;
    (void)arg;
    make_runs(root, dirs);
    kg_verb_expect(root, ARGS("prune", "--keep", "5", "--apply"), KG_EXIT_OK, NULL);
    char *tombstone = kg_xasprintf("tombstones/%s.json", id_of(dirs[0]));
    kg_maker_replace(root, tombstone, "\"tagmanifest_sha256\": \"", "\"tagmanifest_sha256\": \"0");
    kg_verb_refuses(root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "replaced");
    kg_maker_replace(root, tombstone, "\"tagmanifest_sha256\"", "\"sha256\"");
    kg_verb_refuses(root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "not recorded");
    char *path = kg_path_join(root, tombstone);
    EXPECT_OK(kg_path_remove(path, &err), err);
    kg_verb_refuses(root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "removed");
    free(path);
    free(tombstone);
    free_runs(dirs);
}

/* A sign-off of the run: its note, and a statement that has the hash of the run's manifest. */
static void sign_off(const char *root, const char *name, const char *dir, const char *hash) {
    char *folder = kg_xasprintf("%s/signoffs/%s", root, name), *note = kg_xasprintf("%s.json", folder),
         *statement = kg_path_join(folder, "statement.intoto.json");
    char *subject = kg_xasprintf(
        "\"subject\": [{\"name\": \"%s/manifest-sha256.txt\", \"digest\": {\"sha256\": \"%s\"}}]", id_of(dir), hash);
    char *said = kg_xasprintf("{%s, \"documents\": \"signoffs/%s\"}", subject, name),
         *whole = kg_xasprintf("{%s}", subject);
    struct kg_error err;
    EXPECT_OK(kg_dir_make(folder, &err), err);
    EXPECT_OK(kg_file_write(note, said, strlen(said), &err), err);
    EXPECT_OK(kg_file_write(statement, whole, strlen(whole), &err), err);
    free(whole);
    free(said);
    free(subject);
    free(statement);
    free(note);
    free(folder);
}

/* Only a sign-off that holds keeps a run. */
static void what_is_kept(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dirs[N_RUNS], hash[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    (void)arg;
    make_runs(root, dirs);
    kg_verb_expect(root, ARGS("pin", dirs[0]), KG_EXIT_OK, NULL);
    char *manifest = kg_path_join(dirs[1], "manifest-sha256.txt"), *forged = kg_path_join(root, "signoffs/x.json");
    EXPECT_OK(kg_sha256_file(manifest, hash, &err), err);
    sign_off(root, "fp16-x", dirs[1], hash);
    sign_off(root, "fp16-y", dirs[3], hash); /* of another run */
    char *bare = kg_xasprintf("{\"subject\": [{\"name\": \"%s/manifest-sha256.txt\"}]}", id_of(dirs[4]));
    EXPECT_OK(kg_file_write(forged, bare, strlen(bare), &err), err);
    kg_maker_replace(dirs[2], "data/report.md", "i", "j");
    kg_verb_refuses(root, ARGS("verify", "--signoffs"), KG_EXIT_INTEGRITY, "changed");
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "1", "--apply"), KG_EXIT_OK);
    static const char *const WANT[N_RUNS] = { "pinned", "signed off in fp16-x", "does not verify", "", "", "newest 1" };
    for (size_t i = 0; i < N_RUNS; i++) {
        expect_kept(answer, dirs[i], WANT[i]);
        ck_assert_int_eq(kg_path_is_dir(dirs[i]), *WANT[i] != '\0');
    }
    json_decref(answer);
    free(bare);
    free(forged);
    free(manifest);
    free_runs(dirs);
}

/* A run whose head is spoilt stays, since nobody knows how old it is; the others go as they would without it. */
static void spoilt_head_is_kept_alone(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dirs[N_RUNS];
    (void)arg;
    make_runs(root, dirs);
    kg_verb_expect(root, ARGS("list"), KG_EXIT_OK, NULL); /* indexed as it was */
    kg_maker_replace(dirs[1], "data/summary.json", "\"verdict\"", "\"verdikt\"");
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "2"), KG_EXIT_OK);
    static const char *const WANT[N_RUNS] = { "", "does not verify", "", "", "newest 2", "newest 2" };
    for (size_t i = 0; i < N_RUNS; i++) expect_kept(answer, dirs[i], WANT[i]);
    json_decref(answer);
    free_runs(dirs);
}

static void baselines_are_kept(struct kg_record *rec, const void *arg) {
    enum { N_MADE = 30, N_BASELINES = 20 };
    const char *root = kg_scratch_dir(rec);
    struct kg_error err;
    char *ids[N_MADE];
    (void)arg;
    for (size_t i = 0; i < N_MADE; i++) {
        const struct kg_made_run run = { .started_us = 1700000000000000 + (int64_t)i * 1000000,
                                         .commit = "0123456789abcdef0123456789abcdef01234567",
                                         .dirty = i == N_MADE - 2, /* one that no other is held against */
                                         .n_cases = 1 };
        EXPECT_OK(kg_made_run_write(root, &run, &ids[i], &err), err);
    }
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "1"), KG_EXIT_OK);
    for (size_t i = 0; i < N_MADE; i++) {
        char *dir = kg_path_join(root, ids[i]);
        const bool is_baseline = i != N_MADE - 2 && i + 1 + N_BASELINES >= N_MADE;
        expect_kept(answer, dir, i == N_MADE - 1 ? "newest 1" : is_baseline ? "baseline" : "");
        free(dir);
        free(ids[i]);
    }
    json_decref(answer);
}

/* A sealed run of the comparison key that the verb makes; its folder malloc'ed. */
static char *seal_as(const char *root, const char *verb) {
    json_t *run = json_pack("{s:[s]}", "argv", verb), *line = kg_maker_plan_line(0);
    const struct kg_bundle_options options = { .root = root, .run = run, .seed = 7 };
    struct kg_bundle *bundle = NULL;
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    char *dir = kg_path_join(root, kg_bundle_id(bundle));
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    ck_assert_str_eq(summary.note, "");
    kg_bundle_close(bundle);
    json_decref(line);
    json_decref(run);
    return dir;
}

/* What is said of `kigo prune` without --keep: 50 of each comparison key stay, however many others lie between them. */
static void fifty_of_each_key_stay(struct kg_record *rec, const void *arg) {
    enum { N_STAY = 50, N_ROUNDS = N_STAY + 3 };
    static const struct {
        const char *verb;
        size_t n_runs;
    } KEYS[] = { { "check", N_ROUNDS }, { "bench", N_STAY + 1 }, { "selfcheck", N_STAY } };
    const char *root = kg_scratch_dir(rec);
    char *dirs[KG_COUNT_OF(KEYS)][N_ROUNDS];
    (void)arg;
    for (size_t i = 0; i < N_ROUNDS; i++)
        for (size_t k = 0; k < KG_COUNT_OF(KEYS); k++)
            if (i < KEYS[k].n_runs) dirs[k][i] = seal_as(root, KEYS[k].verb);
    json_t *answer = kg_verb_json(root, ARGS("prune", "--apply"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(answer, "n_gone"), 3 + 1);
    for (size_t k = 0; k < KG_COUNT_OF(KEYS); k++) {
        for (size_t i = 0; i < KEYS[k].n_runs; i++) {
            const bool stays = i + N_STAY >= KEYS[k].n_runs;
            expect_kept(answer, dirs[k][i], stays ? "newest 50" : "");
            ck_assert_int_eq(kg_path_is_dir(dirs[k][i]), stays);
            free(dirs[k][i]);
        }
    }
    json_decref(answer);
}

static void wrong_calls(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *none = kg_path_join(root, "none");
    (void)arg;
    kg_verb_refuses(root, ARGS("prune", "--keep", "0"), KG_EXIT_USAGE, "--keep");
    kg_verb_refuses(root, ARGS("prune", "latest"), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(none, ARGS("prune"), KG_EXIT_USAGE, "none");
    kg_verb_expect(root, ARGS("prune", "--apply"), KG_EXIT_OK, NULL); /* of nothing */
    free(none);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "prune", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(dry_run_changes_nothing),   CASE(old_runs_go),        CASE(forged_tombstone),       CASE(what_is_kept),
    CASE(spoilt_head_is_kept_alone), CASE(baselines_are_kept), CASE(fifty_of_each_key_stay), CASE(wrong_calls),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
