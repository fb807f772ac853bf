#include "suites/integration/browser.h"
#include "base/buffer.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/program.h"
#include "base/size.h"
#include "bundle/export.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Measures the frame from outside of it, so that what the page itself forbids, or does, has no say. */
static const char SCRIPT[] =
    "<script>onload=()=>{const d=document.querySelector('iframe').contentDocument,all=[...d.querySelectorAll('*')];"
    "d.querySelectorAll('details').forEach(e=>e.open=true);const "
    "r=d.documentElement,attributes=all.flatMap(e=>[...e.attributes]),"
    "images=[...d.querySelectorAll('svg,img')],ids=all.map(e=>e.id).filter(i=>i);"
    "const "
    "named=e=>e.tagName=='IMG'?e.alt:e.getAttribute('role')=='img'&&e.getAttribute('aria-label')&&e.querySelector('"
    "title');"
    "const lines=e=>{const t=d.createRange();t.selectNodeContents(e);"
    "return new Set([...t.getClientRects()].map(x=>Math.round(x.top))).size};"
    "const narrow=e=>/^[^ ]{1,9}$/.test(e.textContent)&&lines(e)>1;"
    "const out=[r.clientWidth,r.scrollWidth,images.length,images.filter(e=>!named(e)).length,"
    "d.scripts.length+attributes.filter(a=>a.name.startsWith('on')).length,"
    "attributes.filter(a=>/^(src|href|srcset|action|data|poster|xlink:href)$/"
    ".test(a.name)&&!a.value.startsWith('#')).length,"
    "ids.length-new "
    "Set(ids).size,d.querySelectorAll('h1,h2').length,[...d.querySelectorAll('td')].filter(narrow).length,"
    "d.body.textContent.includes(WORDS)?1:0];document.title='look '+out.join(' ')+' end'}</script>";

char *kg_browser_frame(const char *head, const char *html, int width) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_printf(&out,
                     "<!DOCTYPE html><meta charset=\"utf-8\"><title></title>%s<iframe "
                     "style=\"width:%dpx;height:2000px;border:0\" srcdoc=\"",
                     head, width);
    kg_xml_put(&out, html);
    kg_buffer_puts(&out, "\"></iframe>");
    return out.data;
}

/* The script that looks for the given words; malloc'ed. */
static char *look_for(const char *words) {
    struct kg_buffer out = KG_BUFFER_INIT, text = KG_BUFFER_INIT;
    kg_json_put_string(&text, words, strlen(words));
    kg_buffer_puts(&out, "<script>const WORDS=");
    for (const char *s = kg_buffer_text(&text); *s; s++)
        kg_buffer_append(&out, *s == '<' ? "\\u003c" : s, *s == '<' ? 6 : 1);
    kg_buffer_printf(&out, "</script>%s", SCRIPT);
    kg_buffer_free(&text);
    return out.data;
}

/* The browser's name; NULL: there is none. */
static const char *find_browser(void) {
    static const char *const NAMES[] = { "chromium-headless-shell", "chromium", "google-chrome" };
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        const char *const argv[] = { NAMES[i], "--version", NULL };
        const struct kg_program program = { .argv = argv, .max_out_bytes = 256 };
        struct kg_program_result result;
        struct kg_error err;
        const enum kg_status status = kg_program_run(&program, &result, &err);
        const bool answers = status == KG_OK && result.exit_code == 0;
        kg_program_result_free(&result);
        if (answers) return NAMES[i];
    }
    return NULL;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static void read_look(const char *dom, struct kg_look *look) {
    const char *at = strstr(dom, "<title>look ");
    ck_assert_msg(at != NULL, "the page was not looked at: %.400s", dom);
    const int n = sscanf(at, "<title>look %d %d %d %d %d %d %d %d %d %d end", &look->width, &look->scroll_width,
                         &look->n_images, &look->n_unnamed, &look->n_scripts, &look->n_outside, &look->n_ids_twice,
                         &look->n_headings, &look->n_narrow, &look->finds);
    ck_assert_msg(n == 10, "%.200s", at);
}

char *kg_browser_file(struct kg_record *rec, const char *name, const char *content) {
    char *path = kg_path_join(kg_scratch_dir(rec), name), *url = kg_xasprintf("file://%s", path);
    struct kg_error err;
    ck_assert_msg(kg_file_write(path, content, strlen(content), &err) == KG_OK, "%s", err.message);
    free(path);
    return url;
}

bool kg_browser_run(struct kg_record *rec, const char *const *args, struct kg_process_result *result) {
    enum { MAX_ARGS = 8 };
    const char *browser = find_browser();
    if (!browser) {
        kg_record_skip(rec, "no Chromium: none of chromium-headless-shell, chromium, google-chrome answers");
        return false;
    }
    char *profile = kg_xasprintf("--user-data-dir=%s/profile", kg_scratch_dir(rec));
    /* Without Chromium's sandbox: root has none, and what it opens is ours. */
    const char *argv[11 + MAX_ARGS + 1] = { "/usr/bin/env",
                                            browser,
                                            "--headless",
                                            "--no-sandbox",
                                            "--disable-gpu",
                                            "--disable-dev-shm-usage",
                                            "--disable-background-networking",
                                            "--no-first-run",
                                            "--hide-scrollbars",
                                            "--enable-logging=stderr",
                                            profile };
    for (size_t i = 0; i < MAX_ARGS && args[i]; i++) argv[11 + i] = args[i];
    const struct kg_process process = { .argv = argv, .timeout_s = 100 };
    struct kg_error err;
    ck_assert_msg(kg_process_run(&process, result, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(result->exit_code == 0, "%s ended with %d: %.2000s", browser, result->exit_code, result->err);
    free(profile);
    return true;
}

bool kg_browser_look(struct kg_record *rec, const char *html, int width, const char *words, struct kg_look *look) {
    char *head = look_for(words), *frame = kg_browser_frame(head, html, width);
    char *url = kg_browser_file(rec, "frame.html", frame);
    const char *const args[] = { "--virtual-time-budget=5000", "--window-size=1600,2000", "--dump-dom", url, NULL };
    struct kg_process_result result;
    const bool looked = kg_browser_run(rec, args, &result);
    if (looked) {
        read_look(result.out, look);
        look->n_console = count(result.err, "CONSOLE");
        if (look->n_console > 0) kg_record_attach(rec, "console.txt", result.err, result.err_len);
        kg_process_result_free(&result);
    }
    free(url);
    free(frame);
    free(head);
    return looked;
}

bool kg_browser_looks_right(struct kg_record *rec, const char *html, int width, const char *words,
                            struct kg_look *look) {
    if (!kg_browser_look(rec, html, width, words, look)) return false;
    ck_assert_msg(look->width == width && look->scroll_width == width, "%d pixels wide, its content %d", look->width,
                  look->scroll_width);
    ck_assert_int_eq(look->n_unnamed, 0);
    ck_assert_int_eq(look->n_scripts, 0);
    ck_assert_int_eq(look->n_ids_twice, 0);
    ck_assert_int_eq(look->n_console, 0);
    ck_assert_msg(look->finds == 1, "the page does not say '%s'", words);
    return true;
}
