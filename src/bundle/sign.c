#include "bundle/sign.h"
#include "base/file.h"
#include "base/program.h"
#include "bundle/records.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char TAGS[] = "tagmanifest-sha256.txt", SIGNATURE[] = "tagmanifest-sha256.txt.sig";
enum { MAX_SIGNATURE_BYTES = 64 << 10, MAX_ARGS = 16 };

const char *kg_signature_state_name(enum kg_signature_state state) {
    static const char *const NAMES[] = { "unsigned", "intact", "good", "untrusted", "unchecked", "bad" };
    return NAMES[state];
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
    return kg_program_run(&program, result, err);
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

/* Written beside the bundle's folder, where a file left by a kill makes no bundle bad, and renamed into it. */
static enum kg_status put_beside(const char *dir, const struct kg_buffer *signature, struct kg_error *err) {
    char *real = realpath(dir, NULL);
    if (!real) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: %s", dir, strerror(errno));
    char *slash = strrchr(real, '/'), *to = kg_path_join(real, SIGNATURE);
    char *draft = kg_xasprintf("%.*s/.sig-%s", (int)(slash - real), real, slash + 1);
    enum kg_status status = kg_file_write(draft, signature->data, signature->len, err);
    if (status == KG_OK && rename(draft, to) != 0) {
        status = kg_fail(err, KG_ERR_IO, "cannot rename to %s: %s", to, strerror(errno));
        unlink(draft);
    }
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
    if (status == KG_OK) status = put_beside(dir, &signature, err);
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

struct check {
    char *tags, *signature; /* paths: of what is signed, of the signature */
    const char *purpose;
    const char *allowed_signers; /* NULL: none */
    char when[64];               /* "-Overify-time=YYYYMMDDHHMMSS", or "" */
};

/* Words that end with the verification time where there is one. */
static enum kg_status ask(const struct check *check, const char *const *args, struct kg_program_result *result,
                          struct kg_error *err) {
    const char *all[MAX_ARGS] = { NULL };
    size_t n = 0;
    for (; args[n]; n++) all[n] = args[n];
    if (check->when[0]) all[n] = check->when;
    return keygen(all, check->tags, result, err);
}

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
    } else if (status == KG_ERR_NOT_FOUND && !check->allowed_signers) {
        signature->state = KG_SIGNATURE_UNCHECKED;
        snprintf(signature->why, sizeof signature->why, "there is no ssh-keygen to check it with");
        status = KG_OK;
    }
    kg_program_result_free(&result);
    return status;
}

/* One of the names that the list has for the key. */
static enum kg_status check_signer(const struct check *check, const char *signer, struct kg_signature *signature,
                                   struct kg_error *err) {
    struct kg_program_result result = { 0 };
    const enum kg_status status = ask(check,
                                      (const char *const[]){ "verify", "-f", check->allowed_signers, "-I", signer, "-n",
                                                             check->purpose, "-s", check->signature, NULL },
                                      &result, err);
    if (status == KG_OK && result.exit_code == 0) {
        signature->state = KG_SIGNATURE_GOOD;
        snprintf(signature->signer, sizeof signature->signer, "%s", signer);
    } else if (status == KG_OK) {
        set_why(signature, &result);
    }
    kg_program_result_free(&result);
    return status;
}

static enum kg_status check_allowed(const struct check *check, struct kg_signature *signature, struct kg_error *err) {
    struct kg_program_result result = { 0 };
    enum kg_status status = ask(
        check, (const char *const[]){ "find-principals", "-f", check->allowed_signers, "-s", check->signature, NULL },
        &result, err);
    signature->state = KG_SIGNATURE_UNTRUSTED;
    if (status == KG_OK && result.exit_code != 0) set_why(signature, &result);
    char *names = kg_xstrdup(kg_buffer_text(&result.out)), *rest = names;
    const bool found = result.exit_code == 0;
    kg_program_result_free(&result);
    for (char *name; status == KG_OK && found && signature->state != KG_SIGNATURE_GOOD && (name = strsep(&rest, "\n"));)
        if (*name) status = check_signer(check, name, signature, err);
    free(names);
    return status;
}

/* The second in which the bundle was sealed in ssh-keygen's form, local time (older ones know no other); "" if the
 * bundle does not say. */
static void sealing_time(const char *dir, char when[64]) {
    json_t *summary = NULL;
    int64_t sealed_us = 0;
    if (kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) == KG_OK)
        sealed_us = kg_json_int(summary, "sealed_us", 0);
    json_decref(summary);
    when[0] = '\0';
    if (sealed_us <= 0) return;
    const time_t sealed_s = (time_t)(sealed_us / 1000000);
    struct tm local;
    if (localtime_r(&sealed_s, &local)) strftime(when, 64, "-Overify-time=%Y%m%d%H%M%S", &local);
}

static enum kg_status check_and_free(struct check *check, struct kg_signature *signature, struct kg_error *err) {
    const char *allowed_signers = check->allowed_signers;
    enum kg_status status = KG_OK;
    *signature = (struct kg_signature){ .state = KG_SIGNATURE_NONE };
    if (allowed_signers && access(allowed_signers, R_OK) != 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "allowed signers %s: %s", allowed_signers, strerror(errno));
    if (status == KG_OK && kg_path_exists(check->signature)) status = check_intact(check, signature, err);
    if (status == KG_OK && signature->state == KG_SIGNATURE_INTACT && allowed_signers)
        status = check_allowed(check, signature, err);
    free(check->tags);
    free(check->signature);
    return status;
}

enum kg_status kg_signature_check(const char *dir, const char *allowed_signers, struct kg_signature *signature,
                                  struct kg_error *err) {
    struct check check = { kg_path_join(dir, TAGS), kg_path_join(dir, SIGNATURE), KG_SIGN_BUNDLE, allowed_signers, "" };
    sealing_time(dir, check.when);
    return check_and_free(&check, signature, err);
}

enum kg_status kg_signature_check_file(const char *path, const char *purpose, const char *allowed_signers,
                                       struct kg_signature *signature, struct kg_error *err) {
    struct check check = { kg_xstrdup(path), kg_xasprintf("%s.sig", path), purpose, allowed_signers, "" };
    return check_and_free(&check, signature, err);
}
