/* Markdown tables: heads, alignment, and text that cannot leave its cell. */
#include "base/markdown.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>

static void expect(struct kg_buffer *out, const char *wanted) {
    ck_assert_str_eq(kg_buffer_text(out), wanted);
    kg_buffer_free(out);
}

static void heads_and_alignment(struct kg_record *rec, const void *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_markdown_head(&out, "case|seconds:|error / limit");
    expect(&out, "| case | seconds | error / limit |\n| --- | ---: | --- |\n");
    kg_markdown_head(&out, "n:");
    expect(&out, "| n |\n| ---: |\n");
    kg_markdown_rule(&out, 2);
    expect(&out, "| --- | --- |\n");
}

static void cells(struct kg_record *rec, const void *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_markdown_cell(&out, "a");
    kg_markdown_cellf(&out, "%.3g s", 1.5);
    kg_markdown_code(&out, "unit/a_b[cpu]");
    kg_markdown_row_end(&out);
    expect(&out, "| a | 1.5 s | `unit/a_b[cpu]` |\n");
}

static void empty_cells(struct kg_record *rec, const void *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_markdown_code(&out, "");
    kg_markdown_row(&out, (const char *const[]){ NULL, "", "x" }, 3);
    expect(&out, "|  |  |  | x |\n");
}

static void hostile_text(struct kg_record *rec, const void *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_markdown_row(&out, (const char *const[]){ "a|b\n| c", "<b>&*_`~\\[x]" }, 2);
    expect(&out, "| a\\|b \\| c | &lt;b>&amp;\\*\\_\\`\\~\\\\\\[x\\] |\n");
}

#define CASE(name_)                                                                                                    \
    { .layer = "unit", .op = "markdown", .name = #name_, .run = name_ }

int main(int argc, char **argv) {
    static const struct kg_case CASES[] = { CASE(heads_and_alignment), CASE(cells), CASE(empty_cells),
                                            CASE(hostile_text) };
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
