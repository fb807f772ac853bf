/* When a bundle was signed, whose key has run out or was revoked, and bundles that had to be signed. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/sign.h"
#include "bundle/timestamp.h"
#include "suites/harness/must.h"
#include "suites/integration/copied_tree.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bench {
    char *keys, *root, *key;
};

static bool set_up(struct bench *b, struct kg_record *rec) {
    struct kg_error err;
    b->keys = kg_path_join(kg_scratch_dir(rec), "keys");
    b->root = kg_path_join(kg_scratch_dir(rec), "bundles");
    kg_must(kg_dir_make(b->keys, &err), &err);
    b->key = kg_verb_key(rec, b->keys, "ci");
    if (b->key) return true;
    free(b->root);
    free(b->keys);
    return false;
}

static void tear_down(struct bench *b) {
    free(b->key);
    free(b->root);
    free(b->keys);
}

static void expect_signature(const char *dir, const struct kg_trust *trust, enum kg_signature_state state,
                             const char *why) {
    struct kg_signature signature;
    struct kg_error err;
    kg_must(kg_signature_check(dir, trust, &signature, &err), &err);
    ck_assert_msg(signature.state == state && strstr(signature.why, why), "%s: %s",
                  kg_signature_state_name(signature.state), signature.why);
}

/* Sealed in 2023 by hand and signed with a key that ran out in 2024: nothing proves that the key was good then. */
static void backdated_to_when_the_key_was_good(struct kg_record *rec, const void *arg) {
    struct bench b;
    struct kg_error err;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root);
    kg_maker_replace(dir, "data/summary.json", "\"sealed_us\": ", "\"sealed_us\": 1672531200000000, \"was\": ");
    kg_maker_replace(dir, "data/summary.json", "\"started_us\": ", "\"started_us\": 1672531100000000, \"is\": ");
    kg_maker_rehash(dir);
    kg_must(kg_bundle_put_signature(dir, b.key, &err), &err);
    char *before = kg_verb_allowed(b.keys, "run_out", "ci@example.org valid-before=\"20240101\"", b.key);
    char *after = kg_verb_allowed(b.keys, "later", "ci@example.org valid-after=\"20240101\"", b.key);
    const struct kg_trust run_out = { .allowed_signers = before }, later = { .allowed_signers = after };
    expect_signature(dir, &run_out, KG_SIGNATURE_UNPROVEN, "");
    expect_signature(dir, &later, KG_SIGNATURE_UNTRUSTED, "");
    kg_verb_refuses(b.root, ARGS("verify", dir, "--allowed-signers", run_out.allowed_signers, "--require-signature"),
                    KG_EXIT_INTEGRITY, "whose key has run out");
    kg_verb_refuses(b.root, ARGS("verify", dir), KG_EXIT_INTEGRITY, "its id names another time");
    free(after);
    free(before);
    free(dir);
    tear_down(&b);
}

/* A time-stamping authority of this case's own; `curl` is a program that asks it. False: no openssl. */
static bool open_authority(const struct bench *b, struct kg_record *rec) {
    static const char MAKE[] =
        "command -v openssl >/dev/null || exit 1; mkdir -p \"$1/bin\" && cd \"$1\" &&"
        "printf '%s\\n' '[tsa]' 'default_tsa = t' '[t]' 'serial = serial' 'signer_digest = sha256'"
        " 'default_policy = 1.2.3.4' 'digests = sha256' 'accuracy = secs:1' 'crypto_device = builtin' >ts.cnf &&"
        "echo 01 >serial &&"
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=tsa -days 2 -keyout tsa.key -out tsa.pem"
        " -addext extendedKeyUsage=critical,timeStamping -addext basicConstraints=critical,CA:false"
        " -addext keyUsage=critical,digitalSignature 2>/dev/null &&"
        "printf '%s\\n' '#!/bin/sh' 'for a; do case $a in @*) q=${a#@};; esac; done' \"cd '$1'\""
        " 'exec openssl ts -reply -config ts.cnf -queryfile \"$q\" -inkey tsa.key -signer tsa.pem' >bin/curl &&"
        "chmod +x bin/curl";
    const char *const words[] = { b->keys, "", "" };
    if (kg_shell(MAKE, words, NULL) == 0) return true;
    kg_record_skip(rec, "no openssl that makes a time-stamping authority");
    return false;
}

/* A key that runs out while we wait: what was stamped before stays good. */
static void time_stamp_proves_the_time(struct kg_record *rec, const void *arg) {
    struct bench b;
    struct kg_signature signature;
    struct kg_error err;
    char signer[96];
    (void)arg;
    if (!set_up(&b, rec)) return;
    if (!open_authority(&b, rec)) return tear_down(&b);
    char *path = kg_xasprintf("%s/bin:%s", b.keys, getenv("PATH")), *plain = kg_verb_seal(b.root),
         *stamped = kg_verb_seal(b.root), *later = kg_verb_seal(b.root), *ca = kg_path_join(b.keys, "tsa.pem"),
         *stamp = kg_path_join(stamped, KG_TIMESTAMP_FILE);
    setenv("PATH", path, 1);
    kg_verb_expect(b.root, ARGS("sign", plain, "--key", b.key), KG_EXIT_OK, NULL);
    setenv("KIGO_TIMESTAMP_URL", "http://tsa.invalid/", 1);
    kg_verb_expect(b.root, ARGS("sign", stamped, "--key", b.key), KG_EXIT_OK, NULL);
    kg_maker_replace(later, "data/summary.json", "\"sealed_us\": ", "\"sealed_us\": 4102444800000000, \"was\": ");
    kg_maker_rehash(later);
    kg_must(kg_bundle_put_signature(later, b.key, &err), &err);
    unsetenv("KIGO_TIMESTAMP_URL");
    const time_t ends = time(NULL) + 2;
    struct tm local;
    localtime_r(&ends, &local);
    strftime(signer, sizeof signer, "ci@example.org valid-before=\"%Y%m%d%H%M%S\"", &local);
    char *allowed = kg_verb_allowed(b.keys, "short", signer, b.key);
    const struct kg_trust trust = { .allowed_signers = allowed, .timestamp_ca = ca };
    sleep(4);
    expect_signature(plain, &trust, KG_SIGNATURE_UNPROVEN, "");
    kg_must(kg_signature_check(stamped, &trust, &signature, &err), &err);
    ck_assert_msg(signature.state == KG_SIGNATURE_GOOD, "%s", signature.why);
    ck_assert_msg(llabs(signature.stamped_us / 1000000 - ends) <= 60, "%lld", (long long)signature.stamped_us);
    setenv("KIGO_TIMESTAMP_CA", ca, 1);
    char *said;
    kg_verb_expect(b.root, ARGS("verify", stamped, "--allowed-signers", trust.allowed_signers), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "time-stamped 20"), "%s", said);
    free(said);
    kg_verb_refuses(b.root, ARGS("verify", later, "--allowed-signers", trust.allowed_signers), KG_EXIT_INTEGRITY,
                    "sealed after its signature's time stamp");
    unsetenv("KIGO_TIMESTAMP_CA"); /* whom nobody trusts proves nothing */
    kg_verb_expect(b.root, ARGS("verify", stamped, "--allowed-signers", trust.allowed_signers), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "is not proven"), "%s", said);
    free(said);
    /* One for another signature, and one that is none. */
    char *other = kg_path_join(plain, KG_TIMESTAMP_FILE), *bytes;
    size_t size_bytes;
    kg_must(kg_file_read(stamp, &bytes, &size_bytes, &err), &err);
    kg_must(kg_file_write(other, bytes, size_bytes, &err), &err);
    kg_must(kg_file_write(stamp, "x", 1, &err), &err);
    expect_signature(plain, &trust, KG_SIGNATURE_BAD, "its time stamp");
    expect_signature(stamped, &trust, KG_SIGNATURE_BAD, "its time stamp");
    free(bytes);
    free(other);
    free(allowed);
    free(stamp);
    free(ca);
    free(later);
    free(stamped);
    free(plain);
    free(path);
    tear_down(&b);
}

/* No authority answers: the signature is there, and an error says so. */
static void no_authority_answers(struct kg_record *rec, const void *arg) {
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root);
    setenv("KIGO_TIMESTAMP_URL", "file:///nowhere", 1);
    kg_verb_refuses(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_INCOMPLETE, "no time stamp");
    unsetenv("KIGO_TIMESTAMP_URL");
    expect_signature(dir, NULL, KG_SIGNATURE_INTACT, "");
    free(dir);
    tear_down(&b);
}

static void revoked_key(struct kg_record *rec, const void *arg) {
    static const char REVOKE[] = "ssh-keygen -q -k -f \"$1\" \"$2.pub\"";
    struct bench b;
    (void)arg;
    if (!set_up(&b, rec)) return;
    char *dir = kg_verb_seal(b.root), *allowed = kg_verb_allowed(b.root, "allowed_signers", "ci@example.org", b.key);
    char *other = kg_verb_key(rec, b.keys, "other"), *list = kg_path_join(b.root, "revoked_keys");
    kg_verb_expect(b.root, ARGS("sign", dir, "--key", b.key), KG_EXIT_OK, NULL);
    kg_must_shell(REVOKE, (const char *const[]){ list, other, "" });
    kg_verb_expect(b.root, ARGS("verify", dir), KG_EXIT_OK, NULL);
    kg_must_shell(REVOKE, (const char *const[]){ list, b.key, "" });
    kg_verb_refuses(b.root, ARGS("verify", dir), KG_EXIT_INTEGRITY, "revoked");
    free(list);
    free(other);
    free(allowed);
    free(dir);
    tear_down(&b);
}

/* The run had a key to sign with; whoever takes its signature away leaves no bundle that is simply unsigned. */
static void signature_taken_away(struct kg_record *rec, const void *arg) {
    struct bench b;
    struct kg_error err;
    (void)arg;
    if (!set_up(&b, rec)) return;
    const struct kg_bundle_options options = { .root = b.root, .seed = 7, .sign_key = b.key };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    json_t *line = kg_maker_plan_line(0);
    kg_must(kg_bundle_create(&options, &bundle, &err), &err);
    kg_must(kg_bundle_plan(bundle, line, &err), &err);
    kg_must(kg_bundle_plan_done(bundle, &err), &err);
    kg_must(kg_maker_run(bundle, 0, "pass", &err), &err);
    kg_must(kg_bundle_seal(bundle, NULL, &summary, &err), &err);
    char *signature = kg_path_join(kg_bundle_dir(bundle), "tagmanifest-sha256.txt.sig");
    kg_verb_expect(b.root, ARGS("verify", "--all"), KG_EXIT_OK, NULL);
    kg_must(kg_path_remove(signature, &err), &err);
    kg_verb_refuses(b.root, ARGS("verify", "--all"), KG_EXIT_INTEGRITY, "was to be signed");
    free(signature);
    json_decref(line);
    kg_bundle_close(bundle);
    tear_down(&b);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "signing_time", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(backdated_to_when_the_key_was_good),
    CASE(time_stamp_proves_the_time),
    CASE(no_authority_answers),
    CASE(revoked_key),
    CASE(signature_taken_away),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
