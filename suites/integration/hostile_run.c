#include "suites/integration/hostile_run.h"
#include "base/buffer.h"
#include "base/size.h"
#include "run/publish.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const KG_HOSTILE_NAME_OF[KG_HOSTILE_NAMES] = {
    "<script>document.title='hacked'</script>",
    "\"><img src=http://198.51.100.1/x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</td></table></body><iframe src=javascript:alert(1)></iframe>",
    "</style><link rel=stylesheet href=http://198.51.100.1/y.css>",
    "</title><base href=http://198.51.100.1/>",
    "<!--",
    "]]><svg onload=alert(1)>",
    "&lt;b&gt;&#60;script&#62;",
    "bell \a, escape \x1b[31m, delete \x7f",
    "\xE2\x80\xAE.gnp.exe\xE2\x81\xA6",
    "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xD8\xB3\xD9\x84\xD8\xA7\xD9\x85",
    "EOD\n'; set print '/nowhere/x'; print 'x'; `touch /nowhere/y`",
    "a|b\\|c`d`*e*_f_[g](http://198.51.100.1)",
};

static char *letters(size_t n) {
    char *text = kg_xmalloc(n + 1);
    memset(text, 'm', n);
    text[n] = '\0';
    return text;
}

void kg_hostile_run_seal(const char *root, size_t n_letters) {
    const size_t n_cases = KG_COUNT_OF(KG_HOSTILE_NAME_OF) + 1;
    struct kg_bundle *bundle = NULL;
    struct kg_bundle_summary summary;
    struct kg_error err;
    char *endless = letters(n_letters);
    json_t *run = json_pack("{s:[s]}", "argv", KG_HOSTILE_NAME_OF[0]);
    const struct kg_bundle_options options = { .root = root, .run = run, .seed = 7 };
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    json_decref(run);
    for (size_t i = 0; i < n_cases; i++) {
        const char *text = i < KG_COUNT_OF(KG_HOSTILE_NAME_OF) ? KG_HOSTILE_NAME_OF[i] : endless;
        json_t *line = kg_maker_plan_line(i);
        static const char *const MEMBERS[] = { "key", "layer", "op", "name", "backend", "dtype", "shape" };
        for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++) json_object_set_new(line, MEMBERS[k], json_string(text));
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    for (size_t i = 0; i < n_cases; i++) {
        const char *text = i < KG_COUNT_OF(KG_HOSTILE_NAME_OF) ? KG_HOSTILE_NAME_OF[i] : endless;
        json_t *result = kg_maker_result(i, i % 2 ? "fail" : "pass");
        static const struct {
            const char *list, *members[3];
        } LISTS[] = { { "errors", { "name", "why" } },
                      { "timings", { "name" } },
                      { "metrics", { "name", "unit" } },
                      { "memory", { "tag" } } };
        json_object_set_new(result, "key", json_string(text));
        if (i % 2) json_object_set_new(result, "reason", json_string(text));
        for (size_t k = 0; k < KG_COUNT_OF(LISTS); k++)
            for (size_t m = 0; LISTS[k].members[m]; m++)
                json_object_set_new(json_array_get(json_object_get(result, LISTS[k].list), 0), LISTS[k].members[m],
                                    json_string(text));
        EXPECT_OK(kg_bundle_start(bundle, text, &err), err);
        EXPECT_OK(kg_maker_samples(bundle, i, result, &err), err);
        EXPECT_OK(kg_bundle_end(bundle, result, &err), err);
        json_decref(result);
    }
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    ck_assert_str_eq(summary.verdict, "fail");
    kg_bundle_close(bundle);
    free(endless);
}
