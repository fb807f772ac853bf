#include "cli/bench_models.h"
#include "base/quantity.h"
#include "base/size.h"
#include "cli/bundles.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case of bench_model.c whose timing is a speed. */
struct model_test {
    const char *op_name; /* of the case */
    const char *timing;  /* of its record */
    bool whole_prompt;   /* a sample is of all the prompt's tokens, else of one token */
};
static const struct model_test TESTS[] = {
    { "prefill", "prefill", true },
    { "decode", "token", false },
};

static const char *plan_text(const struct kg_case_records *c, const char *name) {
    const char *text = kg_json_text(c->plan, name);
    return text ? text : "";
}

static const json_t *named(const json_t *list, const char *name) {
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) {
        const char *its = kg_json_text(item, "name");
        if (its && strcmp(its, name) == 0) return item;
    }
    return NULL;
}

static double metric(const struct kg_case_records *c, const char *name) {
    return kg_json_number(named(json_object_get(c->result, "metrics"), name), "value", NAN);
}

/* NULL: the case is no speed of a model, or gave none. */
static const struct model_test *test_of(const struct kg_case_records *c, const json_t **timing) {
    const char *status = kg_json_text(c->result, "status");
    if (!status || strcmp(status, "pass") != 0 || strcmp(plan_text(c, "layer"), "bench") != 0 ||
        strcmp(plan_text(c, "op"), "model") != 0)
        return NULL;
    for (size_t i = 0; i < KG_COUNT_OF(TESTS); i++) {
        if (strcmp(plan_text(c, "name"), TESTS[i].op_name) != 0) continue;
        *timing = named(json_object_get(c->result, "timings"), TESTS[i].timing);
        const bool valid = *timing && !json_is_false(json_object_get(*timing, "valid"));
        return valid && kg_json_number(*timing, "median", 0) > 0 ? &TESTS[i] : NULL;
    }
    return NULL;
}

/* "model=0 file.gguf prompt=16 tokens=32 ctx=48" and "fixture prompt=...", taken apart. */
struct shape {
    char *model; /* malloc'ed */
    unsigned n_prompt, n_tokens;
};

static bool read_shape(const char *text, struct shape *shape) {
    const char *prompt = strstr(text, " prompt=");
    if (!prompt || sscanf(prompt, " prompt=%u tokens=%u", &shape->n_prompt, &shape->n_tokens) != 2) return false;
    const char *begin = strncmp(text, "model=", 6) == 0 ? strchr(text, ' ') + 1 : text;
    shape->model = begin <= prompt ? kg_xstrndup(begin, (size_t)(prompt - begin)) : kg_xstrdup("");
    return true;
}

static void add_params(struct kg_table *table, double n) {
    if (isnan(n)) kg_table_add(table, "");
    else if (n >= 1e9) kg_table_addf(table, "%.2f B", n / 1e9);
    else kg_table_addf(table, "%.2f M", n / 1e6);
}

/* Tokens a second by the median, and half the width of what its interval's ends give. */
static void add_speed(struct kg_table *table, const json_t *timing, double n_tokens) {
    const double speed = 1e9 * n_tokens / kg_json_number(timing, "median", NAN);
    const double low = 1e9 * n_tokens / kg_json_number(timing, "ci_hi", NAN);
    const double high = 1e9 * n_tokens / kg_json_number(timing, "ci_lo", NAN);
    kg_table_addf(table, "%.2f ± %.2f", speed, (high - low) / 2);
}

static void add_row(struct kg_table *table, const struct kg_case_records *c, const struct model_test *test,
                    const json_t *timing, int n_threads) {
    struct shape shape;
    if (!read_shape(plan_text(c, "shape"), &shape)) return;
    const bool on_cpu = strcmp(plan_text(c, "backend"), "cpu") == 0;
    kg_table_add(table, shape.model);
    kg_table_add(table, kg_quantity_bytes(metric(c, "weights")).text);
    add_params(table, metric(c, "params"));
    kg_table_add(table, plan_text(c, "backend"));
    kg_table_add(table, plan_text(c, "dtype"));
    if (n_threads > 0 && on_cpu) kg_table_addf(table, "%d", n_threads);
    else if (n_threads > 0) kg_table_add(table, "");
    if (test->whole_prompt) kg_table_addf(table, "pp%u", shape.n_prompt);
    else kg_table_addf(table, "tg%u @ d%u", shape.n_tokens, shape.n_prompt);
    add_speed(table, timing, test->whole_prompt ? shape.n_prompt : 1);
    free(shape.model);
}

void kg_bench_models_print(const struct kg_records *records, int n_threads, struct kg_buffer *out) {
    static const char *const HEADS[] = { "model", "size", "params", "back end", "dtype", "threads", "test", "t/s" };
    const json_t *timing;
    size_t n_rows = 0;
    bool any_cpu = false;
    for (size_t i = 0; i < records->n_cases; i++) {
        if (!test_of(&records->cases[i], &timing)) continue;
        n_rows++;
        any_cpu = any_cpu || strcmp(plan_text(&records->cases[i], "backend"), "cpu") == 0;
    }
    if (n_rows == 0) return;
    struct kg_table table = { .n_columns = KG_COUNT_OF(HEADS) - !any_cpu };
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++)
        if (any_cpu || strcmp(HEADS[i], "threads") != 0) kg_table_add(&table, HEADS[i]);
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct model_test *test = test_of(&records->cases[i], &timing);
        if (test) add_row(&table, &records->cases[i], test, timing, any_cpu ? n_threads : 0);
    }
    kg_table_print(&table, out);
    kg_table_free(&table);
}
