/* build-aux/check-words over planted files: a banned word is found wherever it is a whole word, and nowhere else. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include "suites/harness/process.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char LIST[] = "# planted\n"
                           "ban spin | \\b spin(s|ning)? \\b | rotate\n"
                           "ban cache level | \\b second [- ] level \\s cache \\b | L2\n"
                           "allow spin | src/chat\n"
                           "keep pairs_spinning_as_before\n"
                           "folder src\n";

static const struct planted {
    const char *name;
    const char *file, *text;
    const char *more;    /* a line of the list; NULL: none */
    const char *finding; /* NULL: the tree is good */
    int exit_code;
} PLANTED[] = {
    { "clean", "src/a.c", "int spinal, backspin; /* rotates */\n", NULL, NULL, 0 },
    { "in_a_comment", "src/a.c", "\n/* Spins a pair. */\n", NULL, "src/a.c:2: 'Spins': say rotate\n", 1 },
    { "in_an_identifier", "src/a.h", "void kg_spin_head(void);\n", NULL, "src/a.h:1: 'spin': say rotate\n", 1 },
    { "in_capitals", "src/a.cu", "enum { MAX_SPINNING };\n", NULL, "src/a.cu:1: 'SPINNING': say rotate\n", 1 },
    { "in_a_document", "src/a.md", "The second-level cache.\n", NULL, "src/a.md:1: 'second-level cache': say L2\n", 1 },
    { "twice_in_a_line", "src/a.c", "/* spin; second level cache */\n", NULL, "src/a.c:1: 'second level cache'", 1 },
    { "in_its_field", "src/chat/a.c", "int spin;\n", NULL, NULL, 0 },
    { "beside_its_field", "src/chatter.c", "int spin;\n", NULL, "src/chatter.c:1:", 1 },
    { "name_of_a_case", "src/a.c", "CASE(pairs_spinning_as_before);\n", NULL, NULL, 0 },
    { "within_a_longer_name", "src/a.c", "CASE(two_pairs_spinning_as_before);\n", NULL, "src/a.c:1: 'spinning'", 1 },
    { "other_kind_of_file", "src/a.txt", "spin\n", NULL, NULL, 0 },
    { "ban_without_advice", "src/a.c", "", "ban x | x\n", "words:7: 'ban' with 2 fields\n", 2 },
    { "unknown_statement", "src/a.c", "", "forbid x | x | y\n", "words:7: 'forbid' with 3 fields\n", 2 },
    { "allowed_but_not_banned", "src/a.c", "", "allow x | src\n", "words: 'allow x': no such ban\n", 2 },
    { "folder_that_is_gone", "src/a.c", "", "folder src/gone\n", "words: src/gone does not exist\n", 2 },
};

static void write_file(const char *dir, const char *relative, const char *text) {
    char *path = kg_path_join(dir, relative), *slash = strrchr(path, '/');
    struct kg_error err;
    *slash = '\0';
    EXPECT_OK(kg_dir_make(path, &err), err);
    *slash = '/';
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
    free(path);
}

static void planted(struct kg_record *rec, const void *arg) {
    const struct planted *p = arg;
    const char *dir = kg_scratch_dir(rec);
    const char *const argv[] = { kg_fixture_path("../build-aux/check-words"), dir, "words", NULL };
    char *list = kg_xasprintf("%s%s", LIST, p->more ? p->more : "");
    struct kg_process_result result;
    struct kg_error err;
    write_file(dir, "words", list);
    write_file(dir, "src/chat/good.c", "");
    write_file(dir, "src/old/good.c", "");
    write_file(dir, p->file, p->text);
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv }, &result, &err), err);
    ck_assert_msg(result.exit_code == p->exit_code, "exit code %d: %s%s", result.exit_code, result.out, result.err);
    if (p->finding) ck_assert_msg(strstr(result.out, p->finding) != NULL, "%s", result.out);
    else ck_assert_str_eq(result.out, "");
    kg_process_result_free(&result);
    free(list);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(PLANTED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "words",
                                                  .name = PLANTED[i].name,
                                                  .source_tree = true,
                                                  .run = planted,
                                                  .arg = &PLANTED[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
