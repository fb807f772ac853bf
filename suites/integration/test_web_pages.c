/* kigo web: what its pages say and what they weigh, and what a browser makes of them. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "history/annotation.h"
#include "suites/integration/browser.h"
#include "suites/integration/hostile_run.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include "suites/integration/web_look.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_holds(const char *page, const char *const *texts) {
    for (; *texts; texts++) ck_assert_msg(strstr(page, *texts) != NULL, "no '%s' in %.4000s", *texts, page);
}

static char *made(const char *root, struct kg_made_run run) {
    struct kg_error err;
    char *id = NULL;
    if (run.started_us == 0) run.started_us = 1700000000000000;
    if (!run.commit) run.commit = "0123456789abcdef0123456789abcdef01234567";
    EXPECT_OK(kg_made_run_write(root, &run, &id, &err), err);
    return id;
}

static void some_red(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    c->status = i == 0 ? "fail" : i == 1 ? "skip" : "pass";
    c->reason = i == 0 ? "y.max_abs 2 > 1" : "no such GPU";
}

static void pages_say_what_is_in_the_run(struct kg_record *rec, const void *arg) {
    struct kg_web_child child;
    const char *root = kg_scratch_dir(rec);
    char *id = made(root, (struct kg_made_run){ .n_cases = 250, .fill = some_red });
    char *other = made(root, (struct kg_made_run){ .n_cases = 2,
                                                   .gpu = "Other GPU",
                                                   .started_us = 1700000100000000,
                                                   .commit = "fedcba9876543210fedcba9876543210fedcba98" });
    (void)arg;
    if (!kg_web_child_start(rec, root, NULL, &child)) goto cleanup;
    char *targets[] = { kg_xstrdup("/"),
                        kg_xstrdup("/?machine=OTHER+gpu&verdict=pass"),
                        kg_xstrdup("/?machine=%25"),
                        kg_xstrdup("/?commit=0123"),
                        kg_xasprintf("/run/%s", id),
                        kg_xasprintf("/run/%s/cases", id),
                        kg_xasprintf("/run/%s/cases?page=3&status=pass", id),
                        kg_xasprintf("/run/%s/cases?page=2", id),
                        kg_xasprintf("/run/%s/cases?layer=bench&op=linear&status=red", id) };
    char *before = kg_xasprintf("<a href=\"/run/%s/cases?status=pass&amp;page=2\">before</a>", id);
    char *first = kg_xasprintf("<a href=\"/run/%s/cases?page=1\">before</a>", id);
    const char *const holds[][6] = {
        { id, other, "Made GPU", "Other GPU", ">2023-11-14 22:13:20<" },
        { other, "Other GPU" },
        { "No such run is here." },
        { id, "value=\"0123\"" },
        { "word bad\">fail", "y.max_abs 2 &gt; 1", "no such GPU", "linear" },
        { "case_0[", "page=2", "y.max_abs 2 &gt; 1" },
        { "page 3", before },
        { "page 2", first, ">after<" },
        { "case_0[" },
    };
    const char *const lacks[] = { NULL, id, id, other, NULL, NULL, "page=4", NULL, "case_1[" };
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        char *page = kg_web_page(&child, targets[i]);
        expect_holds(page, holds[i]);
        ck_assert_msg(!lacks[i] || !strstr(page, lacks[i]), "%s: has '%s'", targets[i], lacks[i]);
        free(page);
        free(targets[i]);
    }
    free(first);
    free(before);
    ck_assert_int_eq(kg_web_child_end(&child, SIGINT), 0);
cleanup:
    free(other);
    free(id);
}

/* Markup that a text brought along, and characters that act instead of being shown. */
static void expect_harmless(const char *page, const char *target) {
    static const char *const ACTS[] = { "<script>", "<img",         "<iframe",       "<svg onload", "<base",
                                        "<link",    "<!--",         "onmouseover='", "\x1b",        "\a",
                                        "\x7f",     "\xE2\x80\xAE", "\xE2\x81\xA6" };
    for (size_t i = 0; i < KG_COUNT_OF(ACTS); i++)
        ck_assert_msg(!strstr(page, ACTS[i]), "%.200s: '%s' acts in %.3000s", target, ACTS[i], page);
}

/* Addresses of cases on a page, as many as there is room for. */
static size_t cases_on(const char *page, char targets[][64], size_t n_most) {
    size_t n = 0;
    for (const char *at = page; n < n_most && (at = strstr(at, "href=\"/case/")); n++) {
        at += strlen("href=\"");
        snprintf(targets[n], sizeof targets[n], "%.*s", (int)strcspn(at, "\""), at);
    }
    return n;
}

enum { ENDLESS = 10000, PAGE_BYTES = 300000 };

static void hostile_texts_stay_texts(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    kg_hostile_run_seal(root, ENDLESS);
    char *dir = kg_maker_only(root), *id = strrchr(dir, '/') + 1;
    char *on_machine = made(root, (struct kg_made_run){ .n_cases = 1, .gpu = "<script>alert(1)</script>'&" });
    char cases[KG_HOSTILE_NAMES + 2][64];
    size_t n_cases = 0;
    kg_verb_expect(root,
                   ARGS("waive", KG_HOSTILE_NAME_OF[1], "--until", "2999-01-01", "--author", KG_HOSTILE_NAME_OF[3],
                        "--why", KG_HOSTILE_NAME_OF[0]),
                   KG_EXIT_OK, NULL);
    kg_hostile_run_seal(root, ENDLESS); /* again: a chart needs two */
    if (!kg_web_child_start(rec, root, NULL, &child)) goto cleanup;
    char *targets[] = { kg_xstrdup("/"),
                        kg_xasprintf("/run/%s", id),
                        kg_xasprintf("/run/%s/cases", id),
                        kg_xasprintf("/run/%s", on_machine),
                        kg_xstrdup("/?branch=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&commit=%1b%5B31m&machine=%27"),
                        kg_xasprintf("/run/%s/cases?op=%%3Cscript%%3E&layer=%%E2%%80%%AE&page=2", id),
                        kg_xasprintf("/run/%s/changes", id),
                        kg_xasprintf("/compare?a=%s&b=%s", id, on_machine),
                        kg_xstrdup("/standing"),
                        kg_xstrdup("/search?q=%3Cscript"),
                        kg_xstrdup("/compare?a=%3Cscript%3E&b=%22%3E%3Cimg%20src=x%3E"),
                        kg_xstrdup("/%3Cscript%3Ealert(1)%3C/script%3E") };
    const int found = KG_COUNT_OF(targets) - 2;
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        struct kg_web_reply reply;
        kg_web_ask(&child, "GET", targets[i], &reply);
        ck_assert_msg(reply.status == ((int)i < found ? 200 : 404), "%s: %d", targets[i], reply.status);
        expect_harmless(reply.body, targets[i]);
        ck_assert_uint_le(reply.body_bytes, PAGE_BYTES);
        n_cases = i == 2 ? cases_on(reply.body, cases, KG_COUNT_OF(cases)) : n_cases;
        if (i == 1 || i == 2)
            expect_holds(reply.body, ARGS("&lt;script&gt;document.title", "bell \\x07, escape \\x1B[31m", "mmm...",
                                          "\\u202E.gnp.exe\\u2066"));
        kg_web_reply_free(&reply);
        free(targets[i]);
    }
    ck_assert_uint_eq(n_cases, KG_HOSTILE_NAMES + 1);
    for (size_t i = 0; i < n_cases; i++) {
        char *page = kg_web_page(&child, cases[i]);
        expect_harmless(page, cases[i]);
        expect_holds(page, ARGS("<svg viewBox="));
        ck_assert_uint_le(strlen(page), PAGE_BYTES);
        free(page);
    }
    ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
cleanup:
    free(on_machine);
    free(dir);
}

/* As many groups as a run of the suites has, and more that is red than a page shows. */
static void many_groups(void *arg, size_t i, struct kg_made_case *c) {
    static char op[32];
    (void)arg;
    snprintf(op, sizeof op, "operation_%zu", i % 420);
    c->op = op;
    c->status = i < 150 ? "fail" : i < 400 ? "skip" : "pass";
    c->reason = i % 2 ? "y.max_abs 0.0123 > 0.01" : "this machine has no GPU that the case could run on";
}

static void a_large_run_has_small_pages(struct kg_record *rec, const void *arg) {
    struct kg_web_child child;
    char *id = made(kg_scratch_dir(rec), (struct kg_made_run){ .n_cases = 7303, .fill = many_groups });
    (void)arg;
    if (!kg_web_child_start(rec, kg_scratch_dir(rec), NULL, &child)) {
        free(id);
        return;
    }
    char *targets[] = { kg_xasprintf("/run/%s", id), kg_xasprintf("/run/%s/cases", id),
                        kg_xasprintf("/run/%s/cases?page=74", id) };
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        char *page = kg_web_page(&child, targets[i]);
        ck_assert_msg(strlen(page) <= PAGE_BYTES, "%s has %zu bytes", targets[i], strlen(page));
        if (i == 0) expect_holds(page, ARGS("operation_419", "All that is not green", "operation_0<"));
        free(page);
        free(targets[i]);
    }
    ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    free(id);
}

/* Twice as slow, and no longer right, from the eleventh run on. */
static void slower(void *arg, size_t i, struct kg_made_case *c) {
    const size_t *run = arg;
    const double noise = 1 + 0.001 * (double)(*run * 7 % 5);
    if (i == 0) c->time_ns *= (*run < 10 ? 1 : 2) * noise;
    if (i == 1 && *run == 19) c->status = "fail";
    if (i == 2) c->absent = *run == 19;
    if (i == 3) c->max_abs *= *run == 19 ? 3 : 1;
}

enum { STEP_RUNS = 20 };

/* A line of runs, with a step in the middle; ids are the caller's to free. */
static void make_line(struct kg_history_lab *lab, const struct kg_record *rec, char *ids[STEP_RUNS]) {
    kg_history_lab_open(lab, rec);
    for (size_t i = 0; i < STEP_RUNS; i++)
        ids[i] = kg_history_lab_run(
            lab, (struct kg_made_run){ .n_cases = 4, .commit = lab->commits[i], .fill = slower, .arg = &i });
}

static void end_line(struct kg_history_lab *lab, char *ids[STEP_RUNS]) {
    for (size_t i = 0; i < STEP_RUNS; i++) free(ids[i]);
    kg_history_lab_close(lab);
}

/* The address of a case, by a search for a part of its key that no other has. */
static void find_case(const struct kg_web_child *child, const char *part, char target[64]) {
    char *search = kg_xasprintf("/search?q=%s", part), *page = kg_web_page(child, search), targets[2][64];
    ck_assert_uint_eq(cases_on(page, targets, 2), 1);
    snprintf(target, 64, "%s", targets[0]);
    free(page);
    free(search);
}

/* The first run's value is the least, the thirteenth's the most; the last one lies on the right edge. */
#define CHART_CORNERS "points=\"84.0,156.0 ", "<circle cx=\"427.6\" cy=\"18.0\" ", "<circle cx=\"628.0\" "

static void a_case_has_its_steps(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_web_child child;
    char *ids[STEP_RUNS], target[64];
    (void)arg;
    make_line(&lab, rec, ids);
    if (kg_web_child_start(rec, lab.root, ARGS("--repo", lab.repository), &child)) {
        find_case(&child, "CASE_0", target);
        char *page = kg_web_page(&child, target), *step = kg_xasprintf("<a href=\"/run/%s\">", ids[10]);
        expect_holds(page, ARGS("role=\"img\"", "<g class=\"step\">", step, "time.graph.warm", "y.max_abs", ids[19],
                                CHART_CORNERS));
        char commit[13];
        snprintf(commit, sizeof commit, "%.12s", lab.commits[10]);
        const char *steps = strstr(page, "from run");
        ck_assert_ptr_nonnull(steps);
        ck_assert_ptr_nonnull(strstr(steps, commit));
        free(page);
        find_case(&child, "case_3%5B", target);
        page = kg_web_page(&child, target);
        ck_assert_ptr_null(strstr(page, "<g class=\"step\">"));
        expect_holds(page, ARGS("No step of 3% or more in 20 runs"));
        free(page);
        char *of_run = kg_xasprintf("%s?run=%s", target, ids[3]);
        page = kg_web_page(&child, of_run);
        char *of = kg_xasprintf("<p>Of %s.</p>", ids[3]);
        expect_holds(page, ARGS(of));
        ck_assert_int_eq(kg_web_status(&child, "GET", "/case/1?run=20260101T000000Z-0123456789ab-01234567"), 404);
        ck_assert_int_eq(kg_web_status(&child, "GET", "/case/1"), 404);
        ck_assert_int_eq(kg_web_status(&child, "GET", "/case/x"), 404);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
        free(of);
        free(page);
        free(of_run);
        free(step);
    }
    end_line(&lab, ids);
}

static void two_runs_and_what_is_open(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_error err;
    struct kg_web_child child;
    char *ids[STEP_RUNS];
    (void)arg;
    make_line(&lab, rec, ids);
    kg_verb_expect(lab.root,
                   ARGS("waive", "bench/linear/case_1*", "--until", "2999-01-01", "--author", "an author", "--why",
                        "known to be red"),
                   KG_EXIT_OK, NULL);
    const struct kg_annotation over = { .kind = (char[]){ "waive" },
                                        .case_key = (char[]){ "bench/linear/case_9*" },
                                        .until_us = 1577836800000000,
                                        .utc_us = 1577000000000000,
                                        .author = (char[]){ "another" },
                                        .text = (char[]){ "long ago" } };
    EXPECT_OK(kg_annotation_add(lab.root, &over, NULL, NULL, &err), err);
    if (kg_web_child_start(rec, lab.root, ARGS("--repo", lab.repository), &child)) {
        char *targets[] = { kg_xasprintf("/compare?a=%s&b=%s", ids[18], ids[19]),
                            kg_xasprintf("/compare?a=%s&b=%s", ids[18], ids[18]),
                            kg_xasprintf("/run/%s", ids[19]),
                            kg_xasprintf("/run/%s/changes", ids[19]),
                            kg_xstrdup("/standing"),
                            kg_xasprintf("/search?q=%.9s", lab.commits[4]),
                            kg_xstrdup("/signoffs") };
        char *beside = kg_xasprintf("/compare?a=%s&amp;b=%s", ids[18], ids[19]);
        const char *const holds[][6] = {
            { "3 cases in both", ">pass</td><td class=\"number\">fail</td>", "missing", "y.max_abs", "+200.00%" },
            { "4 cases in both, 0 differences" },
            { beside, "What regress says of it" },
            { "status bad\">regressed", ">missing<", "case_2[" },
            { "status bad\">regressed", "an author", "known to be red", "waive, over", "another" },
            { "<h2 id=\"s1\">Search</h2>", ids[4] },
            { "Nothing was signed off here." },
        };
        for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
            char *page = kg_web_page(&child, targets[i]);
            expect_holds(page, holds[i]);
            free(page);
            free(targets[i]);
        }
        ck_assert_int_eq(kg_web_status(&child, "GET", "/compare?a=x&b=y"), 404);
        ck_assert_int_eq(kg_web_status(&child, "GET", "/signoffs/x"), 404);
        ck_assert_int_eq(kg_web_status(&child, "GET", "/signoffs/..%2f.."), 404);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
        free(beside);
    }
    end_line(&lab, ids);
}

/* All cases of the second run but one are red; an error that was 0 has no share. */
static void all_red(void *arg, size_t i, struct kg_made_case *c) {
    const bool *after = arg;
    c->status = *after && i != 7 ? "fail" : "pass";
    c->max_abs = i == 7 && !*after ? 0 : c->max_abs;
}

static void a_comparison_of_many_changes(struct kg_record *rec, const void *arg) {
    enum { N_CASES = 300 };
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    bool after = false;
    (void)arg;
    char *a = made(root, (struct kg_made_run){ .n_cases = N_CASES, .fill = all_red, .arg = &after });
    after = true;
    char *b = made(root, (struct kg_made_run){
                             .n_cases = N_CASES, .fill = all_red, .arg = &after, .started_us = 1700000100000000 });
    if (kg_web_child_start(rec, root, NULL, &child)) {
        static const char NO_SHARE[] = "<td class=\"number\"></td>";
        size_t n_found = 0;
        for (int number = 1; number <= 4; number++) {
            char *target = kg_xasprintf("/compare?a=%s&b=%s&page=%d", a, b, number),
                 *page = kg_web_page(&child, target);
            const char *row = strstr(page, "y.max_abs"), *end = row ? strstr(row, "</tr>") : NULL;
            if (end) ck_assert_int_eq(strncmp(end - strlen(NO_SHARE), NO_SHARE, strlen(NO_SHARE)), 0);
            n_found += end != NULL;
            free(page);
            free(target);
        }
        ck_assert_uint_eq(n_found, 1);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    free(b);
    free(a);
}

/* The newest run's records are spoilt: it is not judged, and its row has as many cells as the others. */
static void what_cannot_be_judged(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    char *id = made(root, (struct kg_made_run){ .n_cases = 2 });
    if (kg_web_child_start(rec, root, NULL, &child)) {
        char *dir = kg_path_join(root, id);
        kg_maker_replace(dir, "data/results.ndjson", "\"pass\"", "\"fail\"");
        free(dir);
        char *page = kg_web_page(&child, "/standing");
        expect_holds(page, ARGS(id, ">incomparable</td><td class=\"number\"></td><td class=\"number\"></td>"
                                    "<td class=\"number\"></td><td class=\"text\">"));
        free(page);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    free(id);
}

/* The committed ones, in a folder that has none of their runs. */
static void sign_offs(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    struct kg_dir_list names = { 0 };
    struct kg_error err;
    char *from = kg_xstrdup(kg_fixture_path("../proof-bundles/signoffs")), *to = kg_path_join(root, "signoffs");
    (void)arg;
    free(made(root, (struct kg_made_run){ .n_cases = 1 }));
    EXPECT_OK(kg_dir_list(from, &names, &err), err);
    free(kg_maker_copy(from, to));
    if (kg_web_child_start(rec, root, NULL, &child)) {
        char *page = kg_web_page(&child, "/signoffs");
        size_t n = 0;
        for (size_t i = 0; i < names.n_names; i++) {
            char *end = strstr(names.names[i], ".json");
            if (!end) continue;
            *end = '\0';
            char *target = kg_xasprintf("/signoffs/%s", names.names[i]), *link = kg_xasprintf("href=\"%s\"", target);
            char *one = kg_web_page(&child, target);
            expect_holds(page, ARGS(link, "status bad\">unsound"));
            expect_holds(one, ARGS("It is not what was signed off: missing", "status good\">met", "href=\"/run/2"));
            ck_assert_uint_le(strlen(one), PAGE_BYTES);
            free(one);
            free(link);
            free(target);
            n++;
        }
        ck_assert_uint_gt(n, 0);
        free(page);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    kg_dir_list_free(&names);
    free(to);
    free(from);
}

enum { PHONE = KG_WEB_PHONE };

/* WCAG 2.2, success criterion 1.4.3, in the dark and on paper. */
static void is_readable(struct kg_record *rec, const char *page) {
    static const enum kg_ground GROUNDS[] = { KG_GROUND_DARK, KG_GROUND_PAPER };
    struct kg_colours seen;
    for (size_t i = 0; i < KG_COUNT_OF(GROUNDS) && kg_browser_colours(rec, page, PHONE, GROUNDS[i], &seen); i++)
        ck_assert_msg(seen.least_contrast >= 4.5, "contrast %.2f: '%s'", seen.least_contrast, seen.of);
}

static void in_a_browser(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    kg_hostile_run_seal(root, 300);
    char *dir = kg_maker_only(root), *run = kg_xasprintf("/run/%s", strrchr(dir, '/') + 1);
    if (kg_web_child_start(rec, root, NULL, &child)) {
        char *page = kg_web_page(&child, run);
        kg_web_take_script_out(page);
        kg_web_looks_right(rec, page, KG_HOSTILE_NAME_OF[3], 0);
        free(page);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    free(run);
    free(dir);
}

static void a_chart_in_a_browser(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_web_child child;
    char *ids[STEP_RUNS], target[64];
    (void)arg;
    make_line(&lab, rec, ids);
    if (kg_web_child_start(rec, lab.root, ARGS("--repo", lab.repository), &child)) {
        find_case(&child, "case_0", target);
        char *page = kg_web_page(&child, target);
        kg_web_take_script_out(page);
        if (kg_web_looks_right(rec, page, "in 20 runs, oldest first; steps that are marked: 1", 1))
            is_readable(rec, page);
        free(page);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    end_line(&lab, ids);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "web", .name = #function, .timeout_s = 120, .run = function }

static const struct kg_case CASES[] = {
    CASE(pages_say_what_is_in_the_run),
    CASE(hostile_texts_stay_texts),
    CASE(a_large_run_has_small_pages),
    CASE(a_case_has_its_steps),
    CASE(two_runs_and_what_is_open),
    CASE(a_comparison_of_many_changes),
    CASE(what_cannot_be_judged),
    { .layer = "integration",
      .op = "web",
      .name = "sign_offs",
      .timeout_s = 120,
      .source_tree = true,
      .run = sign_offs },
    CASE(in_a_browser),
    CASE(a_chart_in_a_browser),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
