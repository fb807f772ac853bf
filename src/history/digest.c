/* What the index says of a run, as one hash. */
#include "base/buffer.h"
#include "base/hash.h"
#include "history/internal.h"
#include <assert.h>
#include <string.h>

enum { CHUNK = 1 << 16, MOST_COLUMNS = 64 };

static void add_column(sqlite3_stmt *stmt, int column, struct kg_buffer *out) {
    const int type = sqlite3_column_type(stmt, column);
    const char kind = (char)type;
    kg_buffer_append(out, &kind, 1);
    if (type == SQLITE_INTEGER) {
        const int64_t value = sqlite3_column_int64(stmt, column);
        kg_buffer_append(out, &value, sizeof value);
    } else if (type == SQLITE_FLOAT) {
        const double value = sqlite3_column_double(stmt, column);
        kg_buffer_append(out, &value, sizeof value);
    } else if (type != SQLITE_NULL) {
        const void *bytes = sqlite3_column_blob(stmt, column);
        const int64_t size_bytes = sqlite3_column_bytes(stmt, column);
        kg_buffer_append(out, &size_bytes, sizeof size_bytes);
        if (size_bytes > 0) kg_buffer_append(out, bytes, (size_t)size_bytes);
    }
}

/* Numbers that stand for a run or a name differ between two indexes of the same content where hashes meet (row.h). */
static bool is_number_of_row(const char *column) {
    static const char *const NUMBERS[] = { "bundle_no", "result_id", "case_id", "figure_id" };
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (strcmp(column, NUMBERS[i]) == 0) return true;
    return false;
}

static enum kg_status add_rows(struct kg_history *history, const char *sql, const char *bundle_id,
                               struct kg_sha256 *hash, struct kg_error *err) {
    struct kg_buffer bytes = KG_BUFFER_INIT;
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK) code = sqlite3_bind_text(stmt, 1, bundle_id, -1, SQLITE_STATIC);
    const int n_columns = sqlite3_column_count(stmt);
    bool added[MOST_COLUMNS];
    assert(n_columns <= MOST_COLUMNS);
    for (int i = 0; i < n_columns; i++) {
        const char *column = sqlite3_column_name(stmt, i);
        if (!column) code = SQLITE_NOMEM;
        added[i] = column && !is_number_of_row(column);
    }
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code != SQLITE_ROW) break;
        for (int i = 0; i < n_columns; i++)
            if (added[i]) add_column(stmt, i, &bytes);
        kg_buffer_append(&bytes, "\n", 1);
        if (bytes.len < CHUNK) continue;
        kg_sha256_update(hash, bytes.data, bytes.len);
        kg_buffer_clear(&bytes);
    }
    if (bytes.len > 0) kg_sha256_update(hash, bytes.data, bytes.len);
    kg_sha256_update(hash, "\n", 1);
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "hashing a run's rows", err);
    sqlite3_finalize(stmt);
    kg_buffer_free(&bytes);
    return status;
}

/* Whether the run's number is the one that inserting it would give: who has read it finds the rows that are made again,
 * too. */
static enum kg_status add_place(struct kg_history *history, const char *bundle_id, struct kg_sha256 *hash,
                                struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_no FROM bundle WHERE bundle_id = ?1";
    sqlite3_stmt *stmt = NULL;
    int64_t wanted = 0;
    const enum kg_status status = kg_history_bundle_no(history, bundle_id, &wanted, err);
    if (status != KG_OK) return status;
    int code = sqlite3_prepare_v2(history->db, SQL, -1, &stmt, NULL);
    if (code == SQLITE_OK) code = sqlite3_bind_text(stmt, 1, bundle_id, -1, SQLITE_STATIC);
    if (code == SQLITE_OK) code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) kg_sha256_update(hash, sqlite3_column_int64(stmt, 0) == wanted ? "1" : "0", 1);
    const bool good = code == SQLITE_ROW || code == SQLITE_DONE;
    const enum kg_status read = good ? KG_OK : kg_history_fail(history, "looking for a run", err);
    sqlite3_finalize(stmt);
    return read;
}

enum kg_status kg_history_digest(struct kg_history *history, const char *bundle_id, bool head_only,
                                 char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    static const char
        HEAD[] = "SELECT bundle.*, env.*, build.* FROM bundle LEFT JOIN env USING(env_id)"
                 " LEFT JOIN build USING(build_id) WHERE bundle_id = ?1",
        RESULTS[] = "SELECT r.result_id - (bundle_no << 20) AS place, r.*, tcase.* FROM bundle CROSS JOIN result_row r "
                    "USING(bundle_no)"
                    " LEFT JOIN tcase USING(case_id) WHERE bundle_id = ?1 ORDER BY result_id",
        METRICS[] = "SELECT m.result_id - (SELECT bundle_no << 20 FROM bundle WHERE bundle_id = ?1) AS place, m.*,"
                    " figure_name.* FROM metric_row m LEFT JOIN figure_name USING(figure_id) WHERE"
                    " m.result_id BETWEEN (SELECT bundle_no << 20 FROM bundle WHERE bundle_id = ?1) AND"
                    " (SELECT (bundle_no << 20) + 1048575 FROM bundle WHERE bundle_id = ?1)"
                    " ORDER BY m.result_id, m.seq";
    struct kg_sha256 *hash = kg_sha256_new();
    enum kg_status status = add_place(history, bundle_id, hash, err);
    if (status == KG_OK) status = add_rows(history, HEAD, bundle_id, hash, err);
    if (status == KG_OK && !head_only) status = add_rows(history, RESULTS, bundle_id, hash, err);
    if (status == KG_OK && !head_only) status = add_rows(history, METRICS, bundle_id, hash, err);
    kg_sha256_finish(hash, sha256);
    return status;
}
