/* Reports of benches against records whose answers are known: rates, speed-ups the right way round, memory of the right
 * session, intervals from the far ends. */
#include "base/buffer.h"
#include "base/size.h"
#include "measure/bandwidth.h"
#include "measure/fp16_report.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 12 };
struct run {
    struct kg_records records;
    struct kg_case_records cases[MAX_CASES];
    char *keys[MAX_CASES];
};

static void add_case(struct run *run, const char *op, const char *name, const char *dtype, const char *shape,
                     const char *status, json_t *timings, json_t *metrics) {
    struct kg_case_records *c = &run->cases[run->records.n_cases];
    char *key = kg_xasprintf("bench/%s/%s[cuda,%s,%s]", op, name, dtype, shape);
    run->keys[run->records.n_cases++] = key;
    c->key = key;
    c->plan = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "layer", "bench", "op", op, "name", name, "backend", "cuda",
                        "dtype", dtype, "shape", shape);
    c->result = json_pack("{s:s, s:o, s:o}", "status", status, "timings", timings, "metrics", metrics);
    ck_assert(c->plan && c->result);
    run->records.cases = run->cases;
}

static json_t *timing(const char *name, const char *kind, const char *state, double median, double lo, double hi,
                      double bytes, double flops) {
    return json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "name", name, "kind", kind, "state", state,
                     "n", 20, "median", median, "mad", 1.0, "ci_lo", lo, "ci_hi", hi, "bytes", bytes, "flops", flops);
}

static json_t *metric(const char *name, double value) {
    return json_pack("{s:s, s:s, s:f}", "name", name, "unit", "any", "value", value);
}

static json_t *roofline(void) {
    return json_pack("[o, o, o]", metric("roofline.copy", 3000), metric("roofline.read", 4000),
                     metric("roofline.gemm", 500));
}

static void run_free(struct run *run) {
    for (size_t i = 0; i < run->records.n_cases; i++) {
        json_decref(run->cases[i].plan);
        json_decref(run->cases[i].result);
        free(run->keys[i]);
    }
}

/* f32 moves 8 MB in 4 us (2000 GB/s), f16 half of it in 1.6 us: 2500 GB/s and 2.5 times as fast. */
static void two_precisions(struct run *run) {
    *run = (struct run){ 0 };
    add_case(run, "linear", "decode_a_ffn_up", "f32", "M=1", "pass",
             json_pack("[o, o]", timing("time", "graph", "cold", 4000, 3900, 4100, 8e6, 4e6),
                       timing("time", "graph", "warm", 1000, 900, 1100, 8e6, 4e6)),
             roofline());
    add_case(run, "linear", "decode_a_ffn_up", "f16", "M=1", "pass",
             json_pack("[o]", timing("time", "graph", "cold", 1600, 1500, 1700, 4e6, 4e6)), roofline());
    add_case(run, "linear", "decode_b", "f16", "M=1", "pass",
             json_pack("[o]", timing("time", "graph", "cold", 1600, 1500, 1700, 4e6, 4e6)), roofline());
    add_case(run, "linear", "decode_c", "f16", "M=1", "fail",
             json_pack("[o]", timing("time", "graph", "cold", 1, 1, 1, 4e6, 4e6)), roofline());
    add_case(run, "linear", "decode_c", "f32", "M=1", "pass",
             json_pack("[o]", timing("load", "host", "warm", 1, 1, 1, 4e6, 4e6)), roofline());
}

static const struct kg_bandwidth_row *row_of(const struct kg_bandwidth *b, const char *dtype, const char *name,
                                             const char *state) {
    for (size_t i = 0; i < b->n_rows; i++)
        if (strcmp(b->rows[i].dtype, dtype) == 0 && strcmp(b->rows[i].name, name) == 0 &&
            strcmp(b->rows[i].state, state) == 0)
            return &b->rows[i];
    ck_abort_msg("no row %s %s %s", dtype, name, state);
    return NULL;
}

static void near(double got, double want) {
    ck_assert_msg(got > want * (1 - 1e-12) && got < want * (1 + 1e-12), "%.17g, not %.17g", got, want);
}

static void bandwidth_of_known_records(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run;
    struct kg_bandwidth b;
    two_precisions(&run);
    kg_bandwidth_collect(&run.records, &b);
    ck_assert_uint_eq(b.n_rows, 4); /* of cases that passed, and only what is called time */
    const struct kg_bandwidth_row *f32 = row_of(&b, "f32", "decode_a_ffn_up", "cold");
    const struct kg_bandwidth_row *f16 = row_of(&b, "f16", "decode_a_ffn_up", "cold");
    near(f32->gb_s, 2000);
    near(f16->gb_s, 2500);
    near(f16->gb_s_lo, 4e6 / 1700);
    near(f16->gb_s_hi, 4e6 / 1500);
    near(f32->share, 0.5); /* 8 MB at 4000 GB/s are 2 us */
    near(f16->tflop_s, 2.5);
    near(f16->speedup, 2.5); /* not 0.4 */
    near(f16->speedup_lo, 3900.0 / 1700);
    near(f16->speedup_hi, 4100.0 / 1500);
    ck_assert_double_eq(f32->speedup, 0);
    ck_assert_double_eq(row_of(&b, "f16", "decode_b", "cold")->speedup, 0); /* nothing to compare it with */
    kg_bandwidth_free(&b);
    run_free(&run);
}

static void csv_and_json_say_the_same(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run;
    struct kg_bandwidth b;
    struct kg_buffer csv = KG_BUFFER_INIT;
    two_precisions(&run);
    kg_bandwidth_collect(&run.records, &b);
    kg_bandwidth_csv(&b, &csv);
    const char *text = kg_buffer_text(&csv);
    size_t n_lines = 0;
    for (const char *at = text; (at = strstr(at, "\r\n")); at += 2) n_lines++;
    ck_assert_uint_eq(n_lines, 1 + 4);
    ck_assert_ptr_nonnull(strstr(text, "\"bench/linear/decode_a_ffn_up[cuda,f16,M=1]\",linear,decode_a_ffn_up,cuda,f16,"
                                       "M=1,graph,cold,20,1600,1,1500,1700,4e+06,4e+06,2500,2352.94,2666.67,2.5,0.625,"
                                       "2.5,2.29412,2.73333\r\n"));
    json_t *json = kg_bandwidth_json(&b);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "cases")), 4);
    const json_t *groups = json_object_get(json, "speedups");
    ck_assert_uint_eq(json_array_size(groups), 2); /* linear/decode and linear/ffn */
    for (size_t i = 0; i < 2; i++) {
        const json_t *g = json_array_get(groups, i);
        ck_assert_int_eq(kg_json_int(g, "n", 0), 1);
        near(kg_json_number(g, "geometric_mean", 0), 2.5);
        near(kg_json_number(g, "least", 0), 2.5);
    }
    json_decref(json);
    kg_buffer_free(&csv);
    kg_bandwidth_free(&b);
    run_free(&run);
}

static void plot_holds_cold_points_only(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run;
    struct kg_bandwidth b;
    struct kg_buffer script = KG_BUFFER_INIT;
    two_precisions(&run);
    kg_bandwidth_collect(&run.records, &b);
    ck_assert(kg_bandwidth_plot(&b, "svg", "/x/out.svg", &script));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "8e+06 2000 "));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "4e+06 2500 "));
    ck_assert_ptr_null(strstr(kg_buffer_text(&script), "8e+06 8000 ")); /* warm: the cache's, not memory's */
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "set output '/x/out.svg'"));
    kg_buffer_clear(&script);
    b.n_rows = 0;
    ck_assert(!kg_bandwidth_plot(&b, "svg", "/x/out.svg", &script));
    ck_assert_uint_eq(script.len, 0);
    kg_buffer_free(&script);
    kg_bandwidth_free(&b);
    run_free(&run);
}

static json_t *model(double params, double weights) {
    return json_pack("[o, o]", metric("params", params), metric("weights", weights));
}

static void with(json_t *metrics, const char *name, double value) {
    json_array_append_new(metrics, metric(name, value));
}

/* Two files of one model: A's weights are F16, B's F32. f16 on A is held against f32 on B. */
static void fp16_against_the_f32_file(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_buffer markdown = KG_BUFFER_INIT, csv = KG_BUFFER_INIT;
    static const char A[] = "model=0 a.gguf prompt=16 tokens=4 ctx=512",
                      B[] = "model=1 b.gguf prompt=16 tokens=4 ctx=512";
    static const char C[] = "model=2 c.gguf prompt=16 tokens=4 ctx=512";
    const struct {
        const char *dtype, *shape;
        double params, weights, kv, token_ns;
    } rows[] = {
        { "f16", A, 100, 200, 6 << 20, 500000 },
        { "f32", A, 100, 200, 12 << 20, 800000 },
        { "f32", B, 100, 400, 12 << 20, 1000000 },
        { "f32", C, 77, 900, 99 << 20, 9000000 }, /* another model */
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        json_t *metrics = model(rows[i].params, rows[i].weights);
        with(metrics, "memory.kv", rows[i].kv);
        add_case(&run, "model", "memory", rows[i].dtype, rows[i].shape, "pass", json_array(), metrics);
        add_case(&run, "model", "decode", rows[i].dtype, rows[i].shape, "pass",
                 json_pack("[o]", timing("token", "host", "warm", rows[i].token_ns, rows[i].token_ns * 0.8,
                                         rows[i].token_ns * 1.25, 1, 1)),
                 model(rows[i].params, rows[i].weights));
    }
    kg_fp16_report(&run.records, "RUN", &markdown, &csv);
    const char *text = kg_buffer_text(&csv);
    /* 2000 tokens/s against B's 1000; the interval turns round with the rate. */
    ck_assert_msg(strstr(text,
                         "decode,cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512,2000,tokens/s,1600,2500,1000,2,"
                         "\"bench/model/decode[cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512]\","
                         "\"bench/model/decode[cuda,f32,model=1 b.gguf prompt=16 tokens=4 ctx=512]\"\r\n") != NULL,
                  "%s", text);
    /* 6 MiB against 12: half, not twice. */
    ck_assert_msg(strstr(text,
                         "\"memory, KV cache\",cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512,6,MiB,exact,exact,"
                         "12,0.5,") != NULL,
                  "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "decode,cuda,f32,model=0 a.gguf prompt=16 tokens=4 ctx=512,1250,tokens/s,"));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&markdown), "# FP16 validation, run RUN\n"));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&markdown), "2000 tokens/s | 1600 to 2500 | 1000 | 2 |"));
    kg_buffer_free(&markdown);
    kg_buffer_free(&csv);
    run_free(&run);
}

static void fp16_names_what_was_not_measured(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_buffer markdown = KG_BUFFER_INIT, csv = KG_BUFFER_INIT;
    add_case(&run, "model", "haiku", "f16", "fixture", "skip", json_array(), model(1, 1));
    json_object_set_new(run.cases[0].result, "reason", json_string("no such thing"));
    kg_fp16_report(&run.records, "RUN", &markdown, &csv);
    ck_assert_ptr_nonnull(
        strstr(kg_buffer_text(&markdown), "| `bench/model/haiku[cuda,f16,fixture]` | skip | no such thing |\n"));
    kg_buffer_free(&markdown);
    kg_buffer_free(&csv);
    run_free(&run);
}

#define REPORT(function)                                                                                               \
    { .layer = "unit", .op = "bench_reports", .name = #function, .run = function }
static const struct kg_case CASES[] = {
    REPORT(bandwidth_of_known_records), REPORT(csv_and_json_say_the_same),        REPORT(plot_holds_cold_points_only),
    REPORT(fp16_against_the_f32_file),  REPORT(fp16_names_what_was_not_measured),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
