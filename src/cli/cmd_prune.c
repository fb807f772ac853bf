/* kigo prune: lets old bundles go, of a folder or of a fleet; says first which, and why the others stay. */
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/fleet.h"
#include "cli/trust.h"
#include "history/prune.h"
#include <stdlib.h>

struct prune_options {
    const char *bundles, *history, *author, *sign;
    int64_t n_keep, wait_s;
    bool apply, json;
};

static enum kg_status answer(const struct kg_prune_plan *plan, const struct prune_options *o, struct kg_error *err) {
    const char *pruned =
        o->history ? "pruned; their tombstones are in the fleet" : "pruned; their tombstones are in tombstones/";
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_table table = { .n_columns = 4 };
    json_t *rows = json_array();
    uint64_t n_bytes = 0;
    kg_table_add(&table, o->apply ? "pruned" : "would go");
    kg_table_add(&table, "size");
    kg_table_add(&table, "kept because");
    kg_table_add(&table, "run");
    for (size_t i = 0; i < plan->n_rows; i++) {
        const struct kg_prune_row *row = &plan->rows[i];
        if (!row->kept) n_bytes += row->size_bytes;
        kg_table_add(&table, row->kept ? "" : "yes");
        kg_table_add(&table, kg_quantity_bytes((double)row->size_bytes).text);
        kg_table_add(&table, row->kept ? row->kept : "");
        kg_table_add(&table, row->bundle_id);
        json_array_append_new(rows, json_pack("{s:s, s:b, s:s?, s:I}", "bundle_id", row->bundle_id, "goes", !row->kept,
                                              "kept", row->kept, "size_bytes", (json_int_t)row->size_bytes));
    }
    if (plan->n_rows > 0 && !o->json) kg_table_print(&table, &out);
    kg_table_free(&table);
    if (o->json) {
        return kg_cli_print_json(json_pack("{s:b, s:I, s:I, s:o}", "applied", o->apply, "n_gone",
                                           (json_int_t)plan->n_to_go, "n_bytes", (json_int_t)n_bytes, "bundles", rows),
                                 err);
    }
    json_decref(rows);
    kg_text_printf(&out, "%zu of %zu bundles, %s, %s\n", plan->n_to_go, plan->n_rows,
                   kg_quantity_bytes((double)n_bytes).text, o->apply ? pruned : "would go; --apply lets them");
    return kg_cli_print(&out, err);
}

static enum kg_status prune(const struct prune_options *o, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_prune_plan plan;
    char *key = NULL;
    enum kg_status status = kg_cli_sign_key(o->sign, &key, err);
    if (status == KG_OK) status = kg_prune_plan(root, (size_t)o->n_keep, &plan, err);
    if (status != KG_OK) return free(key), status;
    if (o->apply) status = kg_prune_apply(root, &plan, kg_cli_author(o->author), key, err);
    free(key);
    if (status == KG_OK) status = answer(&plan, o, err);
    kg_prune_plan_free(&plan);
    return status;
}

/* Of a fleet; its server says who may. */
static enum kg_status prune_fleet(const struct prune_options *o, struct kg_error *err) {
    struct kg_fleet *fleet = NULL;
    struct kg_prune_plan plan;
    if (o->sign || o->bundles)
        return kg_fail(err, KG_ERR_USAGE, "--sign and --bundles are of a folder, --history is of a fleet");
    enum kg_status status = kg_cli_fleet_open(o->history, KG_FLEET_WRITES, o->wait_s, &fleet, err);
    if (status == KG_OK) status = kg_fleet_check(fleet, err);
    if (status == KG_OK)
        status = kg_fleet_prune(fleet, (size_t)o->n_keep, o->apply ? kg_cli_author(o->author) : NULL, &plan, err);
    if (status == KG_OK) {
        status = answer(&plan, o, err);
        kg_prune_plan_free(&plan);
    }
    kg_fleet_close(fleet);
    return status;
}

int kg_cmd_prune(int argc, char **argv) {
    struct prune_options o = { .n_keep = KG_PRUNE_KEEP, .wait_s = KG_FLEET_WAIT_S };
    const struct kg_option options[] = {
        { .name = "keep",
          .kind = KG_OPTION_INT,
          .value = &o.n_keep,
          .metavar = "N",
          .help = "keep the newest N of each comparison key (50)",
          .min = 1,
          .max = 1e9 },
        { .name = "apply", .kind = KG_OPTION_FLAG, .value = &o.apply, .help = "do it; without, it is only said" },
        { .name = "sign",
          .kind = KG_OPTION_TEXT,
          .value = &o.sign,
          .metavar = "FILE",
          .help = "sign the tombstones with this SSH key" },
        { .name = "history",
          .kind = KG_OPTION_TEXT,
          .value = &o.history,
          .metavar = "URL",
          .help = "of this fleet instead of a folder, postgresql://USER@HOST/DATABASE; no password here" },
        KG_WAIT_OPTION(&o.wait_s),
        KG_AUTHOR_OPTION(&o.author),
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo prune",
        .usage = "[--keep N] [--apply] [--sign FILE] [--author NAME] [--bundles DIR|--history URL] [--json]",
        .summary = "Removes old bundles, and leaves a tombstone of each. Kept are the newest of each comparison key,\n"
                   "those that regress takes for a baseline, and what is pinned, signed off, or does not verify.\n"
                   "Of a fleet an admin prunes: each runner's runs are counted by themselves, and those stay of which\n"
                   "the fleet has the archive alone.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    return (o.history ? prune_fleet(&o, &err) : prune(&o, &err)) == KG_OK ? KG_EXIT_OK : kg_cli_error("prune", &err);
}
