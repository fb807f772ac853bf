/* Annotations as a fleet's table has them. */
#include "base/buffer.h"
#include "history/annotation.h"
#include "history/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(const struct kg_cell *cell) {
    return cell->kind == KG_CELL_TEXT ? kg_xstrndup(cell->text, cell->size_bytes) : NULL;
}

static char *text_or_empty(const struct kg_cell *cell) {
    char *text = text_of(cell);
    return text ? text : kg_xstrdup("");
}

/* One that makes no sense is none, as a file that is no annotation. */
static bool add_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_annotations *list = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    if ((list->n_items & (list->n_items + 1)) == 0) /* full at 2^n - 1 */
        list->items = kg_xrealloc(list->items, (list->n_items + 1) * 2 * sizeof *list->items);
    struct kg_annotation *a = &list->items[list->n_items++];
    *a = (struct kg_annotation){ .id = text_or_empty(&cells[0]),
                                 .kind = text_or_empty(&cells[1]),
                                 .bundle_id = text_of(&cells[2]),
                                 .case_key = text_of(&cells[3]),
                                 .until_us = cells[4].integer,
                                 .utc_us = cells[5].integer,
                                 .author = text_or_empty(&cells[6]),
                                 .text = text_or_empty(&cells[7]) };
    const bool is_name = *a->id && a->id[0] != '.' && !strchr(a->id, '/');
    if (!is_name || kg_annotation_check(a, NULL) != KG_OK) {
        struct kg_annotations one = { kg_xcalloc(1, sizeof *a), 1 };
        one.items[0] = *a;
        list->n_items--;
        kg_annotations_free(&one);
    }
    return true;
}

enum kg_status kg_annotations_read(struct kg_history *history, const char *root, struct kg_annotations *list,
                                   struct kg_error *err) {
    static const char SQL[] = "SELECT annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text"
                              " FROM annotation ORDER BY annotation_id COLLATE \"C\"";
    *list = (struct kg_annotations){ NULL, 0 };
    if (!kg_history_is_store(history)) return kg_annotations_load(root, list, NULL, err);
    const enum kg_status status = kg_history_query(history, SQL, NULL, 0, add_row, list, err);
    if (status != KG_OK) kg_annotations_free(list);
    return status;
}

enum kg_status kg_annotation_put(struct kg_history *history, const char *root, const struct kg_annotation *a,
                                 const char *key, char **id, struct kg_error *err) {
    enum { N_COLUMNS = 8, N_ADDED = 1 };
    static const char SQL[] =
        "INSERT INTO annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text)"
        " VALUES ($1, $2, $3, $4, $5::bigint, $6::bigint, $7, $8)";
    char *name = NULL, *text = NULL, until[24], utc[24];
    if (!kg_history_is_store(history)) return kg_annotation_add(root, a, key, id, err);
    if (key) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s keeps no signatures of annotations", history->path);
    enum kg_status status = kg_annotation_make(a, &name, &text, err);
    snprintf(until, sizeof until, "%lld", (long long)a->until_us);
    snprintf(utc, sizeof utc, "%lld", (long long)a->utc_us);
    const char *const args[N_COLUMNS] = { name, a->kind,   a->bundle_id, a->case_key, a->until_us > 0 ? until : NULL,
                                          utc,  a->author, a->text };
    int64_t n_added = 0;
    if (status == KG_OK) status = history->store->change(history->place, SQL, args, N_COLUMNS, &n_added, err);
    if (status == KG_OK && n_added != N_ADDED)
        status = kg_fail(err, KG_ERR_INTERNAL, "%lld annotations were added", (long long)n_added);
    free(text);
    if (status == KG_OK && id) *id = name;
    else free(name);
    return status;
}

enum kg_status kg_annotation_take_back(struct kg_history *history, const char *root, const char *id,
                                       struct kg_error *err) {
    int64_t n_removed = 0;
    if (!kg_history_is_store(history)) return kg_annotation_remove(root, id, err);
    enum kg_status status = history->store->change(history->place, "DELETE FROM annotation WHERE annotation_id = $1",
                                                   &id, 1, &n_removed, err);
    if (status == KG_OK && n_removed == 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no annotation '%s' in %s", id, history->path);
    return status;
}
