/* Reports of benches against records whose answers are known: rates, speed-ups the right way round, memory of the right
 * session, intervals from the far ends. */
#include "base/buffer.h"
#include "base/size.h"
#include "report/bandwidth.h"
#include "report/fp16_report.h"
#include "report/peers.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdio.h>
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
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "4e+06 2.5 ")); /* and how many times faster f16 is */
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "set ylabel 'GB/s'\n"));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "'read canary, 4000 GB/s'"));
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
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
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
    kg_fp16_report(&run.records, "RUN", &texts);
    const char *text = kg_buffer_text(&texts.csv);
    /* 2000 tokens/s against B's 1000; the ends of the interval swap with the reciprocal. */
    ck_assert_msg(
        strstr(text,
               "decode,cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512,2000,tokens/s,1600,2500,1000,2,1.28,3.125,"
               "\"bench/model/decode[cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512]\","
               "\"bench/model/decode[cuda,f32,model=1 b.gguf prompt=16 tokens=4 ctx=512]\"\r\n") != NULL,
        "%s", text);
    /* 6 MiB against 12: half, not twice. */
    ck_assert_msg(strstr(text,
                         "\"memory, KV cache\",cuda,f16,model=0 a.gguf prompt=16 tokens=4 ctx=512,6,MiB,exact,exact,"
                         "12,0.5,exact,exact,") != NULL,
                  "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "decode,cuda,f32,model=0 a.gguf prompt=16 tokens=4 ctx=512,1250,tokens/s,"));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&texts.markdown), "# FP16 validation, run RUN\n"));
    ck_assert_ptr_nonnull(
        strstr(kg_buffer_text(&texts.markdown), "2000 tokens/s | 1600 to 2500 | 1000 | 2 (1.28 to 3.125) |"));
    kg_fp16_texts_free(&texts);
    run_free(&run);
}

static void fp16_names_what_was_not_measured(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
    add_case(&run, "model", "haiku", "f16", "fixture", "skip", json_array(), model(1, 1));
    json_object_set_new(run.cases[0].result, "reason", json_string("no such thing"));
    kg_fp16_report(&run.records, "RUN", &texts);
    ck_assert_ptr_nonnull(
        strstr(kg_buffer_text(&texts.markdown), "| `bench/model/haiku[cuda,f16,fixture]` | skip | no such thing |\n"));
    kg_fp16_texts_free(&texts);
    run_free(&run);
}

static json_t *error_within(const char *name, double margin, double nmse) {
    return json_pack("{s:s, s:f, s:{s:f}}", "name", name, "margin", margin, "tolerance", "nmse", nmse);
}

/* The line of fp16_goals.csv that begins so. */
static void expect_goal(const struct kg_fp16_texts *texts, const char *line) {
    ck_assert_msg(strstr(kg_buffer_text(&texts->goals_csv), line) != NULL, "no '%s' in\n%s", line,
                  kg_buffer_text(&texts->goals_csv));
}

#define QWEN 494032768.0
#define F16_FILE "model=0 q16.gguf"
#define F32_FILE "model=1 q32.gguf"

static void goals_against_known_records(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
    static const struct {
        const char *dtype, *file;
        double weights, params, token_ns, total;
    } ROWS[] = {
        { "f16", F16_FILE, 1e9, QWEN, 500000, 1100 }, /* 2000 tokens/s */
        { "f16", F32_FILE, 2e9, QWEN, 100, 1 },       /* of the larger file: not the one asked for */
        { "f32", F32_FILE, 2e9, QWEN, 700000, 2000 },
        { "f16", "model=2 p.gguf", 5e8, 3.8e9, 10, 1 }, /* another model */
    };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char shape[96];
        snprintf(shape, sizeof shape, "%s prompt=16 tokens=256 ctx=272", ROWS[i].file);
        add_case(&run, "model", "decode", ROWS[i].dtype, shape, "pass",
                 json_pack("[o]",
                           timing("token", "host", "warm", ROWS[i].token_ns, ROWS[i].token_ns, ROWS[i].token_ns, 1, 1)),
                 model(ROWS[i].params, ROWS[i].weights));
        snprintf(shape, sizeof shape, "%s prompt=16 tokens=4 ctx=8192", ROWS[i].file);
        json_t *metrics = model(ROWS[i].params, ROWS[i].weights);
        with(metrics, "memory.total", ROWS[i].total * (1 << 20));
        add_case(&run, "model", "memory", ROWS[i].dtype, shape, "pass", json_array(), metrics);
    }
    for (size_t i = 0; i < 2; i++) {
        add_case(&run, "numerics", "linear", "f16", i ? "M=1" : "M=2", "pass", json_array(), json_array());
        json_object_set_new(run.cases[run.records.n_cases - 1].result, "errors",
                            json_pack("[o]", error_within("linear_by_largest", i ? 0.25 : 0.5, 0)));
    }
    add_case(&run, "numerics", "logits", "f16", "fixture", "pass", json_array(), json_array());
    json_object_set_new(run.cases[run.records.n_cases - 1].result, "errors",
                        json_pack("[o]", error_within("logits_from_cpu", 4, 1e-4)));
    kg_fp16_report(&run.records, "RUN", &texts);
    expect_goal(&texts,
                "decode FP16,at least,1500,tokens/s,2000,2000,2000,yes,\"bench/model/decode[cuda,f16," F16_FILE);
    expect_goal(&texts, "decode FP16 over FP32,at least,1.5,x,1.4,1.4,1.4,no,");
    expect_goal(&texts, "\"whole VRAM at 8192 tokens, FP16 / FP32\",at most,0.55,,0.55,exact,exact,yes,");
    expect_goal(&texts, "\"FP16 GEMM, largest error of the largest output\",at most,0.001,,0.0005,exact,exact,yes,"
                        "\"bench/numerics/linear[cuda,f16,M=2]\"");
    expect_goal(&texts, "\"FP16 logits from the CPU reference, rms\",at most,0.01,,0.02,exact,exact,no,");
    expect_goal(&texts, "512-token prefill FP16,at most,5,ms,,,,not measured,,\r\n");
    expect_goal(&texts, "\"KV cache at 8192 tokens, FP16 / FP32\",exactly,0.5,,,,,not measured,");
    kg_fp16_texts_free(&texts);
    run_free(&run);
}

/* The mean of 4 and 1 is 2, and the record is that of the slower. */
static void products_are_a_geometric_mean(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    static const struct {
        const char *name;
        double f32_ns, f16_ns;
    } ROWS[] = { { "decode_qwen_qkv", 4000, 1000 },
                 { "decode_qwen_ffn_down", 3000, 3000 },
                 { "decode_phi3_qkv", 900, 1 } };
    struct run run = { 0 };
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        for (int half = 0; half < 2; half++) {
            const double ns = half ? ROWS[i].f16_ns : ROWS[i].f32_ns;
            add_case(&run, "linear", ROWS[i].name, half ? "f16" : "f32", "M=1", "pass",
                     json_pack("[o, o]", timing("time", "graph", "cold", ns, ns * 0.5, ns * 2, 1, 1),
                               timing("time", "graph", "warm", 1, 1, 1, 1, 1)),
                     roofline());
        }
    kg_fp16_report(&run.records, "RUN", &texts);
    expect_goal(&texts, "\"FP16 GEMM over FP32 GEMM, decode\",at least,1.6,x,2,0.5,8,yes,"
                        "\"bench/linear/decode_qwen_ffn_down[cuda,f16,M=1]\"");
    expect_goal(&texts, "\"FP16 GEMM over FP32 GEMM, FFN\",at least,2,x,1,0.25,4,no,");
    /* And each of them: 1 us against 4, between 1 * 2 against 4 / 2 and 1 / 2 against 4 * 2. */
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&texts.csv),
                                 "decode_qwen_qkv,cuda,f16,M=1,1,us,0.5,2,4,4,1,16,\"bench/linear/decode_qwen_qkv[cuda,"
                                 "f16,M=1]\",\"bench/linear/decode_qwen_qkv[cuda,f32,M=1]\"\r\n"));
    expect_goal(&texts, "\"FP16 GEMM over FP32 GEMM, prefill\",at least,2,x,,,,not measured,");
    kg_fp16_texts_free(&texts);
    run_free(&run);
}

/* A timing that was slowed down is no figure: neither in the profile nor in the report, which says so. */
static void throttled_timings_are_left_out(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_bandwidth b;
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
    static const char SHAPE[] = F16_FILE " prompt=16 tokens=256 ctx=272";
    json_t *slow = timing("token", "host", "warm", 5e5, 5e5, 5e5, 1e9, 1),
           *hot = timing("time", "graph", "cold", 1, 1, 1, 1, 1);
    json_object_set_new(slow, "valid", json_false());
    json_object_set_new(hot, "valid", json_false());
    add_case(&run, "model", "decode", "f16", SHAPE, "pass", json_pack("[o]", slow), model(QWEN, 1e9));
    add_case(&run, "linear", "decode_qwen_qkv", "f16", "M=1", "pass", json_pack("[o]", hot), roofline());
    kg_bandwidth_collect(&run.records, &b);
    ck_assert_uint_eq(b.n_rows, 0);
    kg_fp16_report(&run.records, "RUN", &texts);
    expect_goal(&texts, "decode FP16,at least,1500,tokens/s,,,,not measured,");
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&texts.markdown),
                                 "| `bench/linear/decode_qwen_qkv[cuda,f16,M=1]` | pass | the GPU was slowed down"));
    kg_fp16_texts_free(&texts);
    kg_bandwidth_free(&b);
    run_free(&run);
}

/* A decoded token is a row of the profile: what it reads and the share of what the machine can read. */
static void a_token_is_a_row(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_bandwidth b;
    struct kg_fp16_texts texts = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT };
    json_t *metrics = roofline();
    with(metrics, "params", QWEN);
    add_case(&run, "model", "decode", "f16", F16_FILE " prompt=16 tokens=256 ctx=272", "pass",
             json_pack("[o]", timing("token", "host", "warm", 500000, 400000, 625000, 1e9, 1e9)), metrics);
    kg_bandwidth_collect(&run.records, &b);
    ck_assert_uint_eq(b.n_rows, 1);
    near(b.rows[0].gb_s, 2000);
    near(b.rows[0].share, 0.5); /* 1 GB at 4000 GB/s is a quarter of a millisecond */
    kg_fp16_report(&run.records, "RUN", &texts);
    const char *csv = kg_buffer_text(&texts.csv);
    ck_assert_ptr_nonnull(strstr(csv, "ctx=272,2000,GB/s,1600,2500,,,,,"));
    ck_assert_ptr_nonnull(strstr(csv, "ctx=272,50,%,40,62.5,,,,,"));
    kg_fp16_texts_free(&texts);
    kg_bandwidth_free(&b);
    run_free(&run);
}

static void add_call(struct run *run, const char *op, const char *name, const char *dtype, const char *shape,
                     double median) {
    add_case(run, op, name, dtype, shape, "pass",
             json_pack("[o, o]", timing("time", "graph", "warm", median, 0.9 * median, 1.1 * median, 8, 8),
                       timing("time", "graph", "cold", 2 * median, 2 * median, 2 * median, 8, 8)),
             json_array());
}

/* The peer's time over kigo's: 10 us beside 4 is 2.5 times as fast. Only of the same shape and precision, of the
 * variant that kigo takes by itself, and of an operation's own peers. */
static void peers_of_the_same_work(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_bandwidth b;
    struct kg_peers peers;
    struct kg_buffer csv = KG_BUFFER_INIT;
    add_call(&run, "sdpa", "auto", "f16", "A", 4000);
    add_call(&run, "sdpa", "scalar", "f16", "A", 90000);
    add_call(&run, "sdpa", "auto", "f8", "A", 3000);
    add_call(&run, "sdpa_peer", "cudnn", "f16", "A", 10000);
    add_call(&run, "sdpa_peer", "math", "f16", "A", 2000);
    add_call(&run, "sdpa_peer", "cudnn", "f16", "B", 1);
    add_call(&run, "sdpa_peer_of_another", "cudnn", "f16", "A", 1);
    add_call(&run, "linear_peer", "cudnn", "f16", "A", 1);
    kg_bandwidth_collect(&run.records, &b);
    kg_peers_collect(&b, &peers);
    ck_assert_uint_eq(peers.n_rows, 4); /* two peers, warm and cold */
    near(peers.rows[0].speedup, 2.5);
    near(peers.rows[0].speedup_lo, 2.5 * 0.9 / 1.1);
    near(peers.rows[0].speedup_hi, 2.5 * 1.1 / 0.9);
    near(peers.rows[1].speedup, 0.5);
    ck_assert_str_eq(peers.rows[2].kigo->state, "cold");
    kg_peers_csv(&peers, &csv);
    ck_assert_ptr_nonnull(strstr(csv.data, "\r\nsdpa,cuda,f16,A,graph,warm,4000,cudnn,10000,2.5,2.04545,3.05556\r\n"));
    kg_buffer_free(&csv);
    kg_peers_free(&peers);
    kg_bandwidth_free(&b);
    run_free(&run);
}

#define REPORT(function)                                                                                               \
    { .layer = "unit", .op = "bench_reports", .name = #function, .spec = "FT-054", .run = function }
static const struct kg_case CASES[] = {
    REPORT(bandwidth_of_known_records),
    REPORT(csv_and_json_say_the_same),
    REPORT(plot_holds_cold_points_only),
    REPORT(fp16_against_the_f32_file),
    REPORT(fp16_names_what_was_not_measured),
    REPORT(goals_against_known_records),
    REPORT(products_are_a_geometric_mean),
    REPORT(throttled_timings_are_left_out),
    REPORT(a_token_is_a_row),
    REPORT(peers_of_the_same_work),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
