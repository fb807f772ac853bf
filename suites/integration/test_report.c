/* kigo report: pages of sound, hostile and spoilt runs, and what a browser makes of them. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/size.h"
#include "report/page.h"
#include "run/publish.h"
#include "suites/integration/browser.h"
#include "suites/integration/hostile_run.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include "suites/support/html_tags.h"
#include <check.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What every page owes its reader at that width. */
static bool look_is_good(struct kg_record *rec, const char *html, int width, const char *words, int least_images) {
    struct kg_look look;
    if (!kg_browser_looks_right(rec, html, width, words, &look)) return false;
    ck_assert_int_ge(look.n_images, least_images);
    ck_assert_int_eq(look.n_outside, 0);
    ck_assert_int_ge(look.n_headings, 3);
    ck_assert_int_eq(look.n_narrow, 0);
    return true;
}

static const int WIDTHS[] = { 360, 1440 };

static bool has_gnuplot(void) {
    return system("gnuplot --version >/dev/null 2>&1") == 0;
}

static void looked_at(struct kg_record *rec, const char *html, const char *words, int least_images) {
    kg_expect_html_closed(html);
    for (size_t i = 0; i < KG_COUNT_OF(WIDTHS); i++)
        if (!look_is_good(rec, html, WIDTHS[i], words, has_gnuplot() ? least_images : 0)) return;
}

static void hostile_text_in_a_browser(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *html;
    (void)arg;
    kg_hostile_run_seal(root, 300);
    kg_verb_expect(root, ARGS("report", "latest"), KG_EXIT_OK, &html);
    looked_at(rec, html, KG_HOSTILE_NAME_OF[3], 2);
    looked_at(rec, html, "bell \\x07, escape \\x1B[31m, delete \\u007F", 2);
    looked_at(rec, html, "\\u202E.gnp.exe\\u2066", 2);
    free(html);
}

static void sealed_page_in_a_browser(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *html = NULL;
    size_t size_bytes;
    struct kg_error err;
    (void)arg;
    kg_hostile_run_seal(root, 300);
    char *dir = kg_maker_only(root), *path = kg_path_join(dir, "data/report.html");
    EXPECT_OK(kg_file_read(path, &html, &size_bytes, &err), err);
    looked_at(rec, html, KG_HOSTILE_NAME_OF[1], 0);
    free(html);
    free(path);
    free(dir);
}

/* Without this, the other cases could not be red. */
static void browser_sees_what_is_wrong(struct kg_record *rec, const void *arg) {
    static const char PAGE[] =
        "<!DOCTYPE html><html><body><h1 id=a>x</h1><p id=a onclick='f()'>words</p><script>1</script>"
        "<svg viewBox='0 0 1 1'></svg><img src='http://198.51.100.1/no.png' alt=''><div "
        "style='width:500px'>y</div><table "
        "style='width:9px;overflow-wrap:anywhere'><tr><td>breaks</td></tr></table></body></html>";
    struct kg_look look;
    (void)arg;
    if (!kg_browser_look(rec, PAGE, 360, "other words", &look)) return;
    ck_assert_int_ge(look.scroll_width, 500);
    ck_assert_int_eq(look.n_unnamed, 2);
    ck_assert_int_eq(look.n_scripts, 2);
    ck_assert_int_eq(look.n_outside, 1);
    ck_assert_int_eq(look.n_ids_twice, 1);
    ck_assert_int_eq(look.n_headings, 1);
    ck_assert_int_eq(look.n_narrow, 1);
    ck_assert_int_eq(look.finds, 0);
}

struct story {
    struct kg_rng rng;
    double victim;
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= exp(0.005 * kg_rng_normal(&story->rng));
    if (i == 1) c->time_ns *= story->victim;
    if (i == 2 && story->victim > 1) c->status = "fail";
}

/* 12 runs of 6 cases; in the last a case is half as fast again, and another fails. */
static void write_history(struct kg_history_lab *lab, struct story *story) {
    enum { N_RUNS = 12 };
    kg_rng_init(&story->rng, 3, 0);
    for (size_t i = 0; i < N_RUNS; i++) {
        story->victim = i + 1 < N_RUNS ? 1 : 1.5;
        kg_history_lab_runs(lab, i, 1, (struct kg_made_run){ .n_cases = 6, .canary = 1, .fill = fill, .arg = story });
    }
}

static void changes_in_a_browser(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story;
    char *html;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    kg_verb_expect(lab.root, ARGS("report", "latest", "--repo", lab.repository), KG_EXIT_OK, &html);
    ck_assert_ptr_null(strstr(html, "This bundle is not what was sealed"));
    ck_assert_ptr_nonnull(strstr(html, "<td class=\"status bad\">regressed</td>"));
    ck_assert_ptr_nonnull(strstr(html, "<td class=\"status bad\">regression</td>"));
    looked_at(rec, html, "Against 11 runs", 3);
    ck_assert_ptr_nonnull(strstr(html, "runs before, and how many they are."));
    free(html);
    kg_history_lab_close(&lab);
}

/* What can be said of the pages where there is no browser. */
static void pages_close_what_they_open(struct kg_record *rec, const void *arg) {
    static const char *const OF_HISTORY[] = { "The largest error over its limit of each run",
                                              "The largest peak of each tag over the cases of a run, in MiB." };
    const char *hostile = kg_scratch_dir(rec);
    struct kg_history_lab lab;
    struct story story;
    char *html;
    (void)arg;
    kg_hostile_run_seal(hostile, 300);
    kg_verb_expect(hostile, ARGS("report", "latest"), KG_EXIT_OK, &html);
    kg_expect_html_closed(html);
    free(html);
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    kg_verb_expect(lab.root, ARGS("report", "latest", "--repo", lab.repository), KG_EXIT_OK, &html);
    kg_expect_html_closed(html);
    ck_assert_ptr_nonnull(strstr(html, " (11)</td>")); /* each timing beside those of the runs before */
    free(html);
    kg_verb_expect(lab.root, ARGS("report", "--history"), KG_EXIT_OK, &html);
    kg_expect_html_closed(html);
    for (size_t i = 0; i < KG_COUNT_OF(OF_HISTORY) && has_gnuplot(); i++)
        ck_assert_msg(strstr(html, OF_HISTORY[i]) != NULL, "no '%s'", OF_HISTORY[i]);
    free(html);
    kg_history_lab_close(&lab);
}

static void history_in_a_browser(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story;
    char *html, *text;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    kg_verb_expect(lab.root, ARGS("report", "--history"), KG_EXIT_OK, &html);
    looked_at(rec, html, "12 runs", 4);
    ck_assert_ptr_nonnull(strstr(html, "Error margins"));
    ck_assert_ptr_nonnull(strstr(html, "Memory by tag"));
    if (has_gnuplot())
        ck_assert_ptr_nonnull(strstr(html, "The largest peak of each tag over the cases of a run, in MiB."));
    free(html);
    kg_verb_expect(lab.root, ARGS("report", "--history", "--csv", "--limit", "5"), KG_EXIT_OK, &text);
    size_t n_lines = 0;
    for (const char *s = text; *s; s++) n_lines += *s == '\n';
    ck_assert_uint_eq(n_lines, 6);
    ck_assert_msg(strncmp(text, "bundle_id,manifest_sha256,", 26) == 0, "%.2000s", text);
    free(text);
    kg_verb_expect(lab.root, ARGS("report", "--history", "--markdown"), KG_EXIT_OK, &text);
    ck_assert_ptr_nonnull(strstr(text, "# kigo history"));
    free(text);
    kg_history_lab_close(&lab);
}

/* WCAG 2.2, success criterion 1.4.3, for text of any size. */
static const double LEAST_CONTRAST = 4.5;

/* At a phone's and a desk's width, whatever the reader prefers; false without a browser. */
static bool is_readable(struct kg_record *rec, const char *html, enum kg_ground ground, int least_texts) {
    struct kg_colours seen;
    for (size_t i = 0; i < KG_COUNT_OF(WIDTHS); i++) {
        if (!kg_browser_colours(rec, html, WIDTHS[i], ground, &seen)) return false;
        if (ground == KG_GROUND_DARK)
            ck_assert_msg(seen.ground >= 0 && seen.ground < 0.02, "the dark ground's luminance is %g", seen.ground);
        else ck_assert_msg(seen.ground > 0.98, "the light ground's luminance is %g", seen.ground);
        ck_assert_msg(seen.least_contrast >= LEAST_CONTRAST, "contrast %.2f, %d pixels wide: '%s'", seen.least_contrast,
                      WIDTHS[i], seen.of);
        ck_assert_int_ge(seen.n_texts, least_texts);
    }
    return true;
}

/* The next row of a table, or caption, of a page, without tags, blanks and line ends, its markup resolved; *at goes
 * behind it. malloc'ed; NULL: none. */
static char *next_words(const char **at) {
    static const struct {
        const char *begin, *end;
    } KINDS[] = { { "<tr>", "</tr>" }, { "<figcaption>", "</figcaption>" } };
    static const struct {
        const char *from, *to;
    } MARKUP[] = { { "&lt;", "<" }, { "&gt;", ">" }, { "&amp;", "&" }, { "&quot;", "\"" }, { "&#39;", "'" } };
    const char *s = NULL, *end = NULL;
    struct kg_buffer words = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        const char *begin = strstr(*at, KINDS[i].begin);
        if (!begin || (s && begin > s)) continue;
        s = begin;
        end = strstr(begin, KINDS[i].end);
    }
    if (!end) return NULL;
    *at = end;
    while (s < end) {
        size_t i = 0;
        if (*s == '<') s += strcspn(s, ">") + 1;
        else if (isspace((unsigned char)*s)) s++;
        else {
            while (i < KG_COUNT_OF(MARKUP) && strncmp(s, MARKUP[i].from, strlen(MARKUP[i].from)) != 0) i++;
            kg_buffer_append(&words, i < KG_COUNT_OF(MARKUP) ? MARKUP[i].to : s, 1);
            s += i < KG_COUNT_OF(MARKUP) ? strlen(MARKUP[i].from) : 1;
        }
    }
    return words.data ? words.data : kg_xstrdup("");
}

/* All of these are on paper, in the page's order and a row's cells one behind the other. The first that is not,
 * malloc'ed, or NULL. */
static char *lost_on_paper(const char *html, const char *text) {
    char *words;
    for (const char *at = html; (words = next_words(&at)); free(words)) {
        const char *found = strstr(text, words);
        if (!found) return words;
        text = found + strlen(words);
    }
    return NULL;
}

/* False without a browser. */
static bool is_printed(struct kg_record *rec, const char *html, int least_texts) {
    struct kg_printed printed;
    if (!is_readable(rec, html, KG_GROUND_PAPER, least_texts) || !kg_browser_print(rec, html, &printed)) return false;
    ck_assert_int_ge(printed.n_pages, 1);
    ck_assert_int_eq(printed.n_a4, printed.n_pages);
    if (isfinite(printed.lightness))
        ck_assert_msg(printed.lightness > 0.85 && printed.lightness < 0.999, "lightness %g", printed.lightness);
    char *lost = printed.text ? lost_on_paper(html, printed.text) : NULL;
    ck_assert_msg(!lost, "not on paper: '%.2000s'", lost);
    free(printed.text);
    return true;
}

/* A run with every kind of judgement, a history and a run of hostile texts: as many words in colours as pages have. */
static char *page_of_many_colours(struct kg_record *rec, const void *arg) {
    const char *which = arg;
    struct kg_history_lab lab;
    struct story story;
    char *html;
    if (strcmp(which, "hostile") == 0) {
        kg_hostile_run_seal(kg_scratch_dir(rec), 300);
        kg_verb_expect(kg_scratch_dir(rec), ARGS("report", "latest"), KG_EXIT_OK, &html);
        return html;
    }
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    if (strcmp(which, "history") == 0) kg_verb_expect(lab.root, ARGS("report", "--history"), KG_EXIT_OK, &html);
    else kg_verb_expect(lab.root, ARGS("report", "latest"), KG_EXIT_OK, &html);
    kg_history_lab_close(&lab);
    return html;
}

enum { LEAST_TEXTS = 40 };

static void read_in_the_dark(struct kg_record *rec, const void *arg) {
    char *html = page_of_many_colours(rec, arg);
    if (is_readable(rec, html, KG_GROUND_DARK, LEAST_TEXTS)) is_readable(rec, html, KG_GROUND_LIGHT, LEAST_TEXTS);
    free(html);
}

static void printed(struct kg_record *rec, const void *arg) {
    char *html = page_of_many_colours(rec, arg);
    is_printed(rec, html, LEAST_TEXTS);
    free(html);
}

/* Without this, the cases above could not be red: grey on grey, a name of a column, a picture's text, a half
 * transparent one; a page that is dark on paper, of another size, and keeps a row in a fold. */
static void eyes_see_what_is_wrong(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *body, *of;
        double contrast;
    } ROWS[] = {
        { "<p>good</p><p style='color:#777'>grey on white</p>", "grey on white", 4.48 },
        { "<div style='background:#777;color:#ddd'><b>bold</b></div>", "bold", 3.30 },
        { "<style>p::before{content:'head ';color:#999}</style><p>x</p>", "?", 2.85 },
        { "<svg viewBox='0 0 9 9'><text y='5' fill='#ccc'>drawn</text></svg>", "drawn", 1.61 },
        { "<p style='opacity:.5'>pale</p>", "pale", 3.98 },
        { "<details><summary>s</summary><p style='color:#eee'>folded</p></details>", "folded", 1.16 },
    };
    static const char PAPER[] =
        "<!DOCTYPE html><style>@page{size:letter}:root{background:#000;-webkit-print-color-adjust:"
        "exact}</style><table><tr><td class=a>seen</td></tr></table><details>"
        "<table><tr><td class=a>not seen</td></tr></table></details>";
    struct kg_colours seen;
    struct kg_printed paper;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *html = kg_xasprintf("<!DOCTYPE html><html><body style='background:#fff;color:#000'>%s</body></html>",
                                  ROWS[i].body);
        if (!kg_browser_colours(rec, html, 360, KG_GROUND_DARK, &seen)) return free(html);
        ck_assert_msg(fabs(seen.least_contrast - ROWS[i].contrast) < 0.01, "%s: contrast %g", ROWS[i].of,
                      seen.least_contrast);
        ck_assert_msg(strncmp(seen.of, ROWS[i].of, strlen(ROWS[i].of)) == 0 || ROWS[i].of[0] == '?', "'%s'", seen.of);
        ck_assert_double_eq_tol(seen.ground, 1, 1e-9);
        free(html);
    }
    if (!kg_browser_print(rec, PAPER, &paper)) return;
    ck_assert_int_eq(paper.n_pages, 1);
    ck_assert_int_eq(paper.n_a4, 0);
    if (isfinite(paper.lightness)) ck_assert_double_lt(paper.lightness, 0.5);
    char *lost = paper.text ? lost_on_paper(PAPER, paper.text) : kg_xstrdup("notseen");
    ck_assert_str_eq(lost, "notseen");
    free(lost);
    free(paper.text);
}

/* Every form names the bundle and the hash of its manifest. */
static void forms_name_their_bundle(struct kg_record *rec, const void *arg) {
    static const char *const FORMS[] = { NULL, "--markdown", "--csv" };
    const char *root = kg_scratch_dir(rec);
    char sha256[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    (void)arg;
    char *dir = kg_verb_seal(root), *manifest = kg_path_join(dir, "manifest-sha256.txt");
    EXPECT_OK(kg_sha256_file(manifest, sha256, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++) {
        char *text, *again = NULL, *path = kg_path_join(root, "report.out");
        size_t size_bytes;
        kg_verb_expect(root, ARGS("report", "latest", FORMS[i]), KG_EXIT_OK, &text);
        ck_assert_msg(strstr(text, strrchr(dir, '/') + 1) != NULL, "no id: %s", text);
        ck_assert_msg(strstr(text, sha256) != NULL, "no hash: %s", text);
        if (i == 0) ck_assert_msg(strstr(text, ">not signed</td>") != NULL, "no signature: %s", text);
        kg_verb_expect(root, ARGS("report", "latest", "-o", path, FORMS[i]), KG_EXIT_OK, NULL);
        EXPECT_OK(kg_file_read(path, &again, &size_bytes, &err), err);
        ck_assert_str_eq(again, text);
        free(again);
        free(text);
        free(path);
    }
    free(manifest);
    free(dir);
}

static void against_a_run(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story;
    char *text;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    char *first = kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[0], .n_cases = 7, .canary = 1 });
    char *second =
        kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[1], .n_cases = 6, .canary = 1 });
    kg_verb_expect(lab.root, ARGS("report", second, "--against", first, "--markdown"), KG_EXIT_OK, &text);
    ck_assert_ptr_nonnull(strstr(text, "| regressed |"));
    char *missing = kg_xasprintf("| missing | bench/linear/case\\_6");
    ck_assert_msg(strstr(text, missing) != NULL, "%.2000s", text);
    free(missing);
    free(text);
    free(second);
    free(first);
    kg_history_lab_close(&lab);
}

static void spoilt_bundle_says_so(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *text;
    (void)arg;
    char *dir = kg_verb_seal(root);
    kg_maker_append(dir, "data/report.md", "more");
    kg_verb_expect(root, ARGS("report", "latest"), KG_EXIT_INTEGRITY, &text);
    ck_assert_ptr_nonnull(strstr(text, "<p class=\"bad\">This bundle is not what was sealed"));
    ck_assert_ptr_nonnull(strstr(text, "data/report.md"));
    free(text);
    free(dir);
}

/* A folder of programs that holds none stands in for a machine without gnuplot: the tables stay. */
static void tables_stay_without_gnuplot(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *path = kg_xasprintf("PATH=%s/nothing", root), *dir = kg_verb_seal(root);
    const char *const argv[] = { kg_program_path(), "report", dir, "--bundles", root, NULL };
    const char *const env[] = { path, NULL };
    const struct kg_process process = { .argv = argv, .env = env };
    struct kg_process_result result;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    ck_assert_msg(result.exit_code == KG_EXIT_OK, "%s", result.err);
    ck_assert_ptr_nonnull(strstr(result.out, "<p>No plots: gnuplot is not there"));
    ck_assert_ptr_null(strstr(result.out, "<svg"));
    ck_assert_ptr_nonnull(strstr(result.out, ">error/limit</th>"));
    kg_process_result_free(&result);
    free(dir);
    free(path);
}

/* A run that died, of a machine that nothing is known of. */
static void run_that_died(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    char *text;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    char *id = kg_history_lab_run(&lab, (struct kg_made_run){ .n_cases = 2, .partial = true });
    char *dir = kg_path_join(lab.root, id);
    static const char *const FILES[] = { "data/env.json", "data/build.json", "data/source.json" };
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *path = kg_path_join(dir, FILES[i]);
        struct kg_error err;
        EXPECT_OK(kg_path_remove(path, &err), err);
        free(path);
    }
    kg_verb_expect(lab.root, ARGS("report", id), KG_EXIT_INTEGRITY, &text);
    ck_assert_ptr_nonnull(strstr(text, "(partial: the run died)"));
    ck_assert_ptr_nonnull(strstr(text, "<span class=\"word bad\">incomplete</span>"));
    free(text);
    free(dir);
    free(id);
    kg_history_lab_close(&lab);
}

static void wrong_calls(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    free(kg_verb_seal(root));
    const char *const *const calls[] = { ARGS("report"),
                                         ARGS("report", "nothing"),
                                         ARGS("report", "latest", "--history"),
                                         ARGS("report", "latest", "--csv", "--markdown"),
                                         ARGS("report", "latest", "--against", "nothing"),
                                         ARGS("report", "--history", "--against", "latest"),
                                         ARGS("report", "--history", "--limit", "0") };
    for (size_t i = 0; i < KG_COUNT_OF(calls); i++) kg_verb_expect(root, calls[i], KG_EXIT_USAGE, NULL);
}

static void fill_slower(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= *(const double *)arg;
}

/* 52 cases that changed for good: 50 have a row, and the page says how many more there are. */
static void steps_that_have_no_row_are_counted(struct kg_record *rec, const void *arg) {
    enum { N_OF_EACH = 8, MOST = 50, MORE = 2 };
    static const double FACTORS[] = { 1, 1.5 };
    struct kg_history_lab lab;
    char *page;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_COUNT_OF(FACTORS); i++)
        kg_history_lab_runs(
            &lab, i * N_OF_EACH, N_OF_EACH,
            (struct kg_made_run){
                .n_cases = MOST + MORE, .canary = 1, .fill = fill_slower, .arg = (double *)(uintptr_t)&FACTORS[i] });
    kg_verb_expect(lab.root, ARGS("report", "--history", "--markdown"), KG_EXIT_OK, &page);
    ck_assert_msg(strstr(page, "And 2 more: kigo steps.") != NULL, "%.3000s", page);
    free(page);
    kg_history_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "report", .name = #function, .run = function }
#define SLOW(function)                                                                                                 \
    { .layer = "integration", .op = "report", .name = #function, .run = function, .timeout_s = 600 }
#define LOOK(function, which)                                                                                          \
    {                                                                                                                  \
        .layer = "integration", .op = "report", .name = #function "_" which, .run = function, .arg = which,            \
        .timeout_s = 600                                                                                               \
    }

static const struct kg_case CASES[] = {
    SLOW(hostile_text_in_a_browser),
    SLOW(sealed_page_in_a_browser),
    SLOW(browser_sees_what_is_wrong),
    SLOW(changes_in_a_browser),
    CASE(pages_close_what_they_open),
    SLOW(history_in_a_browser),
    SLOW(eyes_see_what_is_wrong),
    LOOK(read_in_the_dark, "changes"),
    LOOK(read_in_the_dark, "history"),
    LOOK(read_in_the_dark, "hostile"),
    LOOK(printed, "changes"),
    LOOK(printed, "history"),
    CASE(forms_name_their_bundle),
    CASE(against_a_run),
    CASE(spoilt_bundle_says_so),
    CASE(tables_stay_without_gnuplot),
    CASE(run_that_died),
    CASE(wrong_calls),
    CASE(steps_that_have_no_row_are_counted),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
