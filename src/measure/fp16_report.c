#include "measure/fp16_report.h"
#include "bundle/export.h"
#include "measure/fp16_figures.h"
#include "measure/fp16_goals.h"
#include <string.h>

static void put_csv(struct kg_buffer *csv, const char *text, const char *end) {
    kg_csv_put(csv, text, strlen(text), end);
}

static void put_interval(struct kg_buffer *out, const struct kg_fp16_value *v, const char *separator) {
    if (v->exact) kg_buffer_printf(out, "exact%s", *separator == ',' ? ",exact" : "");
    else kg_buffer_printf(out, "%.6g%s%.6g", v->lo, separator, v->hi);
}

static void put_figure(const struct kg_records *records, const struct kg_fp16_figure *f,
                       const struct kg_case_records *c, struct kg_buffer *markdown, struct kg_buffer *csv) {
    const struct kg_fp16_value v = kg_fp16_read(f, c);
    if (!v.known) return;
    const struct kg_case_records *base = kg_fp16_base(records, f, c);
    const struct kg_fp16_value b = base ? kg_fp16_read(f, base) : (struct kg_fp16_value){ 0 };
    const double ratio = kg_fp16_ratio(f, &v, &b).value;
    const char *dtype = kg_fp16_plan_text(c, "dtype"), *shape = kg_fp16_plan_text(c, "shape");
    const char *backend = kg_fp16_plan_text(c, "backend");
    kg_buffer_printf(markdown, "| %s | %s | %s | %s | %.6g %s | ", f->what, backend, dtype, shape, v.value, f->unit);
    put_interval(markdown, &v, " to ");
    if (b.known) kg_buffer_printf(markdown, " | %.6g | %.4g", b.value, ratio);
    else kg_buffer_puts(markdown, " | | ");
    kg_buffer_printf(markdown, " | `%s` |\n", c->key);

    put_csv(csv, f->what, ",");
    put_csv(csv, backend, ",");
    put_csv(csv, dtype, ",");
    put_csv(csv, shape, ",");
    kg_buffer_printf(csv, "%.9g,", v.value);
    put_csv(csv, f->unit, ",");
    put_interval(csv, &v, ",");
    if (b.known) kg_buffer_printf(csv, ",%.9g,%.6g,", b.value, ratio);
    else kg_buffer_puts(csv, ",,,");
    put_csv(csv, c->key, ",");
    put_csv(csv, b.known ? base->key : "", "\r\n");
}

/* Why a record has no figure: its status and reason, or a GPU that was slowed down. */
static void put_missing(const struct kg_case_records *c, struct kg_buffer *markdown) {
    const char *status = kg_case_status(c), *reason = kg_case_reason(c);
    if (strcmp(status, "pass") == 0) reason = "the GPU was slowed down in every try";
    kg_buffer_printf(markdown, "| `%s` | %s | %s |\n", c->key, status, reason);
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
                   "f32 for memory.\n\n"
                   "| what | back end | precision | model and work | value | interval | f32 | ratio | record |\n"
                   "| --- | --- | --- | --- | ---: | --- | ---: | ---: | --- |\n");
    kg_buffer_puts(csv, "what,backend,precision,work,value,unit,lo,hi,f32,ratio,record,f32_record\r\n");
    for (size_t i = 0; i < KG_FP16_N_FIGURES; i++)
        for (size_t c = 0; c < records->n_cases; c++)
            if (kg_fp16_has(&KG_FP16_FIGURES[i], &records->cases[c]))
                put_figure(records, &KG_FP16_FIGURES[i], &records->cases[c], markdown, csv);
    size_t n_missing = 0;
    for (size_t c = 0; c < records->n_cases; c++) {
        if (!is_missing(&records->cases[c])) continue;
        if (n_missing++ == 0)
            kg_buffer_puts(markdown, "\n## Not measured\n\n| record | status | reason |\n| --- | --- | --- |\n");
        put_missing(&records->cases[c], markdown);
    }
}

void kg_fp16_texts_free(struct kg_fp16_texts *texts) {
    kg_buffer_free(&texts->markdown);
    kg_buffer_free(&texts->csv);
    kg_buffer_free(&texts->goals_csv);
}
