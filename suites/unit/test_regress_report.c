/* What regress says of suspects that were measured again: each came to one end. */
#include "base/buffer.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/regress_call.h"
#include "history/confirm.h"
#include "suites/harness/case.h"
#include <check.h>
#include <string.h>

/* The program's; no case here prints rows. */
enum kg_status kg_cli_print(struct kg_buffer *out, struct kg_error *err) {
    ck_abort_msg("%s", kg_buffer_text(out));
    return kg_fail(err, KG_ERR_INTERNAL, "printed");
}

static void expect_foot(const struct kg_regression *r, bool markdown, const char *line) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_regression_foot(r, markdown, &out);
    ck_assert_msg(strstr(kg_buffer_text(&out), line), "%s\nlacks: %s", kg_buffer_text(&out), line);
    kg_buffer_free(&out);
}

/* Seven of eleven are listed; the other four were only suspects, and were refuted as the one that the run had flagged.
 */
static void each_suspect_has_one_end(struct kg_record *rec, const void *arg) {
    static const enum kg_confirmed ENDS[] = { KG_CONFIRMED,   KG_CONFIRMED, KG_CONFIRMED_SMALL, KG_REFUTED,
                                              KG_UNCONFIRMED, KG_UNDECIDED, KG_UNDECIDED };
    enum { N_SUSPECTS_ALONE = 4 };
    struct kg_confirmation again[KG_COUNT_OF(ENDS)] = { { .key = NULL } };
    struct kg_run_head baseline[] = { { .bundle_id = (char[]){ "newest" } }, { .bundle_id = (char[]){ "built" } } };
    struct kg_regression r = { .run = { .bundle_id = (char[]){ "judged" } },
                               .baseline = { baseline, KG_COUNT_OF(baseline) },
                               .build_against = 1,
                               .again = again,
                               .n_again = KG_COUNT_OF(ENDS),
                               .n_again_all = KG_COUNT_OF(ENDS) + N_SUSPECTS_ALONE };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ENDS); i++) again[i].verdict = ENDS[i];
    expect_foot(&r, false,
                "\n11 suspects measured again, against the build of built: 2 confirmed, 5 refuted, 1 small, 3 "
                "undecided\n");
    r.n_again_left_out = 6;
    expect_foot(&r, true,
                "\n- 11 suspects measured again, against the build of built: 2 confirmed, 5 refuted, 1 small, 3 "
                "undecided; 6 weaker ones were left out: the budget\n");
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "regress_report", .name = "each_suspect_has_one_end", .run = each_suspect_has_one_end },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
