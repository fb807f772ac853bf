/* The table `annotation`, equal to the files beside the bundles. */
#include "history/annotation.h"
#include "history/internal.h"
#include <string.h>

static void bind_text(sqlite3_stmt *stmt, int place, const char *text) {
    if (text) sqlite3_bind_text(stmt, place, text, -1, SQLITE_STATIC);
    else sqlite3_bind_null(stmt, place);
}

static enum kg_status insert(struct kg_history *history, const struct kg_annotation *a, struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, "INSERT INTO annotation VALUES(?,?,?,?,?,?,?,?)", -1, &stmt, NULL);
    if (code == SQLITE_OK) {
        bind_text(stmt, 1, a->id);
        bind_text(stmt, 2, a->kind);
        bind_text(stmt, 3, a->bundle_id);
        bind_text(stmt, 4, a->case_key);
        if (a->until_us > 0) sqlite3_bind_int64(stmt, 5, a->until_us);
        sqlite3_bind_int64(stmt, 6, a->utc_us);
        bind_text(stmt, 7, a->author);
        bind_text(stmt, 8, a->text);
        code = sqlite3_step(stmt);
    }
    sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "inserting an annotation", err);
}

static bool same_text(sqlite3_stmt *stmt, int column, const char *text) {
    const char *cell = (const char *)sqlite3_column_text(stmt, column);
    return cell && text ? strcmp(cell, text) == 0 : !cell && !text;
}

static bool same_row(sqlite3_stmt *stmt, const struct kg_annotation *a) {
    const char *const texts[] = { a->id, a->kind, a->bundle_id, a->case_key, NULL, NULL, a->author, a->text };
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++)
        if (i != 4 && i != 5 && !same_text(stmt, i, texts[i])) return false;
    return sqlite3_column_int64(stmt, 4) == a->until_us && sqlite3_column_int64(stmt, 5) == a->utc_us;
}

static enum kg_status table_differs(struct kg_history *history, const struct kg_annotations *list, bool *differs,
                                    struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, "SELECT * FROM annotation ORDER BY annotation_id", -1, &stmt, NULL);
    size_t n_rows = 0;
    *differs = false;
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
            *differs = *differs || n_rows >= list->n_items || !same_row(stmt, &list->items[n_rows]);
            n_rows++;
        }
    sqlite3_finalize(stmt);
    *differs = *differs || n_rows != list->n_items;
    return code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "reading annotations", err);
}

enum kg_status kg_history_sync_annotations(struct kg_history *history, bool *differs,
                                           struct kg_bundle_findings *problems, struct kg_error *err) {
    struct kg_annotations list;
    enum kg_status status = kg_annotations_load(history->root, &list, problems, err);
    if (status == KG_OK) status = table_differs(history, &list, differs, err);
    if (status == KG_OK && problems && *differs) {
        status = kg_history_exec(history, "DELETE FROM annotation", err);
        for (size_t i = 0; i < list.n_items && status == KG_OK; i++) status = insert(history, &list.items[i], err);
    }
    kg_annotations_free(&list);
    return status;
}
