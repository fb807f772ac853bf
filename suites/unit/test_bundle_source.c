/* source.json: which commit, whether anything differs from it, and the hash that holds without git. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "bundle/source_commit.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/rights.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void read_source(const char *dir, struct kg_bundle_source *source) {
    struct kg_error err;
    EXPECT_OK(kg_bundle_source(dir, source, &err), err);
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
    read_source(dir, &source);
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
    read_source(dir, &source);
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
    read_source(dir, &source);
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
    read_source(dir, &source);
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
    read_source(dir, &source);
    const json_t *list = json_object_get(json_object_get(source.json, "git"), "untracked");
    ck_assert(source.dirty);
    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_str_eq(kg_json_text(json_array_get(list, 0), "path"), "notes\xC3\xA9.txt");
    ck_assert_str_eq(kg_json_text(json_array_get(list, 0), "sha256"),
                     "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"); /* of "x" */
    ck_assert_ptr_nonnull(strstr(source.diff, "# untracked: 2d711642"));
    kg_bundle_source_free(&source);
}

/* Its name is one line of dirty.diff, and says nothing of another file. */
static void untracked_name_with_line_breaks(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    struct kg_error err;
    char *path = kg_path_join(dir, "a\n# untracked: 00  b\x1b[2K");
    EXPECT_OK(kg_file_write(path, "x", 1, &err), err);
    free(path);
    read_source(dir, &source);
    ck_assert_ptr_nonnull(strstr(source.diff, "  a # untracked: 00  b"));
    ck_assert_ptr_null(strstr(source.diff, "\n# untracked: 00"));
    ck_assert_ptr_null(strchr(source.diff, '\x1b'));
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
    read_source(inner, &source);
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
    read_source(dir, &source);
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
    read_source(dir, &source);
    ck_assert_ptr_null(source.commit);
    ck_assert(!source.dirty);
    kg_bundle_source_free(&source);
}

static void unknown_folder(struct kg_record *rec, const void *arg) {
    struct kg_bundle_source source;
    (void)rec;
    (void)arg;
    read_source(NULL, &source);
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
        read_source(dir, &source);
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

/* Puts a program before git that does as `script` says and then, where that has not ended it, as git. */
struct other_git {
    char *bin, *before;
};

static struct other_git begin_other_git(const char *dir, const char *script) {
    struct other_git other = { kg_path_join(dir, ".git/bin"), kg_xstrdup(getenv("PATH")) };
    char *program = kg_path_join(other.bin, "git"), *path = kg_xasprintf("%s:%s", other.bin, other.before);
    char *text = kg_xasprintf("#!/bin/sh\nPATH=${PATH#*:}\n%s\nexec git \"$@\"\n", script);
    put(dir, ".git/bin/git", text);
    ck_assert_int_eq(chmod(program, 0755), 0);
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    free(text);
    free(path);
    free(program);
    return other;
}

static void end_other_git(struct other_git *other) {
    setenv("PATH", other->before, 1);
    free(other->before);
    free(other->bin);
}

/* A git that cannot list what it does not track has not said that the tree is clean. */
static void git_that_cannot_list(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_bundle_source source;
    (void)arg;
    if (!make_repository(rec, dir)) return;
    struct other_git other = begin_other_git(dir, "for arg; do [ \"$arg\" != ls-files ] || exit 1; done");
    read_source(dir, &source);
    end_other_git(&other);
    const json_t *list = json_object_get(json_object_get(source.json, "git"), "untracked");
    ck_assert_ptr_nonnull(source.commit);
    ck_assert(source.dirty);
    ck_assert_ptr_nonnull(strstr(kg_json_text(json_array_get(list, 0), "note"), "ls-files"));
    kg_bundle_source_free(&source);
}

static void expect_unasked(const char *dir, const char *why) {
    char *root = kg_path_join(dir, ".git/bundles");
    const struct kg_bundle_options options = { .root = root, .source_dir = dir };
    struct kg_bundle_source source;
    struct kg_bundle *bundle = NULL;
    struct kg_error err;
    kg_must_fail(kg_bundle_source(dir, &source, &err), KG_ERR_IO, &err, "git could not be asked", dir, why, NULL);
    kg_must_fail(kg_bundle_create(&options, &bundle, &err), KG_ERR_IO, &err, why, NULL);
    ck_assert(!kg_path_exists(root));
    free(root);
}

/* A git that is killed before it answers has not said that there is no commit, or no change: whatever it was asked. */
static void git_that_does_not_answer(struct kg_record *rec, const void *arg) {
    static const char *const ASKED[] = { "rev-parse", "log", "symbolic-ref", "diff", "ls-files" };
    const char *dir = kg_scratch_dir(rec);
    (void)arg;
    if (!make_repository(rec, dir)) return;
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) {
        char *script = kg_xasprintf("for arg; do [ \"$arg\" != %s ] || kill -9 $$; done", ASKED[i]);
        struct other_git other = begin_other_git(dir, script);
        expect_unasked(dir, ASKED[i]);
        end_other_git(&other);
        free(script);
    }
}

/* Nor has one whose answer nobody can look at. */
static void work_tree_that_cannot_be_found(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    (void)arg;
    if (!make_repository(rec, dir)) return;
    struct other_git other = begin_other_git(dir, "echo /nonexistent/place; exit 0");
    expect_unasked(dir, "/nonexistent/place");
    end_other_git(&other);
}

/* A program that may open no more files has no pipe to hear git by. */
static void no_pipe_to_git(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct rlimit before;
    struct kg_bundle_source source;
    struct kg_error err;
    (void)arg;
    const int next = dup(STDIN_FILENO);
    ck_assert_int_ge(next, 0);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)next + 1, before.rlim_max }), 0);
    const enum kg_status status = kg_bundle_source(dir, &source, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    kg_must_fail(status, KG_ERR_IO, &err, "git could not be asked", "Too many open files", NULL);
}

/* No run is of a source that nobody read: it does not begin, or, where the tree is not its own, says why it knows none.
 */
static void unreadable_source(struct kg_record *rec, const void *arg) {
    static const char *const UNREADABLE[] = { "src/b.c", "suites/unit" };
    const char *dir = kg_scratch_dir(rec);
    char *root = kg_path_join(dir, "bundles");
    struct kg_error err;
    (void)arg;
    put(dir, "src/a.c", "int a;\n");
    put(dir, "src/b.c", "int b;\n");
    put(dir, "suites/unit/c.c", "int c;\n");
    kg_rights_read_all(false);
    for (size_t i = 0; i < KG_COUNT_OF(UNREADABLE); i++) {
        char *path = kg_path_join(dir, UNREADABLE[i]);
        struct kg_bundle_source source;
        struct kg_bundle *bundle = NULL;
        struct kg_bundle_options options = { .root = root, .source_dir = dir };
        ck_assert_int_eq(chmod(path, 0), 0);
        kg_must_fail(kg_bundle_source(dir, &source, &err), KG_ERR_INCOMPLETE, &err, path, "Permission denied", NULL);
        kg_must_fail(kg_bundle_create(&options, &bundle, &err), KG_ERR_INCOMPLETE, &err, path, NULL);
        ck_assert(!kg_path_exists(root));
        options.built_from = "0123456789012345678901234567890123456789012345678901234567890123";
        kg_must_fail(kg_bundle_create(&options, &bundle, &err), KG_ERR_INCOMPLETE, &err, path, NULL);
        options.other_tree = true;
        EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
        json_t *json = NULL;
        EXPECT_OK(kg_bundle_read_json(kg_bundle_dir(bundle), "data/source.json", &json, &err), err);
        ck_assert_ptr_nonnull(strstr(kg_json_text(json, "git_why"), path));
        ck_assert(json_is_null(json_object_get(json, "git")));
        json_decref(json);
        kg_bundle_close(bundle);
        EXPECT_OK(kg_path_remove(root, &err), err);
        ck_assert_int_eq(chmod(path, 0755), 0);
        free(path);
    }
    kg_rights_read_all(true);
    free(root);
}

/* A commit's sources are read from what `git cat-file --batch` says: a file that ends early is none. */
static void commit_that_git_cuts(struct kg_record *rec, const void *arg) {
#define ID "0123456789abcdef0123456789abcdef01234567"
    static const struct {
        const char *size;
        bool good;
    } ROWS[] = { { "6", true }, { "7", false }, { "100", false } };
    const char *dir = kg_scratch_dir(rec), *path = getenv("PATH");
    char *program = kg_path_join(dir, "git"), *paths = kg_xasprintf("%s:%s", dir, path ? path : "/usr/bin:/bin");
    (void)arg;
    setenv("PATH", paths, 1);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char sha256[KG_SHA256_HEX_SIZE];
        struct kg_error err = { 0 };
        char *script = kg_xasprintf("#!/bin/sh\ncase $* in\n*ls-tree*) printf '100644 blob %s\tsrc/a.c\\000' ;;\n"
                                    "*) cat >\"$0.asked\"; printf '%s blob %s\nshort.\n' ;;\nesac\n",
                                    ID, ID, ROWS[i].size);
        put(dir, "git", script);
        ck_assert_int_eq(chmod(program, 0700), 0);
        const enum kg_status status = kg_source_of_commit(dir, ID, sha256, &err);
        ck_assert_msg((status == KG_OK) == ROWS[i].good, "size %s: %s", ROWS[i].size, err.message);
        if (!ROWS[i].good) ck_assert_str_eq(err.message, "git cat-file does not give src/a.c");
        free(script);
    }
    free(paths);
    free(program);
#undef ID
}

/* Nor of an installed kigo's record that nobody could read; one that is missing is said to be. */
static void unreadable_record(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    char *root = kg_path_join(dir, "bundles"), *path = kg_path_join(dir, "source.json");
    const struct kg_bundle_options options = { .root = root,
                                               .source_record = dir,
                                               .built_from =
                                                   "0123456789012345678901234567890123456789012345678901234567890123" };
    struct kg_bundle *bundle = NULL;
    struct kg_error err;
    (void)arg;
    put(dir, "source.json", "{}");
    ck_assert_int_eq(chmod(path, 0), 0);
    kg_rights_read_all(false);
    const enum kg_status status = kg_bundle_create(&options, &bundle, &err);
    kg_rights_read_all(true);
    kg_must_fail(status, KG_ERR_INCOMPLETE, &err, path, "Permission denied", NULL);
    ck_assert(!kg_path_exists(root));
    ck_assert_int_eq(unlink(path), 0);
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    kg_bundle_close(bundle);
    free(path);
    free(root);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_source", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(clean_tree),
    CASE(changed_file),
    CASE(staged_file),
    CASE(untracked_file),
    CASE(untracked_name_with_line_breaks),
    CASE(inside_a_hook),
    CASE(folder_inside_a_repository),
    CASE(no_commit_yet),
    CASE(unknown_folder),
    CASE(id_names_the_commit),
    CASE(git_that_cannot_list),
    CASE(unreadable_source),
    CASE(unreadable_record),
    CASE(git_that_does_not_answer),
    CASE(work_tree_that_cannot_be_found),
    CASE(no_pipe_to_git),
    CASE(commit_that_git_cuts),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
