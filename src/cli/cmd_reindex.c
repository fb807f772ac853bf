/* kigo reindex: the index made again from the folders. */
#include "base/quantity.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <stdio.h>
#include <stdlib.h>

static int report(size_t n_indexed, const struct kg_bundle_findings *problems, double seconds, bool json) {
    struct kg_error err;
    enum kg_status status;
    if (json) {
        status = kg_cli_print_json(json_pack("{s:I, s:f, s:o}", "n_indexed", (json_int_t)n_indexed, "seconds", seconds,
                                             "problems", kg_cli_findings_json(problems)),
                                   &err);
    } else {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "indexed %zu bundle%s in %s\n", n_indexed, n_indexed == 1 ? "" : "s",
                       kg_quantity_time(1e9 * seconds).text);
        for (size_t i = 0; i < problems->n_items; i++)
            kg_say(stderr, "kigo reindex: %s is not indexed: %s\n", problems->items[i].path, problems->items[i].detail);
        status = kg_cli_print(&out, &err);
    }
    if (status != KG_OK) return kg_cli_error("reindex", &err);
    return problems->n_items > 0 ? KG_EXIT_INTEGRITY : KG_EXIT_OK;
}

int kg_cmd_reindex(int argc, char **argv) {
    const char *bundles = NULL;
    bool json = false;
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo reindex",
        .usage = "[--bundles DIR] [--json]",
        .summary = "Makes index.sqlite again from the bundles' folders, to the same contents.\n"
                   "Exit code 4 if a folder could not be read as a bundle (the others are indexed).",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    size_t n_indexed = 0;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    struct kg_bundle_findings problems = { NULL, 0 };
    const uint64_t begun_ns = kg_clock_monotonic_ns();
    const enum kg_status status = kg_history_reindex(kg_cli_bundles_root(bundles), &n_indexed, &problems, &err);
    const double seconds = (double)(kg_clock_monotonic_ns() - begun_ns) / 1e9;
    const int code = status == KG_OK ? report(n_indexed, &problems, seconds, json) : kg_cli_error("reindex", &err);
    kg_bundle_findings_free(&problems);
    return code;
}
