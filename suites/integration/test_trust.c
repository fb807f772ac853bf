/* Signatures and the chain of bundles: what is vouched for verifies, and every way of tampering shows. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/chain.h"
#include "bundle/sign.h"
#include "bundle/timestamp.h"
#include "run/publish.h"
#include "suites/harness/must.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bench {
    const char *root;           /* of bundles */
    char *keys, *key, *allowed; /* a folder, a key in it, and the list that has this key only */
};

/* false: no ssh-keygen, the case is skipped. */
static bool set_up(struct bench *b, struct kg_record *rec) {
    struct kg_error err;
    *b = (struct bench){ 0 };
    b->keys = kg_path_join(kg_scratch_dir(rec), "keys");
    EXPECT_OK(kg_dir_make(b->keys, &err), err);
    b->key = kg_verb_key(rec, b->keys, "ci");
    if (!b->key) return free(b->keys), false;
    b->allowed = kg_verb_allowed(b->keys, "allowed", "ci@example.org namespaces=\"kigo-bundle\"", b->key);
    b->root = kg_scratch_dir(rec);
    return true;
}

static void tear_down(struct bench *b) {
    free(b->allowed);
    free(b->key);
    free(b->keys);
}

static void expect_state(const char *root, const char *dir, const char *allowed, int exit_code, const char *state) {
    json_t *answer = kg_verb_json(
        root, allowed ? ARGS("verify", dir, "--allowed-signers", allowed) : ARGS("verify", dir), exit_code);
    const json_t *bundle = json_array_get(json_object_get(answer, "bundles"), 0);
    const char *got = json_string_value(json_object_get(json_object_get(bundle, "signature"), "state"));
    ck_assert_msg(got && strcmp(got, state) == 0, "the signature is %s, not %s", got ? got : "missing", state);
    json_decref(answer);
}

/* What the verbs that only look say of a run's signature. */
static void expect_shown(const struct bench *b, const char *dir, const char *listed, const char *state,
                         const char *words) {
    json_t *rows = kg_verb_json(b->root, ARGS("list"), KG_EXIT_OK);
    json_t *run = kg_verb_json(b->root, ARGS("show", dir), KG_EXIT_OK);
    char *text;
    kg_verb_expect(b->root, ARGS("show", dir), KG_EXIT_OK, &text);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(rows, 0), "signature")), listed);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(run, "signature"), "state")), state);
    ck_assert_msg(strstr(text, words), "%s", text);
    free(text);
    json_decref(run);
    json_decref(rows);
}

static void signed_bundle(struct kg_record *rec, const void *arg) {
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root), *text;
    usleep(200000); /* old enough for readers to note that it verifies, and what its rows are */
    expect_state(b.root, dir, b.allowed, KG_EXIT_OK, "unsigned");
    kg_verb_refuses(b.root, ARGS("verify", dir, "--allowed-signers", b.allowed, "--require-signature"),
                    KG_EXIT_INTEGRITY, "not signed");
    expect_shown(&b, dir, "none", "unsigned", "\ntrust    not signed\n");
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    expect_shown(&b, dir, "there", "intact", "\ntrust    signed with ED25519 key SHA256:");
    expect_state(b.root, dir, NULL, KG_EXIT_OK, "intact");
    expect_state(b.root, dir, b.allowed, KG_EXIT_OK, "good");
    kg_verb_expect(b.root, ARGS("verify", dir, "--allowed-signers", b.allowed, "--require-signature"), KG_EXIT_OK,
                   &text);
    ck_assert_msg(strstr(text, "signed by ci@example.org (ED25519 key SHA256:"), "%s", text);
    free(text);
    kg_verb_refuses(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_USAGE, "signed already");
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key, "--again"), KG_EXIT_OK, NULL);
    expect_state(b.root, dir, b.allowed, KG_EXIT_OK, "good");
    free(dir);
    tear_down(&b);
}

static void wrong_calls(struct kg_record *rec, const void *arg) {
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root), *nothing = kg_path_join(b.keys, "nothing");
    kg_verb_refuses(b.root, ARGS("sign", dir), KG_EXIT_USAGE, "--key");
    kg_verb_refuses(b.root, ARGS("sign", "--key", b.key), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(b.root, ARGS("sign", dir, "--key", nothing), KG_EXIT_USAGE, nothing);
    kg_verb_refuses(b.root, ARGS("sign", dir, "--key", b.allowed), KG_EXIT_USAGE, "cannot sign");
    kg_verb_refuses(b.root, ARGS("verify", dir, "--allowed-signers", nothing), KG_EXIT_USAGE, nothing);
    kg_verb_refuses(b.root, ARGS("verify", dir, "--require-signature"), KG_EXIT_USAGE, "--allowed-signers");
    kg_maker_replace(dir, "data/report.md", "Run", "Rum"); /* nobody vouches for what does not verify */
    kg_verb_refuses(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_INTEGRITY, "changed");
    expect_state(b.root, dir, NULL, KG_EXIT_INTEGRITY, "unsigned");
    free(nothing);
    free(dir);
    tear_down(&b);
}

/* Ways to tamper with a signed bundle `dir`; each must be seen with the list of allowed signers, and some without. */
static void flip_signature(const struct bench *b, const char *dir) {
    char *path = kg_path_join(dir, "tagmanifest-sha256.txt.sig"), *text;
    size_t size_bytes;
    struct kg_error err;
    (void)b;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    char *last_line = strstr(text, "\n-----END") - 12;
    *last_line = *last_line == 'A' ? 'B' : 'A';
    EXPECT_OK(kg_file_write(path, text, size_bytes, &err), err);
    free(text);
    free(path);
}

static void change_and_rehash(const struct bench *b, const char *dir) {
    (void)b;
    kg_maker_replace(dir, "data/env.json", "\"", " \"");
    kg_maker_rehash(dir); /* the bag is sound again; only the signature shows it */
}

static void put_signature_for(const char *dir, const char *key, const char *purpose, const char *over) {
    struct kg_buffer signature = KG_BUFFER_INIT;
    struct kg_error err;
    char *path = kg_path_join(dir, "tagmanifest-sha256.txt.sig");
    EXPECT_OK(kg_sign_file(key, purpose, over, &signature, &err), err);
    EXPECT_OK(kg_file_write(path, signature.data, signature.len, &err), err);
    kg_buffer_free(&signature);
    free(path);
}

static void other_purpose(const struct bench *b, const char *dir) {
    char *tags = kg_path_join(dir, "tagmanifest-sha256.txt");
    put_signature_for(dir, b->key, "file", tags);
    free(tags);
}

static void other_file(const struct bench *b, const char *dir) {
    char *manifest = kg_path_join(dir, "manifest-sha256.txt");
    put_signature_for(dir, b->key, KG_SIGN_BUNDLE, manifest);
    free(manifest);
}

static void other_key(const struct bench *b, const char *dir) {
    char *tags = kg_path_join(dir, "tagmanifest-sha256.txt"), *key = kg_xasprintf("%s-other", b->key);
    put_signature_for(dir, key, KG_SIGN_BUNDLE, tags);
    free(key);
    free(tags);
}

static void garbage(const struct bench *b, const char *dir) {
    char *path = kg_path_join(dir, "tagmanifest-sha256.txt.sig");
    static const char TEXT[] = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n";
    struct kg_error err;
    (void)b;
    EXPECT_OK(kg_file_write(path, TEXT, strlen(TEXT), &err), err);
    free(path);
}

static const struct tampering {
    const char *name;
    void (*tamper)(const struct bench *b, const char *dir);
    const char *state; /* with the list of allowed signers */
    int alone;         /* exit code of verify without it */
} TAMPERINGS[] = {
    { "flipped_signature", flip_signature, "bad", KG_EXIT_INTEGRITY },
    { "changed_and_rehashed", change_and_rehash, "bad", KG_EXIT_INTEGRITY },
    { "signature_for_another_purpose", other_purpose, "bad", KG_EXIT_INTEGRITY },
    { "signature_of_another_file", other_file, "bad", KG_EXIT_INTEGRITY },
    { "signature_by_another_key", other_key, "untrusted", KG_EXIT_OK },
    { "garbage_in_armor", garbage, "bad", KG_EXIT_INTEGRITY },
};

static void tampered(struct kg_record *rec, const void *arg) {
    const struct tampering *row = arg;
    struct bench b;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root), *other = kg_verb_key(rec, b.keys, "ci-other");
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    row->tamper(&b, dir);
    expect_state(b.root, dir, b.allowed, KG_EXIT_INTEGRITY, row->state);
    kg_verb_expect(b.root, ARGS("verify", dir), row->alone, NULL);
    free(other);
    free(dir);
    tear_down(&b);
}

/* A list may say for how long a key counts. */
static void key_with_time_limits(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *options, *state;
        int exit_code;
    } ROWS[] = {
        { "ci@example.org valid-before=\"20200101\"", "untrusted", KG_EXIT_INTEGRITY },
        { "ci@example.org valid-after=\"20200101\"", "good", KG_EXIT_OK },
        { "ci@example.org namespaces=\"git\"", "untrusted", KG_EXIT_INTEGRITY },
        { "a@example.org,b@example.org", "good", KG_EXIT_OK },
    };
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root);
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *allowed = kg_verb_allowed(b.keys, "limits", ROWS[i].options, b.key);
        expect_state(b.root, dir, allowed, ROWS[i].exit_code, ROWS[i].state);
        free(allowed);
    }
    free(dir);
    tear_down(&b);
}

static void index_learns_of_signatures(struct kg_record *rec, const void *arg) {
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root);
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    char *live = kg_maker_dump(b.root);
    kg_verb_expect(b.root, ARGS("reindex"), KG_EXIT_OK, NULL);
    char *rebuilt = kg_maker_dump(b.root);
    kg_maker_expect_same(live, rebuilt);
    free(rebuilt);
    free(live);
    free(dir);
    tear_down(&b);
}

/* A machine without ssh-keygen can still check the bytes, and says that it did not check the signature. */
static void without_ssh_keygen(struct kg_record *rec, const void *arg) {
    static const char *const ENV[] = { "PATH=/nowhere", NULL };
    struct bench b;
    struct kg_error err;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root);
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    const struct {
        const char *const *words;
        int exit_code;
        const char *says;
    } rows[] = {
        { ARGS(kg_program_path(), "verify", dir, "--bundles", b.root), KG_EXIT_OK, "not checked" },
        { ARGS(kg_program_path(), "verify", dir, "--allowed-signers", b.allowed), KG_EXIT_USAGE,
          "cannot run ssh-keygen" },
        { ARGS(kg_program_path(), "sign", dir, "--again", "--key", b.key), KG_EXIT_USAGE, "cannot run ssh-keygen" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        struct kg_process_result r;
        const struct kg_process process = { .argv = rows[i].words, .env = ENV };
        EXPECT_OK(kg_process_run(&process, &r, &err), err);
        ck_assert_msg(r.exit_code == rows[i].exit_code, "row %zu: %d %s%s", i, r.exit_code, r.out, r.err);
        ck_assert_msg(strstr(r.out, rows[i].says) || strstr(r.err, rows[i].says), "row %zu: %s%s", i, r.out, r.err);
        kg_process_result_free(&r);
    }
    free(dir);
    tear_down(&b);
}

static void check_signs(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    struct kg_process_result r;
    (void)arg;
    kg_lab_open(&lab, rec);
    char *key = kg_verb_key(rec, lab.dir, "ci");
    if (!key) return kg_lab_close(&lab);
    char *allowed = kg_verb_allowed(lab.dir, "allowed", "ci@example.org", key);
    kg_lab_add(&lab, "test_green", "test_green");
    kg_lab_check(&lab, ARGS("--quiet", "--sign", allowed), &r); /* no key: refused before anything runs */
    kg_lab_expect_exit(&r, KG_EXIT_USAGE, NULL);
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("--quiet", "--sign", key), &r);
    kg_lab_expect_exit(&r, KG_EXIT_OK, NULL);
    char *bundle = kg_lab_bundle(&lab);
    expect_state(lab.bundles, bundle, allowed, KG_EXIT_OK, "good");
    free(bundle);
    free(allowed);
    free(key);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* A key that is lost while a run is under way costs the signature, not the run; the caller gets the error. */
static void key_lost_before_the_seal(struct kg_record *rec, const void *arg) {
    const struct kg_bundle_options options = { .root = kg_scratch_dir(rec), .seed = 7, .sign_key = "/nowhere/key" };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    json_t *line = kg_maker_plan_line(0);
    (void)arg;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    ck_assert(summary.unsigned_after_all);
    ck_assert_msg(strstr(summary.note, "not signed") && strstr(summary.note, "/nowhere/key"), "%s", summary.note);
    kg_lab_expect_verified(kg_bundle_dir(bundle));
    json_decref(line);
    kg_bundle_close(bundle);
}

/* How many links hold, and that there is a finding of that kind (NULL: none at all). */
static void expect_chain(const char *root, int64_t n_links, const char *finding) {
    json_t *answer = kg_verb_json(root, ARGS("verify", "--chain"), finding ? KG_EXIT_INTEGRITY : KG_EXIT_OK);
    const json_t *chain = json_object_get(answer, "chain");
    ck_assert_int_eq(kg_verb_integer(chain, "n_links"), n_links);
    const json_t *findings = json_object_get(chain, "findings"), *item;
    size_t i, n_found = 0;
    json_array_foreach(findings, i, item) {
        n_found += finding && strcmp(json_string_value(json_object_get(item, "what")), finding) == 0;
    }
    char *text = json_dumps(findings, 0);
    ck_assert_msg(finding ? n_found > 0 : json_array_size(findings) == 0, "the chain says %s", text);
    free(text);
    json_decref(answer);
}

static void remove_dir(const char *dir) {
    struct kg_error err;
    EXPECT_OK(kg_path_remove(dir, &err), err);
}

static void chain_of_runs(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    expect_chain(root, 0, NULL);
    for (size_t i = 0; i < 3; i++) free(kg_verb_seal(root));
    expect_chain(root, 3, NULL); /* two between bundles, one of .chain */
    kg_verb_expect(root, ARGS("verify", "--chain", "--all"), KG_EXIT_OK, NULL);
    kg_verb_refuses(root, ARGS("verify", "--chain", "latest"), KG_EXIT_USAGE, "--chain");
}

static void removed_run_shows(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t gone = 0; gone < 3; gone++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), gone), *dirs[3];
        for (size_t i = 0; i < 3; i++) dirs[i] = kg_verb_seal(root);
        remove_dir(dirs[gone]);
        /* The first is named by the second; the last by .chain alone. A bundle that is gone holds no link.
         */
        expect_chain(root, gone == 0 ? 2 : 1, "removed");
        free(kg_verb_seal(root)); /* and later runs do not cover it up */
        expect_chain(root, gone == 0 ? 3 : 2, "removed");
        for (size_t i = 0; i < 3; i++) free(dirs[i]);
        free(root);
    }
}

static void expect_gone(const char *root, const char *dir, int exit_code) {
    const char *id = strrchr(dir, '/') + 1;
    if (exit_code == KG_EXIT_OK) kg_verb_expect(root, ARGS("verify", "--chain"), exit_code, NULL);
    else kg_verb_refuses(root, ARGS("verify", "--chain"), exit_code, id);
}

/* The folder of a run that was sealed and not published yet is no gap. One in its place that does not hold it whole
 * hides none. */
static void removed_run_behind_an_unfinished_one(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_error err;
    char *dirs[3];
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(dirs); i++) dirs[i] = kg_verb_seal(root);
    char *unfinished = kg_xasprintf("%s/.tmp-%s", root, strrchr(dirs[1], '/') + 1),
         *results = kg_path_join(unfinished, "data/results.ndjson");
    EXPECT_OK(kg_path_rename_new(dirs[1], unfinished, &err), err);
    expect_gone(root, dirs[1], KG_EXIT_OK);
    ck_assert_int_eq(unlink(results), 0); /* its tag manifest has the right hash still */
    expect_gone(root, dirs[1], KG_EXIT_INTEGRITY);
    remove_dir(unfinished);
    expect_gone(root, dirs[1], KG_EXIT_INTEGRITY);
    EXPECT_OK(kg_dir_make(unfinished, &err), err);
    expect_gone(root, dirs[1], KG_EXIT_INTEGRITY);
    for (size_t i = 0; i < KG_COUNT_OF(dirs); i++) free(dirs[i]);
    free(results);
    free(unfinished);
}

/* A signed run that died before it was published, and is made again since another became the last link meanwhile: what
 * was signed is no more. */
static void signed_run_that_is_made_again(struct kg_record *rec, const void *arg) {
    struct bench b;
    struct kg_error err;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *first = kg_verb_seal(b.root), *died = kg_verb_seal(b.root);
    char *unfinished = kg_xasprintf("%s/.tmp-%s", b.root, strrchr(died, '/') + 1);
    struct kg_chain_link last = { "", "" };
    snprintf(last.id, sizeof last.id, "%s", strrchr(first, '/') + 1);
    char *tags = kg_path_join(first, "tagmanifest-sha256.txt");
    EXPECT_OK(kg_sha256_file(tags, last.sha256, &err), err);
    kg_verb_expect(b.root, ARGS("sign", died, "--key", b.key), KG_EXIT_OK, NULL);
    EXPECT_OK(kg_path_rename_new(died, unfinished, &err), err);
    EXPECT_OK(kg_chain_advance(b.root, &last, &err), err);
    free(kg_verb_seal(b.root));
    kg_verb_expect(b.root, ARGS("recover"), KG_EXIT_OK, NULL);
    expect_state(b.root, died, b.allowed, KG_EXIT_OK, "unsigned");
    kg_verb_expect(b.root, ARGS("verify", "--chain"), KG_EXIT_OK, NULL);
    free(tags);
    free(unfinished);
    free(died);
    free(first);
    tear_down(&b);
}

/* A program that checks and is killed has not said that a signature, or its time stamp, is bad. */
static void checker_that_is_killed(struct kg_record *rec, const void *arg) {
    static const char KILLED[] = "#!/bin/sh\nkill -9 $$\n";
    static const char *const PROGRAMS[] = { "ssh-keygen", "openssl" };
    struct bench b;
    struct kg_error err;
    struct kg_signature signature;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root), *stamp = kg_path_join(dir, KG_TIMESTAMP_FILE);
    const struct kg_trust trust = { .timestamp_ca = b.allowed }, no_ca = { .timestamp_ca = stamp };
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    kg_must_fail(kg_signature_check(dir, &no_ca, &signature, &err), KG_ERR_NOT_FOUND, &err, "certificates for time",
                 stamp, NULL); /* a list that is not there is said, stamp or none */
    EXPECT_OK(kg_file_write(stamp, "x", 1, &err), err);
    const enum kg_status whole = kg_signature_check(dir, &trust, &signature, &err);
    if (whole != KG_ERR_NOT_FOUND) { /* there is an openssl */
        ck_assert_msg(whole == KG_OK, "%s", err.message);
        ck_assert_str_eq(kg_signature_state_name(signature.state), "bad"); /* the stamp is none */
    }
    char *before = kg_xstrdup(getenv("PATH"));
    for (size_t i = 0; i < KG_COUNT_OF(PROGRAMS); i++) {
        char *bin = kg_path_join(b.keys, PROGRAMS[i]), *program = kg_path_join(bin, PROGRAMS[i]),
             *path = kg_xasprintf("%s:%s", bin, before);
        EXPECT_OK(kg_dir_make(bin, &err), err);
        EXPECT_OK(kg_file_write(program, KILLED, strlen(KILLED), &err), err);
        ck_assert_int_eq(chmod(program, 0755), 0);
        setenv("PATH", path, 1);
        const enum kg_status status = kg_signature_check(dir, &trust, &signature, &err);
        setenv("PATH", before, 1);
        kg_must_fail(status, KG_ERR_IO, &err, PROGRAMS[i], NULL);
        free(path);
        free(program);
        free(bin);
    }
    free(before);
    free(stamp);
    free(dir);
    tear_down(&b);
}

static void call_imported(const char *root, const char *dir) {
    char *imports = kg_path_join(root, "imports"), *tags = kg_path_join(dir, "tagmanifest-sha256.txt");
    char hex[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    EXPECT_OK(kg_dir_make(imports, &err), err);
    EXPECT_OK(kg_sha256_file(tags, hex, &err), err);
    char *path = kg_xasprintf("%s/%s.json", imports, strrchr(dir, '/') + 1);
    char *fact = kg_xasprintf("{\"tagmanifest_sha256\": \"%s\"}", hex);
    EXPECT_OK(kg_file_write(path, fact, strlen(fact), &err), err);
    free(fact);
    free(path);
    free(tags);
    free(imports);
}

/* Calling the bundle after the gap imported hides nothing: others of this root name it. */
static void forged_import(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t forged = 1; forged < 3; forged++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), forged), *dirs[3];
        for (size_t i = 0; i < 3; i++) dirs[i] = kg_verb_seal(root);
        remove_dir(dirs[0]);
        for (size_t i = 1; i <= forged; i++) call_imported(root, dirs[i]);
        expect_chain(root, 2, "removed");
        for (size_t i = 0; i < 3; i++) free(dirs[i]);
        free(root);
    }
}

static void run_that_was_made_again(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    char *first = kg_verb_seal(root), *second = kg_verb_seal(root);
    change_and_rehash(NULL, first);
    kg_verb_expect(root, ARGS("verify", "--all"), KG_EXIT_OK, NULL); /* by itself it is sound */
    expect_chain(root, 1, "replaced");
    free(second);
    free(first);
}

/* Whoever takes a link out of a bag-info must hash again, and what named that bundle gives it away. */
static void link_taken_out(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    char *first = kg_verb_seal(root), *second = kg_verb_seal(root), *third = kg_verb_seal(root);
    remove_dir(first);
    kg_maker_replace(second, "bag-info.txt", KG_CHAIN_LABEL ": 2", KG_CHAIN_LABEL ": x 2");
    kg_maker_rehash(second);
    kg_verb_refuses(root, ARGS("verify", second), KG_EXIT_INTEGRITY, KG_CHAIN_LABEL);
    expect_chain(root, 1, "format");
    free(third);
    free(second);
    free(first);
}

static void lost_chain_file(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    static const char *const CONTENTS[] = { NULL, "", "20261120T000000Z-x-12345678", "x\n", "none\n" };
    char *path = kg_path_join(root, ".chain");
    struct kg_error err;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CONTENTS); i++) {
        free(kg_verb_seal(root));
        if (CONTENTS[i]) EXPECT_OK(kg_file_write(path, CONTENTS[i], strlen(CONTENTS[i]), &err), err);
        else remove_dir(path);
    }
    expect_chain(root, KG_COUNT_OF(CONTENTS) - 1, "head"); /* each took the bundle sealed last for its predecessor */
    remove_dir(path);
    expect_chain(root, KG_COUNT_OF(CONTENTS) - 1, NULL);
    free(path);
}

/* A bundle of another root's chain is nobody's predecessor, though it was sealed last. */
static void imported_is_no_predecessor(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *own = kg_verb_seal(root), *imported = kg_verb_seal(root), *head = kg_path_join(root, ".chain");
    struct kg_error err;
    (void)arg;
    call_imported(root, imported);
    remove_dir(head);
    char *next = kg_verb_seal(root), *info = kg_path_join(next, "bag-info.txt"), *text;
    size_t len;
    EXPECT_OK(kg_file_read(info, &text, &len, &err), err);
    char *line = kg_xasprintf(KG_CHAIN_LABEL ": %s ", strrchr(own, '/') + 1);
    ck_assert_msg(strstr(text, line) != NULL, "no '%s' in %s", line, text);
    free(line);
    free(text);
    free(info);
    free(next);
    free(head);
    free(imported);
    free(own);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "trust", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(without_ssh_keygen),
    CASE(forged_import),
    CASE(imported_is_no_predecessor),
    CASE(key_lost_before_the_seal),
    CASE(signed_bundle),
    CASE(wrong_calls),
    CASE(key_with_time_limits),
    CASE(index_learns_of_signatures),
    CASE(check_signs),
    CASE(chain_of_runs),
    CASE(removed_run_shows),
    CASE(run_that_was_made_again),
    CASE(link_taken_out),
    CASE(lost_chain_file),
    CASE(removed_run_behind_an_unfinished_one),
    CASE(signed_run_that_is_made_again),
    CASE(checker_that_is_killed),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(TAMPERINGS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "trust",
                                                  .name = TAMPERINGS[i].name,
                                                  .run = tampered,
                                                  .arg = &TAMPERINGS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
