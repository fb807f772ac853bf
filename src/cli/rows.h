/* Answers of the history in the four shapes every verb over it has: a table, JSON, CSV and Markdown. */
#ifndef KIGO_CLI_ROWS_H
#define KIGO_CLI_ROWS_H

#include "cli/bundles.h"
#include "history/store.h"

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
    bool for_people;       /* there, figures have their units (base/quantity.h): values in the unit that the column
                            * `unit` says, which is left out; and columns named seconds, x_ns and x_bytes, by x */
    json_t *json;          /* an array of objects */
    struct kg_buffer text; /* CSV, Markdown */
    struct kg_table table;
    size_t n_rows;
};
#define KG_ROWS_INIT(options_)                                                                                         \
    { .format = *(options_), .null_text = "", .digits = 6 }

/* A kg_row_fn whose argument is a struct kg_rows. */
bool kg_rows_add(void *rows, size_t n_columns, const char *const *names, const struct kg_cell *cells);

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

/* Figures of the machine itself (roofline.*) come apart from those of the cases. */
#define KG_ROOFLINE_SECTION "the machine's own speed (roofline)"
static inline bool kg_figure_is_roofline(const char *figure) {
    return __builtin_strncmp(figure, "roofline.", 9) == 0;
}
/* The title of a section of a table or of Markdown, and a blank line before it. */
void kg_section_put(const char *title, const struct kg_rows_options *format, struct kg_buffer *out);

/* Asks the history and prints the answer. */
KG_WARN_UNUSED enum kg_status kg_rows_ask(struct kg_history *history, const struct kg_sql *sql, const char *const *args,
                                          size_t n_args, struct kg_rows *rows, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_rows_query(struct kg_history *history, const char *sql, const char *const *args,
                                            size_t n_args, struct kg_rows *rows, struct kg_error *err);

#endif
