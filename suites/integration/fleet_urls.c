#include "suites/integration/fleet_urls.h"
#include "base/buffer.h"
#include "base/size.h"
#include "fleet/fleet.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* URLs that lead nowhere or make no sense; none of them is repeated with its password. */
void kg_fleet_unreachable(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *given, *from_environment;
        int exit_code;
        const char *says;
    } ROWS[] = {
        { "postgresql://u@/d?host=/nowhere/at/all", "", KG_EXIT_INCOMPLETE, "cannot be reached" },
        { NULL, "postgresql://u:hunter2@/d?host=/nowhere/at/all", KG_EXIT_INCOMPLETE, "cannot be reached" },
        { NULL, "postgresql://u:hunter2@localhost:1/d?application_name=hunter2", KG_EXIT_INCOMPLETE, "localhost:1" },
        { NULL, "postgresql://u:x@hunter2@localhost/d", KG_EXIT_USAGE, "cannot read the URL" },
        { NULL, "postgresql://u:hunter2%zz@localhost/d", KG_EXIT_USAGE, "cannot read the URL" },
        { NULL, "postgresql://u:x@localhost/d?hunter2=1", KG_EXIT_USAGE, "cannot read the URL" },
        { "postgresql://u:hunter2@localhost/d", "", KG_EXIT_USAGE, "~/.pgpass" },
        { "postgres://localhost/d?user=u&password=hunter2", "", KG_EXIT_USAGE, "~/.pgpass" },
        { "hunter2", "", KG_EXIT_USAGE, "no postgresql:// URL" },
        { NULL, "", KG_EXIT_USAGE, "no fleet is named" },
    };
    (void)arg;
    if (kg_fleet_missing()) return kg_record_skip(rec, "%s", kg_fleet_missing());
    char *dir = kg_maker_sealed(kg_scratch_dir(rec), 1);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *variable = kg_xasprintf("KIGO_HISTORY=%s", ROWS[i].from_environment);
        const char *const env[] = { variable, NULL };
        const char *argv[] = { kg_program_path(), "push", dir, "--wait", "0", "--history", ROWS[i].given, NULL };
        if (!ROWS[i].given) argv[5] = NULL;
        struct kg_process_result result;
        struct kg_error err;
        EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv, .env = env }, &result, &err), err);
        ck_assert_msg(result.exit_code == ROWS[i].exit_code && strstr(result.err, ROWS[i].says),
                      "row %zu ended with %d: %s", i, result.exit_code, result.err);
        ck_assert_msg(!strstr(result.err, "hunter2") && !strstr(result.out, "hunter2"), "row %zu: %s", i, result.err);
        kg_process_result_free(&result);
        free(variable);
    }
    free(dir);
}
