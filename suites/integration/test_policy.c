/* What counts in a store: forged imports, runs of the future, policies that make no sense. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "bundle/policy.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *id_of(const char *dir) {
    return strrchr(dir, '/') + 1;
}

static void write_text(const char *dir, const char *name, const char *text) {
    char *path = kg_path_join(dir, name);
    struct kg_error err;
    kg_must(kg_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

/* As `kigo import` notes it. */
static void note_import(const char *root, const char *id) {
    char *imports = kg_path_join(root, "imports"), *name = kg_xasprintf("%s.json", id);
    struct kg_error err;
    kg_must(kg_dir_make(imports, &err), &err);
    write_text(imports, name, "{}");
    free(name);
    free(imports);
}

static void slow(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    (void)i;
    c->time_ns *= 1.5;
}

/* Twenty slow runs from elsewhere, newer than the store's own, would make a slow run look as usual. */
static void forged_imports_are_no_baseline(struct kg_record *rec, const void *arg) {
    enum { N = 20 };
    const struct kg_made_run usual = { .n_cases = 40, .canary = 1 },
                             worse = { .n_cases = 40, .canary = 1, .fill = slow };
    struct kg_history_lab lab;
    struct kg_regression r;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, N, usual);
    for (size_t i = 0; i < N; i++) {
        struct kg_made_run forged = worse;
        forged.commit = lab.commits[i];
        char *id = kg_history_lab_run(&lab, forged);
        note_import(lab.root, id);
        free(id);
    }
    kg_history_lab_runs(&lab, N + 1, 1, worse);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    ck_assert_uint_eq(r.baseline.n_items, N);
    ck_assert_uint_eq(r.n_not_counted, N);
    ck_assert_msg(strstr(r.why_not_counted, "nobody signed it"), "%s", r.why_not_counted);
    kg_regression_free(&r);
    write_text(lab.root, KG_POLICY_FILE, "{\"baseline\": [\"@anyone\"]}"); /* who asks for it gets it */
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* A note says by its name what came from elsewhere: one that nobody can read says the same, and no folder of notes is
 * not one without notes. */
static void unreadable_import_notes(struct kg_record *rec, const void *arg) {
    enum { N = 3 };
    static const char *const TEXTS[N] = { "", "{\"bundle_id\": \"2026", "[]" };
    struct kg_history_lab lab;
    struct kg_regression r;
    struct kg_error err;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    char *imports = kg_path_join(lab.root, "imports");
    kg_history_lab_runs(&lab, 0, N, (struct kg_made_run){ .n_cases = 2, .canary = 1 });
    for (size_t i = 0; i < 2 * N; i++) {
        char *id =
            kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[i % N], .n_cases = 2, .canary = 1 });
        char *name = kg_xasprintf("%s.json", id), *path = kg_path_join(imports, name);
        note_import(lab.root, id);
        if (i < N) write_text(imports, name, TEXTS[i]);
        if (i >= N) ck_assert_int_eq(unlink(path), 0);
        if (i == N) ck_assert_int_eq(symlink("/dev/zero", path), 0);
        if (i == N + 1) ck_assert_int_eq(mkfifo(path, 0600), 0);
        if (i == N + 2) ck_assert_int_eq(mkdir(path, 0700), 0);
        free(path);
        free(name);
        free(id);
    }
    kg_history_lab_runs(&lab, N + 1, 1, (struct kg_made_run){ .n_cases = 2, .canary = 1 });
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, N);
    ck_assert_uint_eq(r.n_not_counted, 2 * N);
    kg_regression_free(&r);
    kg_must(kg_path_remove(imports, &err), &err);
    ck_assert_int_eq(mkfifo(imports, 0600), 0);
    kg_verb_refuses(lab.root, ARGS("regress"), KG_EXIT_INTEGRITY, "imports is a pipe");
    ck_assert_int_eq(unlink(imports), 0);
    ck_assert_int_eq(symlink("imports", imports), 0);
    kg_verb_refuses(lab.root, ARGS("regress"), KG_EXIT_INTEGRITY, "imports is a link");
    free(imports);
    kg_history_lab_close(&lab);
}

static void worse_by_half(struct kg_history_lab *lab) {
    const struct kg_made_run usual = { .n_cases = 12, .canary = 1 },
                             worse = { .n_cases = 12, .canary = 1, .fill = slow };
    kg_history_lab_runs(lab, 0, 20, usual);
    kg_history_lab_runs(lab, 21, 1, worse);
}

/* A waiver of everything is said with its author; where the policy asks for signatures, a forged one changes nothing.
 */
static void forged_waiver(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    char *keys = kg_path_join(kg_scratch_dir(rec), "keys"), *key, *said;
    struct kg_error err;
    (void)arg;
    kg_must(kg_dir_make(keys, &err), &err);
    if (!(key = kg_verb_key(rec, keys, "ci"))) return;
    kg_history_lab_open(&lab, rec);
    worse_by_half(&lab);
    char *allowed = kg_verb_allowed(lab.root, "allowed_signers", "ci@example.org", key);
    const char *const waive[] = { "waive", "*", "--until", "2999-12-31", "--why", "x", "--author", "mallory", NULL };
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_FAILED, NULL);
    kg_verb_expect(lab.root, waive, KG_EXIT_OK, NULL);
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "verdict   no regression; ") && strstr(said, "waived by mallory (not signed)"), "%s",
                  said);
    free(said);
    write_text(lab.root, KG_POLICY_FILE, "{\"annotations\": [\"@signed\"]}");
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_FAILED, &said);
    ck_assert_msg(strstr(said, "1 annotation is not followed"), "%s", said);
    free(said);
    const char *const sign[] = { "waive",    "*",   "--until", "2999-12-31", "--why", "x",
                                 "--author", "ann", "--sign",  key,          NULL };
    kg_verb_expect(lab.root, sign, KG_EXIT_OK, NULL);
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "waived by ann (signed by ci@example.org)"), "%s", said);
    free(said);
    free(allowed);
    free(key);
    free(keys);
    kg_history_lab_close(&lab);
}

/* Nor do they push the store's own runs out of what prune keeps. */
static void forged_imports_prune_nothing(struct kg_record *rec, const void *arg) {
    enum { N = 4 };
    const char *root = kg_scratch_dir(rec);
    char *own[N];
    (void)arg;
    for (size_t i = 0; i < N; i++) own[i] = kg_verb_seal(root);
    for (size_t i = 0; i < N; i++) {
        char *forged = kg_verb_seal(root), *head = kg_path_join(root, ".chain");
        struct kg_error err;
        note_import(root, id_of(forged));
        kg_must(kg_path_remove(head, &err), &err); /* the chain goes on with its own */
        free(head);
        free(forged);
    }
    json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "4"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(answer, "n_gone"), 0);
    json_decref(answer);
    for (size_t i = 0; i < N; i++) free(own[i]);
}

/* A pin that does not count keeps no run. */
static void forged_pin(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *old = kg_verb_seal(root), *now = kg_verb_seal(root);
    (void)arg;
    kg_verb_expect(root, ARGS("pin", old), KG_EXIT_OK, NULL);
    for (int n_gone = 0; n_gone < 2; n_gone++) {
        json_t *answer = kg_verb_json(root, ARGS("prune", "--keep", "1"), KG_EXIT_OK);
        ck_assert_int_eq(kg_verb_integer(answer, "n_gone"), n_gone);
        json_decref(answer);
        write_text(root, KG_POLICY_FILE, "{\"annotations\": [\"@signed\"]}");
    }
    free(now);
    free(old);
}

static void expect_latest(const char *root, const char *id) {
    json_t *answer = kg_verb_json(root, ARGS("show", "latest"), KG_EXIT_OK);
    const char *got = json_string_value(json_object_get(json_object_get(answer, "summary"), "bundle_id"));
    if (!got) got = json_string_value(json_object_get(answer, "bundle_id"));
    ck_assert_msg(got && strcmp(got, id) == 0, "latest is %s, not %s", got ? got : "not named", id);
    json_decref(answer);
}

/* A run of 2099 would be the latest for good. */
static void future_is_not_latest(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *now = kg_verb_seal(root), *made = kg_verb_seal(root);
    char *future = kg_xasprintf("%s/20990101T000000Z-nogit-00000001", root);
    struct kg_error err;
    (void)arg;
    kg_must(kg_path_rename_new(made, future, &err), &err);
    kg_maker_replace(future, "bag-info.txt", id_of(made), id_of(future));
    kg_maker_replace(future, "data/summary.json", id_of(made), id_of(future));
    kg_maker_rehash(future);
    expect_latest(root, id_of(now));
    kg_verb_refuses(root, ARGS("verify", id_of(future)), KG_EXIT_INTEGRITY, "time data/summary.json");
    free(future);
    free(made);
    free(now);
}

static void times_that_make_no_sense(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *from, *to, *says;
    } ROWS[] = {
        { "\"sealed_us\": ", "\"sealed_us\": 1672531200000000, \"was\": ", "sealed before it started" },
        { "\"sealed_us\": ", "\"sealed_us\": 4070908800000000, \"was\": ", "after the present one" },
        { "\"started_us\": ", "\"started_us\": 1672531200000000, \"was\": ", "its id names another time" },
    };
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *dir = kg_verb_seal(root);
        kg_maker_replace(dir, "data/summary.json", ROWS[i].from, ROWS[i].to);
        kg_maker_rehash(dir);
        kg_verb_refuses(root, ARGS("verify", dir), KG_EXIT_INTEGRITY, ROWS[i].says);
        free(dir);
    }
    kg_verb_refuses(root, ARGS("show", "latest"), KG_EXIT_USAGE, "counts as the latest");
}

static char *minutes_from_now(const char *member, int minutes) {
    return kg_xasprintf("\"%s\": %lld, \"was_%s\": ", member, (long long)kg_clock_utc_us() + minutes * 60000000ll,
                        member);
}

/* Each time is within what clocks may differ by, and the two are not. */
static void sealed_before_its_predecessor(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *first = kg_verb_seal(root), *second = kg_verb_seal(root);
    const long long before_us = (long long)kg_clock_utc_us() - 6 * 60000000ll;
    char *later = minutes_from_now("sealed_us", 6), *sealed = minutes_from_now("sealed_us", -6);
    char *started = kg_xasprintf("\"started_us\": %lld, \"was_started_us\": ", before_us);
    char *opened = kg_xasprintf("\"utc_us\":%lld,\"was_utc_us\":", before_us); /* of the journal's first event */
    struct kg_error err;
    (void)arg;
    kg_maker_replace(first, "data/summary.json", "\"sealed_us\": ", later);
    kg_maker_replace(second, "data/summary.json", "\"started_us\": ", started);
    kg_maker_replace(second, "data/summary.json", "\"sealed_us\": ", sealed);
    kg_maker_replace(second, "data/journal.ndjson", "\"utc_us\":", opened);
    kg_maker_rehash(first);
    kg_maker_rehash(second);
    kg_verb_refuses(root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "time ");
    expect_latest(root, id_of(first));
    kg_must(kg_path_remove(first, &err), &err);
    expect_latest(root, id_of(second));
    free(opened);
    free(started);
    free(sealed);
    free(later);
    free(second);
    free(first);
}

/* What came from elsewhere is the latest only if an allowed signer signed it. */
static void imported_is_latest_if_signed(struct kg_record *rec, const void *arg) {
    if (kg_archive_missing()) return kg_record_skip(rec, "%s", kg_archive_missing());
    char *keys = kg_path_join(kg_scratch_dir(rec), "keys"), *from = kg_path_join(kg_scratch_dir(rec), "from"),
         *to = kg_path_join(kg_scratch_dir(rec), "to"), *file = kg_path_join(keys, "x.tar"), *key;
    struct kg_error err;
    (void)arg;
    kg_must(kg_dir_make(keys, &err), &err);
    if (!(key = kg_verb_key(rec, keys, "ci"))) return;
    kg_must(kg_dir_make(to, &err), &err);
    char *allowed = kg_verb_allowed(to, "allowed_signers", "ci@example.org", key), *own = kg_verb_seal(to);
    char *dir = kg_verb_seal(from);
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    kg_verb_expect(to, ARGS("import", file), KG_EXIT_OK, NULL);
    expect_latest(to, id_of(own));
    char *here = kg_path_join(to, id_of(dir));
    kg_verb_expect(to, ARGS("sign", here, "--key", key), KG_EXIT_OK, NULL);
    /* The own run is older, or of the same second. */
    write_text(to, KG_POLICY_FILE, "{\"latest\": [\"ci@*\"]}");
    expect_latest(to, id_of(dir));
    write_text(to, KG_POLICY_FILE, "{\"latest\": [\"other@*\"]}");
    kg_verb_refuses(to, ARGS("show", "latest"), KG_EXIT_USAGE, "counts as the latest");
    write_text(to, KG_POLICY_FILE, "{\"bundles\": [\"@signed\"]}");
    kg_verb_expect(to, ARGS("verify", here), KG_EXIT_OK, NULL);
    kg_verb_refuses(to, ARGS("verify", own), KG_EXIT_INTEGRITY, "takes @signed");
    free(here);
    free(dir);
    free(own);
    free(allowed);
    free(key);
    free(file);
    free(to);
    free(from);
    free(keys);
}

static void policies_that_make_no_sense(struct kg_record *rec, const void *arg) {
    static const char *const ROWS[][2] = {
        { "{", "kigo.policy.json" },
        { "{\"basline\": []}", "'basline' is no member" },
        { "{\"baseline\": \"@signed\"}", "baseline is no list" },
        { "{\"baseline\": [\"@singed\"]}", "baseline[0]" },
        { "{\"baseline\": [7]}", "baseline[0]" },
        { "{\"allowed_signers\": []}", "allowed_signers names no file" },
    };
    const char *root = kg_scratch_dir(rec);
    char *dir = kg_verb_seal(root);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        write_text(root, KG_POLICY_FILE, ROWS[i][0]);
        kg_verb_refuses(root, ARGS("verify", dir), KG_EXIT_INTEGRITY, ROWS[i][1]);
        kg_verb_refuses(root, ARGS("prune"), KG_EXIT_INTEGRITY, ROWS[i][1]);
    }
    free(dir);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "policy", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(forged_pin),
    CASE(forged_imports_are_no_baseline),
    CASE(unreadable_import_notes),
    CASE(forged_waiver),
    CASE(forged_imports_prune_nothing),
    CASE(future_is_not_latest),
    CASE(times_that_make_no_sense),
    CASE(sealed_before_its_predecessor),
    CASE(imported_is_latest_if_signed),
    CASE(policies_that_make_no_sense),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
