/* The documentation that could drift from the program: the manual page is what the program's --help says. */
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void page_is_what_help_says(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const char *const argv[] = { kg_fixture_path("../docs/make-man"), kg_program_path(), NULL };
    const struct kg_process process = { .argv = argv };
    struct kg_process_result made;
    struct kg_error err = { 0 };
    char *page;
    size_t page_len;
    ck_assert_msg(kg_process_run(&process, &made, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(made.exit_code == 0, "exit code %d: %s", made.exit_code, made.err);
    ck_assert_msg(kg_file_read(kg_fixture_path("../docs/kigo.1"), &page, &page_len, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(made.out_len == page_len && memcmp(made.out, page, page_len) == 0,
                  "docs/kigo.1 differs from the program's help; make it again: docs/make-man ./kigo >docs/kigo.1");
    free(page);
    kg_process_result_free(&made);
}

/* Whether the page names the variable: as a word. */
static bool names(const char *page, const char *name) {
    const size_t len = strlen(name);
    for (const char *at = page; (at = strstr(at, name)); at++)
        if (strchr(" ,\n", at[-1]) && strchr(" ,\n", at[len])) return true;
    return false;
}

/* Variables that the sources read by name, those whose name begins with KIGO_, and names in files that read variables
 * by a table. */
static void page_lists_every_variable(struct kg_record *rec, const void *arg) {
    static const char LIST[] =
        "cd \"$0\" && { grep -rhoE 'getenv\\(\"[A-Z_]+\"|\"KIGO_[A-Z_]+' src kernels --include='*.c' "
        "--include='*.h' --include='*.cu'; for file in $(grep -rlE 'getenv\\([^\")]' src kernels "
        "--include='*.c' --include='*.cu'); do grep -hoE '\"[A-Z][A-Z_]{3,}\"' \"$file\"; done; } | "
        "grep -oE '[A-Z][A-Z_]+' | sort -u";
    char *source = strdup(kg_fixture_path("..")), *page, *rest = NULL;
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", LIST, source) };
    struct kg_process_result found;
    struct kg_error err = { 0 };
    size_t page_len, n = 0;
    (void)arg;
    ck_assert_msg(kg_process_run(&process, &found, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_file_read(kg_fixture_path("../docs/kigo.1"), &page, &page_len, &err) == KG_OK, "%s", err.message);
    const char *variables = strstr(page, ".SH ENVIRONMENT");
    ck_assert_ptr_nonnull(variables);
    for (char *name = strtok_r(found.out, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest), n++)
        ck_assert_msg(names(variables, name), "docs/kigo.1 does not list %s", name);
    ck_assert_uint_gt(n, 20);
    kg_record_metric(rec, "variables", "count", (double)n);
    free(page);
    free(source);
    kg_process_result_free(&found);
}

static const struct kg_case CASES[] = {
    { .layer = "integration",
      .op = "manual",
      .name = "page_lists_every_variable",
      .source_tree = true,
      .run = page_lists_every_variable },
    { .layer = "integration",
      .op = "manual",
      .name = "page_is_what_help_says",
      .source_tree = true,
      .run = page_is_what_help_says },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
