#include "report/fp16_report.h"
#include "base/markdown.h"
#include "base/size.h"
#include "bundle/export.h"
#include "report/bandwidth.h"
#include "report/fp16_figures.h"
#include "report/fp16_goals.h"
#include <string.h>

static void put_csv(struct kg_buffer *csv, const char *text, const char *end) {
    kg_csv_put(csv, text, strlen(text), end);
}

static void put_interval(struct kg_buffer *csv, const struct kg_fp16_value *v) {
    if (v->exact) kg_buffer_puts(csv, "exact,exact");
    else kg_buffer_printf(csv, "%.6g,%.6g", v->lo, v->hi);
}

/* A line of both tables. */
struct line {
    const char *what, *backend, *dtype, *work, *unit, *record, *f32_record;
    struct kg_fp16_value value, f32, ratio; /* the last two unknown where it stands alone */
};

static void put_line(const struct line *l, struct kg_fp16_texts *texts) {
    struct kg_buffer *markdown = &texts->markdown, *csv = &texts->csv;
    const char *const texts_of[] = { l->what, l->backend, l->dtype, l->work };
    for (size_t i = 0; i < KG_COUNT_OF(texts_of); i++) kg_markdown_cell(markdown, texts_of[i]);
    kg_markdown_cellf(markdown, "%.6g %s", l->value.value, l->unit);
    if (l->value.exact) kg_markdown_cell(markdown, "exact");
    else kg_markdown_cellf(markdown, "%.6g to %.6g", l->value.lo, l->value.hi);
    if (!l->ratio.known) {
        kg_markdown_cell(markdown, NULL);
        kg_markdown_cell(markdown, NULL);
    } else {
        kg_markdown_cellf(markdown, "%.6g", l->f32.value);
        if (l->ratio.exact) kg_markdown_cellf(markdown, "%.4g", l->ratio.value);
        else kg_markdown_cellf(markdown, "%.4g (%.4g to %.4g)", l->ratio.value, l->ratio.lo, l->ratio.hi);
    }
    kg_markdown_code(markdown, l->record);
    kg_markdown_row_end(markdown);

    for (size_t i = 0; i < KG_COUNT_OF(texts_of); i++) put_csv(csv, texts_of[i], ",");
    kg_buffer_printf(csv, "%.9g,", l->value.value);
    put_csv(csv, l->unit, ",");
    put_interval(csv, &l->value);
    if (l->ratio.known) {
        kg_buffer_printf(csv, ",%.9g,%.6g,", l->f32.value, l->ratio.value);
        put_interval(csv, &l->ratio);
        kg_buffer_puts(csv, ",");
    } else {
        kg_buffer_puts(csv, ",,,,,");
    }
    put_csv(csv, l->record, ",");
    put_csv(csv, l->ratio.known ? l->f32_record : "", "\r\n");
}

static void put_figure(const struct kg_records *records, const struct kg_fp16_figure *f,
                       const struct kg_case_records *c, struct kg_fp16_texts *texts) {
    const struct kg_case_records *base = kg_fp16_base(records, f, c);
    struct line l = { .what = f->what,
                      .backend = kg_fp16_plan_text(c, "backend"),
                      .dtype = kg_fp16_plan_text(c, "dtype"),
                      .work = kg_fp16_plan_text(c, "shape"),
                      .unit = f->unit,
                      .record = c->key,
                      .f32_record = base ? base->key : "",
                      .value = kg_fp16_read(f, c) };
    if (base) l.f32 = kg_fp16_read(f, base);
    l.ratio = kg_fp16_ratio(f, &l.value, &l.f32);
    if (l.value.known) put_line(&l, texts);
}

static const struct kg_bandwidth_row *f32_of(const struct kg_bandwidth *b, const struct kg_bandwidth_row *row) {
    for (size_t i = 0; i < b->n_rows; i++)
        if (strcmp(b->rows[i].dtype, "f32") == 0 && kg_bandwidth_same_work(&b->rows[i], row)) return &b->rows[i];
    return NULL;
}

static struct kg_fp16_value microseconds(const struct kg_bandwidth_row *row) {
    return (struct kg_fp16_value){ true, false, row->median_ns * 1e-3, row->ci_lo_ns * 1e-3, row->ci_hi_ns * 1e-3 };
}

/* The matrix products that are behind the means, a line a pair. */
static void put_products(const struct kg_records *records, struct kg_fp16_texts *texts) {
    struct kg_bandwidth b;
    kg_bandwidth_collect(records, &b);
    for (size_t i = 0; i < b.n_rows; i++) {
        const struct kg_bandwidth_row *row = &b.rows[i], *f32 = f32_of(&b, row);
        if (strcmp(row->op, "linear") != 0 || !kg_bandwidth_plotted(row) || row->speedup <= 0 || !f32) continue;
        const struct line l = { .what = row->name,
                                .backend = row->backend,
                                .dtype = row->dtype,
                                .work = row->shape,
                                .unit = "us",
                                .record = row->key,
                                .f32_record = f32->key,
                                .value = microseconds(row),
                                .f32 = microseconds(f32),
                                .ratio = { true, false, row->speedup, row->speedup_lo, row->speedup_hi } };
        put_line(&l, texts);
    }
    kg_bandwidth_free(&b);
}

/* Why a record has no figure: its status and reason, or a GPU that was slowed down. */
static void put_missing(const struct kg_case_records *c, struct kg_buffer *markdown) {
    const char *status = kg_case_status(c), *reason = kg_case_reason(c);
    if (strcmp(status, "pass") == 0) reason = "the GPU was slowed down in every try";
    kg_markdown_code(markdown, c->key);
    kg_markdown_row(markdown, (const char *const[]){ status, reason }, 2);
}

static bool is_missing(const struct kg_case_records *c) {
    size_t i;
    json_t *timing;
    if (strcmp(kg_case_status(c), "pass") != 0) return true;
    json_array_foreach(json_object_get(c->result, "timings"), i, timing) {
        if (json_is_false(json_object_get(timing, "valid"))) return true;
    }
    return false;
}

void kg_fp16_report(const struct kg_records *records, const char *run, struct kg_fp16_texts *texts) {
    struct kg_buffer *markdown = &texts->markdown, *csv = &texts->csv;
    kg_buffer_printf(
        markdown,
        "# FP16 validation, run %s\n\n"
        "Intervals are bootstrap 95%% intervals of the median, of a ratio from the far ends of both; a mean's "
        "is that of the ends.\n\n"
        "## Figures to reach\n\n"
        "Speed and memory of the model of Qwen2.5-0.5B's size, products of its shapes (geometric mean, the "
        "record is the slowest's), numerics by the largest error.\n\n",
        run);
    kg_fp16_goals(records, markdown, &texts->goals_csv);
    kg_buffer_puts(markdown,
                   "\n## All figures\n\n"
                   "The f32 column is the same work in f32, on the file of the same model whose weights take the "
                   "most bytes; the ratio is a speed-up for times and rates (above 1: f16 is faster) and f16 / "
                   "f32 for memory.\n\n");
    kg_markdown_head(markdown, "what|back end|precision|model and work|value:|interval|f32:|ratio:|record");
    kg_buffer_puts(csv,
                   "what,backend,precision,work,value,unit,lo,hi,f32,ratio,ratio_lo,ratio_hi,record,f32_record\r\n");
    for (size_t i = 0; i < KG_FP16_N_FIGURES; i++)
        for (size_t c = 0; c < records->n_cases; c++)
            if (kg_fp16_has(&KG_FP16_FIGURES[i], &records->cases[c]))
                put_figure(records, &KG_FP16_FIGURES[i], &records->cases[c], texts);
    put_products(records, texts);
    size_t n_missing = 0;
    for (size_t c = 0; c < records->n_cases; c++) {
        if (!is_missing(&records->cases[c])) continue;
        if (n_missing++ == 0) {
            kg_buffer_puts(markdown, "\n## Not measured\n\n");
            kg_markdown_head(markdown, "record|status|reason");
        }
        put_missing(&records->cases[c], markdown);
    }
}

void kg_fp16_texts_free(struct kg_fp16_texts *texts) {
    kg_buffer_free(&texts->markdown);
    kg_buffer_free(&texts->csv);
    kg_buffer_free(&texts->goals_csv);
}
