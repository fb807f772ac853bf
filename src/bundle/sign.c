#include "bundle/sign.h"
#include "base/beneath.h"
#include "base/program.h"
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include "bundle/timestamp.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char TAGS[] = "tagmanifest-sha256.txt", SIGNATURE[] = "tagmanifest-sha256.txt.sig";
enum { MAX_SIGNATURE_BYTES = 64 << 10, MAX_ARGS = 16 };

const char *kg_signature_state_name(enum kg_signature_state state) {
    static const char *const NAMES[] = { "unsigned", "intact", "good", "unproven", "untrusted", "unchecked", "bad" };
    return NAMES[state];
}

bool kg_signature_is_wrong(const struct kg_signature *signature) {
    return signature->state == KG_SIGNATURE_BAD || signature->state == KG_SIGNATURE_UNTRUSTED;
}

/* `ssh-keygen -Y <args>` with a file as its input. Its messages in the language they are written in. */
static enum kg_status keygen(const char *const *args, const char *input_path, struct kg_program_result *result,
                             struct kg_error *err) {
    static const char *const WITHOUT[] = { "LC_ALL=", NULL }, *const ENV[] = { "LC_ALL=C", NULL };
    const char *argv[MAX_ARGS + 3] = { "ssh-keygen", "-Y" };
    for (size_t i = 0; i < MAX_ARGS && args[i]; i++) argv[i + 2] = args[i];
    const struct kg_program program = {
        .argv = argv, .without = WITHOUT, .env = ENV, .input_path = input_path, .max_out_bytes = MAX_SIGNATURE_BYTES
    };
    const enum kg_status status = kg_program_run(&program, result, err);
    if (status != KG_OK || result->exit_code >= 0) return status;
    return kg_fail(err, KG_ERR_IO, "ssh-keygen -Y %s was ended by a signal", args[0]); /* which says nothing of a key */
}

enum kg_status kg_sign_file(const char *key, const char *purpose, const char *path, struct kg_buffer *signature,
                            struct kg_error *err) {
    struct kg_program_result result = { 0 };
    if (access(key, R_OK) != 0) return kg_fail(err, KG_ERR_USAGE, "key %s: %s", key, strerror(errno));
    enum kg_status status =
        keygen((const char *const[]){ "sign", "-q", "-f", key, "-n", purpose, NULL }, path, &result, err);
    if (status == KG_OK && (result.exit_code != 0 || result.out.len == 0)) {
        char *why = kg_program_complaint(&result);
        status = kg_fail(err, KG_ERR_USAGE, "ssh-keygen cannot sign with %s: %s", key, why);
        free(why);
    }
    if (status == KG_OK) kg_buffer_append(signature, result.out.data, result.out.len);
    kg_program_result_free(&result);
    return status;
}

enum kg_status kg_sign_try(const char *key, struct kg_error *err) {
    struct kg_buffer signature = KG_BUFFER_INIT;
    const enum kg_status status = kg_sign_file(key, KG_SIGN_BUNDLE, "/dev/null", &signature, err);
    kg_buffer_free(&signature);
    return status;
}

enum kg_status kg_sign_beside(const char *key, const char *purpose, const char *path, struct kg_error *err) {
    struct kg_buffer signature = KG_BUFFER_INIT;
    char *to = kg_xasprintf("%s.sig", path);
    enum kg_status status = kg_sign_file(key, purpose, path, &signature, err);
    if (status == KG_OK) status = kg_file_write(to, signature.data, signature.len, err);
    kg_buffer_free(&signature);
    free(to);
    return status;
}

/* Written beside the bundle's folder, where a file left by a kill makes no bundle bad, and renamed into it. */
static enum kg_status put_beside(const char *dir, const struct kg_buffer *signature, struct kg_error *err) {
    char *real = realpath(dir, NULL);
    if (!real) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: %s", dir, strerror(errno));
    char *slash = strrchr(real, '/'), *to = kg_path_join(real, SIGNATURE);
    char *draft = kg_xasprintf("%.*s/.sig-%s", (int)(slash - real), real, slash + 1);
    enum kg_status status = kg_file_write(draft, signature->data, signature->len, err);
    if (status == KG_OK && rename(draft, to) != 0)
        status = kg_fail(err, KG_ERR_IO, "cannot rename to %s: %s", to, strerror(errno));
    if (status != KG_OK) unlink(draft); /* whole or not: where only the sync of its folder failed, it is there */
    if (status == KG_OK) status = kg_dir_sync(real, err);
    free(draft);
    free(to);
    free(real);
    return status;
}

enum kg_status kg_bundle_put_signature(const char *dir, const char *key, struct kg_error *err) {
    struct kg_buffer signature = KG_BUFFER_INIT;
    char *tags = kg_path_join(dir, TAGS);
    enum kg_status status = kg_sign_file(key, KG_SIGN_BUNDLE, tags, &signature, err);
    if (status == KG_OK) status = kg_timestamp_remove(dir, err); /* it is of another signature */
    if (status == KG_OK) status = put_beside(dir, &signature, err);
    if (status == KG_OK) status = kg_timestamp_put(dir, getenv("KIGO_TIMESTAMP_URL"), err);
    free(tags);
    kg_buffer_free(&signature);
    return status;
}

enum kg_status kg_bundle_sign(const char *dir, const char *key, bool again, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *there = kg_path_join(dir, SIGNATURE);
    const bool is_signed = kg_path_exists(there);
    free(there);
    if (is_signed && !again) return kg_fail(err, KG_ERR_EXISTS, "%s is signed already", dir);
    enum kg_status status = kg_bundle_verify(dir, &findings, err);
    kg_bundle_findings_free(&findings);
    return status == KG_OK ? kg_bundle_put_signature(dir, key, err) : status;
}

bool kg_signature_was_required(const char *dir) {
    char *text = NULL;
    size_t size_bytes = 0;
    const bool required = kg_beneath_read(dir, "bag-info.txt", KG_MAX_INFO_BYTES, &text, &size_bytes, NULL) == KG_OK &&
                          strstr(text, "\n" KG_SIGNATURE_LABEL ": required\n") != NULL;
    free(text);
    return required;
}

/* Copies the part of a text between two marks; "" where they are not. */
static void copy_between(const char *text, const char *from, const char *to, char *out, size_t out_size) {
    const char *begin = strstr(text, from);
    if (begin) begin += strlen(from);
    const char *end = begin ? strstr(begin, to) : NULL;
    snprintf(out, out_size, "%.*s", end ? (int)(end - begin) : 0, end ? begin : "");
}

static void set_why(struct kg_signature *signature, const struct kg_program_result *result) {
    char *why = kg_program_complaint(result);
    snprintf(signature->why, sizeof signature->why, "%s", *why ? why : "ssh-keygen does not say why");
    free(why);
}

/* ssh-keygen opens files by name, links and pipes too: both are looked at before it does. KG_ERR_NOT_FOUND: one of them
 * is not there. */
static enum kg_status check_kinds(const char *path, const char *signature, struct kg_error *err) {
    const char *const paths[] = { signature, path };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(paths) && status == KG_OK; i++) {
        const char *slash = strrchr(paths[i], '/');
        char *dir = slash ? kg_xstrndup(paths[i], (size_t)(slash - paths[i]) + 1) : kg_xstrdup(".");
        status = kg_beneath_check(dir, slash ? slash + 1 : paths[i], err);
        free(dir);
    }
    return status;
}

struct check {
    char *tags, *signature; /* paths: of what is signed, of the signature */
    const char *purpose;
    struct kg_trust trust;
};

/* Over these bytes, for this purpose, by the key that the signature holds. */
static enum kg_status check_intact(const struct check *check, struct kg_signature *signature, struct kg_error *err) {
    struct kg_program_result result = { 0 };
    enum kg_status status =
        keygen((const char *const[]){ "check-novalidate", "-n", check->purpose, "-s", check->signature, NULL },
               check->tags, &result, err);
    if (status == KG_OK) {
        const bool intact = result.exit_code == 0;
        signature->state = intact ? KG_SIGNATURE_INTACT : KG_SIGNATURE_BAD;
        if (intact)
            copy_between(kg_buffer_text(&result.out), " signature with ", "\n", signature->key, sizeof signature->key);
        else set_why(signature, &result);
    } else if (status == KG_ERR_NOT_FOUND && !check->trust.allowed_signers) {
        signature->state = KG_SIGNATURE_UNCHECKED;
        snprintf(signature->why, sizeof signature->why, "there is no ssh-keygen to check it with");
        status = KG_OK;
    }
    kg_program_result_free(&result);
    return status;
}

/* The second in ssh-keygen's form, local time (older ones know no other); "" for 0: the present time. */
static void verify_time(int64_t utc_us, char when[64]) {
    const time_t utc_s = (time_t)(utc_us / 1000000);
    struct tm local;
    when[0] = '\0';
    if (utc_us > 0 && localtime_r(&utc_s, &local)) strftime(when, 64, "-Overify-time=%Y%m%d%H%M%S", &local);
}

/* Whether one of the names that the list has for the key may sign this at that time. */
static enum kg_status check_signer(const struct check *check, const char *signer, int64_t utc_us, bool *good,
                                   struct kg_signature *signature, struct kg_error *err) {
    struct kg_program_result result = { 0 };
    const struct kg_trust *trust = &check->trust;
    char when[64];
    verify_time(utc_us, when);
    const char *args[MAX_ARGS] = { "verify",       "-f", trust->allowed_signers, "-I", signer, "-n",
                                   check->purpose, "-s", check->signature };
    size_t n = 9;
    if (trust->revoked_keys) {
        args[n++] = "-r";
        args[n++] = trust->revoked_keys;
    }
    if (when[0]) args[n] = when;
    enum kg_status status = keygen(args, check->tags, &result, err);
    *good = status == KG_OK && result.exit_code == 0;
    if (status == KG_OK && !*good) set_why(signature, &result);
    kg_program_result_free(&result);
    return status;
}

/* ssh-keygen does not say that it refuses a key for being revoked: without the list it would take it. */
static enum kg_status say_revoked(const struct check *check, const char *signer, int64_t utc_us,
                                  struct kg_signature *signature, struct kg_error *err) {
    struct check without = *check;
    bool good;
    if (!check->trust.revoked_keys) return KG_OK;
    without.trust.revoked_keys = NULL;
    const enum kg_status status = check_signer(&without, signer, utc_us, &good, signature, err);
    if (status == KG_OK && good) snprintf(signature->why, sizeof signature->why, "the key was revoked");
    return status;
}

/* Good now and when it says it was made; a proven time stands for both. */
static enum kg_status judge_signer(const struct check *check, const char *signer, int64_t said_us,
                                   struct kg_signature *signature, struct kg_error *err) {
    const int64_t made_us = signature->stamped_us ? signature->stamped_us : said_us;
    bool then, now = true;
    enum kg_status status = check_signer(check, signer, made_us, &then, signature, err);
    if (status == KG_OK && then && !signature->stamped_us && said_us)
        status = check_signer(check, signer, 0, &now, signature, err);
    if (status == KG_OK && !then) return say_revoked(check, signer, made_us, signature, err);
    if (status != KG_OK) return status;
    signature->state = now ? KG_SIGNATURE_GOOD : KG_SIGNATURE_UNPROVEN;
    if (now) signature->why[0] = '\0';
    snprintf(signature->signer, sizeof signature->signer, "%s", signer);
    return KG_OK;
}

/* The names that the list has for the key at that time; "" for none. malloc'ed. */
static enum kg_status find_names(const struct check *check, int64_t utc_us, char **names,
                                 struct kg_signature *signature, struct kg_error *err) {
    struct kg_program_result result = { 0 };
    char when[64];
    verify_time(utc_us, when);
    const char *const args[] = { "find-principals",     "-f", check->trust.allowed_signers, "-s", check->signature,
                                 when[0] ? when : NULL, NULL };
    const enum kg_status status = keygen(args, check->tags, &result, err);
    const bool found = status == KG_OK && result.exit_code == 0;
    if (status == KG_OK && !found) set_why(signature, &result);
    *names = kg_xstrdup(found ? kg_buffer_text(&result.out) : "");
    kg_program_result_free(&result);
    return status;
}

/* said_us: when the signed thing says that it was made, 0 where it does not say. */
static enum kg_status check_allowed(const struct check *check, int64_t said_us, struct kg_signature *signature,
                                    struct kg_error *err) {
    char *names = NULL, *rest;
    signature->state = KG_SIGNATURE_UNTRUSTED;
    enum kg_status status =
        find_names(check, signature->stamped_us ? signature->stamped_us : said_us, &names, signature, err);
    rest = names;
    for (char *name; status == KG_OK && signature->state != KG_SIGNATURE_GOOD && (name = strsep(&rest, "\n"));)
        if (*name) status = judge_signer(check, name, said_us, signature, err);
    free(names);
    return status;
}

static int64_t sealing_time(const char *dir) {
    json_t *summary = NULL;
    int64_t sealed_us = 0;
    if (kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) == KG_OK)
        sealed_us = kg_json_int(summary, "sealed_us", 0);
    json_decref(summary);
    return sealed_us > 0 ? sealed_us : 0;
}

/* A file that the reader named may be a link; a pipe or a device would stop ssh-keygen. */
static enum kg_status must_be_there(const char *what, const char *path, struct kg_error *err) {
    struct stat info;
    if (!path) return KG_OK;
    if (access(path, R_OK) != 0 || stat(path, &info) != 0)
        return kg_fail(err, KG_ERR_NOT_FOUND, "%s %s: %s", what, path, strerror(errno));
    return S_ISREG(info.st_mode) ? KG_OK : kg_fail(err, KG_ERR_FORMAT, "%s %s: not a regular file", what, path);
}

/* dir: of the bundle, NULL for a file, which has no time stamp and says no time. */
static enum kg_status check_and_free(struct check *check, const struct kg_trust *trust, const char *dir,
                                     struct kg_signature *signature, struct kg_error *err) {
    if (trust) check->trust = *trust;
    trust = &check->trust;
    *signature = (struct kg_signature){ .state = KG_SIGNATURE_NONE };
    enum kg_status status = must_be_there("allowed signers", trust->allowed_signers, err);
    if (status == KG_OK) status = must_be_there("revoked keys", trust->revoked_keys, err);
    if (status == KG_OK) status = must_be_there("certificates for time stamps", trust->timestamp_ca, err);
    struct kg_error why;
    const enum kg_status kinds = status == KG_OK ? check_kinds(check->tags, check->signature, &why) : status;
    if (kinds == KG_OK) {
        status = check_intact(check, signature, err);
    } else if (status == KG_OK && kinds == KG_ERR_FORMAT) {
        signature->state = KG_SIGNATURE_BAD;
        snprintf(signature->why, sizeof signature->why, "%.500s", why.message);
    } else if (status == KG_OK && kinds != KG_ERR_NOT_FOUND) {
        status = kg_fail(err, kinds, "%s", why.message);
    }
    if (status == KG_OK && signature->state == KG_SIGNATURE_INTACT && dir)
        status = kg_timestamp_check(dir, trust->timestamp_ca, signature, err);
    if (status == KG_OK && signature->state == KG_SIGNATURE_INTACT && trust->allowed_signers)
        status = check_allowed(check, dir ? sealing_time(dir) : 0, signature, err);
    free(check->tags);
    free(check->signature);
    return status;
}

enum kg_status kg_signature_check(const char *dir, const struct kg_trust *trust, struct kg_signature *signature,
                                  struct kg_error *err) {
    struct check check = { .tags = kg_path_join(dir, TAGS),
                           .signature = kg_path_join(dir, SIGNATURE),
                           .purpose = KG_SIGN_BUNDLE };
    return check_and_free(&check, trust, dir, signature, err);
}

enum kg_status kg_signature_check_file(const char *path, const char *purpose, const struct kg_trust *trust,
                                       struct kg_signature *signature, struct kg_error *err) {
    struct check check = { .tags = kg_xstrdup(path), .signature = kg_xasprintf("%s.sig", path), .purpose = purpose };
    return check_and_free(&check, trust, NULL, signature, err);
}
