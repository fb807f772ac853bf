#include "bundle/timestamp.h"
#include "base/beneath.h"
#include "base/program.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char SIGNATURE[] = "tagmanifest-sha256.txt.sig";
enum { MAX_ANSWER_BYTES = 256 << 10 };

/* Standard output of a program that must succeed, kept in `out`. *refused (may be NULL) is set where it ran and ended
 * with an exit code for an error: any other end says nothing of what it was asked about. */
static enum kg_status ask(const char *const *argv, struct kg_buffer *out, bool *refused, struct kg_error *err) {
    static const char *const WITHOUT[] = { "LC_ALL=", NULL }, *const ENV[] = { "LC_ALL=C", NULL };
    const struct kg_program program = {
        .argv = argv, .without = WITHOUT, .env = ENV, .max_out_bytes = MAX_ANSWER_BYTES
    };
    struct kg_program_result result = { 0 };
    enum kg_status status = kg_program_run(&program, &result, err);
    if (status == KG_OK && result.exit_code != 0) {
        char *why = kg_program_complaint(&result);
        status = kg_fail(err, KG_ERR_IO, "%s %s: %s", argv[0], argv[1], *why ? why : "failed, and does not say why");
        free(why);
        if (refused) *refused = result.exit_code > 0;
    }
    if (status == KG_OK) kg_buffer_append(out, result.out.data, result.out.len);
    kg_program_result_free(&result);
    return status;
}

enum kg_status kg_timestamp_remove(const char *dir, struct kg_error *err) {
    char *path = kg_path_join(dir, KG_TIMESTAMP_FILE);
    const enum kg_status status = kg_path_remove(path, err);
    free(path);
    return status;
}

/* The request is no secret and of use to nobody else: beside the bundle's folder, where it makes no bundle bad. */
static enum kg_status fetch(const char *signature, const char *request, const char *url, struct kg_buffer *answer,
                            struct kg_error *err) {
    char *data = kg_xasprintf("@%s", request);
    struct kg_buffer query = KG_BUFFER_INIT;
    enum kg_status status =
        ask((const char *const[]){ "openssl", "ts", "-query", "-data", signature, "-sha256", "-cert", NULL }, &query,
            NULL, err);
    if (status == KG_OK) status = kg_file_write(request, kg_buffer_text(&query), query.len, err);
    if (status == KG_OK)
        status = ask((const char *const[]){ "curl", "-sS", "--fail", "--max-time", "30", "-H",
                                            "Content-Type: application/timestamp-query", "--data-binary", data, "--",
                                            url, NULL },
                     answer, NULL, err);
    if (status == KG_OK && answer->len == 0) status = kg_fail(err, KG_ERR_IO, "%s answers with nothing", url);
    kg_buffer_free(&query);
    free(data);
    return status;
}

enum kg_status kg_timestamp_put(const char *dir, const char *url, struct kg_error *err) {
    struct kg_buffer answer = KG_BUFFER_INIT;
    if (!url || !*url) return KG_OK;
    char *real = realpath(dir, NULL);
    if (!real) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: %s", dir, strerror(errno));
    char *slash = strrchr(real, '/'), *signature = kg_path_join(real, SIGNATURE);
    char *to = kg_path_join(real, KG_TIMESTAMP_FILE);
    char *request = kg_xasprintf("%.*s/.tsq-%s", (int)(slash - real), real, slash + 1);
    enum kg_status status = fetch(signature, request, url, &answer, err);
    if (status == KG_OK) status = kg_file_write(to, answer.data, answer.len, err);
    if (status != KG_OK) kg_error_prefix(err, "no time stamp");
    unlink(request);
    kg_buffer_free(&answer);
    free(request);
    free(to);
    free(signature);
    free(real);
    return status;
}

/* "Time stamp: Nov 23 03:41:50.123 2026 GMT" of openssl's text, its fraction left out; 0 where it is not so. */
static int64_t stamped_us(const char *text) {
    static const char LABEL[] = "Time stamp: ";
    struct tm utc = { 0 };
    const char *at = strstr(text, LABEL);
    const char *rest = at ? strptime(at + strlen(LABEL), "%b %d %H:%M:%S", &utc) : NULL;
    if (rest && *rest == '.') rest += 1 + strspn(rest + 1, "0123456789");
    if (!rest || !strptime(rest, " %Y GMT", &utc)) return 0;
    return (int64_t)timegm(&utc) * 1000000;
}

enum kg_status kg_timestamp_check(const char *dir, const char *ca, struct kg_signature *signature,
                                  struct kg_error *err) {
    char *stamp = kg_path_join(dir, KG_TIMESTAMP_FILE), *over = kg_path_join(dir, SIGNATURE);
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_error why;
    enum kg_status status = KG_OK;
    bool refused = false;
    if (ca) status = kg_beneath_check(dir, KG_TIMESTAMP_FILE, err);
    if (status == KG_ERR_NOT_FOUND) ca = NULL;
    if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    if (ca && status == KG_OK) {
        status =
            ask((const char *const[]){ "openssl", "ts", "-verify", "-data", over, "-in", stamp, "-CAfile", ca, NULL },
                &text, &refused, &why);
        if (status == KG_OK)
            status = ask((const char *const[]){ "openssl", "ts", "-reply", "-in", stamp, "-text", NULL }, &text,
                         &refused, &why);
        if (status == KG_OK && !(signature->stamped_us = stamped_us(kg_buffer_text(&text)))) {
            status = kg_fail(&why, KG_ERR_FORMAT, "openssl names no time");
            refused = true;
        }
        if (refused) {
            signature->state = KG_SIGNATURE_BAD;
            snprintf(signature->why, sizeof signature->why, "its time stamp: %.480s", why.message);
            status = KG_OK;
        } else if (status != KG_OK) {
            status = kg_fail(err, status, "%s", why.message);
        }
    }
    kg_buffer_free(&text);
    free(over);
    free(stamp);
    return status;
}
