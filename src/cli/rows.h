/* Answers of the history in the four shapes every verb over it has: a table, JSON, CSV and Markdown. */
#ifndef KIGO_CLI_ROWS_H
#define KIGO_CLI_ROWS_H

#include "cli/bundles.h"

struct kg_rows_options {
    bool json, csv, markdown; /* none: a table */
};

/* Rows of a table of options. */
#define KG_ROWS_OPTIONS(o)                                                                                             \
    { .name = "json", .kind = KG_OPTION_FLAG, .value = &(o)->json, .help = "print JSON" },                             \
        { .name = "csv", .kind = KG_OPTION_FLAG, .value = &(o)->csv, .help = "print CSV with a head line" }, {         \
        .name = "markdown", .kind = KG_OPTION_FLAG, .value = &(o)->markdown, .help = "print a Markdown table"          \
    }

/* KG_ERR_USAGE if more than one was asked for. */
KG_WARN_UNUSED enum kg_status kg_rows_check(const struct kg_rows_options *options, struct kg_error *err);

struct kg_rows {
    struct kg_rows_options format;
    const char *null_text; /* of a NULL in a table and in Markdown: "" */
    int digits;            /* of numbers there; 0: as many as the number has */
    json_t *json;          /* an array of objects */
    struct kg_buffer text; /* CSV, Markdown */
    struct kg_table table;
    size_t n_rows;
};
#define KG_ROWS_INIT(options_)                                                                                         \
    { .format = *(options_), .null_text = "", .digits = 6 }

/* A kg_row_fn whose argument is a struct kg_rows. */
bool kg_rows_add(void *rows, size_t n_columns, const char *const *names, const struct kg_cell *cells);

/* A cell's value in JSON; a number that is not finite is null, and text is made valid UTF-8. */
json_t *kg_cell_json(const struct kg_cell *cell);

/* A JSON number, null where it is not finite. */
json_t *kg_cli_number_json(double value);

/* Prints what was added and frees all. A table, and Markdown, without rows print nothing. */
KG_WARN_UNUSED enum kg_status kg_rows_print(struct kg_rows *rows, struct kg_error *err);
/* The same into a buffer, behind what is in it; JSON indented. */
void kg_rows_put(struct kg_rows *rows, struct kg_buffer *out);
void kg_rows_free(struct kg_rows *rows);

static inline struct kg_cell kg_cell_of_text(const char *text) {
    return text ? (struct kg_cell){ .kind = KG_CELL_TEXT, .text = text, .size_bytes = __builtin_strlen(text) }
                : (struct kg_cell){ .kind = KG_CELL_NULL, .text = "" };
}
static inline struct kg_cell kg_cell_of_int(int64_t value) {
    return (struct kg_cell){ .kind = KG_CELL_INT, .integer = value, .text = "" };
}
/* NaN: NULL */
static inline struct kg_cell kg_cell_of_real(double value) {
    return value == value ? (struct kg_cell){ .kind = KG_CELL_REAL, .real = value, .text = "" } : kg_cell_of_text(NULL);
}

/* Asks the history and prints the answer. */
KG_WARN_UNUSED enum kg_status kg_rows_query(struct kg_history *history, const char *sql, const char *const *args,
                                            size_t n_args, struct kg_rows *rows, struct kg_error *err);

#endif
