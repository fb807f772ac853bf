/* Annotations as a fleet's table has them. */
#include "base/buffer.h"
#include "history/annotation.h"
#include "history/store.h"
#include <kigo/history.h>
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
