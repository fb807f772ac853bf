/* A build without libpq: whatever is asked of a fleet says what is missing, and how it comes. */
#include "base/size.h"
#include "fleet/fleet.h"
#include "suites/harness/case.h"
#include <check.h>
#include <string.h>

static void expect(enum kg_status status, const struct kg_error *err) {
    ck_assert_int_eq(status, KG_ERR_UNSUPPORTED);
    ck_assert_int_eq(kg_status_exit_code(status), KG_EXIT_USAGE);
    ck_assert_msg(strstr(err->message, "libpq-dev") != NULL, "%s", err->message);
}

static void every_call_says_so(struct kg_record *rec, const void *arg) {
    struct kg_fleet *fleet = NULL;
    struct kg_fleet_status status = { 0 };
    struct kg_history *history = NULL;
    struct kg_bundle_findings problems = { NULL, 0 };
    struct kg_pushed pushed;
    struct kg_error err;
    char id[256], sha256[KG_SHA256_HEX_SIZE];
    bool is_signed = false;
    size_t n = 0;
    int version = 0;
    (void)rec, (void)arg;
    ck_assert_ptr_nonnull(kg_fleet_missing());
    expect(kg_fleet_open("postgresql://localhost/kigo", KG_FLEET_READS, 0, &fleet, &err), &err);
    expect(kg_fleet_init(fleet, &version, &err), &err);
    expect(kg_fleet_migrate(fleet, &version, &err), &err);
    expect(kg_fleet_check(fleet, &err), &err);
    expect(kg_fleet_status(fleet, &status, &err), &err);
    expect(kg_fleet_push(fleet, "run", NULL, false, NULL, &pushed, &err), &err);
    expect(kg_fleet_find(fleet, "run", id, &err), &err);
    expect(kg_fleet_archived(fleet, "run", sha256, &is_signed, &err), &err);
    expect(kg_fleet_fetch(fleet, "run", "run.tar.zst", NULL, &err), &err);
    expect(kg_fleet_reindex(fleet, NULL, &n, &problems, &err), &err);
    expect(kg_fleet_prune(fleet, 1, NULL, NULL, &err), &err);
    expect(kg_fleet_history(fleet, &history, &err), &err);
    kg_fleet_status_free(&status);
    kg_fleet_close(fleet);
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "fleet_none", .name = "every_call_says_so", .run = every_call_says_so },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
