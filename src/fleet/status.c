/* What a fleet holds, by runner. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include <stdlib.h>

/* A link leads to a run of the same tag manifest, whoever pushed that one,
 * and whether it was pruned. */
static const char RUNNERS[] =
    "SELECT w.name, count(a.bundle_id), coalesce(sum(a.size_bytes), 0), max(a.bundle_id),"
    " count(*) FILTER (WHERE a.previous_id IS NOT NULL AND p.bundle_id IS NULL),"
    " count(*) FILTER (WHERE EXISTS (SELECT FROM archive o WHERE o.runner_no = a.runner_no"
    "  AND o.previous_id = a.previous_id AND o.bundle_id < a.bundle_id)),"
    " (SELECT count(*) FROM tombstone t WHERE t.runner_no = w.runner_no"
    "  AND NOT EXISTS (SELECT FROM archive o WHERE o.bundle_id = t.bundle_id))"
    " FROM runner w LEFT JOIN archive a USING (runner_no)"
    " LEFT JOIN (SELECT bundle_id, tagmanifest_sha256 FROM archive UNION SELECT bundle_id, tagmanifest_sha256"
    "  FROM tombstone) p ON p.bundle_id = a.previous_id AND p.tagmanifest_sha256 = a.previous_sha256"
    " GROUP BY w.runner_no, w.name ORDER BY w.name COLLATE \"C\"";

static void take_runner(const struct kg_fleet_rows *rows, int row, struct kg_fleet_runner *runner) {
    *runner = (struct kg_fleet_runner){ .name = kg_xstrdup(kg_fleet_cell(rows, row, 0)),
                                        .n_runs = kg_fleet_integer(rows, row, 1),
                                        .archive_bytes = kg_fleet_integer(rows, row, 2),
                                        .newest = kg_xstrdup(kg_fleet_cell(rows, row, 3)),
                                        .n_gaps = kg_fleet_integer(rows, row, 4),
                                        .n_forks = kg_fleet_integer(rows, row, 5),
                                        .n_pruned = kg_fleet_integer(rows, row, 6) };
}

static enum kg_status read_server(struct kg_fleet *fleet, struct kg_fleet_status *status, struct kg_error *err) {
    struct kg_fleet_rows rows;
    const enum kg_status ended = kg_fleet_ask(
        fleet, "asking its size", "SELECT current_setting('server_version'), pg_database_size(current_database())",
        NULL, 0, &rows, err);
    if (ended == KG_OK) {
        status->server = kg_xstrdup(kg_fleet_cell(&rows, 0, 0));
        status->database_bytes = kg_fleet_integer(&rows, 0, 1);
    }
    kg_fleet_rows_free(&rows);
    return ended;
}

enum kg_status kg_fleet_status(struct kg_fleet *fleet, struct kg_fleet_status *status, struct kg_error *err) {
    struct kg_fleet_status found = { .version = kg_fleet_version() };
    struct kg_fleet_rows rows = { .result = NULL };
    enum kg_status ended = kg_fleet_check(fleet, err);
    if (ended == KG_OK) ended = read_server(fleet, &found, err);
    if (ended == KG_OK) ended = kg_fleet_ask(fleet, "listing the runners", RUNNERS, NULL, 0, &rows, err);
    if (ended == KG_OK) {
        found.n_runners = (size_t)rows.n;
        found.runners = kg_xcalloc(found.n_runners + 1, sizeof *found.runners);
        for (int i = 0; i < rows.n; i++) take_runner(&rows, i, &found.runners[i]);
        *status = found;
    } else kg_fleet_status_free(&found);
    kg_fleet_rows_free(&rows);
    return ended;
}

void kg_fleet_status_free(struct kg_fleet_status *status) {
    for (size_t i = 0; i < status->n_runners; i++) {
        free(status->runners[i].name);
        free(status->runners[i].newest);
    }
    free(status->runners);
    free(status->server);
    *status = (struct kg_fleet_status){ 0 };
}
