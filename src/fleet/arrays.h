/* Rows on their way to the server as an array a column, in the binary form of PostgreSQL's arrays (array_send in
 * src/backend/utils/adt/arrayfuncs.c): big-endian words of dimensions (1), has NULLs, element type, length and lower
 * bound, then each element behind its length in bytes, -1 for NULL. One statement takes thousands of rows so, without
 * a table in between, and no figure is written out in decimals. */
#ifndef KIGO_FLEET_ARRAYS_H
#define KIGO_FLEET_ARRAYS_H

#include "base/buffer.h"
#include "fleet/libpq.h"
#include <sqlite3.h>
#include <stdbool.h>

enum { KG_FLEET_MOST_COLUMNS = 32 };

struct kg_fleet_arrays {
    int n_columns, n_rows;
    size_t n_bytes;
    struct kg_buffer columns[KG_FLEET_MOST_COLUMNS];
    Oid types[KG_FLEET_MOST_COLUMNS]; /* of the elements */
    bool has_null[KG_FLEET_MOST_COLUMNS];
};

/* For the columns of a statement over the index: TEXT, INTEGER and REAL are text, bigint and double precision. */
void kg_fleet_arrays_open(struct kg_fleet_arrays *arrays, sqlite3_stmt *stmt);
/* Adds the row that the statement stands at. KG_ERR_INTERNAL if a cell is of another type than its column. */
KG_WARN_UNUSED enum kg_status kg_fleet_arrays_add(struct kg_fleet_arrays *arrays, sqlite3_stmt *stmt,
                                                  struct kg_error *err);
/* Completes the arrays of at least one row, as the first arguments of a statement: types, values, lengths and formats
 * of PQexecParams. Valid until the arrays are cleared. */
void kg_fleet_arrays_bind(struct kg_fleet_arrays *arrays, Oid *types, const char **values, int *lengths, int *formats);
/* "$1::bigint[], $2::text[]"; malloc'ed. */
char *kg_fleet_arrays_sql(const struct kg_fleet_arrays *arrays);
/* Empties them, for the next rows. */
void kg_fleet_arrays_clear(struct kg_fleet_arrays *arrays);
void kg_fleet_arrays_close(struct kg_fleet_arrays *arrays);

#endif
