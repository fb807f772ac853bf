#include "measure/fp16_report.h"
#include "base/size.h"
#include "bundle/export.h"
#include "measure/roofline.h"
#include <stdlib.h>
#include <string.h>

/* How a figure is read off a record and held against f32. */
enum source { FROM_TIMING, FROM_TIMING_RATE, FROM_METRIC };
enum against { SPEEDUP_OF_TIME, SPEEDUP_OF_RATE, SHARE, ALONE };
static const struct figure {
    const char *case_name; /* of op model */
    const char *field;     /* of the timing or metric */
    enum source source;
    enum against against;
    const char *what, *unit;
    double scale; /* from the record's unit */
} FIGURES[] = {
    { "load", "load", FROM_TIMING, ALONE, "load", "ms", 1e-6 },
    { "first_token", "first_token", FROM_TIMING, SPEEDUP_OF_TIME, "first-token latency", "ms", 1e-6 },
    { "prefill", "prefill", FROM_TIMING, SPEEDUP_OF_TIME, "prefill", "ms", 1e-6 },
    { "decode", "token", FROM_TIMING_RATE, SPEEDUP_OF_RATE, "decode", "tokens/s", 1e9 },
    { "memory", "memory.weights", FROM_METRIC, SHARE, "memory, weights", "MiB", 1.0 / (1 << 20) },
    { "memory", "memory.kv", FROM_METRIC, SHARE, "memory, KV cache", "MiB", 1.0 / (1 << 20) },
    { "memory", "memory.activations", FROM_METRIC, SHARE, "memory, activations", "MiB", 1.0 / (1 << 20) },
    { "memory", "memory.workspace", FROM_METRIC, SHARE, "memory, workspace", "MiB", 1.0 / (1 << 20) },
    { "memory", "memory.total", FROM_METRIC, SHARE, "memory, total", "MiB", 1.0 / (1 << 20) },
    { "against_f32", "tokens", FROM_METRIC, ALONE, "greedy tokens compared with f32", "tokens", 1 },
    { "against_f32", "token_mismatch", FROM_METRIC, ALONE, "token mismatch, free", "%", 100 },
    { "against_f32", "token_mismatch_forced", FROM_METRIC, ALONE, "token mismatch, after the same tokens", "%", 100 },
    { "against_f32", "logits.max_abs", FROM_METRIC, ALONE, "logits, largest difference", "abs", 1 },
    { "against_f32", "logits.nmse", FROM_METRIC, ALONE, "logits, NMSE", "ratio", 1 },
    { "haiku", "haiku_valid", FROM_METRIC, SHARE, "valid haiku", "count", 1 },
    { "haiku", "haiku_asked", FROM_METRIC, ALONE, "haiku asked for", "count", 1 },
};

struct value {
    bool known, exact;
    double value, lo, hi;
};

static const char *text_or_empty(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

static const json_t *item_named(const json_t *result, const char *list, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(result, list), i, item) {
        if (strcmp(text_or_empty(item, "name"), name) == 0) return item;
    }
    return NULL;
}

static double metric(const struct kg_case_records *c, const char *name) {
    return kg_json_number(item_named(c->result, "metrics", name), "value", 0);
}

static bool is_figure_of(const struct figure *f, const struct kg_case_records *c) {
    return c->plan && c->result && strcmp(text_or_empty(c->plan, "layer"), "bench") == 0 &&
           strcmp(text_or_empty(c->plan, "op"), "model") == 0 &&
           strcmp(text_or_empty(c->plan, "name"), f->case_name) == 0 &&
           strcmp(text_or_empty(c->result, "status"), "pass") == 0;
}

static struct value read_value(const struct figure *f, const struct kg_case_records *c) {
    const json_t *item = item_named(c->result, f->source == FROM_METRIC ? "metrics" : "timings", f->field);
    if (f->source == FROM_METRIC) {
        const double value = f->scale * kg_json_number(item, "value", 0);
        return (struct value){ json_is_number(json_object_get(item, "value")), true, value, value, value };
    }
    const double median = kg_json_number(item, "median", 0);
    const double lo = kg_json_number(item, "ci_lo", 0), hi = kg_json_number(item, "ci_hi", 0);
    if (!(median > 0 && lo > 0 && hi > 0)) return (struct value){ 0 };
    if (f->source == FROM_TIMING) return (struct value){ true, false, f->scale * median, f->scale * lo, f->scale * hi };
    return (struct value){ true, false, f->scale / median, f->scale / hi, f->scale / lo };
}

/* The shape without its first part, "model=0 file.gguf" or "fixture": prompt, tokens and context. */
static const char *workload(const struct kg_case_records *c) {
    const char *shape = text_or_empty(c->plan, "shape");
    const char *at = strstr(shape, " prompt=");
    return at ? at + 1 : "";
}

/* The f32 case of the same work, on the weights of the same model that take the most bytes. */
static const struct kg_case_records *base_of(const struct kg_records *records, const struct figure *f,
                                             const struct kg_case_records *c) {
    const struct kg_case_records *best = NULL;
    if (f->against == ALONE || strcmp(text_or_empty(c->plan, "dtype"), "f16") != 0) return NULL;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *other = &records->cases[i];
        if (!is_figure_of(f, other) || strcmp(text_or_empty(other->plan, "dtype"), "f32") != 0 ||
            strcmp(text_or_empty(other->plan, "backend"), text_or_empty(c->plan, "backend")) != 0 ||
            strcmp(workload(other), workload(c)) != 0 || metric(other, "params") != metric(c, "params"))
            continue;
        if (!best || metric(other, "weights") > metric(best, "weights")) best = other;
    }
    return best;
}

static double ratio_to(const struct figure *f, double value, double base) {
    if (f->against == SPEEDUP_OF_TIME) return kg_speedup(base, value);
    return kg_speedup(value, base); /* rates: higher is faster; shares: value / base */
}

static void put_csv(struct kg_buffer *csv, const char *text, const char *end) {
    kg_csv_put(csv, text, strlen(text), end);
}

static void put_interval(struct kg_buffer *out, const struct value *v, const char *separator) {
    if (v->exact) kg_buffer_printf(out, "exact%s", *separator == ',' ? ",exact" : "");
    else kg_buffer_printf(out, "%.6g%s%.6g", v->lo, separator, v->hi);
}

static void put_figure(const struct kg_records *records, const struct figure *f, const struct kg_case_records *c,
                       struct kg_buffer *markdown, struct kg_buffer *csv) {
    const struct value v = read_value(f, c);
    if (!v.known) return;
    const struct kg_case_records *base = base_of(records, f, c);
    const struct value b = base ? read_value(f, base) : (struct value){ 0 };
    const double ratio = b.known ? ratio_to(f, v.value, b.value) : 0;
    const char *dtype = text_or_empty(c->plan, "dtype"), *shape = text_or_empty(c->plan, "shape");
    kg_buffer_printf(markdown, "| %s | %s | %s | %s | %.6g %s | ", f->what, text_or_empty(c->plan, "backend"), dtype,
                     shape, v.value, f->unit);
    put_interval(markdown, &v, " to ");
    if (b.known) kg_buffer_printf(markdown, " | %.6g | %.4g", b.value, ratio);
    else kg_buffer_puts(markdown, " | | ");
    kg_buffer_printf(markdown, " | `%s` |\n", c->key);

    put_csv(csv, f->what, ",");
    put_csv(csv, text_or_empty(c->plan, "backend"), ",");
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

void kg_fp16_report(const struct kg_records *records, const char *run, struct kg_buffer *markdown,
                    struct kg_buffer *csv) {
    kg_buffer_printf(
        markdown,
        "# FP16 validation, run %s\n\n"
        "Intervals are bootstrap 95%% intervals of the median. The f32 column is the same work in f32, on the "
        "file of the same model whose weights take the most bytes; the ratio is a speed-up for times and "
        "rates (above 1: f16 is faster) and f16 / f32 for memory.\n\n"
        "| what | back end | precision | model and work | value | interval | f32 | ratio | record |\n"
        "| --- | --- | --- | --- | ---: | --- | ---: | ---: | --- |\n",
        run);
    kg_buffer_puts(csv, "what,backend,precision,work,value,unit,lo,hi,f32,ratio,record,f32_record\r\n");
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES); i++)
        for (size_t c = 0; c < records->n_cases; c++)
            if (is_figure_of(&FIGURES[i], &records->cases[c]))
                put_figure(records, &FIGURES[i], &records->cases[c], markdown, csv);
    size_t n_other = 0;
    for (size_t c = 0; c < records->n_cases; c++) {
        const char *status = kg_case_status(&records->cases[c]);
        if (strcmp(status, "pass") == 0) continue;
        if (n_other++ == 0)
            kg_buffer_puts(markdown, "\n## Not measured\n\n| record | status | reason |\n| --- | --- | --- |\n");
        kg_buffer_printf(markdown, "| `%s` | %s | %s |\n", records->cases[c].key, status,
                         kg_case_reason(&records->cases[c]));
    }
}
