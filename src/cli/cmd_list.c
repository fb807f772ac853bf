/* kigo list: the runs of a folder of bundles, newest first. */
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <stdio.h>
#include <stdlib.h>

static const char COLUMNS[] =
    "SELECT bundle_id, verdict, state, n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun,"
    " started_us, sealed_us, git_commit, git_branch, git_dirty, overhead_share FROM bundle"
    " ORDER BY started_us DESC, bundle_id DESC LIMIT ?1";
enum { N_SHOWN = 10, STARTED = 10, SEALED = 11 };

static json_t *cell_json(const struct kg_cell *cell) {
    switch (cell->kind) {
    case KG_CELL_INT: return json_integer(cell->integer);
    case KG_CELL_REAL: return json_real(cell->real);
    case KG_CELL_TEXT: return json_stringn(cell->text, cell->size_bytes);
    default: return json_null();
    }
}

static bool add_json(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    json_t *list = arg;
    if (!cells) return true;
    json_t *row = json_object();
    for (size_t i = 0; i < n_columns; i++) json_object_set_new(row, names[i], cell_json(&cells[i]));
    json_array_append_new(list, row);
    return true;
}

static bool add_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    static const char *const HEADS[] = { "run",  "verdict", "state",   "planned", "pass",   "fail",
                                         "skip", "crash",   "timeout", "norun",   "seconds" };
    struct kg_table *table = arg;
    (void)n_columns;
    (void)names;
    table->n_columns = KG_COUNT_OF(HEADS);
    if (!cells) {
        for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) kg_table_add(table, HEADS[i]);
        return true;
    }
    for (size_t i = 0; i < N_SHOWN; i++) {
        if (cells[i].kind == KG_CELL_INT) kg_table_addf(table, "%lld", (long long)cells[i].integer);
        else kg_table_addf(table, "%.*s", (int)cells[i].size_bytes, cells[i].text);
    }
    kg_table_addf(table, "%.1f", (double)(cells[SEALED].integer - cells[STARTED].integer) / 1e6);
    return true;
}

static enum kg_status list(const char *root, bool json, int64_t limit, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_history_open("list", root, &history, err);
    if (status != KG_OK) return status;
    char limit_text[32];
    snprintf(limit_text, sizeof limit_text, "%lld", (long long)limit);
    const char *const args[] = { limit_text };
    if (json) {
        json_t *rows = json_array();
        status = kg_history_query(history, COLUMNS, args, 1, add_json, rows, err);
        if (status == KG_OK) status = kg_cli_print_json(rows, err);
        else json_decref(rows);
    } else {
        struct kg_table table = { 0 };
        struct kg_buffer out = KG_BUFFER_INIT;
        status = kg_history_query(history, COLUMNS, args, 1, add_row, &table, err);
        if (status == KG_OK && table.n_cells > table.n_columns) kg_table_print(&table, &out);
        if (status == KG_OK) status = kg_cli_print(&out, err);
        kg_table_free(&table);
    }
    kg_history_close(history);
    return status;
}

int kg_cmd_list(int argc, char **argv) {
    const char *bundles = NULL;
    bool json = false, helped;
    int64_t limit = -1;
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        { .name = "limit",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &limit,
          .metavar = "N",
          .help = "only the newest N",
          .min = 1,
          .max = 1e9 },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print a JSON array" },
    };
    const struct kg_command command = {
        .name = "kigo list",
        .usage = "[--limit N] [--bundles DIR] [--json]",
        .summary = "Lists the runs of a folder of bundles, newest first. Without any it prints nothing.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    const char **args;
    size_t n_args;
    struct kg_error err;
    if (kg_options_parse(&command, argc, argv, &args, &n_args, &helped, &err) != KG_OK)
        return kg_cli_error("list", &err);
    free(args);
    if (helped) return KG_EXIT_OK;
    return list(kg_cli_bundles_root(bundles), json, limit, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("list", &err);
}
