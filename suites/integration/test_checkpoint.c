/* The end of a chain, its forks, and what a checkpoint proves of it. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/chain.h"
#include "bundle/checkpoint.h"
#include "bundle/policy.h"
#include "bundle/records.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_RUNS = 4 };

struct store {
    char *keys, *root, *dirs[N_RUNS], *head, *key, *allowed, *checkpoint;
};

/* Four runs, and a signed checkpoint outside of their folder. False: no ssh-keygen, the case is skipped. */
static bool open_store(struct store *s, struct kg_record *rec) {
    struct kg_error err;
    *s = (struct store){ .keys = kg_path_join(kg_scratch_dir(rec), "keys"),
                         .root = kg_path_join(kg_scratch_dir(rec), "bundles") };
    kg_must(kg_dir_make(s->keys, &err), &err);
    if (!(s->key = kg_verb_key(rec, s->keys, "ci"))) return false;
    for (size_t i = 0; i < N_RUNS; i++) s->dirs[i] = kg_verb_seal(s->root);
    s->head = kg_path_join(s->root, ".chain");
    s->allowed = kg_verb_allowed(s->root, "allowed_signers", "ci@example.org", s->key);
    s->checkpoint = kg_path_join(s->keys, "checkpoint");
    kg_verb_expect(s->root, ARGS("checkpoint", "-o", s->checkpoint, "--sign", s->key), KG_EXIT_OK, NULL);
    return true;
}

static void close_store(struct store *s) {
    for (size_t i = 0; i < N_RUNS; i++) free(s->dirs[i]);
    free(s->checkpoint);
    free(s->allowed);
    free(s->key);
    free(s->head);
    free(s->root);
    free(s->keys);
}

static void remove_path(const char *path) {
    struct kg_error err;
    kg_must(kg_path_remove(path, &err), &err);
}

static void hash_tags(const char *dir, char sha256[KG_SHA256_HEX_SIZE]) {
    char *tags = kg_path_join(dir, "tagmanifest-sha256.txt");
    struct kg_error err;
    kg_must(kg_sha256_file(tags, sha256, &err), &err);
    free(tags);
}

/* What cannot be read leads nowhere. */
static void no_chain_to_join(struct kg_record *rec, const void *arg) {
    char *nowhere = kg_path_join(kg_scratch_dir(rec), "nowhere");
    struct kg_error err = { 0 };
    bool joined;
    (void)arg;
    ck_assert_int_eq(kg_chain_join(nowhere, "x", &joined, &err), KG_ERR_NOT_FOUND);
    ck_assert_msg(strstr(err.message, "nowhere"), "%s", err.message);
    free(nowhere);
}

static void write_head(const struct store *s, const char *dir) {
    char sha256[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    hash_tags(dir, sha256);
    char *text = kg_xasprintf("%s %s\n", strrchr(dir, '/') + 1, sha256);
    kg_must(kg_file_write(s->head, text, strlen(text), &err), &err);
    free(text);
}

/* Without a file the checkpoint is printed, and with --json besides; otherwise a line says what the file holds. */
static void printed_or_written(struct kg_record *rec, const void *arg) {
    struct store s;
    char *said;
    (void)arg;
    if (!open_store(&s, rec)) return;
    kg_verb_expect(s.root, ARGS("checkpoint", "-o", s.checkpoint), KG_EXIT_OK, &said);
    char *line = kg_xasprintf("%s: %d runs\n", s.checkpoint, N_RUNS);
    ck_assert_str_eq(said, line);
    free(line);
    free(said);
    json_t *written = kg_verb_json(s.root, ARGS("checkpoint", "-o", s.checkpoint), KG_EXIT_OK), *printed, *read;
    kg_verb_expect(s.root, ARGS("checkpoint"), KG_EXIT_OK, &said);
    ck_assert_msg((printed = json_loads(said, 0, NULL)) != NULL, "%s", said);
    ck_assert_ptr_nonnull(read = json_load_file(s.checkpoint, 0, NULL));
    const json_t *const all[] = { written, printed, read };
    for (size_t i = 0; i < KG_COUNT_OF(all); i++) {
        const json_t *heads = json_object_get(all[i], "heads"), *head = json_array_get(heads, 0);
        ck_assert_int_eq(kg_verb_integer(all[i], "n_runs"), N_RUNS);
        ck_assert_uint_eq(json_array_size(heads), 1);
        ck_assert_str_eq(json_string_value(json_object_get(head, "bundle_id")), strrchr(s.dirs[N_RUNS - 1], '/') + 1);
        ck_assert_int_eq(kg_verb_integer(head, "n_runs"), N_RUNS);
    }
    free(said);
    json_decref(read);
    json_decref(printed);
    json_decref(written);
    close_store(&s);
}

/* Runs since then are no finding; the count says how many. */
static void expect_since(const struct store *s, int64_t n_since) {
    json_t *answer =
        kg_verb_json(s->root, ARGS("verify", "--chain", "--since", s->checkpoint, "--require-signature"), KG_EXIT_OK);
    const json_t *since = json_object_get(json_object_get(answer, "chain"), "since");
    ck_assert_int_eq(kg_verb_integer(since, "n_runs"), n_since);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(since, "signature"), "state")), "good");
    json_decref(answer);
}

static void runs_since_then(struct kg_record *rec, const void *arg) {
    struct store s;
    (void)arg;
    if (!open_store(&s, rec)) return;
    expect_since(&s, 0);
    free(kg_verb_seal(s.root));
    free(kg_verb_seal(s.root));
    expect_since(&s, 2);
    kg_verb_expect(s.root, ARGS("prune", "--keep", "2", "--apply", "--sign", s.key), KG_EXIT_OK, NULL);
    expect_since(&s, 2); /* the way leads over tombstones */
    close_store(&s);
}

/* The newest run and the file that names it: nothing in the folder shows that they were there. */
static void newest_run_and_head_removed(struct kg_record *rec, const void *arg) {
    struct store s;
    char *said;
    (void)arg;
    if (!open_store(&s, rec)) return;
    remove_path(s.dirs[N_RUNS - 1]);
    remove_path(s.head);
    kg_verb_expect(s.root, ARGS("verify", "--chain"), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "not shown"), "%s", said);
    free(said);
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", s.checkpoint), KG_EXIT_INTEGRITY, "removed");
    write_head(&s, s.dirs[N_RUNS - 2]);
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", s.checkpoint), KG_EXIT_INTEGRITY, "removed");
    close_store(&s);
}

static void head_set_back(struct kg_record *rec, const void *arg) {
    static const char *const GARBAGE[] = { "", "x\n", "none\n" };
    struct store s;
    struct kg_error err;
    (void)arg;
    if (!open_store(&s, rec)) return;
    write_head(&s, s.dirs[1]);
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "head .chain");
    kg_verb_refuses(s.root, ARGS("checkpoint"), KG_EXIT_INTEGRITY, "does not hold");
    for (size_t i = 0; i < KG_COUNT_OF(GARBAGE); i++) {
        kg_must(kg_file_write(s.head, GARBAGE[i], strlen(GARBAGE[i]), &err), &err);
        kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "head .chain");
    }
    close_store(&s);
}

/* Whoever sets the head back and runs again has two runs that follow the same one. */
static void two_successors(struct kg_record *rec, const void *arg) {
    struct store s;
    (void)arg;
    if (!open_store(&s, rec)) return;
    write_head(&s, s.dirs[1]);
    free(kg_verb_seal(s.root));
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "fork");
    close_store(&s);
}

/* Every bundle from the changed one on is hashed again: the chain holds, and is another. */
static void links_computed_again(struct kg_record *rec, const void *arg) {
    struct store s;
    char before[KG_SHA256_HEX_SIZE], after[KG_SHA256_HEX_SIZE];
    (void)arg;
    if (!open_store(&s, rec)) return;
    hash_tags(s.dirs[0], before);
    kg_maker_replace(s.dirs[0], "data/env.json", "\"", " \"");
    kg_maker_rehash(s.dirs[0]);
    for (size_t i = 1; i < N_RUNS; i++) {
        char next[KG_SHA256_HEX_SIZE];
        hash_tags(s.dirs[i - 1], after);
        hash_tags(s.dirs[i], next);
        kg_maker_replace(s.dirs[i], "bag-info.txt", before, after);
        kg_maker_rehash(s.dirs[i]);
        memcpy(before, next, sizeof next);
    }
    write_head(&s, s.dirs[N_RUNS - 1]);
    kg_verb_expect(s.root, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", s.checkpoint), KG_EXIT_INTEGRITY, "replaced");
    close_store(&s);
}

static void forged_checkpoint(struct kg_record *rec, const void *arg) {
    struct store s;
    (void)arg;
    if (!open_store(&s, rec)) return;
    kg_maker_replace(s.keys, "checkpoint", "\"n_runs\": 4", "\"n_runs\":  4");
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", s.checkpoint), KG_EXIT_INTEGRITY, "signature");
    kg_maker_replace(s.keys, "checkpoint", "kigo_checkpoint", "x");
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", s.checkpoint), KG_EXIT_INTEGRITY, "no checkpoint");
    kg_verb_refuses(s.root, ARGS("verify", "--all", "--since", s.checkpoint), KG_EXIT_USAGE, "--chain");
    kg_verb_refuses(s.root, ARGS("checkpoint", "--sign", s.key), KG_EXIT_USAGE, "--output");
    char *round = kg_path_join(s.keys, "round"); /* a file that cannot be found is not one that is missing */
    ck_assert_int_eq(symlink("round", round), 0);
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", round), KG_EXIT_INCOMPLETE, "Too many levels");
    kg_verb_refuses(s.root, ARGS("verify", "--chain", "--since", "/nowhere/x"), KG_EXIT_USAGE, "no such file");
    free(round);
    close_store(&s);
}

/* How many runs came since is computed with the number that the file has. Without ssh-keygen, too. */
static void number_of_runs(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *heads, *n_runs;
        bool is_one;
    } ROWS[] = {
        { "", "", false },
        { "", ", \"n_runs\": -1", false },
        { "", ", \"n_runs\": -9223372036854775808", false },
        { "", ", \"n_runs\": \"1\"", false },
        { "", ", \"n_runs\": 1.5", false },
        { "", ", \"n_runs\": 0", true },
        /* The heads' numbers add up to it. */
        { "", ", \"n_runs\": 3", false },
        { "{\"n_runs\": 2}", ", \"n_runs\": 3", false },
        { "{\"n_runs\": 2}, {\"n_runs\": 2}", ", \"n_runs\": 3", false },
        { "{\"n_runs\": 2}, {\"n_runs\": 1}", ", \"n_runs\": 3", true },
        { "{\"n_runs\": 9223372036854775807}, {\"n_runs\": 9223372036854775807}", ", \"n_runs\": 3", false },
        { "{\"n_runs\": 9223372036854775807}", ", \"n_runs\": 9223372036854775807", true },
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *path = kg_path_join(kg_scratch_dir(rec), "checkpoint");
    struct kg_bundle_findings findings = { 0 };
    struct kg_error err;
    int64_t n_since;
    (void)arg;
    kg_must(kg_dir_make(root, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *text = kg_xasprintf("{\"kigo_checkpoint\": 1, \"utc\": \"1970\", \"heads\": [%s]%s}", ROWS[i].heads,
                                  ROWS[i].n_runs);
        kg_must(kg_file_write(path, text, strlen(text), &err), &err);
        const enum kg_status status = kg_checkpoint_compare(root, path, kg_clock_utc_us(), &n_since, &findings, &err);
        if (ROWS[i].is_one) kg_must(status, &err);
        else kg_must_fail(status, KG_ERR_FORMAT, &err, path, "no checkpoint", "\"n_runs\"", NULL);
        free(text);
    }
    for (size_t i = 0; i < findings.n_items; i++)
        ck_assert_str_eq(findings.items[i].what, "format"); /* heads of no run */
    kg_bundle_findings_free(&findings);
    free(path);
    free(root);
}

/* Whoever deletes a run and writes its tombstone: only a signature tells that from pruning. */
static void forged_tombstone(struct kg_record *rec, const void *arg) {
    static const char POLICY[] = "{\"tombstones\": [\"@signed\"]}";
    struct store s;
    struct kg_error err;
    char sha256[KG_SHA256_HEX_SIZE], *said;
    (void)arg;
    if (!open_store(&s, rec)) return;
    char *policy = kg_path_join(s.root, KG_POLICY_FILE), *folder = kg_path_join(s.root, "tombstones");
    kg_verb_expect(s.root, ARGS("prune", "--keep", "3", "--apply", "--sign", s.key), KG_EXIT_OK, NULL);
    kg_must(kg_file_write(policy, POLICY, strlen(POLICY), &err), &err);
    kg_verb_expect(s.root, ARGS("verify", "--chain"), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "1 run pruned; 0 tombstones not signed"), "%s", said);
    free(said);
    char *file = kg_xasprintf("%s/%s.json", folder, strrchr(s.dirs[1], '/') + 1);
    hash_tags(s.dirs[1], sha256);
    char *text = kg_xasprintf("{\"tagmanifest_sha256\": \"%s\"}", sha256);
    remove_path(s.dirs[1]);
    kg_must(kg_file_write(file, text, strlen(text), &err), &err);
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "tombstone ");
    remove_path(file);
    char *signed_one = kg_xasprintf("%s.json", strrchr(s.dirs[0], '/') + 1);
    kg_maker_replace(folder, signed_one, "\"author\"", "\"Author\"");
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "tombstone ");
    remove_path(policy);
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "tombstone "); /* a bad one in any case */
    kg_maker_replace(folder, signed_one, "\"bag_info\": \"", "\"bag_info\": \"X");
    kg_verb_refuses(s.root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "its copies");
    free(signed_one);
    free(text);
    free(file);
    free(folder);
    free(policy);
    close_store(&s);
}

/* A run that died with its tag manifest written and not yet the last link: what recover makes of it is no fork, though
 * another run may have become the last link meanwhile. */
static void died_before_it_was_a_link(struct kg_record *rec, const void *arg) {
    enum { NOBODY, ANOTHER, FOLLOWED, N_MEANWHILE };
    (void)arg;
    for (int meanwhile = NOBODY; meanwhile < N_MEANWHILE; meanwhile++) {
        char *name = kg_xasprintf("died-%d", meanwhile), *root = kg_path_join(kg_scratch_dir(rec), name);
        struct store s = { .root = root, .head = kg_path_join(root, ".chain") };
        struct kg_error err;
        char before[KG_SHA256_HEX_SIZE], after[KG_SHA256_HEX_SIZE];
        char *first = kg_verb_seal(root), *died = kg_verb_seal(root);
        char *unfinished = kg_xasprintf("%s/.tmp-%s", root, strrchr(died, '/') + 1);
        hash_tags(died, before);
        kg_must(kg_path_rename_new(died, unfinished, &err), &err);
        if (meanwhile != FOLLOWED) write_head(&s, first);
        if (meanwhile != NOBODY) free(kg_verb_seal(root));
        kg_verb_expect(root, ARGS("recover"), KG_EXIT_OK, NULL);
        hash_tags(died, after);
        ck_assert_msg((strcmp(before, after) == 0) == (meanwhile != ANOTHER), "%d: %s %s", meanwhile, before, after);
        free(kg_verb_seal(root));
        kg_verb_expect(root, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
        json_t *summary = NULL;
        kg_must(kg_bundle_read_json(died, "data/summary.json", &summary, &err), &err);
        ck_assert_str_eq(json_string_value(json_object_get(summary, "state")), "complete");
        json_decref(summary);
        free(unfinished);
        free(died);
        free(first);
        free(s.head);
        free(root);
        free(name);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "checkpoint", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(no_chain_to_join),   CASE(runs_since_then),  CASE(newest_run_and_head_removed),
    CASE(head_set_back),      CASE(two_successors),   CASE(links_computed_again),
    CASE(forged_checkpoint),  CASE(forged_tombstone), CASE(died_before_it_was_a_link),
    CASE(printed_or_written), CASE(number_of_runs),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
