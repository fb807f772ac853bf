/* A run is of the sources that its programs were built from: yesterday's suite program, a tree that was edited since
 * and a copied tree cannot pass for something else. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "bundle/records.h"
#include "bundle/source_content.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "suites/harness/must.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/copied_tree.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A program that says it was built from something else, or does not say from what, ends the run before it begins. */
static void other_programs(struct kg_record *rec, const void *arg) {
    static const char *const RULES[] = { "test_other_build", "test_tells_no_build" };
    struct kg_lab lab;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    for (size_t i = 0; i < KG_COUNT_OF(RULES); i++) {
        char *link = kg_path_join(lab.suites, RULES[i]);
        struct kg_process_result r;
        kg_lab_add(&lab, "test_broken", RULES[i]);
        kg_lab_check(&lab, ARGS("--quiet"), &r);
        kg_lab_expect_exit(&r, KG_EXIT_INCOMPLETE, NULL);
        ck_assert_msg(strstr(r.err, RULES[i]) && strstr(r.err, "run 'make'"), "%s", r.err);
        ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
        kg_process_result_free(&r);
        ck_assert_int_eq(remove(link), 0);
        free(link);
    }
    kg_lab_expect_empty(lab.tmp);
    kg_lab_close(&lab);
}

/* The copied kigo, as a user runs it: what it wrote in *said. */
static int copy_check(const struct kg_copied_tree *c, char **said) {
    return kg_shell("cd \"$1\"; exec env -u KIGO_BUILT_FROM -u KIGO_SUITES ./kigo check --quiet --bundles \"$2\"",
                    (const char *const[]){ c->tree, c->bundles, "" }, said);
}

/* A document of the only bundle, which is then taken away. */
static json_t *take_document(const struct kg_copied_tree *c, const char *name) {
    struct kg_lab lab = { .bundles = c->bundles };
    char *bundle = kg_lab_bundle(&lab);
    struct kg_error err;
    json_t *document;
    kg_must(kg_bundle_read_json(bundle, name, &document, &err), &err);
    kg_must(kg_path_remove(c->bundles, &err), &err);
    free(bundle);
    return document;
}

static json_t *take_source(const struct kg_copied_tree *c) {
    return take_document(c, "data/source.json");
}

/* Without git the run says that it knows no commit; with a separate commit it says that one, not the original's. */
static void copied_tree(struct kg_record *rec, const void *arg) {
    struct kg_copied_tree c;
    char *said;
    (void)arg;
    kg_copied_tree_open(&c, rec, "unit", "test_green");
    ck_assert_msg(copy_check(&c, &said) == 0, "%s", said);
    free(said);
    json_t *source = take_source(&c);
    ck_assert(json_is_null(json_object_get(source, "git")));
    ck_assert_str_eq(kg_json_text(source, "content_sha256"), kg_built_from());
    json_decref(source);
    if (kg_copied_tree_commit(&c, rec, "what was meant")) {
        ck_assert_msg(copy_check(&c, &said) == 0, "%s", said);
        free(said);
        source = take_source(&c);
        const json_t *git = json_object_get(source, "git");
        ck_assert_str_eq(kg_json_text(git, "subject"), "what was meant");
        ck_assert_ptr_nonnull(strstr(kg_json_text(git, "author_date"), "2001-02-03T04:05:06"));
        ck_assert(json_is_false(json_object_get(git, "dirty")));
        json_decref(source);
    }
    kg_copied_tree_close(&c);
}

/* An engine that was edited is not the one that would run. A kigo that a case of a run starts leaves that to the run,
 * and names no commit. */
static void edited_tree(struct kg_record *rec, const void *arg) {
    struct kg_copied_tree c;
    char *said;
    (void)arg;
    kg_copied_tree_open(&c, rec, "unit", "test_green");
    kg_must_shell("echo '/* eps * 10 */' >>\"$1/src/ops/rmsnorm.c\"", (const char *const[]){ c.tree, "", "" });
    ck_assert_int_eq(copy_check(&c, &said), KG_EXIT_INCOMPLETE);
    ck_assert_msg(strstr(said, "run 'make'") && strstr(said, c.tree), "%s", said);
    free(said);
    ck_assert(!kg_path_exists(c.bundles));
    char *variable = kg_xasprintf("KIGO_BUILT_FROM=%s", kg_built_from());
    const int exit_code = kg_shell("cd \"$1\"; exec env \"$3\" ./kigo check --quiet --bundles \"$2\"",
                                   (const char *const[]){ c.tree, c.bundles, variable }, &said);
    ck_assert_msg(exit_code == 0, "%s", said);
    free(said);
    json_t *source = take_source(&c);
    ck_assert(json_is_null(json_object_get(source, "git")));
    ck_assert_str_eq(kg_json_text(source, "content_sha256"), kg_built_from());
    json_decref(source);
    free(variable);
    kg_copied_tree_close(&c);
}

static void expect_program_hash(const struct kg_copied_tree *c, const char *expected) {
    char *said;
    ck_assert_msg(copy_check(c, &said) == 0, "%s", said);
    free(said);
    json_t *build = take_document(c, "data/build.json");
    ck_assert_str_eq(kg_json_text(build, "program_sha256"), expected);
    json_decref(build);
}

/* A run says the hash of the program that makes it, as its file is then. */
static void program_hash_is_of_its_file(struct kg_record *rec, const void *arg) {
    struct kg_copied_tree c;
    char hex[KG_SHA256_HEX_SIZE], other[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    (void)arg;
    kg_copied_tree_open(&c, rec, "unit", "test_green");
    char *program = kg_path_join(c.tree, "kigo");
    kg_must(kg_sha256_file(program, hex, &err), &err);
    expect_program_hash(&c, hex);
    kg_must_shell("printf x >>\"$1\"", (const char *const[]){ program, "", "" });
    kg_must(kg_sha256_file(program, other, &err), &err);
    ck_assert_str_ne(other, hex);
    expect_program_hash(&c, other);
    free(program);
    kg_copied_tree_close(&c);
}

/* A source that cannot be read may be another than the one that was built: the run does not begin, and names it. */
static void unreadable_source(struct kg_record *rec, const void *arg) {
    enum { READABLE = 77 };
    static const char CHECK[] = /* root reads everything, unless it gives that right up */
        "cd \"$1\"; chmod 0 \"$3\"; as=\n"
        "[ \"$(id -u)\" != 0 ] || as='setpriv --bounding-set -dac_override,-dac_read_search'\n"
        "! $as cat \"$3\" || exit 77\n"
        "exec env -u KIGO_BUILT_FROM -u KIGO_SUITES $as ./kigo check --quiet --bundles \"$2\"";
    static const char SOURCE[] = "src/ops/rmsnorm.c";
    struct kg_copied_tree c;
    char *said;
    (void)arg;
    kg_copied_tree_open(&c, rec, "unit", "test_green");
    const int exit_code = kg_shell(CHECK, (const char *const[]){ c.tree, c.bundles, SOURCE }, &said);
    if (exit_code == READABLE) {
        kg_record_skip(rec, "this user reads what has no permissions");
    } else {
        ck_assert_msg(exit_code == KG_EXIT_INCOMPLETE, "%d: %s", exit_code, said);
        ck_assert_msg(strstr(said, "is not known") && strstr(strstr(said, "is not known"), SOURCE), "%s", said);
        ck_assert(!kg_path_exists(c.bundles));
    }
    free(said);
    kg_copied_tree_close(&c);
}

/* build-aux/built-from and kg_source_content agree; its file changes with the sources only, and a source with an older
 * time is made new. */
static void hash_of_the_build(struct kg_record *rec, const void *arg) {
    static const char HASH[] = "exec \"$1/build-aux/built-from\" \"$2\" \"$3\"";
    const char *dir = kg_scratch_dir(rec);
    struct kg_source_content content;
    struct kg_error err;
    char *said, *written, *file = kg_path_join(dir, "built_from.inc");
    size_t size;
    (void)arg;
    const char *const words[3] = { kg_source_tree(), dir, file };
    kg_must_shell("cd \"$2\"; mkdir -p src/bundle kernels suites/unit; echo a >src/a.c; echo b >kernels/b.cuh; echo c "
                  ">'suites/unit/c d.py'\n"
                  "echo x >src/a.o; echo x >src/bundle/build_info.h; ln -s a.c src/link.c\n",
                  words);
    kg_must_shell(HASH, words);
    kg_must(kg_source_content(dir, &content, &err), &err);
    ck_assert_uint_eq(content.n_files, 3);
    ck_assert_int_eq(kg_file_read(file, &written, &size, NULL), KG_OK);
    ck_assert_uint_eq(size, strlen(content.sha256) + 3);
    ck_assert(strncmp(written + 1, content.sha256, strlen(content.sha256)) == 0);
    free(written);
    kg_must_shell("touch -d '2 hours ago' \"$3\"; touch \"$3.then\" -r \"$3\"", words);
    kg_must_shell(HASH, words);
    kg_must_shell("[ ! \"$3\" -nt \"$3.then\" ]", words);
    kg_must_shell("echo changed >\"$2/src/a.c\"; touch -d '3 hours ago' \"$2/src/a.c\"", words);
    ck_assert_int_eq(kg_shell(HASH, words, &said), 1);
    ck_assert_msg(strstr(said, "src/a.c") && strstr(said, "make again"), "%s", said);
    free(said);
    kg_must_shell("[ \"$2/src/a.c\" -nt \"$3\" ] && [ ! \"$3\" -nt \"$3.then\" ]", words);
    kg_must_shell(HASH, words);
    kg_must_shell("[ \"$3\" -nt \"$3.then\" ]", words);
    free(file);
}

/* `make` alone leaves no suite program behind kigo. */
static void plain_make_builds_suites(struct kg_record *rec, const void *arg) {
    char *path = kg_path_join(kg_places()->made, "Makefile"), *text;
    size_t size;
    (void)rec;
    (void)arg;
    ck_assert_int_eq(kg_file_read(path, &text, &size, NULL), KG_OK);
    const char *rule = strstr(text, "\nall-local:");
    ck_assert_ptr_nonnull(rule);
    const size_t len = strcspn(rule + 1, "\n");
    const char *programs = strstr(rule, "$(check_PROGRAMS)");
    ck_assert(programs && (size_t)(programs - rule) < len);
    free(text);
    free(path);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "built_from", .name = #function, .source_tree = true, .run = function,           \
        .timeout_s = 60                                                                                                \
    }

static const struct kg_case CASES[] = {
    CASE(other_programs),
    CASE(copied_tree),
    CASE(edited_tree),
    CASE(unreadable_source),
    CASE(hash_of_the_build),
    CASE(plain_make_builds_suites),
    CASE(program_hash_is_of_its_file),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
