#include "suites/support/html_tags.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct name {
    const char *text;
    size_t len;
};

static bool is_void(struct name name) {
    static const char *const VOID[] = { "meta", "br", "img", "link", "hr", "base", "input" };
    for (size_t i = 0; i < KG_COUNT_OF(VOID); i++)
        if (strlen(VOID[i]) == name.len && memcmp(VOID[i], name.text, name.len) == 0) return true;
    return false;
}

char *kg_html_unclosed(const char *html) {
    enum { DEEPEST = 64 };
    struct name open[DEEPEST];
    size_t n = 0;
    for (const char *at = strchr(html, '<'); at; at = strchr(at, '<')) {
        const bool ends = at[1] == '/', declares = at[1] == '!';
        const struct name name = { at + 1 + ends, strcspn(at + 1 + ends, " \t\n/>") };
        const char *end = strchr(at, '>');
        if (!end) return kg_xasprintf("no '>' after '%.30s'", at);
        at = end;
        if (declares || is_void(name) || end[-1] == '/') continue;
        if (!ends) {
            if (n == DEEPEST) return kg_xasprintf("%d elements deep", DEEPEST);
            open[n++] = name;
        } else if (n == 0 || open[n - 1].len != name.len || memcmp(open[n - 1].text, name.text, name.len) != 0) {
            return kg_xasprintf("</%.*s> closes <%.*s", (int)name.len, name.text, n ? 60 : 0,
                                n ? open[n - 1].text : "");
        } else {
            n--;
        }
    }
    return n == 0 ? NULL : kg_xasprintf("<%.60s is not closed", open[n - 1].text);
}

void kg_expect_html_closed(const char *html) {
    char *wrong = kg_html_unclosed(html);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    free(wrong);
}
