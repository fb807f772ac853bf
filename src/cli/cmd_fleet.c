/* kigo fleet: the tables of a fleet's history. */
#include "base/clock.h"
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/fleet.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status say_version(const struct kg_fleet *fleet, int version, bool json, struct kg_error *err) {
    const char *where = kg_fleet_where(fleet);
    if (json)
        return kg_cli_print_json(json_pack("{s:o, s:i}", "history", kg_json_utf8(where), "version", version), err);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "%s: tables of version %d\n", where, version);
    return kg_cli_print(&out, err);
}

static enum kg_status init(struct kg_fleet *fleet, bool json, int *exit_code, struct kg_error *err) {
    int version = 0;
    (void)exit_code;
    const enum kg_status status = kg_fleet_init(fleet, &version, err);
    return status == KG_OK ? say_version(fleet, version, json, err) : status;
}

static enum kg_status migrate(struct kg_fleet *fleet, bool json, int *exit_code, struct kg_error *err) {
    int version = 0;
    (void)exit_code;
    const enum kg_status status = kg_fleet_migrate(fleet, &version, err);
    return status == KG_OK ? say_version(fleet, version, json, err) : status;
}

static json_t *status_json(const char *where, const struct kg_fleet_status *found) {
    json_t *runners = json_array();
    for (size_t i = 0; i < found->n_runners; i++) {
        const struct kg_fleet_runner *r = &found->runners[i];
        json_array_append_new(
            runners, json_pack("{s:o, s:I, s:I, s:o, s:I, s:I, s:I}", "runner", kg_json_utf8(r->name), "n_runs",
                               (json_int_t)r->n_runs, "archive_bytes", (json_int_t)r->archive_bytes, "newest",
                               *r->newest ? kg_json_utf8(r->newest) : json_null(), "n_gaps", (json_int_t)r->n_gaps,
                               "n_forks", (json_int_t)r->n_forks, "n_pruned", (json_int_t)r->n_pruned));
    }
    return json_pack("{s:o, s:i, s:o, s:I, s:o}", "history", kg_json_utf8(where), "version", found->version, "server",
                     kg_json_utf8(found->server), "database_bytes", (json_int_t)found->database_bytes, "runners",
                     runners);
}

static void put_status(struct kg_buffer *out, const char *where, const struct kg_fleet_status *found) {
    struct kg_table table = { .n_columns = 7 };
    static const char *const HEADS[] = { "runner", "runs", "archives", "newest", "gaps", "forks", "pruned" };
    kg_text_printf(out, "%s: PostgreSQL %s, tables of version %d, %s\n", where, found->server, found->version,
                   kg_quantity_bytes((double)found->database_bytes).text);
    if (found->n_runners == 0) return;
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) kg_table_add(&table, HEADS[i]);
    for (size_t i = 0; i < found->n_runners; i++) {
        const struct kg_fleet_runner *r = &found->runners[i];
        kg_table_add(&table, r->name);
        kg_table_addf(&table, "%" PRId64, r->n_runs);
        kg_table_add(&table, kg_quantity_bytes((double)r->archive_bytes).text);
        kg_table_add(&table, r->newest);
        kg_table_addf(&table, "%" PRId64, r->n_gaps);
        kg_table_addf(&table, "%" PRId64, r->n_forks);
        kg_table_addf(&table, "%" PRId64, r->n_pruned);
    }
    kg_table_print(&table, out);
    kg_table_free(&table);
}

static enum kg_status say_status(struct kg_fleet *fleet, bool json, int *exit_code, struct kg_error *err) {
    const char *where = kg_fleet_where(fleet);
    struct kg_fleet_status found = { 0 };
    (void)exit_code;
    enum kg_status status = kg_fleet_status(fleet, &found, err);
    if (status == KG_OK && json) {
        status = kg_cli_print_json(status_json(where, &found), err);
    } else if (status == KG_OK) {
        struct kg_buffer out = KG_BUFFER_INIT;
        put_status(&out, where, &found);
        status = kg_cli_print(&out, err);
    }
    kg_fleet_status_free(&found);
    return status;
}

static enum kg_status reindex(struct kg_fleet *fleet, bool json, int *exit_code, struct kg_error *err) {
    struct kg_progress progress;
    const struct kg_fleet_watch watch = kg_cli_fleet_watch(&progress, "reindex");
    struct kg_bundle_findings problems = { NULL, 0 };
    size_t n_indexed = 0;
    const uint64_t begun_ns = kg_clock_monotonic_ns();
    enum kg_status status = kg_fleet_check(fleet, err);
    if (status == KG_OK) status = kg_fleet_reindex(fleet, &watch, &n_indexed, &problems, err);
    kg_progress_finish(&progress);
    const double seconds = (double)(kg_clock_monotonic_ns() - begun_ns) / 1e9;
    if (problems.n_items > 0) *exit_code = KG_EXIT_INTEGRITY;
    if (status == KG_OK && json) {
        status = kg_cli_print_json(json_pack("{s:o, s:I, s:f, s:o}", "history", kg_json_utf8(kg_fleet_where(fleet)),
                                             "n_indexed", (json_int_t)n_indexed, "seconds", seconds, "problems",
                                             kg_cli_findings_json(&problems)),
                                   err);
    } else if (status == KG_OK) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "indexed %zu run%s in %s\n", n_indexed, n_indexed == 1 ? "" : "s",
                       kg_quantity_time(1e9 * seconds).text);
        for (size_t i = 0; i < problems.n_items; i++)
            kg_say(stderr, "kigo fleet: %s has no rows: %s\n", problems.items[i].path, problems.items[i].detail);
        status = kg_cli_print(&out, err);
    }
    kg_bundle_findings_free(&problems);
    return status;
}

static const struct {
    const char *name;
    enum kg_fleet_use use;
    enum kg_status (*run)(struct kg_fleet *fleet, bool json, int *exit_code, struct kg_error *err);
} ACTIONS[] = { { "init", KG_FLEET_WRITES, init },
                { "status", KG_FLEET_READS, say_status },
                { "migrate", KG_FLEET_WRITES, migrate },
                { "reindex", KG_FLEET_WRITES, reindex } };

int kg_cmd_fleet(int argc, char **argv) {
    const char *history = NULL, *action;
    int64_t wait_s = KG_FLEET_WAIT_S;
    bool json = false;
    const struct kg_option options[] = {
        KG_HISTORY_OPTION(&history),
        KG_WAIT_OPTION(&wait_s),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo fleet",
        .usage = "init|status|migrate|reindex [--history URL] [--wait SECONDS] [--json]",
        .summary =
            "The history of many runners in PostgreSQL, which 'kigo push' fills.\n"
            "init makes the roles kigo_runner, kigo_reader and kigo_admin, and the tables; status lists the runners,\n"
            "and how their chains stand; migrate brings older tables to this kigo's; reindex makes every row again\n"
            "from the archives, in one transaction (exit code 4 if one of them is not sound: it has no rows then).\n"
            "Tables of a newer kigo are refused (4).",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    struct kg_fleet *fleet = NULL;
    struct kg_error err;
    size_t i = 0;
    int exit_code;
    if (!kg_cli_parse(&command, argc, argv, &action, 1, &exit_code)) return exit_code;
    exit_code = KG_EXIT_OK;
    enum kg_status status = KG_OK;
    while (i < KG_COUNT_OF(ACTIONS) && strcmp(ACTIONS[i].name, action) != 0) i++;
    if (i == KG_COUNT_OF(ACTIONS))
        status = kg_fail(&err, KG_ERR_USAGE, "'%s'? usage: %s %s", action, command.name, command.usage);
    if (status == KG_OK) status = kg_cli_fleet_open(history, ACTIONS[i].use, wait_s, &fleet, &err);
    if (status == KG_OK) status = ACTIONS[i].run(fleet, json, &exit_code, &err);
    kg_fleet_close(fleet);
    return status == KG_OK ? exit_code : kg_cli_error("fleet", &err);
}
