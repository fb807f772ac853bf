#include "report/fp16_figures.h"
#include "base/size.h"
#include "measure/roofline.h"
#include <string.h>

#define MIB (1.0 / (1 << 20))
const struct kg_fp16_figure KG_FP16_FIGURES[] = {
    { "load", "load", KG_FP16_TIMING, KG_FP16_ALONE, "load", "ms", 1e-6 },
    { "first_token", "first_token", KG_FP16_TIMING, KG_FP16_SPEEDUP_OF_TIME, "first-token latency", "ms", 1e-6 },
    { "prefill", "prefill", KG_FP16_TIMING, KG_FP16_SPEEDUP_OF_TIME, "prefill", "ms", 1e-6 },
    { "decode", "token", KG_FP16_TIMING_RATE, KG_FP16_SPEEDUP_OF_RATE, "decode", "tokens/s", 1e9 },
    { "decode", "token", KG_FP16_TIMING_GB_S, KG_FP16_ALONE, "decode, weights and cache read", "GB/s", 1 },
    { "decode", "token", KG_FP16_TIMING_SHARE, KG_FP16_ALONE, "decode, share of the measured roofline", "%", 100 },
    { "memory", "memory.weights", KG_FP16_METRIC, KG_FP16_SHARE, "memory, weights", "MiB", MIB },
    { "memory", "memory.kv", KG_FP16_METRIC, KG_FP16_SHARE, "memory, KV cache", "MiB", MIB },
    { "memory", "memory.activations", KG_FP16_METRIC, KG_FP16_SHARE, "memory, activations", "MiB", MIB },
    { "memory", "memory.workspace", KG_FP16_METRIC, KG_FP16_SHARE, "memory, workspace", "MiB", MIB },
    { "memory", "memory.total", KG_FP16_METRIC, KG_FP16_SHARE, "memory, total", "MiB", MIB },
    { "against_f32", "tokens", KG_FP16_METRIC, KG_FP16_ALONE, "greedy tokens compared with f32", "tokens", 1 },
    { "against_f32", "token_mismatch", KG_FP16_METRIC, KG_FP16_ALONE, "token mismatch, free", "%", 100 },
    { "against_f32", "token_mismatch_forced", KG_FP16_METRIC, KG_FP16_ALONE, "token mismatch, after the same tokens",
      "%", 100 },
    { "against_f32", "logits.max_abs", KG_FP16_METRIC, KG_FP16_ALONE, "logits, largest difference", "abs", 1 },
    { "against_f32", "logits.nmse", KG_FP16_METRIC, KG_FP16_ALONE, "logits, NMSE", "ratio", 1 },
    { "haiku", "haiku_valid", KG_FP16_METRIC, KG_FP16_SHARE, "valid haiku", "count", 1 },
    { "haiku", "haiku_asked", KG_FP16_METRIC, KG_FP16_ALONE, "haiku asked for", "count", 1 },
};
const size_t KG_FP16_N_FIGURES = KG_COUNT_OF(KG_FP16_FIGURES);

const struct kg_fp16_figure *kg_fp16_figure_find(const char *what) {
    for (size_t i = 0; i < KG_FP16_N_FIGURES; i++)
        if (strcmp(KG_FP16_FIGURES[i].what, what) == 0) return &KG_FP16_FIGURES[i];
    return NULL;
}

static const char *text_or_empty(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

const char *kg_fp16_plan_text(const struct kg_case_records *c, const char *name) {
    return text_or_empty(c->plan, name);
}

static const json_t *item_named(const json_t *result, const char *list, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(result, list), i, item) {
        if (strcmp(text_or_empty(item, "name"), name) == 0) return item;
    }
    return NULL;
}

double kg_fp16_metric(const struct kg_case_records *c, const char *name) {
    return kg_json_number(item_named(c->result, "metrics", name), "value", 0);
}

bool kg_fp16_has(const struct kg_fp16_figure *f, const struct kg_case_records *c) {
    return c->plan && c->result && strcmp(text_or_empty(c->plan, "layer"), "bench") == 0 &&
           strcmp(text_or_empty(c->plan, "op"), "model") == 0 &&
           strcmp(text_or_empty(c->plan, "name"), f->case_name) == 0 &&
           strcmp(text_or_empty(c->result, "status"), "pass") == 0;
}

static double of_timing(const struct kg_fp16_figure *f, const struct kg_case_records *c, const json_t *timing,
                        double ns) {
    const double bytes = kg_json_number(timing, "bytes", 0), flops = kg_json_number(timing, "flops", 0);
    const struct kg_roofline roofline = { kg_fp16_metric(c, "roofline.copy"), kg_fp16_metric(c, "roofline.read"),
                                          kg_fp16_metric(c, "roofline.gemm") };
    switch (f->source) {
    case KG_FP16_TIMING: return f->scale * ns;
    case KG_FP16_TIMING_RATE: return f->scale / ns;
    case KG_FP16_TIMING_GB_S: return f->scale * kg_gb_per_s(bytes, ns);
    case KG_FP16_TIMING_SHARE: return f->scale * kg_roofline_share(&roofline, bytes, flops, ns);
    case KG_FP16_METRIC: break;
    }
    return 0;
}

struct kg_fp16_value kg_fp16_read(const struct kg_fp16_figure *f, const struct kg_case_records *c) {
    const json_t *item = item_named(c->result, f->source == KG_FP16_METRIC ? "metrics" : "timings", f->field);
    if (f->source == KG_FP16_METRIC) {
        const double value = f->scale * kg_json_number(item, "value", 0);
        return (struct kg_fp16_value){ json_is_number(json_object_get(item, "value")), true, value, value, value };
    }
    const double median = kg_json_number(item, "median", 0);
    const double lo = kg_json_number(item, "ci_lo", 0), hi = kg_json_number(item, "ci_hi", 0);
    if (!(median > 0 && lo > 0 && hi > 0) || json_is_false(json_object_get(item, "valid")))
        return (struct kg_fp16_value){ 0 };
    const double value = of_timing(f, c, item, median);
    const double at_lo = of_timing(f, c, item, lo), at_hi = of_timing(f, c, item, hi);
    return (struct kg_fp16_value){ value > 0, false, value, at_lo < at_hi ? at_lo : at_hi,
                                   at_lo < at_hi ? at_hi : at_lo };
}

/* The shape without its first part, "model=0 file.gguf" or "fixture": prompt, tokens and context. */
static const char *workload(const struct kg_case_records *c) {
    const char *at = strstr(text_or_empty(c->plan, "shape"), " prompt=");
    return at ? at + 1 : "";
}

const struct kg_case_records *kg_fp16_base(const struct kg_records *records, const struct kg_fp16_figure *f,
                                           const struct kg_case_records *c) {
    const struct kg_case_records *best = NULL;
    if (f->against == KG_FP16_ALONE || strcmp(text_or_empty(c->plan, "dtype"), "f16") != 0) return NULL;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *other = &records->cases[i];
        if (!kg_fp16_has(f, other) || strcmp(text_or_empty(other->plan, "dtype"), "f32") != 0 ||
            strcmp(text_or_empty(other->plan, "backend"), text_or_empty(c->plan, "backend")) != 0 ||
            strcmp(workload(other), workload(c)) != 0 || kg_fp16_metric(other, "params") != kg_fp16_metric(c, "params"))
            continue;
        if (!best || kg_fp16_metric(other, "weights") > kg_fp16_metric(best, "weights")) best = other;
    }
    return best;
}

struct kg_fp16_value kg_fp16_ratio(const struct kg_fp16_figure *f, const struct kg_fp16_value *value,
                                   const struct kg_fp16_value *base) {
    const struct kg_fp16_value *up = value, *down = base;
    if (!value->known || !base->known) return (struct kg_fp16_value){ 0 };
    if (f->against == KG_FP16_SPEEDUP_OF_TIME) up = base, down = value;
    return (struct kg_fp16_value){ true, value->exact && base->exact, kg_speedup(up->value, down->value),
                                   kg_speedup(up->lo, down->hi), kg_speedup(up->hi, down->lo) };
}
