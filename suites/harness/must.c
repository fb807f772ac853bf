#include "suites/harness/must.h"
#include <check.h>
#include <string.h>

void kg_must(enum kg_status status, const struct kg_error *err) {
    if (status != KG_OK) ck_abort_msg("%s: %s", kg_status_name(status), err->message);
}

void kg_must_fail_naming(enum kg_status status, enum kg_status want, const struct kg_error *err,
                         const char *const *texts) {
    if (status != want)
        ck_abort_msg("%s, expected %s: %s", kg_status_name(status), kg_status_name(want),
                     status == KG_OK ? "it passed" : err->message);
    ck_assert_int_eq(err->status, want);
    for (; *texts; texts++)
        ck_assert_msg(strstr(err->message, *texts) != NULL, "'%s' does not name '%s'", err->message, *texts);
}
