#include "suites/support/ncu_output.h"
#include "base/buffer.h"
#include "base/options.h"
#include "base/size.h"
#include "base/utf8.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 64, MOST_SAID = 600 };

/* The fields of one line, unquoted in place of a copy. */
struct fields {
    char *copy;
    char *items[MAX_FIELDS];
    size_t n;
};

/* False if it is no list of quoted fields. */
static bool split(const char *line, size_t len, struct fields *f) {
    *f = (struct fields){ .copy = kg_xmalloc(len + 1) };
    char *to = f->copy;
    for (size_t at = 0;; at++) {
        if (at >= len || line[at] != '"' || f->n == MAX_FIELDS) return false;
        f->items[f->n++] = to;
        for (at++; at < len && (line[at] != '"' || (at + 1 < len && line[at + 1] == '"')); at++) {
            at += line[at] == '"';
            *to++ = line[at];
        }
        *to++ = '\0'; /* fits: it stands where the quotes stood */
        if (at++ >= len) return false;
        if (at == len) return true;
        if (line[at] != ',') return false;
    }
}

enum column { ID, KERNEL, METRIC, UNIT, VALUE, N_COLUMNS };
static const char *const COLUMNS[N_COLUMNS] = { "ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value" };

struct reader {
    struct kg_ncu_launches launches;
    size_t n_line, n_fields; /* n_fields: of the columns' line; 0 before it */
    size_t place[N_COLUMNS];
    struct kg_buffer said; /* ncu's last error line */
};

static bool take_columns(struct reader *r, const struct fields *f) {
    size_t n_found = 0;
    for (size_t c = 0; c < N_COLUMNS; c++) {
        for (size_t i = 0; i < f->n; i++) {
            if (strcmp(f->items[i], COLUMNS[c]) != 0) continue;
            r->place[c] = i;
            n_found++;
            break;
        }
    }
    if (n_found == N_COLUMNS) r->n_fields = f->n;
    return n_found == N_COLUMNS;
}

/* "33,561,600" or "12.37"; false for "n/a" and whatever else is no finite number. */
static bool number_of(char *text, double *value) {
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != ',') *to++ = *from;
    *to = '\0';
    return kg_parse_double(text, value, NULL) == KG_OK && isfinite(*value);
}

static struct kg_ncu_launch *launch_of(struct reader *r, const char *id, const char *kernel) {
    struct kg_ncu_launches *l = &r->launches;
    if (l->n_items > 0 && strcmp(l->items[l->n_items - 1].id, id) == 0) return &l->items[l->n_items - 1];
    l->items = kg_xrealloc(l->items, (l->n_items + 1) * sizeof *l->items);
    l->items[l->n_items] = (struct kg_ncu_launch){ .id = kg_xstrdup(id), .kernel = kg_xstrdup(kernel) };
    return &l->items[l->n_items++];
}

static void take_value(struct reader *r, struct fields *f) {
    if (strcmp(f->items[r->place[METRIC]], COLUMNS[METRIC]) == 0) return; /* the columns again, of another process */
    struct kg_ncu_launch *launch = launch_of(r, f->items[r->place[ID]], f->items[r->place[KERNEL]]);
    double value;
    if (!number_of(f->items[r->place[VALUE]], &value)) return;
    launch->values = kg_xrealloc(launch->values, (launch->n_values + 1) * sizeof *launch->values);
    launch->values[launch->n_values++] =
        (struct kg_ncu_value){ kg_xstrdup(f->items[r->place[METRIC]]), kg_xstrdup(f->items[r->place[UNIT]]), value };
}

static enum kg_status take_line(struct reader *r, const char *line, size_t len, struct kg_error *err) {
    static const char ERROR[] = "==ERROR==";
    struct fields f = { 0 };
    enum kg_status status = KG_OK;
    r->n_line++;
    if (len >= sizeof ERROR - 1 && memcmp(line, ERROR, sizeof ERROR - 1) == 0) {
        kg_buffer_clear(&r->said);
        kg_utf8_append(&r->said, line, len < MOST_SAID ? len : MOST_SAID);
    }
    if (len == 0 || line[0] != '"') return KG_OK;
    const bool is_list = split(line, len, &f);
    if (r->n_fields == 0) (void)(is_list && take_columns(r, &f)); /* else a line of the program's */
    else if (!is_list || f.n != r->n_fields)
        status = kg_fail(err, KG_ERR_FORMAT, "ncu: line %zu has not the %zu quoted fields of the columns: %s",
                         r->n_line, r->n_fields, kg_quote(line, len).text);
    else take_value(r, &f);
    free(f.copy);
    return status;
}

enum kg_status kg_ncu_parse(const char *text, size_t len, struct kg_ncu_launches *launches, struct kg_error *err) {
    struct reader r = { 0 };
    enum kg_status status = KG_OK;
    for (size_t at = 0; at < len && status == KG_OK;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end ? (size_t)(end - text) - at : len - at;
        status = take_line(&r, text + at, n > 0 && text[at + n - 1] == '\r' ? n - 1 : n, err);
        at += n + 1;
    }
    if (status == KG_OK && r.n_fields == 0)
        status =
            kg_fail(err, KG_ERR_FORMAT, "ncu wrote no counters: %s", r.said.len ? r.said.data : "no line of columns");
    kg_buffer_free(&r.said);
    if (status == KG_OK) *launches = r.launches;
    else kg_ncu_launches_free(&r.launches);
    return status;
}

static void launch_free(struct kg_ncu_launch *l) {
    for (size_t v = 0; v < l->n_values; v++) {
        free(l->values[v].metric);
        free(l->values[v].unit);
    }
    free(l->values);
    free(l->id);
    free(l->kernel);
}

void kg_ncu_launches_free(struct kg_ncu_launches *launches) {
    for (size_t i = 0; i < launches->n_items; i++) launch_free(&launches->items[i]);
    free(launches->items);
    *launches = (struct kg_ncu_launches){ 0 };
}

void kg_ncu_launches_drop(struct kg_ncu_launches *launches, const char *kernel) {
    size_t kept = 0;
    for (size_t i = 0; i < launches->n_items; i++)
        if (strcmp(launches->items[i].kernel, kernel) == 0) launch_free(&launches->items[i]);
        else launches->items[kept++] = launches->items[i];
    launches->n_items = kept;
}

double kg_ncu_value(const struct kg_ncu_launch *launch, const char *metric) {
    for (size_t i = 0; i < launch->n_values; i++)
        if (strcmp(launch->values[i].metric, metric) == 0) return launch->values[i].value;
    return NAN;
}
