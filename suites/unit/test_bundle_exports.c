/* What seal derives for people and CI servers: reasons and names with every character that a format gives a meaning. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/export.h"
#include "run/publish.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char NASTY[] =
    "a|b, <b>&amp; \"q\" 'x' # hash \\ back\nline 2\r\x01\x1F\xEF\xBF\xBE \xC3\xBCn\xC3\xAF ]]> --> =1+1 `c` *d*";
static const char VISIBLE[] =
    "a|b, <b>&amp; \"q\" 'x' # hash \\ back\nline 2\\x0D\\x01\\x1F\\uFFFE \xC3\xBCn\xC3\xAF ]]> --> "
    "=1+1 `c` *d*";
enum { N_CASES = 4 };

/* A bundle whose failing, crashed and skipped cases give that reason; one of its files as text. */
static char *export_of(struct kg_record *rec, const char *file) {
    static const char *const STATUSES[N_CASES] = { "pass", "fail", "skip", "crash" };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_maker_open(kg_scratch_dir(rec), N_CASES, &bundle, &err), err);
    for (size_t i = 0; i < N_CASES; i++) {
        json_t *result = kg_maker_result(i, STATUSES[i]);
        char *key = kg_maker_key(i);
        if (i > 0) json_object_set_new(result, "reason", json_string(NASTY));
        EXPECT_OK(kg_bundle_start(bundle, key, &err), err);
        EXPECT_OK(kg_bundle_end(bundle, result, &err), err);
        free(key);
        json_decref(result);
    }
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    char *path = kg_path_join(kg_bundle_dir(bundle), file), *text = NULL;
    size_t size_bytes = 0;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    ck_assert_uint_eq(strlen(text), size_bytes);
    free(path);
    kg_bundle_close(bundle);
    return text;
}

/* Without strstr: sanitized, it reads all that is left of the text at each call. */
static size_t count(const char *text, const char *what) {
    const size_t len = strlen(what);
    size_t n = 0;
    for (const char *at = text; *at; at++) n += *at == *what && strncmp(at, what, len) == 0;
    return n;
}

/* Reads one tag at '<'; checks its attributes' quoting and, by the stack of names, that elements nest. Returns what
 * follows. */
static const char *read_tag(const char *at, char stack[16][32], int *depth) {
    const bool closing = at[1] == '/';
    const char *name = at + 1 + closing;
    const size_t len = strcspn(name, " />");
    const char *s = name + len;
    ck_assert_uint_gt(len, 0);
    ck_assert_uint_lt(len, 32);
    while (*s != '>' && *s != '/') {
        ck_assert_msg(*s == ' ', "no blank before an attribute: %.40s", s);
        s += strcspn(s, "=") + 1;
        ck_assert_int_eq(*s, '"');
        const size_t value = strcspn(s + 1, "\"");
        for (size_t i = 1; i <= value; i++)
            ck_assert_msg(s[i] != '<' && (unsigned char)s[i] >= 0x20, "raw 0x%02x in %.60s", (unsigned char)s[i], s);
        s += value + 2;
    }
    if (closing) {
        ck_assert_int_gt(*depth, 0);
        --*depth;
        ck_assert_msg(strlen(stack[*depth]) == len && strncmp(stack[*depth], name, len) == 0, "</%.20s", name);
    } else if (*s != '/') {
        ck_assert_int_lt(*depth, 16);
        snprintf(stack[(*depth)++], 32, "%.*s", (int)len, name);
    }
    return strchr(s, '>') + 1;
}

static void junit_is_well_formed(struct kg_record *rec, const void *arg) {
    char stack[16][32];
    int depth = 0;
    (void)arg;
    char *text = export_of(rec, "data/junit.xml");
    static const char DECLARATION[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    ck_assert_int_eq(strncmp(text, DECLARATION, strlen(DECLARATION)), 0);
    for (const char *at = text + strlen(DECLARATION); *at;) {
        if (*at == '<') at = read_tag(at, stack, &depth);
        else ck_assert_msg(*at == ' ' || *at == '\n', "text between elements: %.20s", at), at++;
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_uint_eq(count(text, "<testcase "), N_CASES);
    ck_assert_uint_eq(count(text, "<failure "), 1);
    ck_assert_uint_eq(count(text, "<error "), 1);
    ck_assert_uint_eq(count(text, "<skipped "), 1);
    ck_assert_ptr_nonnull(strstr(text, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
    ck_assert_ptr_nonnull(strstr(text, "&lt;b&gt;&amp;amp; &quot;q&quot;"));
    ck_assert_ptr_nonnull(strstr(text, "back&#10;line 2\\x0D\\x01\\x1F\\uFFFE \xC3\xBCn"));
    free(text);
}

/* One field of RFC 4180 at *at, which moves behind its separator; *last if a line ended there. malloc'ed. */
static char *read_csv_field(const char **at, bool *last) {
    struct kg_buffer field = KG_BUFFER_INIT;
    const char *s = *at;
    if (*s == '"') {
        for (s++; *s && !(s[0] == '"' && s[1] != '"'); s++) {
            if (*s == '"') s++;
            kg_buffer_append(&field, s, 1);
        }
        ck_assert_int_eq(*s++, '"');
    } else {
        const size_t len = strcspn(s, ",\r");
        kg_buffer_append(&field, s, len);
        s += len;
    }
    *last = *s == '\r';
    ck_assert_msg(*s == ',' || (s[0] == '\r' && s[1] == '\n'), "after a field: %.20s", s);
    *at = s + 1 + *last;
    return field.data ? field.data : kg_xstrdup("");
}

static void csv_reads_back(struct kg_record *rec, const void *arg) {
    char *text = export_of(rec, "data/results.csv");
    const char *at = text;
    size_t n_lines = 0, n_columns = 0, reason_column = 0, n_reasons = 0;
    (void)arg;
    while (*at) {
        bool last = false;
        size_t column = 0;
        for (; !last; column++) {
            char *field = read_csv_field(&at, &last);
            if (n_lines == 0 && strcmp(field, "reason") == 0) reason_column = column;
            if (n_lines > 0 && column == reason_column) n_reasons += strcmp(field, VISIBLE) == 0;
            if (n_lines == 1 && column == 0) ck_assert_str_eq(field, "unit/sample/case_0");
            free(field);
        }
        if (n_lines == 0) n_columns = column;
        ck_assert_uint_eq(column, n_columns);
        n_lines++;
    }
    ck_assert_uint_eq(n_lines, N_CASES + 1);
    ck_assert_uint_eq(n_reasons, N_CASES - 1);
    free(text);
}

static void tap_keeps_its_lines(struct kg_record *rec, const void *arg) {
    char *text = export_of(rec, "data/results.tap");
    (void)arg;
    ck_assert_ptr_nonnull(
        strstr(text, "TAP version 13\n1..4\nok 1 - unit/sample/case_0\nnot ok 2 - unit/sample/case_1\n"));
    ck_assert_uint_eq(count(text, "\n"), 2 + N_CASES + 2); /* two statuses explain themselves in a comment */
    ck_assert_uint_eq(count(text, "ok 3 - unit/sample/case_2 # SKIP a|b"), 1);
    ck_assert_uint_eq(count(text, "\\# hash"), N_CASES - 1);
    free(text);
}

/* Cells of a Markdown table row: pipes that no backslash precedes. */
static size_t count_pipes(const char *line, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\\') i++;
        else n += line[i] == '|';
    }
    return n;
}

static void report_tables_hold(struct kg_record *rec, const void *arg) {
    char *text = export_of(rec, "data/report.md");
    size_t n_pipes = 0, n_rows = 0;
    (void)arg;
    for (const char *line = text; *line;) {
        const size_t len = strcspn(line, "\n");
        const bool row = *line == '|';
        if (row && n_pipes > 0) ck_assert_msg(count_pipes(line, len) == n_pipes, "%.*s", (int)len, line);
        n_pipes = row ? count_pipes(line, len) : 0;
        n_rows += row;
        line += len + (line[len] == '\n');
    }
    ck_assert_uint_ge(n_rows, 3 + 3 * 3); /* counts, and a table each of failed, crashed, skipped */
    ck_assert_ptr_null(strstr(text, "<b>"));
    ck_assert_ptr_nonnull(strstr(text, "failed: 1 of 4 cases passed"));
    ck_assert_ptr_nonnull(strstr(text, "| 4 | 1 | 1 | 1 | 1 | 0 | 0 |"));
    free(text);
}

/* As many suites as cases, the most that a bundle's limits let through: each case is looked at once. With a look at all
 * of them for each suite it took 209 s. */
static void a_suite_for_each_case(struct kg_record *rec, const void *arg) {
    enum { N = 35000 };
    struct kg_records records = { .cases = kg_xcalloc(N, sizeof *records.cases), .n_cases = N };
    const struct kg_export from = { .records = &records };
    struct kg_buffer text = KG_BUFFER_INIT;
    (void)arg;
    for (size_t i = 0; i < N; i++)
        records.cases[i] =
            (struct kg_case_records){ .key = "unit/x/y",
                                      .plan = json_pack("{s:o, s:s, s:s}", "suite", json_sprintf("%zu", i), "layer",
                                                        "unit", "op", "x") };
    const clock_t begun = clock();
    kg_export_junit(&from, &text);
    const double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    kg_record_metric(rec, "processor_time", "s", took_s);
    ck_assert_uint_eq(count(kg_buffer_text(&text), "<testsuite name="), N);
    ck_assert_uint_eq(count(kg_buffer_text(&text), "<testcase "), N);
    ck_assert_double_le(took_s, 3);
    for (size_t i = 0; i < N; i++) json_decref((json_t *)(uintptr_t)records.cases[i].plan);
    free(records.cases);
    kg_buffer_free(&text);
}

/* Cases of a suite stand together, in the plan's order, and suites in that of their first cases. */
static void suites_keep_their_order(struct kg_record *rec, const void *arg) {
    static const char *const SUITES[] = { "b", "a", "b", "c", "a" }, *const KEYS[] = { "b0", "a1", "b2", "c3", "a4" };
    static const char *const ORDER[] = { "\"b\"", "\"b0\"", "\"b2\"", "\"a\"", "\"a1\"", "\"a4\"", "\"c\"", "\"c3\"" };
    struct kg_case_records cases[KG_COUNT_OF(SUITES)];
    struct kg_records records = { .cases = cases, .n_cases = KG_COUNT_OF(SUITES) };
    const struct kg_export from = { .records = &records };
    struct kg_buffer text = KG_BUFFER_INIT;
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SUITES); i++)
        cases[i] = (struct kg_case_records){ .key = KEYS[i], .plan = json_pack("{s:s}", "suite", SUITES[i]) };
    kg_export_junit(&from, &text);
    const char *at = kg_buffer_text(&text);
    for (size_t i = 0; i < KG_COUNT_OF(ORDER) && at; i++) at = strstr(at, ORDER[i]);
    ck_assert_msg(at != NULL, "%s", kg_buffer_text(&text));
    for (size_t i = 0; i < KG_COUNT_OF(SUITES); i++) json_decref((json_t *)(uintptr_t)cases[i].plan);
    kg_buffer_free(&text);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_exports", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(junit_is_well_formed), CASE(csv_reads_back),        CASE(tap_keeps_its_lines),
    CASE(report_tables_hold),   CASE(a_suite_for_each_case), CASE(suites_keep_their_order),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
