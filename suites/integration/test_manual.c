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

static const struct kg_case CASES[] = {
    { .layer = "integration",
      .op = "manual",
      .name = "page_is_what_help_says",
      .source_tree = true,
      .run = page_is_what_help_says },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
