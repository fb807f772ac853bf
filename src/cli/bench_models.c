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

static bool passed(const struct kg_case_records *c, const char *op) {
    const char *status = kg_json_text(c->result, "status");
    return status && strcmp(status, "pass") == 0 && strcmp(plan_text(c, "layer"), "bench") == 0 &&
           strcmp(plan_text(c, "op"), op) == 0;
}

/* NULL: the case is no speed of a model, or gave none. */
static const struct model_test *test_of(const struct kg_case_records *c, const json_t **timing) {
    if (!passed(c, "model") && !passed(c, "long_context")) return NULL;
    for (size_t i = 0; i < KG_COUNT_OF(TESTS); i++) {
        if (strcmp(plan_text(c, "name"), TESTS[i].op_name) != 0) continue;
        *timing = named(json_object_get(c->result, "timings"), TESTS[i].timing);
        return *timing && kg_json_number(*timing, "median", 0) > 0 ? &TESTS[i] : NULL;
    }
    return NULL;
}

/* Which columns there are. */
struct columns {
    const struct kg_records *records;
    int n_threads;
    bool any_cpu, any_peer;
};

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

/* Tokens a second by the median, and half the width of what its interval's ends give; no figure where the GPU was
 * slowed down in every try. */
static void add_speed(struct kg_table *table, const json_t *timing, double n_tokens) {
    if (json_is_false(json_object_get(timing, "valid"))) {
        kg_table_add(table, "slowed down");
        return;
    }
    const double speed = 1e9 * n_tokens / kg_json_number(timing, "median", NAN);
    const double low = 1e9 * n_tokens / kg_json_number(timing, "ci_hi", NAN);
    const double high = 1e9 * n_tokens / kg_json_number(timing, "ci_lo", NAN);
    kg_table_addf(table, "%.2f ± %.2f", speed, (high - low) / 2);
}

/* What the peer took for the same model, lengths and back end; NULL: it did not. */
static const json_t *peer_timing(const struct kg_records *records, const struct kg_case_records *c,
                                 const struct model_test *test) {
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *peer = &records->cases[i];
        if (!passed(peer, "model_peer") || strcmp(plan_text(peer, "backend"), plan_text(c, "backend")) != 0 ||
            strcmp(plan_text(peer, "shape"), plan_text(c, "shape")) != 0)
            continue;
        const json_t *timing = named(json_object_get(peer->result, "timings"), test->timing);
        if (timing) return timing;
    }
    return NULL;
}

static void add_row(struct kg_table *table, const struct kg_case_records *c, const struct model_test *test,
                    const json_t *timing, const struct columns *columns) {
    const int n_threads = columns->any_cpu ? columns->n_threads : 0;
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
    const double n_tokens = test->whole_prompt ? shape.n_prompt : 1;
    add_speed(table, timing, n_tokens);
    const json_t *peers = peer_timing(columns->records, c, test);
    if (peers) add_speed(table, peers, n_tokens);
    else if (columns->any_peer) kg_table_add(table, "");
    free(shape.model);
}

void kg_bench_models_print(const struct kg_records *records, int n_threads, struct kg_buffer *out) {
    const json_t *timing;
    size_t n_rows = 0;
    struct columns columns = { records, n_threads, false, false };
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        const struct model_test *test = test_of(c, &timing);
        if (!test) continue;
        n_rows++;
        columns.any_cpu = columns.any_cpu || strcmp(plan_text(c, "backend"), "cpu") == 0;
        columns.any_peer = columns.any_peer || peer_timing(records, c, test);
    }
    if (n_rows == 0) return;
    const struct {
        const char *name;
        bool shown;
    } HEADS[] = { { "model", true },    { "size", true },  { "params", true },
                  { "back end", true }, { "dtype", true }, { "threads", columns.any_cpu },
                  { "test", true },     { "t/s", true },   { "llama.cpp t/s", columns.any_peer } };
    struct kg_table table = { .n_columns = 0 };
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) {
        if (HEADS[i].shown) kg_table_add(&table, HEADS[i].name);
        table.n_columns += HEADS[i].shown;
    }
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct model_test *test = test_of(&records->cases[i], &timing);
        if (test) add_row(&table, &records->cases[i], test, timing, &columns);
    }
    kg_table_print(&table, out);
    kg_table_free(&table);
}
