#include "fleet/arrays.h"
#include "base/size.h"
#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <string.h>

/* Types of src/include/catalog/pg_type.dat, which never change. */
static const struct {
    char begins;     /* the type of an index's column */
    int sqlite_type; /* of its cells */
    Oid type, array_type;
    const char *name;
} TYPES[] = { { 'T', SQLITE_TEXT, 25, 1009, "text" },
              { 'I', SQLITE_INTEGER, 20, 1016, "bigint" },
              { 'R', SQLITE_FLOAT, 701, 1022, "double precision" } };
enum { TEXT, INTEGER, REAL };
enum { HEAD_BYTES = 20, IS_BINARY = 1 };

static size_t row_of(Oid type) {
    size_t i = 0;
    while (i + 1 < KG_COUNT_OF(TYPES) && TYPES[i].type != type) i++;
    return i;
}

void kg_fleet_arrays_open(struct kg_fleet_arrays *arrays, sqlite3_stmt *stmt) {
    *arrays = (struct kg_fleet_arrays){ .n_columns = sqlite3_column_count(stmt) };
    for (int i = 0; i < arrays->n_columns; i++) {
        const char *const declared = sqlite3_column_decltype(stmt, i);
        size_t k = 0;
        while (k + 1 < KG_COUNT_OF(TYPES) && declared && TYPES[k].begins != *declared) k++;
        arrays->types[i] = TYPES[k].type;
    }
    kg_fleet_arrays_clear(arrays);
}

static void put_word(struct kg_buffer *out, uint32_t word) {
    const uint32_t big_endian = htonl(word);
    kg_buffer_append(out, &big_endian, sizeof big_endian);
}

static void put_long(struct kg_buffer *out, uint64_t value) {
    const uint64_t big_endian = htobe64(value);
    put_word(out, sizeof big_endian);
    kg_buffer_append(out, &big_endian, sizeof big_endian);
}

static void put_cell(struct kg_buffer *out, sqlite3_stmt *stmt, int i, size_t type) {
    if (type == INTEGER) {
        put_long(out, (uint64_t)sqlite3_column_int64(stmt, i));
    } else if (type == REAL) {
        const double value = sqlite3_column_double(stmt, i);
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_long(out, bits);
    } else {
        const unsigned char *const text = sqlite3_column_text(stmt, i);
        const int n = sqlite3_column_bytes(stmt, i);
        put_word(out, (uint32_t)n);
        kg_buffer_append(out, text, (size_t)n);
    }
}

enum kg_status kg_fleet_arrays_add(struct kg_fleet_arrays *arrays, sqlite3_stmt *stmt, struct kg_error *err) {
    for (int i = 0; i < arrays->n_columns; i++) {
        struct kg_buffer *const column = &arrays->columns[i];
        const size_t type = row_of(arrays->types[i]), before = column->len;
        const int found = sqlite3_column_type(stmt, i);
        if (found == SQLITE_NULL) {
            put_word(column, UINT32_MAX);
            arrays->has_null[i] = true;
        } else if (found == TYPES[type].sqlite_type) {
            put_cell(column, stmt, i, type);
        } else {
            return kg_fail(err, KG_ERR_INTERNAL, "column %s of the index holds what is no %s",
                           sqlite3_column_name(stmt, i), TYPES[type].name);
        }
        arrays->n_bytes += column->len - before;
    }
    arrays->n_rows++;
    return KG_OK;
}

void kg_fleet_arrays_bind(struct kg_fleet_arrays *arrays, Oid *types, const char **values, int *lengths, int *formats) {
    for (int i = 0; i < arrays->n_columns; i++) {
        struct kg_buffer *const column = &arrays->columns[i];
        const uint32_t head[] = { htonl(1), htonl(arrays->has_null[i]), htonl(arrays->types[i]),
                                  htonl((uint32_t)arrays->n_rows), htonl(1) };
        static_assert(sizeof head == HEAD_BYTES, "the head of an array");
        memcpy(column->data, head, sizeof head);
        types[i] = TYPES[row_of(arrays->types[i])].array_type;
        values[i] = column->data;
        lengths[i] = (int)column->len;
        formats[i] = IS_BINARY;
    }
}

char *kg_fleet_arrays_sql(const struct kg_fleet_arrays *arrays) {
    struct kg_buffer sql = KG_BUFFER_INIT;
    for (int i = 0; i < arrays->n_columns; i++)
        kg_buffer_printf(&sql, "%s$%d::%s[]", i ? ", " : "", i + 1, TYPES[row_of(arrays->types[i])].name);
    return sql.data;
}

void kg_fleet_arrays_clear(struct kg_fleet_arrays *arrays) {
    static const char HEAD[HEAD_BYTES];
    arrays->n_rows = 0;
    arrays->n_bytes = 0;
    for (int i = 0; i < arrays->n_columns; i++) {
        kg_buffer_clear(&arrays->columns[i]);
        kg_buffer_append(&arrays->columns[i], HEAD, sizeof HEAD); /* known when the rows are */
        arrays->has_null[i] = false;
    }
}

void kg_fleet_arrays_close(struct kg_fleet_arrays *arrays) {
    for (int i = 0; i < arrays->n_columns; i++) kg_buffer_free(&arrays->columns[i]);
}
