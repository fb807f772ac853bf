/* Libraries that are loaded late: the first name that loads, all functions or none, and one answer for good. */
#include "base/late_library.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>

struct table {
    double (*cosine)(double), (*other)(double);
};

static const struct kg_late_function THERE[] = { { "cos", offsetof(struct table, cosine) },
                                                 { "sin", offsetof(struct table, other) } };
static const struct kg_late_function ONE_MISSING[] = { { "cos", offsetof(struct table, cosine) },
                                                       { "no_such_function", offsetof(struct table, other) } };

static void second_name_is_taken(struct kg_record *rec, const void *arg) {
    struct table table = { NULL, NULL };
    struct kg_late_library library = {
        { "libno-such-library.so.1", "libm.so.6" }, THERE, KG_COUNT_OF(THERE), &table, false, false
    };
    (void)rec, (void)arg;
    ck_assert_ptr_eq(kg_late_library(&library), &table);
    ck_assert_double_eq(table.cosine(0), 1);
    ck_assert_double_eq(table.other(0), 0);
}

static void lacking_a_function_is_missing(struct kg_record *rec, const void *arg) {
    struct table table = { NULL, NULL };
    struct kg_late_library library = { { "libm.so.6" }, ONE_MISSING, KG_COUNT_OF(ONE_MISSING), &table, false, false };
    (void)rec, (void)arg;
    ck_assert_ptr_null(kg_late_library(&library));
}

static void missing_stays_missing(struct kg_record *rec, const void *arg) {
    struct table table = { NULL, NULL };
    struct kg_late_library library = { { "libno-such-library.so.1" }, THERE, KG_COUNT_OF(THERE), &table, false, false };
    (void)rec, (void)arg;
    ck_assert_ptr_null(kg_late_library(&library));
    library.sonames[0] = "libm.so.6"; /* it has been installed since */
    ck_assert_ptr_null(kg_late_library(&library));
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "late_library", .name = #function, .run = function }
static const struct kg_case CASES[] = { CASE(second_name_is_taken), CASE(lacking_a_function_is_missing),
                                        CASE(missing_stays_missing) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
