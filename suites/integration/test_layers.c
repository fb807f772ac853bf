/* build-aux/include-arrows over planted trees: each include that runs the wrong way is found, and no other. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include "suites/harness/process.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char TABLE[] =
    "# lowest first\n"
    "src/include\nsrc/base\nsrc/ops\nkernels/shared.h\nkernels/block\nkernels/gemm\nkernels\nsuites/support\n"
    "suites/unit suites/tolerance\n";

static const struct planted {
    const char *name;
    const char *file, *text;
    const char *exception; /* a line of the table; NULL: none */
    const char *finding;   /* NULL: the tree is good */
} PLANTED[] = {
    { "down", "src/ops/a.c", "#include \"base/a.h\"\n#include <stdio.h>\n#include \"ops/b.h\"\n", NULL, NULL },
    { "up", "src/base/a.c", "\n#include \"ops/b.h\"\n", NULL,
      "src/base/a.c:2: src/base includes ops/b.h of src/ops, which is above it" },
    { "up_from_beside", "kernels/block/a.cuh", "#include \"../gemm/gemm.h\"\n", NULL,
      "kernels/block/a.cuh:1: kernels/block includes ../gemm/gemm.h" },
    { "up_to_the_folder_around", "kernels/gemm/a.cu", "#include \"kernels/top.h\"\n", NULL,
      "kernels/gemm/a.cu:1: kernels/gemm includes kernels/top.h of kernels, which is above it" },
    { "a_file_that_is_a_layer", "kernels/block/a.cuh", "#include \"kernels/shared.h\"\n", NULL, NULL },
    { "across", "suites/unit/a.c", "#include \"suites/tolerance/t.h\"\n", NULL,
      "suites/tolerance, which is beside it" },
    { "public_header_above", "src/base/a.c", "#  include <kigo/ops.h>\n", NULL,
      "src/base/a.c:1: src/base includes kigo/ops.h of src/ops" },
    { "public_header_of_nobody", "src/base/a.c", "#include <kigo/status.h>\n", NULL, NULL },
    { "excepted", "src/base/a.c", "#include \"ops/b.h\"\n", "except src/base/a.c src/ops/b.h\n", NULL },
    { "exception_without_use", "src/base/a.c", "#include \"base/a.h\"\n", "except src/base/a.c src/ops/b.h\n",
      "no include needs the exception src/base/a.c src/ops/b.h" },
    { "folder_without_a_layer", "src/new/a.c", "int a;\n", NULL, "src/new/a.c: its folder is not in layers" },
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
    static const char *const THERE[] = { "src/base/a.h",           "src/ops/b.h",
                                         "src/include/kigo/ops.h", "src/include/kigo/status.h",
                                         "kernels/shared.h",       "kernels/gemm/gemm.h",
                                         "kernels/top.h",          "suites/tolerance/t.h" };
    const struct planted *p = arg;
    const char *dir = kg_scratch_dir(rec), *program = kg_fixture_path("../build-aux/include-arrows");
    const char *const argv[] = { "/usr/bin/env", "-C", dir, program, "layers", p->file, NULL };
    char *table = kg_xasprintf("%s%s", TABLE, p->exception ? p->exception : "");
    struct kg_process_result result;
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(THERE); i++) write_file(dir, THERE[i], "");
    write_file(dir, "layers", table);
    write_file(dir, p->file, p->text);
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv }, &result, &err), err);
    ck_assert_msg(result.exit_code == (p->finding ? 1 : 0), "exit code %d: %s%s", result.exit_code, result.out,
                  result.err);
    if (p->finding) ck_assert_msg(strstr(result.out, p->finding) != NULL, "%s", result.out);
    else ck_assert_str_eq(result.out, "");
    kg_process_result_free(&result);
    free(table);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(PLANTED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "layers",
                                                  .name = PLANTED[i].name,
                                                  .source_tree = true,
                                                  .run = planted,
                                                  .arg = &PLANTED[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
