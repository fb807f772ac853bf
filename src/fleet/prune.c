/* What may go from a fleet, and its going: the archive and the rows of a run, in one transaction that leaves a
 * tombstone of it. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/size.h"
#include "history/prune.h"
#include "history/regress.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 3 };

/* Every run with why it stays, NULL if it may go. Runs of a runner and a comparison key are counted from the newest on;
 * one without rows has no key, and its archive is evidence of something. */
static const char PLAN[] =
    "CREATE TEMP TABLE prune_plan ON COMMIT DROP AS"
    " SELECT bundle_id, size_bytes, row_number() OVER (ORDER BY runner_no, key COLLATE \"C\", started_us DESC,"
    "  bundle_id COLLATE \"C\" DESC) AS n,"
    " CASE WHEN key IS NULL THEN 'has no rows'"
    "  WHEN n_newer < %zu THEN 'of the newest %zu of its comparison key'"
    "  WHEN is_baseline AND n_baselines <= %d THEN 'a baseline of its comparison key'"
    "  WHEN EXISTS (SELECT FROM annotation o WHERE o.kind = 'pin' AND o.bundle_id = ranked.bundle_id) THEN 'pinned'"
    " END AS kept"
    " FROM (SELECT *, row_number() OVER newest - 1 AS n_newer, count(*) FILTER (WHERE is_baseline) OVER newest AS"
    "  n_baselines FROM"
    "  (SELECT a.bundle_id, a.size_bytes, a.runner_no, b.comparison_key AS key, b.started_us, b.state = 'complete' AND"
    "   b.verdict = 'pass' AND b.git_commit IS NOT NULL AND b.git_dirty = 0 AS is_baseline"
    "   FROM archive a LEFT JOIN bundle b USING (bundle_id)) runs"
    "  WINDOW newest AS (PARTITION BY runner_no, key ORDER BY started_us DESC, bundle_id COLLATE \"C\" DESC)) ranked";

static enum kg_status make_plan(struct kg_fleet *fleet, size_t n_keep, struct kg_prune_plan *plan,
                                struct kg_error *err) {
    char *sql = kg_xasprintf(PLAN, n_keep, n_keep, (int)KG_BASELINE_RUNS);
    struct kg_fleet_rows rows = { .result = NULL };
    enum kg_status status = kg_fleet_exec(fleet, "looking for what may go", sql, err);
    if (status == KG_OK)
        status = kg_fleet_ask(fleet, "looking for what may go",
                              "SELECT bundle_id, size_bytes, coalesce(kept, '') FROM pg_temp.prune_plan ORDER BY n",
                              NULL, 0, &rows, err);
    if (status == KG_OK) plan->rows = kg_xcalloc((size_t)rows.n + 1, sizeof *plan->rows);
    for (int i = 0; status == KG_OK && i < rows.n; i++) {
        const char *const kept = kg_fleet_cell(&rows, i, 2);
        plan->rows[plan->n_rows++] = (struct kg_prune_row){ .bundle_id = kg_xstrdup(kg_fleet_cell(&rows, i, 0)),
                                                            .kept = *kept ? kg_xstrdup(kept) : NULL,
                                                            .size_bytes = (uint64_t)kg_fleet_integer(&rows, i, 1) };
        plan->n_to_go += !*kept;
    }
    kg_fleet_rows_free(&rows);
    free(sql);
    return status;
}

static enum kg_status write_tombstones(struct kg_fleet *fleet, const char *author, struct kg_error *err) {
    static const char SQL[] =
        "INSERT INTO tombstone AS t (bundle_id, tagmanifest_sha256, manifest_sha256, archive_sha256, size_bytes,"
        " runner_no, month, previous_id, previous_sha256, pushed_at, author, why)"
        " SELECT a.bundle_id, a.tagmanifest_sha256, b.manifest_sha256, a.sha256, a.size_bytes, a.runner_no, a.month,"
        " a.previous_id, a.previous_sha256, a.pushed_at, $1, 'past what prune keeps'"
        " FROM pg_temp.prune_plan p JOIN archive a USING (bundle_id) JOIN bundle b USING (bundle_id)"
        " WHERE p.kept IS NULL"
        /* One that was pushed again, and goes again. */
        " ON CONFLICT (bundle_id) DO UPDATE SET (tagmanifest_sha256, manifest_sha256, archive_sha256, size_bytes,"
        " runner_no, month, previous_id, previous_sha256, pushed_at, pruned_at, pruned_by, author, why) ="
        " (excluded.tagmanifest_sha256, excluded.manifest_sha256, excluded.archive_sha256, excluded.size_bytes,"
        " excluded.runner_no, excluded.month, excluded.previous_id, excluded.previous_sha256, excluded.pushed_at,"
        " excluded.pruned_at, excluded.pruned_by, excluded.author, excluded.why)";
    return kg_fleet_tell(fleet, "writing tombstones", SQL, &author, 1, err);
}

/* Months of which every run goes: their partitions are dropped, which gives the room back at once. */
static enum kg_status drop_months(struct kg_fleet *fleet, struct kg_error *err) {
    static const char *const PARTED[] = { "archive_chunk", "result_row", "metric_row" };
    static const char SQL[] = "SELECT to_char(a.month, 'YYYY_MM') FROM archive a"
                              " JOIN pg_temp.prune_plan p USING (bundle_id) GROUP BY a.month"
                              " HAVING every(p.kept IS NULL) ORDER BY 1";
    struct kg_fleet_rows months;
    enum kg_status status = kg_fleet_ask(fleet, "looking for empty months", SQL, NULL, 0, &months, err);
    for (int i = 0; i < months.n && status == KG_OK; i++)
        for (size_t k = 0; k < KG_COUNT_OF(PARTED) && status == KG_OK; k++) {
            char *drop = kg_xasprintf("DROP TABLE IF EXISTS kigo.%s_%s", PARTED[k], kg_fleet_cell(&months, i, 0));
            status = kg_fleet_exec(fleet, "dropping a month", drop, err);
            free(drop);
        }
    kg_fleet_rows_free(&months);
    return status;
}

/* And what runs shared of which none is left, as from the index. */
static enum kg_status delete_runs(struct kg_fleet *fleet, struct kg_error *err) {
    static const char SQL[] =
        "DELETE FROM metric_row m USING pg_temp.prune_plan p JOIN bundle b USING (bundle_id) WHERE p.kept IS NULL"
        " AND m.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575 AND m.runner_no = b.runner_no"
        " AND m.month = b.month;"
        "DELETE FROM result_row r USING pg_temp.prune_plan p JOIN bundle b USING (bundle_id) WHERE p.kept IS NULL"
        " AND r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575 AND r.runner_no = b.runner_no"
        " AND r.month = b.month;"
        "DELETE FROM archive_chunk c USING pg_temp.prune_plan p JOIN archive a USING (bundle_id) WHERE p.kept IS NULL"
        " AND c.tagmanifest_sha256 = a.tagmanifest_sha256 AND c.runner_no = a.runner_no AND c.month = a.month;"
        "DELETE FROM bundle b USING pg_temp.prune_plan p WHERE p.kept IS NULL AND b.bundle_id = p.bundle_id;"
        "DELETE FROM archive a USING pg_temp.prune_plan p WHERE p.kept IS NULL AND a.bundle_id = p.bundle_id;"
        "DELETE FROM tcase c WHERE NOT EXISTS (SELECT FROM result_row r WHERE r.case_id = c.case_id);"
        "DELETE FROM figure_name f WHERE NOT EXISTS (SELECT FROM metric_row m WHERE m.figure_id = f.figure_id);"
        "DELETE FROM env e WHERE NOT EXISTS (SELECT FROM bundle b WHERE b.env_id = e.env_id);"
        "DELETE FROM build d WHERE NOT EXISTS (SELECT FROM bundle b WHERE b.build_id = d.build_id)";
    return kg_fleet_exec(fleet, "deleting runs", SQL, err);
}

/* Pushes wait, so that nothing comes to a run or a month on its way out. */
static enum kg_status apply(struct kg_fleet *fleet, size_t n_keep, const char *author, struct kg_prune_plan *plan,
                            struct kg_error *err) {
    enum kg_status status =
        kg_fleet_exec(fleet, "waiting for pushes", "BEGIN; SELECT pg_advisory_xact_lock(" KG_FLEET_LOCK ")", err);
    if (status == KG_OK) status = make_plan(fleet, n_keep, plan, err);
    if (status == KG_OK && plan->n_to_go > 0) {
        status = write_tombstones(fleet, author, err);
        if (status == KG_OK) status = drop_months(fleet, err);
        if (status == KG_OK) status = delete_runs(fleet, err);
    }
    return status == KG_OK ? kg_fleet_exec(fleet, "committing", "COMMIT", err) : status;
}

enum kg_status kg_fleet_prune(struct kg_fleet *fleet, size_t n_keep, const char *author, struct kg_prune_plan *plan,
                              struct kg_error *err) {
    *plan = (struct kg_prune_plan){ NULL, 0, 0 };
    enum kg_status status = KG_ERR_BUSY;
    for (int i = 0; status == KG_ERR_BUSY && i < MOST_TRIES;
         i++) { /* a reader may hold one of the tables, and want one */
        kg_prune_plan_free(plan);
        if (author) status = apply(fleet, n_keep, author, plan, err);
        else {
            status = kg_fleet_exec(fleet, "beginning", "BEGIN", err);
            if (status == KG_OK) status = make_plan(fleet, n_keep, plan, err);
        }
        if (status != KG_OK || !author) kg_fleet_roll_back(fleet);
    }
    if (status != KG_OK) kg_prune_plan_free(plan);
    return status;
}
