/* Pages and reports of records whose answers are known. */
#include "base/buffer.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "report/page.h"
#include "report/plot.h"
#include "report/report.h"
#include "report/sections.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/html_tags.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static void text_stands_for_itself(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *text, *html, *markdown;
    } ROWS[] = {
        { "plain, \xC3\xBC \xE2\x82\xAC", "plain, \xC3\xBC \xE2\x82\xAC", "plain, \xC3\xBC \xE2\x82\xAC" },
        { "<a b=\"c\" d='e'>&", "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;", "&lt;a b=\"c\" d='e'>&amp;" },
        { "a|b`*_[]\\~", "a|b`*_[]\\~", "a\\|b\\`\\*\\_\\[\\]\\\\\\~" },
        { "two\nlines\tand a tab", "two lines and a tab", "two lines and a tab" },
        { "\r\x01\x7f\xC2\x85", "\\x0D\\x01\\u007F\\u0085", "\\\\x0D\\\\x01\\\\u007F\\\\u0085" },
        { "\xE2\x80\xAE\xE2\x81\xA9\xD8\x9C", "\\u202E\\u2069\\u061C", "\\\\u202E\\\\u2069\\\\u061C" },
        { "\xEF\xBB\xBFx\xEF\xBF\xBE", "\\uFEFFx\\uFFFE", "\\\\uFEFFx\\\\uFFFE" },
        { "cut \xE2\x82, lone \x80", "cut \\xE2\\x82, lone \\x80", "cut \\\\xE2\\\\x82, lone \\\\x80" },
        { "", "", "" },
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_buffer html = KG_BUFFER_INIT, markdown = KG_BUFFER_INIT;
        kg_escape(&html, KG_MEDIUM_HTML, ROWS[i].text, strlen(ROWS[i].text));
        kg_escape(&markdown, KG_MEDIUM_MARKDOWN, ROWS[i].text, strlen(ROWS[i].text));
        ck_assert_str_eq(kg_buffer_text(&html), ROWS[i].html);
        ck_assert_str_eq(kg_buffer_text(&markdown), ROWS[i].markdown);
        kg_buffer_free(&html);
        kg_buffer_free(&markdown);
    }
}

static const struct kg_column COLUMNS[] = { { "status", KG_COLUMN_STATUS },
                                            { "case", KG_COLUMN_NAME },
                                            { "seconds", KG_COLUMN_NUMBER } };

static void write_page(struct kg_page *page) {
    static const char *const LINES[] = { "<one>", "two" };
    kg_page_title(page, "A <run>", "fail");
    kg_page_section(page, "Cases");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS)); /* no row: nothing */
    kg_page_table_end(page);
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    kg_page_cell(page, "fail");
    kg_page_cell_lines(page, LINES, KG_COUNT_OF(LINES));
    kg_page_cellf(page, "%.1f", 2.5);
    kg_page_table_end(page);
    kg_page_facts(page);
    kg_page_cell(page, "seed");
    kg_page_cell(page, NULL);
    kg_page_table_end(page);
    kg_page_alert(page, "it is %s", "<bad>");
}

static void same_page_in_both_forms(struct kg_record *rec, const void *arg) {
    static const char MARKDOWN[] =
        "# A &lt;run>: fail\n\n## Cases\n\n| status | case | seconds |\n| --- | --- | ---: |\n"
        "| fail | &lt;one><br>two | 2.5 |\n\n| what | value |\n| --- | --- |\n| seed |  |\n\n**it is &lt;bad>**\n";
    static const char BODY[] =
        "<h1>A &lt;run&gt; <span class=\"word bad\">fail</span></h1>\n<nav><a href=\"#s1\">Cases</a></nav>\n<main>\n"
        "<h2 id=\"s1\">Cases</h2>\n<table id=\"t1\"><thead><tr><th scope=\"col\" class=\"status\">status</th>"
        "<th scope=\"col\" class=\"name\">case</th><th scope=\"col\" "
        "class=\"number\">seconds</th></tr></thead><tbody>\n"
        "<tr><td class=\"status bad\">fail</td><td class=\"name\">&lt;one&gt;<br>two</td><td "
        "class=\"number\">2.5</td></tr>\n"
        "</tbody></table>\n<table class=\"facts\"><tbody>\n<tr><th scope=\"row\">seed</th><td "
        "class=\"name\"></td></tr>\n"
        "</tbody></table>\n<p class=\"bad\">it is &lt;bad&gt;</p>\n</main>\n</body></html>\n";
    struct kg_page markdown = KG_PAGE_INIT(KG_PAGE_MARKDOWN, true), html = KG_PAGE_INIT(KG_PAGE_HTML, true);
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec;
    (void)arg;
    write_page(&markdown);
    kg_page_finish(&markdown, &out);
    ck_assert_str_eq(kg_buffer_text(&out), MARKDOWN);
    kg_buffer_clear(&out);
    write_page(&html);
    kg_page_finish(&html, &out);
    const char *body = strstr(kg_buffer_text(&out), "<h1>");
    ck_assert_ptr_nonnull(body);
    ck_assert_str_eq(body, BODY);
    ck_assert_ptr_nonnull(strstr(out.data, "<title>A &lt;run&gt;</title>"));
    ck_assert_ptr_nonnull(strstr(out.data, "#t1 td:nth-child(3)::before{content:\"seconds \"}"));
    ck_assert_ptr_nonnull(strstr(out.data, "default-src 'none'"));
    kg_expect_html_closed(out.data);
    kg_buffer_free(&out);
}

/* Without this, the other cases could not be red. */
static void unclosed_elements_are_seen(struct kg_record *rec, const void *arg) {
    static const char *const WRONG[] = {
        "<p>a", "<p>a</b></p>", "a</p>", "<table><tr></table></tr>", "<p", "<p></pp>"
    };
    static const char *const RIGHT[] = { "", "<!DOCTYPE html><p>a<br>b<path d=\"\"/></p><p></p>" };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(WRONG); i++) {
        char *wrong = kg_html_unclosed(WRONG[i]);
        ck_assert_msg(wrong != NULL, "%s", WRONG[i]);
        free(wrong);
    }
    for (size_t i = 0; i < KG_COUNT_OF(RIGHT); i++) kg_expect_html_closed(RIGHT[i]);
}

static void names_in_plots(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *name, *quoted;
    } ROWS[] = { { "kv", "'kv'" },
                 { "cuda f16", "'cuda f16'" },
                 { "a'; set print '/x'\nEOD `y`", "'a?? set print ?/x??EOD ?y?'" },
                 { "{/*10 big} \\n \"q\"", "'?/?10 big? ?n ?q?'" },
                 { "0123456789012345678901234567890123456789tail", "'0123456789012345678901234567890123456789'" } };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_plot_quote(&out, ROWS[i].name);
        ck_assert_str_eq(kg_buffer_text(&out), ROWS[i].quoted);
        kg_buffer_free(&out);
    }
}

static void pictures_stand_in_a_page(struct kg_record *rec, const void *arg) {
    struct kg_buffer first = KG_BUFFER_INIT, second = KG_BUFFER_INIT;
    char why[KG_PLOT_WHY_SIZE];
    (void)arg;
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        kg_record_skip(rec, "gnuplot is not installed");
        return;
    }
    ck_assert_msg(kg_plot_svg("plot sin(x) with points title 'a'", 1, "says <\"this\">", &first, why), "%s", why);
    ck_assert(kg_plot_svg("plot sin(x) with points title 'a'", 2, "x", &second, why));
    ck_assert_msg(strncmp(first.data,
                          "<svg viewBox=\"0 0 480 280\" role=\"img\" aria-label=\"says &lt;&quot;this&quot;&gt;\">",
                          80) == 0,
                  "%.120s", first.data);
    ck_assert_ptr_nonnull(strstr(first.data, "href='#p1-t"));
    ck_assert_ptr_nonnull(strstr(second.data, "href='#p2-t"));
    static const char *const NEVER[] = { "xlink", "http", "black", "gpPt", "<?xml", "<script", "gnuplot_" };
    for (size_t i = 0; i < KG_COUNT_OF(NEVER); i++)
        ck_assert_msg(strstr(first.data, NEVER[i]) == NULL, "the picture holds %s", NEVER[i]);
    kg_buffer_clear(&first);
    ck_assert(!kg_plot_svg("plot nothing nowhere", 1, "x", &first, why));
    ck_assert_msg(strncmp(why, "gnuplot made no picture", 23) == 0, "%s", why);
    ck_assert_uint_eq(first.len, 0);
    kg_buffer_free(&first);
    kg_buffer_free(&second);
}

/* Records of case_0 to case_3: margins 0.1 to 0.4, medians 5 to 8 ns (bundle_maker.h); case_2 was skipped, with
 * nothing. */
struct run {
    struct kg_records records;
    struct kg_bundle_findings findings;
    struct kg_export from;
    json_t *summary;
};

static void open_run_of(struct kg_record *rec, const char *const *statuses, size_t n, struct run *run) {
    struct kg_bundle_summary summary;
    struct kg_error err;
    *run = (struct run){ .summary = NULL };
    EXPECT_OK(kg_maker_write(kg_scratch_dir(rec), statuses, n, &summary, &err), err);
    char *dir = kg_maker_only(kg_scratch_dir(rec));
    EXPECT_OK(kg_records_load_results(dir, &run->records, &run->findings, &err), err);
    EXPECT_OK(kg_bundle_read_json(dir, "data/summary.json", &run->summary, &err), err);
    run->from = (struct kg_export){ .records = &run->records, .summary = run->summary };
    free(dir);
}

static void open_run(struct kg_record *rec, struct run *run) {
    static const char *const STATUSES[] = { "pass", "fail", "skip", "pass" };
    open_run_of(rec, STATUSES, KG_COUNT_OF(STATUSES), run);
}

static void close_run(struct run *run) {
    json_decref(run->summary);
    kg_records_free(&run->records);
}

static char *markdown_of(const struct kg_report *report) {
    struct kg_page page = KG_PAGE_INIT(KG_PAGE_MARKDOWN, false), html = KG_PAGE_INIT(KG_PAGE_HTML, true);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_report_page(report, &html);
    kg_page_finish(&html, &out);
    kg_expect_html_closed(out.data);
    kg_buffer_clear(&out);
    kg_report_page(report, &page);
    kg_page_finish(&page, &out);
    return out.data;
}

static void holds(const char *text, const char *what) {
    ck_assert_msg(strstr(text, what) != NULL, "no '%s' in %s", what, text);
}

/* Two runs before: medians of case_0 4 and 6 ns, so that its 5 is no change; of case_3 4 ns, which its 8 doubles. */
static json_t *known_past(void) {
    static const char SHA[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    json_t *past = json_object();
    char *zero = kg_xasprintf("unit/sample/case_0\n%s\ndecode.host.warm", SHA);
    char *three = kg_xasprintf("unit/sample/case_3\n%s\ndecode.host.warm", SHA);
    json_object_set_new(past, zero, json_pack("[f, f]", 4.0, 6.0));
    json_object_set_new(past, three, json_pack("[f]", 4.0));
    free(three);
    free(zero);
    return past;
}

static void sections_of_known_records(struct kg_record *rec, const void *arg) {
    struct run run;
    (void)arg;
    open_run(rec, &run);
    json_t *past = known_past();
    const struct kg_report report = {
        .run = &run.from, .manifest_sha256 = "abc", .not_compared = "no reason", .past = past
    };
    char *text = markdown_of(&report);
    holds(text,
          ": fail\n\n| what | value |\n| --- | --- |\n| result | failed: 2 of 4 cases passed, 1 failed, 1 skipped |\n"
          "| before | not compared: no reason |\n");
    holds(text, "\nNot compared: no reason.\n");
    holds(text, "| unit | 4 | 2 | 1 | 0 | 0 | 0 | 1 |\n");
    holds(text, "| fail | unit/sample/case\\_1 | 0.002 | 0.2 | as the maker was asked |\n");
    holds(text, "| 1 | as the maker was asked | unit/sample/case\\_2 |\n");
    holds(text, "| 0.4 | unit/sample/case\\_3 | logits | 64 | max\\_abs 0.004 of 0.01 | a sample |\n| 0.3 |");
    holds(text,
          "| unit/sample/case\\_3 | decode.host.warm | 8 ns | 7.5 ns to 9.012 ns | 10 |  | 4 ns (1) | +100.00% |\n"
          "| unit/sample/case\\_0 | decode.host.warm | 5 ns | 4.5 ns to 6.013 ns | 10 |  | 5 ns (2) | +0.00% |\n");
    holds(text, "| weights | 4 KiB | none | 4 |");
    free(text);
    json_decref(past);
    close_run(&run);
}

/* What gnuplot is asked for by the report's pages, from now on: a program of that name that writes it down and fails.
 */
static void write_down_plots(const char *dir) {
    struct kg_error err;
    char *program = kg_path_join(dir, "gnuplot"), *script = kg_xasprintf("#!/bin/sh\ncat >>'%s/asked'\nexit 1\n", dir);
    char *path = kg_xasprintf("%s:%s", dir, getenv("PATH"));
    EXPECT_OK(kg_dir_make(dir, &err), err);
    EXPECT_OK(kg_bundle_put(dir, "gnuplot", script, strlen(script), &err), err);
    ck_assert_int_eq(chmod(program, 0755), 0);
    setenv("PATH", path, 1);
    free(path);
    free(script);
    free(program);
}

/* By hand: medians 8 of 4 and 5 of 4 to 6 before, with their intervals, all in percent of the runs before. */
static void plot_of_changes(struct kg_record *rec, const void *arg) {
    struct run run;
    struct kg_error err;
    size_t size_bytes;
    char *asked, *dir = kg_path_join(kg_scratch_dir(rec), "programs"), *file = kg_path_join(dir, "asked");
    (void)arg;
    open_run(rec, &run);
    json_t *past = known_past();
    const struct kg_report report = {
        .run = &run.from, .manifest_sha256 = "abc", .not_compared = "no reason", .past = past
    };
    write_down_plots(dir);
    free(markdown_of(&report));
    EXPECT_OK(kg_file_read(file, &asked, &size_bytes, &err), err);
    holds(asked, "$t << EOD\n1 100 87.5 125.312 0 0\n2 0 -10 20.25 -20 20\nEOD\n");
    holds(asked, "$m << EOD\n0 0.00390625\nEOD\n"); /* 4 KiB of the tag "weights", in MiB */
    free(asked);
    free(file);
    free(dir);
    json_decref(past);
    close_run(&run);
}

static void set_first(const struct run *run, size_t i, const char *list, const char *member, double value) {
    json_t *item = json_array_get(json_object_get(run->records.cases[i].result, list), 0);
    ck_assert_int_eq(json_object_set_new(item, member, json_real(value)), 0);
}

/* An error at its limit is within it, a case that never ran is not green, and memory that one case left is not taken
 * back by the next. */
static void sections_at_their_edges(struct kg_record *rec, const void *arg) {
    static const char *const STATUSES[] = { "pass", "pass", "pass", "norun", "crash", "timeout" };
    struct run run;
    (void)arg;
    open_run_of(rec, STATUSES, KG_COUNT_OF(STATUSES), &run);
    set_first(&run, 0, "errors", "margin", 1);
    set_first(&run, 1, "errors", "margin", 0.5);
    set_first(&run, 2, "errors", "margin", 1.0000001);
    set_first(&run, 0, "memory", "left_bytes", 2048);
    const struct kg_report report = { .run = &run.from, .manifest_sha256 = "abc", .not_compared = "no reason" };
    char *text = markdown_of(&report);
    holds(text, ": 1 above their limit, 2 between half of it and all of it.");
    holds(text, "| norun | unit/sample/case\\_3 |");
    holds(text, "| crash | unit/sample/case\\_4 |");
    holds(text, "| timeout | unit/sample/case\\_5 |");
    ck_assert_ptr_null(strstr(text, "| pass | unit/sample/case\\_0 |"));
    holds(text, "| weights | 4 KiB | 2 KiB |");
    free(text);
    close_run(&run);
}

/* How often `what` stands in the text. Without strstr: sanitized, it reads all that is left of the text at each call.
 */
static size_t times_in(const char *text, const char *what) {
    const size_t len = strlen(what);
    size_t n = 0;
    for (const char *at = text; *at; at++) n += *at == *what && strncmp(at, what, len) == 0;
    return n;
}

/* Skipped cases are counted by reason, their names and those of what passed are folded away, each once: what a page of
 * thousands of cases weighs is the row of one that passed. */
static void whole_page_names_each_case_once(struct kg_record *rec, const void *arg) {
    static const char *const STATUSES[] = { "skip", "fail", "skip", "pass", "pass" };
    struct run run;
    struct kg_page html = KG_PAGE_INIT(KG_PAGE_HTML, false);
    (void)arg;
    open_run_of(rec, STATUSES, KG_COUNT_OF(STATUSES), &run);
    const struct kg_report report = {
        .run = &run.from, .manifest_sha256 = "abc", .not_compared = "no reason", .whole = true
    };
    kg_section_cases(&report, &html);
    const char *body = kg_buffer_text(&html.body);
    kg_expect_html_closed(body);
    holds(body, "<tr><td class=\"number\">2</td><td class=\"text\">as the maker was asked</td>"
                "<td class=\"name\">unit/sample/case_0</td></tr>\n");
    holds(body, "<details><summary>Their names</summary>\n");
    holds(body, "<tr><td class=\"text\">as the maker was asked</td>"
                "<td class=\"name\">unit/sample/case_0<br>unit/sample/case_2</td></tr>\n");
    holds(body, "<details><summary>unit: 2</summary>\n");
    holds(body, "<tr><td class=\"name\">unit/sample/case_3</td><td class=\"number\">0.004</td>"
                "<td class=\"number\">0.4</td></tr>\n");
    for (size_t i = 0; i < KG_COUNT_OF(STATUSES); i++) {
        char name[32];
        snprintf(name, sizeof name, "unit/sample/case_%zu", i);
        /* the first of a reason is its example too */
        ck_assert_msg(times_in(body, name) == (i == 0 ? 2U : 1U), "%s stands %zu times in %s", name,
                      times_in(body, name), body);
    }
    kg_page_free(&html);
    close_run(&run);
}

/* As many layers as cases that passed, the most that a bundle's limits let through: each case is looked at once. */
static void a_layer_for_each_case(struct kg_record *rec, const void *arg) {
    enum { N = 35000, MOST_S = 5 };
    struct kg_records records = { .cases = kg_xcalloc(N, sizeof *records.cases), .n_cases = N };
    const struct kg_export run = { .records = &records };
    const struct kg_report report = { .run = &run, .whole = true };
    struct kg_page html = KG_PAGE_INIT(KG_PAGE_HTML, false);
    json_t *passed = json_pack("{s:s, s:n}", "status", "pass", "reason");
    (void)arg;
    for (size_t i = 0; i < N; i++)
        records.cases[i] = (struct kg_case_records){ .key = "unit/x/y",
                                                     .plan = json_pack("{s:o}", "layer", json_sprintf("%zu", i)),
                                                     .result = passed };
    const clock_t begun = clock();
    kg_section_cases(&report, &html);
    const double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    kg_record_metric(rec, "processor_time", "s", took_s);
    ck_assert_uint_eq(times_in(kg_buffer_text(&html.body), "unit/x/y</td>"), N);
    ck_assert_double_le(took_s, MOST_S);
    for (size_t i = 0; i < N; i++) json_decref((json_t *)(uintptr_t)records.cases[i].plan);
    json_decref(passed);
    free(records.cases);
    kg_page_free(&html);
}

static void units_and_half_decades(struct kg_record *rec, const void *arg) {
    static const struct {
        double value;
        const char *time, *bytes;
    } ROWS[] = { { 0, "0 ns", "0 B" },
                 { 0.5, "0.5 ns", "0.5 B" },
                 { 1, "1 ns", "1 B" },
                 { 999, "999 ns", "999 B" },
                 { 1000, "1 µs", "1000 B" },
                 { 1024, "1.024 µs", "1 KiB" },
                 { -2048, "-2.048 µs", "-2 KiB" },
                 { 1e6, "1 ms", "976.6 KiB" },
                 { 1 << 20, "1.049 ms", "1 MiB" },
                 { 1e9, "1 s", "953.7 MiB" },
                 { 1 << 30, "1.074 s", "1 GiB" },
                 { NAN, "", "" } };
    static const struct {
        double margin, place;
    } MARGINS[] = { { 1e-8, -1 }, { 2e-8, 0 },   { 0.3, 14 }, { 0.4, 15 },
                    { 1, 15 },    { 1.001, 16 }, { 10, 17 },  { 11, 18 } };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        ck_assert_str_eq(kg_quantity_time(ROWS[i].value).text, ROWS[i].time);
        ck_assert_str_eq(kg_quantity_bytes(ROWS[i].value).text, ROWS[i].bytes);
    }
    for (size_t i = 0; i < KG_COUNT_OF(MARGINS); i++)
        ck_assert_double_eq(kg_report_half_decade(MARGINS[i].margin), MARGINS[i].place);
}

/* Two values that look alike are written with the digits that tell them apart, and no more. */
static void values_beside_each_other(struct kg_record *rec, const void *arg) {
    static const struct {
        double value, other;
        const char *unit, *text;
    } ROWS[] = { { 1234.1, 1234.2, "ns", "1234.1 ns" },        { 1234.2, 1234.1, "ns", "1234.2 ns" },
                 { 1.25e9, 1.25e9, "ns", "1.25 s" },           { 1000001, 1000002, "bytes", "1000001 bytes" },
                 { 0.12345, 0.12346, "GB/s", "0.12345 GB/s" }, { 1234, 1.5, "ns", "1.234 µs" } };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        ck_assert_str_eq(kg_quantity_beside(ROWS[i].value, ROWS[i].other, ROWS[i].unit).text, ROWS[i].text);
}

/* Every line has as many fields as the head; the figures are there with their limits. */
static void csv_of_known_records(struct kg_record *rec, const void *arg) {
    struct run run;
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)arg;
    open_run(rec, &run);
    struct kg_judgement judgement = { .judged = KG_JUDGED_WORSE,
                                      .key = (char[]){ "unit/sample/case_3" },
                                      .figure = (char[]){ "decode.host.warm" },
                                      .before = 4,
                                      .change = 1 };
    const struct kg_regression regression = { .judgements = &judgement, .n_judgements = 1 };
    const struct kg_report report = { .run = &run.from, .manifest_sha256 = "abc", .regression = &regression };
    kg_report_csv(&report, &out);
    size_t n_lines = 0;
    for (const char *line = out.data; *line; n_lines++) {
        const char *end = strstr(line, "\r\n");
        size_t n_fields = 1;
        for (const char *s = line; s < end; s++) n_fields += *s == ',';
        ck_assert_msg(n_fields == 19, "%zu fields in %.*s", n_fields, (int)(end - line), line);
        line = end + 2;
    }
    ck_assert_uint_eq(n_lines, 1 + 4 * 6); /* a case, its error, timing, metric, and two of memory */
    holds(out.data, ",logits.max_abs,error,,0.004,0.01,0.4,,,64,,,\r\n");
    holds(out.data, ",decode.host.warm,timing,ns,8,,,7.5,9.0125,10,4,1,regression\r\n");
    holds(out.data, ",weights.peak,memory,bytes,4096,,,,,,,,\r\n");
    kg_buffer_free(&out);
    close_run(&run);
}

/* A run of every case is no sample, whatever another writer says of it. */
static void samples_of_cases(struct kg_record *rec, const void *arg) {
    static const int ONE_IN[] = { 0, 1, 2 };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ONE_IN); i++) {
        char text[KG_SAMPLE_TEXT_SIZE];
        json_t *run = json_pack("{s:i}", "sample", ONE_IN[i]);
        ck_assert_int_eq(kg_sample_text(run, text), ONE_IN[i] > 1);
        json_decref(run);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "report", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(text_stands_for_itself),   CASE(same_page_in_both_forms),         CASE(names_in_plots),
    CASE(pictures_stand_in_a_page), CASE(sections_of_known_records),       CASE(csv_of_known_records),
    CASE(sections_at_their_edges),  CASE(unclosed_elements_are_seen),      CASE(plot_of_changes),
    CASE(units_and_half_decades),   CASE(whole_page_names_each_case_once), CASE(samples_of_cases),
    CASE(a_layer_for_each_case),    CASE(values_beside_each_other),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
