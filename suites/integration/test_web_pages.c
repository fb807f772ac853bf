/* kigo web: what its pages say and what they weigh, and what a browser makes of them. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/integration/browser.h"
#include "suites/integration/hostile_run.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
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
                        kg_xasprintf("/run/%s/cases?layer=bench&op=linear&status=red", id) };
    const char *const holds[][5] = {
        { id, other, "Made GPU", "Other GPU" },
        { other, "Other GPU" },
        { "No such run is here." },
        { id, "value=\"0123\"" },
        { "word bad\">fail", "y.max_abs 2 &gt; 1", "no such GPU", "linear" },
        { "case_0[", "page=2", "y.max_abs 2 &gt; 1" },
        { "page 3", "?status=pass&amp;page=2", ">before<" },
        { "case_0[" },
    };
    const char *const lacks[] = { NULL, id, id, other, NULL, NULL, "page=4", "case_1[" };
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        char *page = kg_web_page(&child, targets[i]);
        expect_holds(page, holds[i]);
        ck_assert_msg(!lacks[i] || !strstr(page, lacks[i]), "%s: has '%s'", targets[i], lacks[i]);
        free(page);
        free(targets[i]);
    }
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

enum { ENDLESS = 10000, PAGE_BYTES = 300000 };

static void hostile_texts_stay_texts(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    kg_hostile_run_seal(root, ENDLESS);
    char *dir = kg_maker_only(root), *id = strrchr(dir, '/') + 1;
    char *on_machine = made(root, (struct kg_made_run){ .n_cases = 1, .gpu = "<script>alert(1)</script>'&" });
    if (!kg_web_child_start(rec, root, NULL, &child)) goto cleanup;
    char *targets[] = { kg_xstrdup("/"),
                        kg_xasprintf("/run/%s", id),
                        kg_xasprintf("/run/%s/cases", id),
                        kg_xasprintf("/run/%s", on_machine),
                        kg_xstrdup("/?branch=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&commit=%1b%5B31m&machine=%27"),
                        kg_xasprintf("/run/%s/cases?op=%%3Cscript%%3E&layer=%%E2%%80%%AE&page=2", id),
                        kg_xstrdup("/%3Cscript%3Ealert(1)%3C/script%3E") };
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        struct kg_web_reply reply;
        kg_web_ask(&child, "GET", targets[i], &reply);
        ck_assert_int_eq(reply.status, i == 6 ? 404 : 200);
        expect_harmless(reply.body, targets[i]);
        ck_assert_uint_le(reply.body_bytes, PAGE_BYTES);
        if (i == 1 || i == 2)
            expect_holds(reply.body, ARGS("&lt;script&gt;document.title", "bell \\x07, escape \\x1B[31m", "mmm...",
                                          "\\u202E.gnp.exe\\u2066"));
        kg_web_reply_free(&reply);
        free(targets[i]);
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

/* A page without its script, which a frame's page has no server for. */
static void take_script_out(char *page) {
    char *at = strstr(page, "<script src=\"/filter.js\" defer></script>");
    ck_assert_ptr_nonnull(at);
    char *end = strchr(strchr(at, '>') + 1, '>') + 1;
    memmove(at, end, strlen(end) + 1);
    ck_assert_ptr_null(strstr(page, "<script"));
}

/* What the browser makes of it at a phone's width, in the dark and on paper; false without a browser. */
static bool looks_right(struct kg_record *rec, const char *page, const char *words) {
    enum { WIDTH = 360 };
    static const enum kg_ground GROUNDS[] = { KG_GROUND_DARK, KG_GROUND_PAPER };
    struct kg_look look;
    if (!kg_browser_look(rec, page, WIDTH, words, &look)) return false;
    ck_assert_msg(look.width == WIDTH && look.scroll_width == WIDTH, "%d pixels wide, its content %d", look.width,
                  look.scroll_width);
    ck_assert_int_eq(look.n_unnamed, 0);
    ck_assert_int_eq(look.n_scripts, 0);
    ck_assert_int_eq(look.n_ids_twice, 0);
    ck_assert_int_ge(look.n_headings, 2);
    ck_assert_int_eq(look.n_console, 0);
    ck_assert_msg(look.finds == 1, "the page does not say '%s'", words);
    for (size_t i = 0; i < KG_COUNT_OF(GROUNDS); i++) {
        struct kg_colours seen;
        if (!kg_browser_colours(rec, page, WIDTH, GROUNDS[i], &seen)) return false;
        ck_assert_msg(seen.least_contrast >= 4.5, "contrast %.2f: '%s'", seen.least_contrast, seen.of); /* WCAG 2.2 */
    }
    return true;
}

static void in_a_browser(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    kg_hostile_run_seal(root, 300);
    char *dir = kg_maker_only(root), *run = kg_xasprintf("/run/%s", strrchr(dir, '/') + 1);
    if (kg_web_child_start(rec, root, NULL, &child)) {
        char *page = kg_web_page(&child, run);
        take_script_out(page);
        looks_right(rec, page, KG_HOSTILE_NAME_OF[3]);
        free(page);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    free(run);
    free(dir);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "web", .name = #function, .timeout_s = 120, .run = function }

static const struct kg_case CASES[] = {
    CASE(pages_say_what_is_in_the_run),
    CASE(hostile_texts_stay_texts),
    CASE(a_large_run_has_small_pages),
    CASE(in_a_browser),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
