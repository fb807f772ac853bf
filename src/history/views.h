/* The index's views for people, column by column: what `kigo query --schema` prints and docs/history.md holds.
 *
 * A column's name means the same in every view that has it, and columns of two views are never NULL: NATURAL JOIN joins
 * them rightly. Beneath them are tables whose form may change with the schema's version. */
#ifndef KIGO_HISTORY_VIEWS_H
#define KIGO_HISTORY_VIEWS_H

#include <stddef.h>

struct kg_view_column {
    const char *view, *column;
    const char *unit; /* of a number; UTC of a time; "" of a text and of what has none */
    const char *meaning;
};

/* View after view, each in the order of its columns. */
extern const struct kg_view_column KG_VIEW_COLUMNS[];
extern const size_t KG_N_VIEW_COLUMNS;

#endif
