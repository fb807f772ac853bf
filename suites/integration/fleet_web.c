#include "suites/integration/fleet_web.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/integration/fleet_line.h"
#include "suites/integration/hostile_run.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include "suites/integration/web_look.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 21 };

/* The servers of the folder and of the fleet. */
struct servers {
    struct kg_web_child folder, fleet;
};

/* False: the case was marked as skipped. */
static bool start(struct servers *servers, struct kg_record *rec, const struct kg_fleet_lab *lab, const char *root,
                  const char *const *args) {
    char *url = kg_fleet_lab_url(lab, "reader");
    const char *all[8] = { "--history", url };
    for (size_t i = 0; args[i]; i++) all[2 + i] = args[i];
    const bool started =
        kg_web_child_start(rec, root, args, &servers->folder) && kg_web_child_start(rec, NULL, all, &servers->fleet);
    free(url);
    return started;
}

static void end(struct servers *servers) {
    ck_assert_int_eq(kg_web_child_end(&servers->folder, SIGTERM), 0);
    ck_assert_int_eq(kg_web_child_end(&servers->fleet, SIGTERM), 0);
}

/* Takes a word out wherever it is. */
static void drop(char *page, const char *word) {
    for (char *at = page; (at = strstr(at, word));) memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
}

/* Takes out what is between two texts, and both. */
static void drop_between(char *page, const char *from, const char *to) {
    for (char *at = page; (at = strstr(at, from));) {
        const char *end = strstr(at, to);
        ck_assert_ptr_nonnull(end);
        memmove(at, end + strlen(to), strlen(end + strlen(to)) + 1);
    }
}

/* Without what differs from answer to answer, and from a folder to a fleet: a run of a fleet is proven by `pull`. */
static void level(char *page) {
    static const char NONCE[] = "nonce=\"";
    for (char *at = page; (at = strstr(at, NONCE)); at += strlen(NONCE))
        memset(at + strlen(NONCE), '-', strcspn(at + strlen(NONCE), "\""));
    drop_between(page, "<tr><th scope=\"row\">runner</th>", "</tr>\n");
    drop(page, ">kigo verify ");
    drop(page, ">kigo pull ");
}

/* What its links lead to, one after another; malloc'ed. */
static char *links_of(const char *page) {
    static const char LINK[] = "<a href=\"";
    struct kg_buffer links = KG_BUFFER_INIT;
    kg_buffer_puts(&links, "");
    for (const char *at = page; (at = strstr(at, LINK)); at += strlen(LINK))
        kg_buffer_printf(&links, "%.*s\n", (int)strcspn(at + strlen(LINK), "\""), at + strlen(LINK));
    return links.data ? links.data : kg_xstrdup("");
}

/* The same runs in the same order: a fleet's have a runner beside them. */
static void expect_same_links(const struct servers *servers, const char *target, const char *says) {
    char *folder = kg_web_page(&servers->folder, target), *fleet = kg_web_page(&servers->fleet, target),
         *here = links_of(folder), *there = links_of(fleet);
    ck_assert_str_eq(here, there);
    ck_assert_msg(strstr(fleet, says) != NULL, "%s: no '%s' in %.3000s", target, says, fleet);
    free(there);
    free(here);
    free(fleet);
    free(folder);
}

/* The same status and page of both; what it says holds `says`. */
static void expect_same(const struct servers *servers, const char *target, const char *says) {
    struct kg_web_reply folder, fleet;
    kg_web_ask(&servers->folder, "GET", target, &folder);
    kg_web_ask(&servers->fleet, "GET", target, &fleet);
    ck_assert_msg(folder.status == fleet.status, "%s: %d of the folder, %d of the fleet: %.2000s", target,
                  folder.status, fleet.status, fleet.body);
    level(folder.body);
    level(fleet.body);
    size_t same = 0;
    while (folder.body[same] && folder.body[same] == fleet.body[same]) same++;
    const size_t shown = same > 300 ? same - 300 : 0;
    ck_assert_msg(strcmp(folder.body, fleet.body) == 0,
                  "%s: from byte %zu the folder says\n%.900s\nand the fleet\n%.900s", target, same, folder.body + shown,
                  fleet.body + shown);
    ck_assert_msg(strstr(fleet.body, says) != NULL, "%s: no '%s' in %.3000s", target, says, fleet.body);
    kg_web_reply_free(&fleet);
    kg_web_reply_free(&folder);
}

/* The address of a case of the fleet, by a part of its key that no other has. */
static char *case_target(const struct servers *servers, const char *part) {
    static const char LINK[] = "href=\"/case/";
    char *search = kg_xasprintf("/search?q=%s", part), *page = kg_web_page(&servers->fleet, search);
    const char *at = strstr(page, LINK);
    ck_assert_msg(at != NULL, "%s: %.2000s", search, page);
    at += strlen("href=\"");
    char *target = kg_xstrndup(at, strcspn(at, "\""));
    free(page);
    free(search);
    return target;
}

/* What a fleet has otherwise than a folder. */
static void expect_of_fleet(const struct servers *servers, const char *target, const char *says) {
    char *page = kg_web_page(&servers->fleet, target);
    ck_assert_msg(strstr(page, says) != NULL, "%s: no '%s' in %.3000s", target, says, page);
    free(page);
}

void kg_fleet_pages_as_of_a_folder(struct kg_record *rec, const void *arg) {
    /* @: the newest run; #: the one before it; %: one that failed; $: a case */
    static const struct {
        const char *target, *says;
    } PAGES[] = {
        { "/?machine=%ff%fe", "" },
        { "/?page=x", "" },
        { "/run/@", "Beside the run before it" },
        { "/run/#", "Other GPU" },
        { "/run/%", "case_2[" },
        { "/run/%/cases", "case_3[" },
        { "/run/%/cases?status=red", "case_2[" },
        { "/run/%/cases?layer=bench&op=linear&status=pass&page=2", "" },
        { "/run/@/changes", "case_2[" },
        { "/run/20261124T000000Z-000000000000-00000000", "there is no run" },
        { "/run/x%27%ff", "" },
        { "/$", "No step of 3%" },
        { "/$?run=#", "<p>Of " },
        { "/case/1", "there is no case" },
        { "/case/99999999999999999999", "" },
        { "/compare?a=#&b=%", "in both" },
        { "/compare", "Two ids of runs" },
        { "/compare?a=x&b=y", "there is no run" },
        { "/standing", "Open regressions" },
        { "/signoffs/x", "there is no sign-off" },
        { "/search?q=CASE_1", "case_1[" },
        { "/search?q=_", "case_0[" },
        { "/search?q=2023", "Runs" },
        { "/search?q=%ff", "" },
        { "/nowhere", "There is no such page" },
    };
    static const char *const LISTS[][2] = {
        { "/", "Other GPU" },
        { "/?machine=OTHER+gpu&verdict=pass", "Other GPU" },
        { "/?machine=%25", "No such run is here." },
        { "/?branch=main&verdict=fail", "Runs" },
        { "/?commit=%5F", "No such run is here." },
        { "/?page=2", "" },
    };
    struct kg_fleet_line line;
    struct servers servers;
    (void)arg;
    if (!kg_fleet_line_open(&line, rec, N_RUNS)) return;
    kg_fleet_line_go_on(&line, N_RUNS);
    if (start(&servers, rec, &line.fleet, line.folder.root, ARGS("--repo", line.folder.repository))) {
        char *const runs[] = {
            kg_fleet_lab_sql(&line.fleet, "postgres", "SELECT max(bundle_id) FROM kigo.bundle"),
            kg_fleet_lab_sql(&line.fleet, "postgres",
                             "SELECT bundle_id FROM kigo.bundle ORDER BY started_us DESC LIMIT 1 OFFSET 1"),
            kg_fleet_lab_sql(&line.fleet, "postgres", "SELECT bundle_id FROM kigo.bundle WHERE verdict = 'fail'"),
            case_target(&servers, "case_1%5B"),
        };
        for (size_t i = 0; i < KG_COUNT_OF(PAGES); i++) {
            struct kg_buffer target = KG_BUFFER_INIT;
            for (const char *at = PAGES[i].target; *at; at++) {
                const char *mark = strchr("@#%$", *at);
                const bool is_code = *at == '%' && strspn(at + 1, "0123456789abcdefABCDEF") >= 2;
                if (mark && !is_code) kg_buffer_puts(&target, runs[mark - "@#%$"] + (*mark == '$'));
                else kg_buffer_append(&target, at, 1);
            }
            expect_same(&servers, kg_buffer_text(&target), PAGES[i].says);
            kg_buffer_free(&target);
        }
        for (size_t i = 0; i < KG_COUNT_OF(LISTS); i++) expect_same_links(&servers, LISTS[i][0], LISTS[i][1]);
        expect_of_fleet(&servers, "/?runner=runner_b", "<td class=\"text\">runner_b</td>");
        expect_of_fleet(&servers, "/?runner=runner_b&commit=0000000", "No such run is here.");
        expect_of_fleet(&servers, "/?runner=nobody", "No such run is here.");
        char *victim = case_target(&servers, "case_2%5B");
        expect_of_fleet(&servers, victim, "<g class=\"step\">");
        expect_of_fleet(&servers, "/signoffs", "A fleet keeps no sign-offs");
        kg_fleet_lab_kigo(&line.fleet, "postgres",
                          ARGS("waive", "*case_2*", "--until", "2999-12-31", "--why", "<b>", "--author", "ann"),
                          KG_EXIT_OK, NULL, NULL);
        expect_of_fleet(&servers, "/standing", "&lt;b&gt;");
        free(kg_fleet_lab_sql(&line.fleet, "postgres", "DELETE FROM kigo.annotation"));
        free(victim);
        for (size_t i = 0; i < KG_COUNT_OF(runs); i++) free(runs[i]);
        end(&servers);
    }
    kg_fleet_line_close(&line);
}

void kg_fleet_hostile_texts_stay_texts(struct kg_record *rec, const void *arg) {
    enum { ENDLESS = 10000 };
    static const char *const PAGES[] = { "/run/%s", "/run/%s/cases", "/run/%s/cases?op=%%3Cscript%%3E",
                                         "/run/%s/changes" };
    struct kg_fleet_lab lab;
    struct servers servers;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    kg_hostile_run_seal(lab.bundles, ENDLESS);
    char *dir = kg_maker_only(lab.bundles);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, NULL, NULL);
    if (start(&servers, rec, &lab, lab.bundles, ARGS("--repo", lab.bundles))) {
        for (size_t i = 0; i < KG_COUNT_OF(PAGES); i++) {
            char *target = kg_xasprintf(PAGES[i], strrchr(dir, '/') + 1);
            expect_same(&servers, target, "");
            free(target);
        }
        end(&servers);
    }
    free(dir);
    kg_fleet_lab_close(&lab);
}

/* What is a fleet's alone (the runner beside a run) and what a runner may have written. */
void kg_fleet_in_a_browser(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_web_child web;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    kg_hostile_run_seal(lab.bundles, 300);
    char *dir = kg_maker_only(lab.bundles), *run = kg_xasprintf("/run/%s", strrchr(dir, '/') + 1),
         *url = kg_fleet_lab_url(&lab, "reader");
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, NULL, NULL);
    if (kg_web_child_start(rec, NULL, ARGS("--history", url), &web)) {
        const char *const pages[][2] = { { "/", "runner_a" }, { run, KG_HOSTILE_NAME_OF[3] } };
        bool has_browser = true;
        for (size_t i = 0; i < KG_COUNT_OF(pages) && has_browser; i++) {
            char *page = kg_web_page(&web, pages[i][0]);
            if (strstr(page, "<script")) kg_web_take_script_out(page);
            has_browser = kg_web_looks_right(rec, page, pages[i][1], 0);
            free(page);
        }
        ck_assert_int_eq(kg_web_child_end(&web, SIGTERM), 0);
    }
    free(url);
    free(run);
    free(dir);
    kg_fleet_lab_close(&lab);
}
