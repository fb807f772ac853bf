/* source.json: which commit, whether anything differs from it, and the hash that holds without git. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 12 };

/* Runs git in the folder; false if there is none on this machine. */
static bool git(const char *dir, const char *const *args) {
    const char *argv[MAX_ARGS + 5] = { "/usr/bin/env", "git", "-C", dir };
    static const char *const ENV[] = { "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", NULL };
    for (size_t i = 0; i < MAX_ARGS && args[i]; i++) argv[i + 4] = args[i];
    const struct kg_process process = { .argv = argv, .env = ENV };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    const bool there = result.exit_code != 127;
    ck_assert_msg(!there || result.exit_code == 0, "git %s: %s", args[0], result.err);
    kg_process_result_free(&result);
    return there;
}

#define GIT(dir, ...) git(dir, (const char *const[]){ __VA_ARGS__, NULL })

static void put(const char *dir, const char *relative, const char *text) {
    struct kg_error err;
    EXPECT_OK(kg_bundle_put(dir, relative, text, strlen(text), &err), err);
}

/* A repository with one commit of src/a.c; false without git. */
static bool make_repository(struct kg_record *rec, const char *dir) {
    if (!GIT(dir, "init", "-q")) {
        kg_record_skip(rec, "no git on this machine");
        return false;
    }
    put(dir, "src/a.c", "int a;\n");
    put(dir, ".gitignore", "*.o\n");
    GIT(dir, "add", ".");
    return GIT(dir, "-c", "user.name=kigo", "-c", "user.email=kigo@localhost", "commit", "-q", "-m", "first");
}

static char *content_of(const char *dir) {
    struct kg_bundle_source source;
    kg_bundle_source(dir, &source);
    const char *hash = kg_json_text(source.json, "content_sha256");
    char *copy = kg_xstrdup(hash ? hash : "none");
    kg_bundle_source_free(&source);
    return copy;
}

static void clean_tree(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    put(dir, "src/a.o", "ignored");
    kg_bundle_source(dir, &source);
    const json_t *info = json_object_get(source.json, "git");
    ck_assert_ptr_nonnull(source.commit);
    ck_assert_uint_eq(strlen(source.commit), 40);
    ck_assert_msg(!source.dirty, "%s", source.diff);
    ck_assert_uint_eq(source.diff_bytes, 0);
    ck_assert_str_eq(kg_json_text(info, "commit"), source.commit);
    ck_assert_uint_eq(strlen(kg_json_text(info, "tree")), 40);
    ck_assert_str_ne(kg_json_text(info, "tree"), source.commit);
    ck_assert_int_eq(kg_json_int(source.json, "content_files", 0), 1); /* the object file is no source */
    kg_bundle_source_free(&source);
}

static void changed_file(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    char *before = content_of(dir);
    put(dir, "src/a.c", "int b;\n");
    char *after = content_of(dir);
    kg_bundle_source(dir, &source);
    ck_assert(source.dirty);
    ck_assert_msg(strstr(source.diff, "-int a;\n+int b;\n") != NULL, "%s", source.diff);
    ck_assert_str_ne(before, after);
    kg_bundle_source_free(&source);
    free(after);
    free(before);
}

static void staged_file(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    put(dir, "src/new.c", "int n;\n");
    GIT(dir, "add", "src/new.c");
    kg_bundle_source(dir, &source);
    ck_assert(source.dirty);
    ck_assert_ptr_nonnull(strstr(source.diff, "+int n;"));
    kg_bundle_source_free(&source);
}

static void untracked_file(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    put(dir, "notes\xC3\xA9.txt", "x");
    kg_bundle_source(dir, &source);
    const json_t *list = json_object_get(json_object_get(source.json, "git"), "untracked");
    ck_assert(source.dirty);
    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_str_eq(kg_json_text(json_array_get(list, 0), "path"), "notes\xC3\xA9.txt");
    ck_assert_str_eq(kg_json_text(json_array_get(list, 0), "sha256"),
                     "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"); /* of "x" */
    ck_assert_ptr_nonnull(strstr(source.diff, "# untracked: 2d711642"));
    kg_bundle_source_free(&source);
}

/* A release unpacked inside of somebody's repository is not a commit of that repository. */
static void folder_inside_a_repository(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    put(dir, "kigo-0.1.0/src/a.c", "int a;\n");
    char *inner = kg_path_join(dir, "kigo-0.1.0");
    kg_bundle_source(inner, &source);
    ck_assert_ptr_null(source.commit);
    ck_assert(!source.dirty);
    ck_assert(json_is_null(json_object_get(source.json, "git")));
    ck_assert_ptr_nonnull(kg_json_text(source.json, "git_why"));
    char *outer_hash = content_of(dir); /* the same content, with and without git */
    ck_assert_str_eq(kg_json_text(source.json, "content_sha256"), outer_hash);
    kg_bundle_source_free(&source);
    free(outer_hash);
    free(inner);
}

/* A hook's variables point git elsewhere. */
static void inside_a_hook(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    setenv("GIT_DIR", "/nonexistent", 1);
    kg_bundle_source(dir, &source);
    unsetenv("GIT_DIR");
    ck_assert_ptr_nonnull(source.commit);
    kg_bundle_source_free(&source);
}

static void no_commit_yet(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!GIT(dir, "init", "-q")) {
        kg_record_skip(rec, "no git on this machine");
        return;
    }
    kg_bundle_source(dir, &source);
    ck_assert_ptr_null(source.commit);
    ck_assert(!source.dirty);
    kg_bundle_source_free(&source);
}

static void unknown_folder(struct kg_record *rec, const void *arg) {
    struct kg_bundle_source source;
    (void)rec;
    (void)arg;
    kg_bundle_source(NULL, &source);
    ck_assert(json_is_null(json_object_get(source.json, "content_sha256")));
    ck_assert(json_is_null(json_object_get(source.json, "git")));
    ck_assert_str_eq(kg_json_text(source.json, "git_why"), "the source folder is not known");
    ck_assert_str_eq(source.diff, "");
    kg_bundle_source_free(&source);
}

/* The id says which commit, and that it was changed. */
static void id_names_the_commit(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    (void)arg;
    if (!make_repository(rec, dir)) return;
    for (int dirty = 0; dirty < 2; dirty++) {
        struct kg_bundle_source source;
        struct kg_bundle *bundle;
        struct kg_error err;
        char *root = kg_xasprintf("%s/.git/bundles-%d", dir, dirty);
        if (dirty) put(dir, "src/a.c", "int c;\n");
        kg_bundle_source(dir, &source);
        const struct kg_bundle_options options = { .root = root, .source_dir = dir };
        EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
        char *want = kg_xasprintf("-%.12s%s-", source.commit, dirty ? "-dirty" : "");
        ck_assert_msg(strstr(kg_bundle_id(bundle), want) != NULL, "%s has no %s", kg_bundle_id(bundle), want);
        free(want);
        kg_bundle_close(bundle);
        kg_bundle_source_free(&source);
        free(root);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_source", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(clean_tree),     CASE(changed_file),   CASE(staged_file),
    CASE(untracked_file), CASE(inside_a_hook),  CASE(folder_inside_a_repository),
    CASE(no_commit_yet),  CASE(unknown_folder), CASE(id_names_the_commit),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
