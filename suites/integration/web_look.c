#include "suites/integration/web_look.h"
#include "suites/integration/browser.h"
#include <check.h>
#include <string.h>

void kg_web_take_script_out(char *page) {
    char *at = strstr(page, "<script src=\"/filter.js\" defer></script>");
    ck_assert_ptr_nonnull(at);
    char *end = strchr(strchr(at, '>') + 1, '>') + 1;
    memmove(at, end, strlen(end) + 1);
    ck_assert_ptr_null(strstr(page, "<script"));
}

bool kg_web_looks_right(struct kg_record *rec, const char *page, const char *words, int n_images) {
    struct kg_look look;
    if (!kg_browser_looks_right(rec, page, KG_WEB_PHONE, words, &look)) return false;
    ck_assert_int_eq(look.n_images, n_images);
    ck_assert_int_ge(look.n_headings, 2);
    return true;
}
