#include "report/fp16_goals.h"
#include "base/markdown.h"
#include "base/size.h"
#include "bundle/export.h"
#include "report/bandwidth.h"
#include "report/fp16_figures.h"
#include <math.h>
#include <string.h>

/* Qwen2.5-0.5B has 494,032,768 parameters, its output tied to the embedding. */
static const double LEAST_PARAMS = 0.49e9, MOST_PARAMS = 0.50e9;

enum how {
    VALUE,    /* of a figure, on the model */
    RATIO,    /* of a figure to f32's, on the model */
    FIXTURE,  /* of a figure, on the fixture */
    PRODUCTS, /* speed-up of the matrix products whose names have `text` in them */
    ERROR,    /* largest error called `text` of the f16 cases of op numerics, by its limit's unit */
    ERROR_F32 /* the same of f32 */
};
enum sense { AT_LEAST, AT_MOST, EXACTLY };
static const char *const SENSES[] = { "at least", "at most", "exactly" };

static const struct goal {
    const char *what;
    enum how how;
    const char *text; /* what the figure says, or as `how` says */
    const char *work; /* in the case's shape; NULL: any */
    enum sense sense;
    double goal;
    const char *unit;
} GOALS[] = {
    { "decode FP16", VALUE, "decode", " prompt=16 ", AT_LEAST, 1500, "tokens/s" },
    { "decode FP16 over FP32", RATIO, "decode", " prompt=16 ", AT_LEAST, 1.5, "x" },
    { "512-token prefill FP16", VALUE, "prefill", " prompt=512 ", AT_MOST, 5, "ms" },
    { "prefill FP16 over FP32", RATIO, "prefill", " prompt=512 ", AT_LEAST, 2, "x" },
    { "FP16 GEMM over FP32 GEMM, decode", PRODUCTS, "decode_qwen_", NULL, AT_LEAST, 1.6, "x" },
    { "FP16 GEMM over FP32 GEMM, prefill", PRODUCTS, "prefill_qwen_", NULL, AT_LEAST, 2, "x" },
    { "FP16 GEMM over FP32 GEMM, FFN", PRODUCTS, "_qwen_ffn_", NULL, AT_LEAST, 2, "x" },
    { "KV cache at 8192 tokens, FP16 / FP32", RATIO, "memory, KV cache", " ctx=8192", EXACTLY, 0.5, "" },
    { "whole VRAM at 8192 tokens, FP16 / FP32", RATIO, "memory, total", " ctx=8192", AT_MOST, 0.55, "" },
    { "FP16 GEMM, largest error of the largest output", ERROR, "linear_by_largest", NULL, AT_MOST, 1e-3, "" },
    { "FP16 attention, largest error of the largest output", ERROR, "attention_by_largest", NULL, AT_MOST, 1e-2, "" },
    { "FP16 logits from the CPU reference, rms", ERROR, "logits_from_cpu", NULL, AT_MOST, 1e-2, "" },
    { "FP32 GEMM, largest error of the largest output", ERROR_F32, "linear_by_largest", NULL, AT_MOST, 1e-4, "" },
    { "FP32 attention, largest error of the largest output", ERROR_F32, "attention_by_largest", NULL, AT_MOST, 1e-4,
      "" },
    { "FP32 logits from the CPU reference, rms", ERROR_F32, "logits_from_cpu", NULL, AT_MOST, 1e-4, "" },
    { "greedy tokens of the fixture compared", FIXTURE, "greedy tokens compared with f32", NULL, AT_LEAST, 256,
      "tokens" },
    { "token mismatch of the fixture, free", FIXTURE, "token mismatch, free", NULL, AT_MOST, 5, "%" },
    { "token mismatch of the fixture, after the same tokens", FIXTURE, "token mismatch, after the same tokens", NULL,
      AT_MOST, 5, "%" },
    { "load, warm cache", VALUE, "load", NULL, AT_MOST, 2000, "ms" },
};

/* What was measured, and from which records. */
struct finding {
    struct kg_fp16_value value;
    const char *record, *f32_record; /* "" where there is none */
};

static bool is_of_the_model(const struct goal *g, const struct kg_case_records *c) {
    const double params = kg_fp16_metric(c, "params");
    const char *shape = kg_fp16_plan_text(c, "shape"), *dtype = kg_fp16_plan_text(c, "dtype");
    if (*dtype && strcmp(dtype, "f16") != 0) return false; /* a load has no precision */
    if (g->how == FIXTURE) return strncmp(shape, "fixture", 7) == 0;
    return params > LEAST_PARAMS && params < MOST_PARAMS && (!g->work || strstr(shape, g->work));
}

static struct finding find_figure(const struct goal *g, const struct kg_records *records) {
    const struct kg_fp16_figure *f = kg_fp16_figure_find(g->text);
    const struct kg_case_records *best = NULL;
    struct finding found = { .record = "", .f32_record = "" };
    for (size_t i = 0; f && i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (!kg_fp16_has(f, c) || !is_of_the_model(g, c)) continue;
        if (!best || kg_fp16_metric(c, "weights") < kg_fp16_metric(best, "weights")) best = c;
    }
    if (!best) return found;
    found.value = kg_fp16_read(f, best);
    found.record = best->key;
    if (g->how != RATIO) return found;
    const struct kg_case_records *base = kg_fp16_base(records, f, best);
    const struct kg_fp16_value b = base ? kg_fp16_read(f, base) : (struct kg_fp16_value){ 0 };
    found.value = kg_fp16_ratio(f, &found.value, &b);
    found.f32_record = base ? base->key : "";
    return found;
}

static bool is_product(const struct goal *g, const struct kg_bandwidth_row *row) {
    return strcmp(row->op, "linear") == 0 && strcmp(row->dtype, "f16") == 0 && strcmp(row->kind, "graph") == 0 &&
           strcmp(row->state, "cold") == 0 && strstr(row->name, g->text) && row->speedup > 0;
}

static struct finding find_products(const struct goal *g, const struct kg_bandwidth *b) {
    struct finding found = { .record = "", .f32_record = "" };
    double sum = 0, sum_lo = 0, sum_hi = 0, least = INFINITY, n = 0;
    for (size_t i = 0; i < b->n_rows; i++) {
        const struct kg_bandwidth_row *row = &b->rows[i];
        if (!is_product(g, row)) continue;
        n++;
        sum += log(row->speedup);
        sum_lo += log(row->speedup_lo);
        sum_hi += log(row->speedup_hi);
        if (row->speedup >= least) continue;
        least = row->speedup;
        found.record = row->key;
    }
    if (n > 0) found.value = (struct kg_fp16_value){ true, false, exp(sum / n), exp(sum_lo / n), exp(sum_hi / n) };
    return found;
}

/* err/limit times the limit: of the largest output's share, or of the logits' root mean square. */
static double error_of(const json_t *error, double limit) {
    const double margin = kg_json_number(error, "margin", INFINITY);
    const bool is_square = kg_json_number(json_object_get(error, "tolerance"), "nmse", 0) > 0;
    return limit * (is_square ? sqrt(margin) : margin);
}

static struct finding find_error(const struct goal *g, const struct kg_records *records) {
    const char *dtype = g->how == ERROR ? "f16" : "f32";
    struct finding found = { .record = "", .f32_record = "" };
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        size_t e;
        json_t *error;
        if (strcmp(kg_fp16_plan_text(c, "op"), "numerics") != 0 || strcmp(kg_fp16_plan_text(c, "dtype"), dtype) != 0)
            continue;
        json_array_foreach(json_object_get(c->result, "errors"), e, error) {
            const char *name = kg_json_text(error, "name");
            const double value = error_of(error, g->goal);
            if (!name || strcmp(name, g->text) != 0 || (found.value.known && value <= found.value.value)) continue;
            found.value = (struct kg_fp16_value){ true, true, value, value, value };
            found.record = c->key;
        }
    }
    return found;
}

static bool is_reached(const struct goal *g, double value) {
    return g->sense == AT_LEAST ? value >= g->goal : g->sense == AT_MOST ? value <= g->goal : value == g->goal;
}

static void put(const struct goal *g, const struct finding *f, struct kg_buffer *markdown, struct kg_buffer *csv) {
    const char *reached = !f->value.known ? "not measured" : is_reached(g, f->value.value) ? "yes" : "no";
    kg_markdown_cell(markdown, g->what);
    kg_markdown_cellf(markdown, "%s %g%s%s", SENSES[g->sense], g->goal, *g->unit ? " " : "", g->unit);
    kg_csv_put(csv, g->what, strlen(g->what), ",");
    kg_buffer_printf(csv, "%s,%g,%s,", SENSES[g->sense], g->goal, g->unit);
    const struct kg_fp16_value *v = &f->value;
    if (v->known) kg_markdown_cellf(markdown, "%.4g", v->value);
    else kg_markdown_cell(markdown, NULL);
    if (v->known && !v->exact) kg_markdown_cellf(markdown, "%.4g to %.4g", v->lo, v->hi);
    else kg_markdown_cell(markdown, v->known ? "exact" : NULL);
    kg_markdown_cell(markdown, reached);
    kg_markdown_code(markdown, f->record);
    kg_markdown_row_end(markdown);
    if (!v->known) kg_buffer_puts(csv, ",,,");
    else if (v->exact) kg_buffer_printf(csv, "%.9g,exact,exact,", v->value);
    else kg_buffer_printf(csv, "%.9g,%.6g,%.6g,", v->value, v->lo, v->hi);
    kg_buffer_printf(csv, "%s,", reached);
    kg_csv_put(csv, f->record, strlen(f->record), ",");
    kg_csv_put(csv, f->f32_record, strlen(f->f32_record), "\r\n");
}

static struct finding find(const struct goal *g, const struct kg_records *records,
                           const struct kg_bandwidth *bandwidth) {
    if (g->how == PRODUCTS) return find_products(g, bandwidth);
    return g->how == ERROR || g->how == ERROR_F32 ? find_error(g, records) : find_figure(g, records);
}

bool kg_fp16_goals_apply(const json_t *env) {
    const char *report = kg_json_text(json_object_get(env, "run"), "report");
    return report && strcmp(report, "fp16") == 0;
}

void kg_fp16_goals_count(const struct kg_records *records, struct kg_fp16_goal_counts *counts) {
    struct kg_bandwidth bandwidth;
    kg_bandwidth_collect(records, &bandwidth);
    *counts = (struct kg_fp16_goal_counts){ 0, 0, 0 };
    for (size_t i = 0; i < KG_COUNT_OF(GOALS); i++) {
        const struct finding found = find(&GOALS[i], records, &bandwidth);
        size_t *count = !found.value.known                         ? &counts->n_unmeasured
                        : is_reached(&GOALS[i], found.value.value) ? &counts->n_met
                                                                   : &counts->n_missed;
        (*count)++;
    }
    kg_bandwidth_free(&bandwidth);
}

void kg_fp16_goals(const struct kg_records *records, struct kg_buffer *markdown, struct kg_buffer *csv) {
    struct kg_bandwidth bandwidth;
    kg_bandwidth_collect(records, &bandwidth);
    kg_markdown_head(markdown, "what|to reach:|measured:|interval|reached|record");
    kg_buffer_puts(csv, "what,sense,goal,unit,value,lo,hi,reached,record,f32_record\r\n");
    for (size_t i = 0; i < KG_COUNT_OF(GOALS); i++) {
        const struct finding found = find(&GOALS[i], records, &bandwidth);
        put(&GOALS[i], &found, markdown, csv);
    }
    kg_bandwidth_free(&bandwidth);
}
