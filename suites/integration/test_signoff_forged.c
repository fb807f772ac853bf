/* Sign-offs that were changed after they were made, by someone who makes hashes again or does not: verify says so. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/zstd.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include "suites/integration/signoff_office.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A sign-off says what was signed off, or that it was changed: a document, the criteria, the verdict with all hashes
 * made again, the run. */
static void edited_signoff(struct kg_record *rec, const void *arg) {
    static const char POLICY[] = "{\"signoffs\": [\"@signed\"]}";
    static const struct {
        const char *file, *from, *to, *says;
    } ROWS[] = {
        { "signoff.md", "missed", "met", "changed signoff.md" },
        { "signoff.html", "missed", "met", "changed signoff.html" },
        { "criteria.json", "1e-3", "1e-1", "changed criteria.json" },
        { "statement.intoto.json", "\"verdict\": \"missed\"", "\"verdict\": \"met\"", "verdict statement.intoto.json" },
    };
    struct kg_office o;
    struct kg_error err;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-3", "")) return kg_office_close(&o);
    char *dir = kg_office_run(&o, "pass", true, true);
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, dir), KG_EXIT_FAILED);
    char *documents = kg_xstrdup(kg_json_text(answer, "dir")), *note = kg_xasprintf("%s.json", documents);
    const char *const verify[] = { "verify", "--signoffs", "--allowed-signers", o.allowed, NULL };
    kg_verb_expect(o.root, verify, KG_EXIT_OK, NULL);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *path = kg_path_join(documents, ROWS[i].file), *text, *said = NULL;
        size_t size_bytes;
        EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
        kg_maker_replace(documents, ROWS[i].file, ROWS[i].from, ROWS[i].to);
        if (i == 3) { /* whoever writes here makes the note's hash again, too */
            char was[KG_SHA256_HEX_SIZE], is[KG_SHA256_HEX_SIZE];
            kg_sha256_hex(text, size_bytes, was);
            EXPECT_OK(kg_sha256_file(path, is, &err), err);
            char *slash = strrchr(note, '/');
            *slash = '\0';
            kg_maker_replace(note, slash + 1, was, is);
            *slash = '/';
        }
        kg_verb_expect(o.root, verify, KG_EXIT_INTEGRITY, &said);
        ck_assert_msg(strstr(said, ROWS[i].says), "%s: %s", ROWS[i].file, said);
        if (i < 3) EXPECT_OK(kg_file_write(path, text, size_bytes, &err), err);
        free(said);
        free(text);
        free(path);
    }
    char *policy = kg_path_join(o.root, "kigo.policy.json");
    EXPECT_OK(kg_file_write(policy, POLICY, strlen(POLICY), &err), err);
    kg_verb_refuses(o.root, verify, KG_EXIT_INTEGRITY, "takes @signed");
    free(policy);
    free(note);
    free(documents);
    json_decref(answer);
    free(dir);
    kg_office_close(&o);
}

/* Puts a file's SHA-256 in the place of the one that it had, in another. */
static void hash_again(const char *dir, const char *file, const char *had, const char *in_dir, const char *in) {
    char *path = kg_path_join(dir, file), is[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    EXPECT_OK(kg_sha256_file(path, is, &err), err);
    if (strcmp(had, is) != 0) kg_maker_replace(in_dir, in, had, is);
    free(path);
}

/* A page, a result, a list of tests or a figure that was edited by someone who made all hashes again: what the pages
 * and the statement say follows from the runs' records. */
static void forged_signoff(struct kg_record *rec, const void *arg) {
    static const char STATEMENT[] = "statement.intoto.json";
    static const struct {
        const char *file, *from, *to, *says;
    } ROWS[] = {
        { "signoff.md", "missed", "met", "derived signoff.md" },
        { "signoff.html", "missed", "met", "derived signoff.html" },
        { STATEMENT, "\"result\": \"FAILED\"", "\"result\": \"PASSED\"", "derived statement.intoto.json" },
        { STATEMENT, "\"failedTests\"", "\"otherTests\"", "derived statement.intoto.json" },
        { STATEMENT, "\"signoff.md\"", "\"signoff.txt\"", "signoff.txt" },
        { STATEMENT, "\"n_met\": ", "\"n_met\": 1", "its n_met is not" },
        { STATEMENT, "\"found\": \"", "\"found\": \"9", "the runs' records say" },
        { STATEMENT, "a made GPU", "another GPU", "its gpu is not" },
        { STATEMENT, "\"records\": \"records.json.zst\"", "\"records\": \"records.json\"",
          "names records.json for its records" },
    };
    struct kg_office o;
    struct kg_error err;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-3", "")) return kg_office_close(&o);
    char *dir = kg_office_run(&o, "pass", true, true), *kept = kg_path_join(kg_scratch_dir(rec), "kept");
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, dir), KG_EXIT_FAILED);
    const char *documents = kg_json_text(answer, "dir");
    char *signoffs = kg_path_join(o.root, "signoffs"), *note = kg_xasprintf("%s.json", strrchr(documents, '/') + 1);
    free(kg_maker_copy(signoffs, kept));
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char file[KG_SHA256_HEX_SIZE], statement[KG_SHA256_HEX_SIZE], *said = NULL;
        char *edited = kg_path_join(documents, ROWS[i].file), *path = kg_path_join(documents, STATEMENT);
        EXPECT_OK(kg_sha256_file(edited, file, &err), err);
        EXPECT_OK(kg_sha256_file(path, statement, &err), err);
        kg_maker_replace(documents, ROWS[i].file, ROWS[i].from, ROWS[i].to);
        if (strcmp(ROWS[i].to, "\"signoff.txt\"") == 0) kg_maker_replace(signoffs, note, ROWS[i].from, ROWS[i].to);
        if (strcmp(ROWS[i].file, STATEMENT) != 0) {
            hash_again(documents, ROWS[i].file, file, documents, STATEMENT);
            hash_again(documents, ROWS[i].file, file, signoffs, note);
        }
        hash_again(documents, STATEMENT, statement, signoffs, note);
        kg_verb_expect(o.root, ARGS("verify", "--signoffs"), KG_EXIT_INTEGRITY, &said);
        ck_assert_msg(strstr(said, ROWS[i].says) && !strstr(said, "changed "), "%s: %s", ROWS[i].to, said);
        EXPECT_OK(kg_path_remove(signoffs, &err), err);
        free(kg_maker_copy(kept, signoffs));
        free(path);
        free(edited);
        free(said);
    }
    kg_verb_expect(o.root, ARGS("verify", "--signoffs"), KG_EXIT_OK, NULL);
    free(note);
    free(signoffs);
    free(kept);
    json_decref(answer);
    free(dir);
    kg_office_close(&o);
}

/* Puts `to` in the place of `from` in the records beside a statement; "" stands for all of them. */
static void edit_records(const char *documents, const char *from, const char *to) {
    char *text = NULL, *path = kg_path_join(documents, "records.json.zst");
    size_t size_bytes = 0;
    struct kg_buffer edited = KG_BUFFER_INIT, frame = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_stored_read(documents, "records.json", SIZE_MAX, &text, &size_bytes, &err), err);
    char *at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    kg_buffer_append(&edited, text, (size_t)(at - text));
    kg_buffer_puts(&edited, to);
    if (*from) kg_buffer_puts(&edited, at + strlen(from));
    EXPECT_OK(kg_zstd_compress(edited.data, edited.len, &frame, &err), err);
    EXPECT_OK(kg_file_write(path, frame.data, frame.len, &err), err);
    kg_buffer_free(&frame);
    kg_buffer_free(&edited);
    free(path);
    free(text);
}

/* Records that were edited by someone who made all hashes again are not those of the runs; the same ones in another
 * frame are. */
static void forged_records(struct kg_record *rec, const void *arg) {
    static const char STATEMENT[] = "statement.intoto.json", RECORDS[] = "records.json.zst";
    static const struct {
        const char *from, *to, *says;
    } ROWS[] = {
        { "\"record\":\"unit/sample/case_0\"", "\"record\":\"unit/sample/case_9\"", "names other records" },
        { "\"status\":\"pass\"", "\"status\":\"fail\"", "names other records" },
        { "[[", "[[],[", "has records of 3 criteria, not of 2" },
        { "", "{}", "has records of 0 criteria, not of 2" },
        { "", "no JSON", "format records.json.zst" },
        { "[[", " [[", NULL },
    };
    struct kg_office o;
    struct kg_error err;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-3", "")) return kg_office_close(&o);
    char *dir = kg_office_run(&o, "pass", true, true), *kept = kg_path_join(kg_scratch_dir(rec), "kept");
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, dir), KG_EXIT_FAILED);
    const char *documents = kg_json_text(answer, "dir");
    char *signoffs = kg_path_join(o.root, "signoffs"), *note = kg_xasprintf("%s.json", strrchr(documents, '/') + 1);
    char *records = kg_path_join(documents, RECORDS), *path = kg_path_join(documents, STATEMENT);
    free(kg_maker_copy(signoffs, kept));
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char had[KG_SHA256_HEX_SIZE], statement[KG_SHA256_HEX_SIZE], *said = NULL;
        EXPECT_OK(kg_sha256_file(records, had, &err), err);
        EXPECT_OK(kg_sha256_file(path, statement, &err), err);
        edit_records(documents, ROWS[i].from, ROWS[i].to);
        kg_verb_expect(o.root, ARGS("verify", "--signoffs"), KG_EXIT_INTEGRITY, &said);
        ck_assert_msg(strstr(said, "changed records.json.zst"), "%s", said);
        free(said);
        hash_again(documents, RECORDS, had, documents, STATEMENT);
        hash_again(documents, RECORDS, had, signoffs, note);
        hash_again(documents, STATEMENT, statement, signoffs, note);
        kg_verb_expect(o.root, ARGS("verify", "--signoffs"), ROWS[i].says ? KG_EXIT_INTEGRITY : KG_EXIT_OK, &said);
        ck_assert_msg(!ROWS[i].says || (strstr(said, ROWS[i].says) && !strstr(said, "changed ")), "%s: %s", ROWS[i].to,
                      said);
        free(said);
        EXPECT_OK(kg_path_remove(signoffs, &err), err);
        free(kg_maker_copy(kept, signoffs));
    }
    free(path);
    free(records);
    free(note);
    free(signoffs);
    free(kept);
    json_decref(answer);
    free(dir);
    kg_office_close(&o);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "signoff", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(edited_signoff), CASE(forged_signoff), CASE(forged_records) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
