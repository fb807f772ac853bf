/* kigo recover: what runs that died left, published. */
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "report/report.h"
#include <stdlib.h>

static enum kg_status recover(const char *root, bool json, struct kg_error *err) {
    size_t n_recovered = 0;
    struct kg_history *history = NULL;
    enum kg_status status = kg_bundle_recover(root, kg_report_documents, &n_recovered, err);
    if (status != KG_OK) return status;
    if (json) {
        status = kg_cli_print_json(json_pack("{s:I}", "n_recovered", (json_int_t)n_recovered), err);
    } else {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "published %zu unfinished run%s as partial\n", n_recovered, n_recovered == 1 ? "" : "s");
        status = kg_cli_print(&out, err);
    }
    /* Opening brings the index up to date. */
    if (status == KG_OK) status = kg_cli_history_open("recover", root, &history, err);
    kg_history_close(history);
    return status;
}

int kg_cmd_recover(int argc, char **argv) {
    const char *bundles = NULL;
    bool json = false;
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo recover",
        .usage = "[--bundles DIR] [--json]",
        .summary = "Publishes every unfinished bundle whose run has died, as partial: the case in flight as crash,\n"
                   "those after it as norun. Runs that are alive are left alone.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    return recover(kg_cli_bundles_root(bundles), json, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("recover", &err);
}
