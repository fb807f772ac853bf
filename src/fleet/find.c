/* A run by what people call it. */
#include "fleet/internal.h"
#include <stdio.h>
#include <string.h>

/* 7 digits of a commit, or more, in small letters. */
static bool may_be_commit(const char *run) {
    const size_t len = strlen(run);
    return len >= 7 && len <= 40 && strspn(run, "0123456789abcdef") == len;
}

/* One that was pruned is said to be. */
static enum kg_status say_missing(struct kg_fleet *fleet, const char *run, struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_id, to_char(pruned_at, 'YYYY-MM-DD HH24:MI:SS'), author FROM tombstone"
                              " WHERE starts_with(bundle_id, $1) OR right(bundle_id, 8) = $1 ORDER BY 1 LIMIT 1";
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "looking for a tombstone", SQL, &run, 1, &rows, err);
    if (status == KG_OK && rows.n > 0)
        status =
            kg_fail(err, KG_ERR_NOT_FOUND, "%s has no run %s any more: %s was pruned on %s UTC by %s", fleet->where,
                    run, kg_fleet_cell(&rows, 0, 0), kg_fleet_cell(&rows, 0, 1), kg_fleet_cell(&rows, 0, 2));
    else if (status == KG_OK) status = kg_fail(err, KG_ERR_NOT_FOUND, "%s has no run %s", fleet->where, run);
    kg_fleet_rows_free(&rows);
    return status;
}

enum kg_status kg_fleet_find(struct kg_fleet *fleet, const char *run, char id[256], struct kg_error *err) {
    static const char SQL[] =
        "SELECT bundle_id FROM archive WHERE starts_with(bundle_id, $1) OR right(bundle_id, 8) = $1"
        " UNION SELECT bundle_id FROM bundle WHERE $2::boolean AND starts_with(git_commit, $1) ORDER BY 1 LIMIT 3";
    const char *const args[] = { run, may_be_commit(run) ? "true" : "false" };
    struct kg_fleet_rows rows;
    if (!*run) return kg_fail(err, KG_ERR_USAGE, "the name of the run is empty");
    enum kg_status status = kg_fleet_ask(fleet, "looking for the run", SQL, args, 2, &rows, err);
    if (status == KG_OK && rows.n == 0) {
        kg_fleet_rows_free(&rows);
        return say_missing(fleet, run, err);
    }
    if (status == KG_OK && rows.n > 1 && strcmp(kg_fleet_cell(&rows, 0, 0), run) != 0)
        status = kg_fail(err, KG_ERR_USAGE, "'%s' fits %s, %s%s", run, kg_fleet_cell(&rows, 0, 0),
                         kg_fleet_cell(&rows, 1, 0), rows.n > 2 ? " and others" : "");
    if (status == KG_OK) snprintf(id, 256, "%s", kg_fleet_cell(&rows, 0, 0));
    kg_fleet_rows_free(&rows);
    return status;
}

enum kg_status kg_fleet_archived(struct kg_fleet *fleet, const char *id, char tagmanifest_sha256[KG_SHA256_HEX_SIZE],
                                 bool *is_signed, struct kg_error *err) {
    static const char SQL[] = "SELECT a.tagmanifest_sha256, coalesce(b.sig_state, 'unsigned') <> 'unsigned'"
                              " FROM archive a LEFT JOIN bundle b USING (bundle_id) WHERE a.bundle_id = $1";
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "looking for the archive", SQL, &id, 1, &rows, err);
    if (status == KG_OK && rows.n == 0) {
        kg_fleet_rows_free(&rows);
        return say_missing(fleet, id, err);
    }
    if (status == KG_OK) {
        snprintf(tagmanifest_sha256, KG_SHA256_HEX_SIZE, "%s", kg_fleet_cell(&rows, 0, 0));
        *is_signed = *kg_fleet_cell(&rows, 0, 1) == 't';
    }
    kg_fleet_rows_free(&rows);
    return status;
}
