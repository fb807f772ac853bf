#include "cli/show_markdown.h"
#include "base/clock.h"
#include "base/markdown.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include <math.h>
#include <string.h>

static const char *const STATUSES[] = { "pass", "fail", "skip", "crash", "timeout", "norun" };

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static const char *plan_text(const struct kg_case_records *c, const char *name) {
    return or_empty(kg_json_text(c->plan, name));
}

static void put_fact(struct kg_buffer *out, const char *name, const char *value) {
    if (value && *value) kg_markdown_row(out, (const char *const[]){ name, value }, 2);
}

static void put_facts(struct kg_buffer *out, const struct kg_export *run, const struct kg_verdict *verdict) {
    const json_t *gpu = json_array_get(json_object_get(run->env, "gpus"), 0);
    char started[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(kg_json_int(run->summary, "started_us", 0), started);
    kg_markdown_row(out, (const char *const[]){ "run", or_empty(kg_json_text(run->summary, "bundle_id")) }, 2);
    kg_markdown_rule(out, 2);
    kg_escape_printf(out, KG_MEDIUM_MARKDOWN, "| verdict | **%s** (%s) |\n", verdict->word,
                     or_empty(kg_json_text(run->summary, "state")));
    for (int i = 0; i < KG_VERDICT_COUNT; i++) put_fact(out, KG_VERDICT_NAMES[i], kg_buffer_text(&verdict->lines[i]));
    put_fact(out, "started", started);
    put_fact(out, "NVIDIA driver", kg_json_text(gpu, "nvidia_driver"));
    put_fact(out, "CUDA", kg_json_text(run->build, "cuda"));
}

/* The place of the first case of the same layer: layers come in the plan's order, each once. */
static bool is_first_of_layer(const struct kg_records *records, size_t place) {
    const char *layer = plan_text(&records->cases[place], "layer");
    for (size_t i = 0; i < place; i++)
        if (strcmp(plan_text(&records->cases[i], "layer"), layer) == 0) return false;
    return true;
}

/* A row of counts; layer NULL for the sum of all. */
static void put_counts(struct kg_buffer *out, const struct kg_records *records, const char *layer) {
    size_t counts[KG_COUNT_OF(STATUSES)] = { 0 }, n_planned = 0;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (layer && strcmp(plan_text(c, "layer"), layer) != 0) continue;
        n_planned++;
        for (size_t s = 0; s < KG_COUNT_OF(STATUSES); s++) counts[s] += strcmp(kg_case_status(c), STATUSES[s]) == 0;
    }
    kg_markdown_cell(out, layer ? layer : "all");
    kg_markdown_cellf(out, "%zu", n_planned);
    for (size_t s = 0; s < KG_COUNT_OF(STATUSES); s++) kg_markdown_cellf(out, "%zu", counts[s]);
    kg_markdown_row_end(out);
}

static void put_layers(struct kg_buffer *out, const struct kg_records *records) {
    kg_buffer_puts(out, "\n");
    kg_markdown_head(out, "layer|planned:|pass:|fail:|skip:|crash:|timeout:|norun:");
    for (size_t i = 0; i < records->n_cases; i++)
        if (is_first_of_layer(records, i)) put_counts(out, records, plan_text(&records->cases[i], "layer"));
    put_counts(out, records, NULL);
}

static void put_cases(struct kg_buffer *out, const struct kg_case_records *const *shown, size_t n_shown) {
    for (size_t i = 0; i < n_shown; i++) {
        const char *unused;
        const double margin = kg_case_worst_margin(shown[i], &unused);
        if (i == 0) {
            kg_buffer_puts(out, "\n");
            kg_markdown_head(out, "status|case|seconds:|worst error / limit:|reason");
        }
        kg_markdown_cell(out, kg_case_status(shown[i]));
        kg_markdown_cell(out, shown[i]->key);
        kg_markdown_cellf(out, "%.3f", kg_case_seconds(shown[i]));
        if (isnan(margin)) kg_markdown_cell(out, NULL);
        else kg_markdown_cellf(out, "%.3g", margin);
        kg_markdown_cell(out, kg_case_reason(shown[i]));
        kg_markdown_row_end(out);
    }
}

static void put_rate(struct kg_buffer *out, double amount, double ns) {
    if (amount > 0 && ns > 0) kg_markdown_cellf(out, "%.4g", amount / ns);
    else kg_markdown_cell(out, NULL);
}

static void put_timing(struct kg_buffer *out, const struct kg_case_records *c, const json_t *timing) {
    const double median = kg_json_number(timing, "median", 0);
    kg_markdown_cellf(out, "%s, %s %s", or_empty(kg_json_text(timing, "name")), or_empty(kg_json_text(timing, "kind")),
                      or_empty(kg_json_text(timing, "state")));
    kg_markdown_cell(out, kg_quantity_time(median).text);
    kg_markdown_cellf(out, "%s to %s", kg_quantity_time(kg_json_number(timing, "ci_lo", 0)).text,
                      kg_quantity_time(kg_json_number(timing, "ci_hi", 0)).text);
    kg_markdown_cellf(out, "%lld", (long long)kg_json_int(timing, "n", 0));
    put_rate(out, kg_json_number(timing, "bytes", 0), median);
    put_rate(out, kg_json_number(timing, "flops", 0) / 1e3, median);
    kg_markdown_cell(out, c->key);
    kg_markdown_row_end(out);
}

static void put_metric(struct kg_buffer *out, const struct kg_case_records *c, const json_t *metric) {
    kg_markdown_cell(out, kg_json_text(metric, "name"));
    kg_markdown_cell(
        out, kg_quantity_of_unit(kg_json_number(metric, "value", NAN), or_empty(kg_json_text(metric, "unit"))).text);
    for (int i = 0; i < 4; i++) kg_markdown_cell(out, NULL);
    kg_markdown_cell(out, c->key);
    kg_markdown_row_end(out);
}

/* What one bench case measured: its timings (one whose samples were all discarded is none), or without any, its
 * metrics. Metrics beside a timing follow from it. */
static void put_figures_of(struct kg_buffer *out, const struct kg_case_records *c) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(c->result, "timings"), i, item) {
        if (!json_is_false(json_object_get(item, "valid"))) put_timing(out, c, item);
    }
    if (json_array_size(json_object_get(c->result, "timings")) > 0) return;
    json_array_foreach(json_object_get(c->result, "metrics"), i, item) {
        put_metric(out, c, item);
    }
}

static void put_figures(struct kg_buffer *out, const struct kg_records *records) {
    bool begun = false;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (strcmp(plan_text(c, "layer"), "bench") != 0 || strcmp(kg_case_status(c), "pass") != 0) continue;
        if (!begun) {
            kg_buffer_puts(out, "\n");
            kg_markdown_head(out, "figure|median or value:|95% interval|n:|GB/s:|TFLOP/s:|record");
        }
        begun = true;
        put_figures_of(out, c);
    }
}

void kg_show_markdown(const struct kg_export *run, const struct kg_verdict *verdict,
                      const struct kg_case_records *const *shown, size_t n_shown, struct kg_buffer *out) {
    put_facts(out, run, verdict);
    put_layers(out, run->records);
    put_cases(out, shown, n_shown);
    put_figures(out, run->records);
}
