/* Reports of benches against records whose answers are known: rates, speed-ups the right way round, intervals
 * from the far ends. */
#include "base/buffer.h"
#include "base/size.h"
#include "report/bandwidth.h"
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
    /* A block of points for each operation and precision, in the operation's shape and the precision's colour. */
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "$rate0 << EOD\n8e+06 2000 "));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "$rate1 << EOD\n4e+06 2500 "));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "$ratio0 << EOD\n4e+06 2.5 "));
    ck_assert_ptr_nonnull(strstr(kg_buffer_text(&script), "plot $rate0 using 1:2:3:4 with yerrorbars pt 7 ps 1 lc rgb "
                                                          "'#0072b2' title 'linear cuda f32', $rate1 using"));
    kg_buffer_clear(&script);
    b.n_rows = 0;
    ck_assert(!kg_bandwidth_plot(&b, "svg", "/x/out.svg", &script));
    ck_assert_uint_eq(script.len, 0);
    kg_buffer_free(&script);
    kg_bandwidth_free(&b);
    run_free(&run);
}

static size_t count_of(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

/* Pictures of records' rows: as many marks as points and entries of the key. */
static void pictures_of_the_profile(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char MARK[] = "' transform='translate("; /* of a point that is placed */
    struct run run;
    struct kg_bandwidth b;
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_page page = KG_PAGE_INIT(KG_PAGE_HTML, true), none = KG_PAGE_INIT(KG_PAGE_HTML, true);
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        kg_record_skip(rec, "gnuplot is not installed");
        return;
    }
    two_precisions(&run);
    kg_bandwidth_collect(&run.records, &b);
    kg_bandwidth_pictures(&b, &page);
    kg_page_finish(&page, &out);
    const char *rates = strstr(kg_buffer_text(&out), "aria-label=\"Memory bandwidth"),
               *ratios = strstr(kg_buffer_text(&out), "aria-label=\"FP16 over FP32");
    ck_assert_ptr_nonnull(rates);
    ck_assert_ptr_nonnull(ratios);
    ck_assert_uint_eq(count_of(kg_buffer_text(&out), "<svg "), 2);
    ck_assert_uint_eq(count_of(rates, MARK), 3 + 2 + 1 + 1); /* three points, one over f32; entries of the keys */
    ck_assert_uint_eq(count_of(ratios, MARK), 1 + 1);
    b.n_rows = 0;
    kg_bandwidth_pictures(&b, &none);
    ck_assert_uint_eq(none.body.len, 0);
    kg_page_free(&none);
    kg_buffer_free(&out);
    kg_bandwidth_free(&b);
    run_free(&run);
}

#define F16_FILE "model=0 q16.gguf"

/* A timing that was slowed down is no row of the profile. */
static void throttled_timings_are_left_out(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_bandwidth b;
    static const char SHAPE[] = F16_FILE " prompt=16 tokens=256 ctx=272";
    json_t *slow = timing("token", "host", "warm", 5e5, 5e5, 5e5, 1e9, 1),
           *hot = timing("time", "graph", "cold", 1, 1, 1, 1, 1);
    json_object_set_new(slow, "valid", json_false());
    json_object_set_new(hot, "valid", json_false());
    add_case(&run, "model", "decode", "f16", SHAPE, "pass", json_pack("[o]", slow), roofline());
    add_case(&run, "linear", "decode_qwen_qkv", "f16", "M=1", "pass", json_pack("[o]", hot), roofline());
    kg_bandwidth_collect(&run.records, &b);
    ck_assert_uint_eq(b.n_rows, 0);
    kg_bandwidth_free(&b);
    run_free(&run);
}

/* A decoded token is a row of the profile: what it reads and the share of what the machine can read. */
static void a_token_is_a_row(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct run run = { 0 };
    struct kg_bandwidth b;
    add_case(&run, "model", "decode", "f16", F16_FILE " prompt=16 tokens=256 ctx=272", "pass",
             json_pack("[o]", timing("token", "host", "warm", 500000, 400000, 625000, 1e9, 1e9)), roofline());
    kg_bandwidth_collect(&run.records, &b);
    ck_assert_uint_eq(b.n_rows, 1);
    near(b.rows[0].gb_s, 2000);
    near(b.rows[0].share, 0.5); /* 1 GB at 4000 GB/s is a quarter of a millisecond */
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
    REPORT(bandwidth_of_known_records),     REPORT(csv_and_json_say_the_same), REPORT(plot_holds_cold_points_only),
    REPORT(throttled_timings_are_left_out), REPORT(a_token_is_a_row),          REPORT(peers_of_the_same_work),
    REPORT(pictures_of_the_profile),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
