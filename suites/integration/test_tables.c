/* Tables that people read: `kigo show --markdown`, and the pages' figures made by docs/make-tables from bundles. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "run/publish.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/made_gpu.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* What verifies every committed bundle takes 17 s where it is sanitized, and the machine may be busy. */
enum { PATIENCE_S = 300 };

static struct kg_process_result run(const char *const *argv) {
    const struct kg_process process = { .argv = argv, .timeout_s = PATIENCE_S };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    return result;
}

static void expect_exit(const struct kg_process_result *r, int exit_code) {
    ck_assert_msg(r->exit_code == exit_code, "exit code %d, not %d: %s%s", r->exit_code, exit_code, r->out, r->err);
}

/* A case as its program records it: on cuda, of op model or linear, with one timing or one metric. */
struct made {
    const char *op, *name, *dtype, *shape;
    const char *timing, *kind; /* NULL: a metric */
    const char *metric;
    double value;       /* median in ns; the interval is 10% to either side */
    const char *state;  /* NULL: cold, of a model warm */
    double rate;        /* TFLOP/s; 0: none */
    double pipe_share;  /* hardware counters; 0: none */
    double params;      /* of a model; 0: Qwen2.5-0.5B's */
    double weight_bits; /* of a parameter; 0: 16, of the second model 32, of GPT-OSS 5.3 */
    const char *layer;  /* NULL: bench */
    bool slowed;        /* the GPU was, meanwhile */
};

static json_t *named(const char *name, const char *unit, double value) {
    return json_pack("{s:s, s:s, s:f}", "name", name, "unit", unit, "value", value);
}

/* Ten samples whose statistics are round shares of their median: ci_lo 0.9, ci_hi 1.1, mad 0.1, min 0.8, max 2. */
static json_t *timing_of(struct kg_bundle *bundle, const struct made *m) {
    static const double SHARES[] = { 0.8, 0.9, 0.9, 0.9, 1, 1, 1.1, 1.1, 1.1, 2 };
    const char *state = m->state ? m->state : strcmp(m->op, "model") ? "cold" : "warm";
    float samples[KG_COUNT_OF(SHARES)];
    uint64_t offset;
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(SHARES); i++) samples[i] = (float)(SHARES[i] * m->value);
    EXPECT_OK(kg_bundle_samples(bundle, samples, KG_COUNT_OF(samples), &offset, &err), err);
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "name", m->timing,
                     "kind", m->kind, "state", state, "n", (int)KG_COUNT_OF(samples), "samples_offset",
                     (json_int_t)offset, "median", m->value, "mad", 0.1 * m->value, "ci_lo", 0.9 * m->value, "ci_hi",
                     1.1 * m->value, "min", 0.8 * m->value, "max", 2 * m->value, "bytes", 1e6, "flops",
                     strcmp(m->op, "model") == 0 ? 5e8 : 0.0, "valid", !m->slowed);
}

/* Files of the model of Qwen2.5-0.5B's shapes are known by their parameters: model=0 is f16's, model=1 f32's. */
static json_t *result_of(struct kg_bundle *bundle, const struct made *m, const char *key) {
    json_t *timings = json_array(), *metrics = json_array();
    if (m->rate > 0) json_array_append_new(metrics, named("graph.warm.tflop_per_s", "TFLOP/s", m->rate));
    if (m->pipe_share > 0) {
        json_array_append_new(metrics, named("ncu.tensor_pipe_share", "ratio", m->pipe_share));
        json_array_append_new(metrics, named("ncu.registers", "count", 168));
    }
    if (m->timing) json_array_append_new(timings, timing_of(bundle, m));
    if (m->metric) json_array_append_new(metrics, named(m->metric, "bytes", m->value));
    if (strncmp(m->shape, "model=", 6) == 0) {
        const double params = m->params > 0 ? m->params : 494032768;
        const double bits = m->weight_bits > 0 ? m->weight_bits : params > 1e10 ? 5.3 : m->shape[6] == '0' ? 16 : 32;
        json_array_append_new(metrics, named("params", "count", params));
        json_array_append_new(metrics, named("weights", "bytes", bits / 8 * params));
    }
    return json_pack("{s:s, s:s, s:n, s:I, s:I, s:o, s:o}", "key", key, "status", "pass", "reason", "started_us",
                     (json_int_t)1700000000000000, "duration_ns", (json_int_t)1000000, "timings", timings, "metrics",
                     metrics);
}

/* about: of the run; taken. */
static void seal_about(const char *root, const struct made *rows, size_t n_rows, json_t *about) {
    const struct kg_bundle_options options = { .root = root, .seed = 1, .run = about };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    char **keys = kg_xcalloc(n_rows, sizeof *keys);
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; i < n_rows; i++) {
        const struct made *m = &rows[i];
        const char *layer = m->layer ? m->layer : "bench";
        keys[i] = kg_xasprintf("%s/%s/%s[cuda,%s,%s]", layer, m->op, m->name, m->dtype, m->shape);
        json_t *line = kg_maker_plan_line(0);
        json_object_update_new(line, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "key", keys[i], "layer", layer,
                                               "op", m->op, "name", m->name, "backend", "cuda", "dtype", m->dtype,
                                               "shape", m->shape));
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    for (size_t i = 0; i < n_rows; i++) {
        EXPECT_OK(kg_bundle_start(bundle, keys[i], &err), err);
        json_t *result = result_of(bundle, &rows[i], keys[i]);
        EXPECT_OK(kg_bundle_end(bundle, result, &err), err);
        json_decref(result);
        free(keys[i]);
    }
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    kg_made_gpu(kg_bundle_dir(bundle), "a made GPU");
    kg_bundle_close(bundle);
    json_decref(about);
    free(keys);
}

static void seal(const char *root, const struct made *rows, size_t n_rows) {
    seal_about(root, rows, n_rows, json_object());
}

#define TIMED(op_, name_, dtype_, shape_, timing_, kind_, value_)                                                      \
    .op = op_, .name = name_, .dtype = dtype_, .shape = shape_, .timing = timing_, .kind = kind_, .value = value_
#define OF_TWO(name, work, timing, metric_, half, single)                                                              \
    { TIMED("model", name, "f16", "model=0 a.gguf" work, timing, "host", half), .metric = metric_ }, {                 \
        TIMED("model", name, "f32", "model=1 b.gguf" work, timing, "host", single), .metric = metric_                  \
    }
#define PRODUCT(name, half, single)                                                                                    \
    { TIMED("linear", name, "f16", "M=1", "time", "graph", half) }, {                                                  \
        TIMED("linear", name, "f32", "M=1", "time", "graph", single)                                                   \
    }
static const struct made ROWS[] = {
    OF_TWO("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, 5e5, 1e6),
    OF_TWO("prefill", " prompt=512 tokens=1 ctx=528", "prefill", NULL, 8e6, 12e6),
    OF_TWO("memory", " prompt=16 tokens=4 ctx=8192", NULL, "memory.kv", 96, 192),
    OF_TWO("load", "", "load", NULL, 1.5e9, 3e9),
    PRODUCT("decode_qwen_qkv", 1000, 1900),
    PRODUCT("decode_qwen_ffn_down", 1000, 1700),
    PRODUCT("decode_phi3_qkv", 1000, 1100), /* another model's */
};

static const struct made PLAIN[] = {
    { TIMED("model", "decode", "f16", "model=0 c.gguf prompt=16 tokens=256 ctx=272", "token", "host", 1e6) },
};

static char *readme_at(const struct kg_record *rec, const char *text) {
    char *path = kg_path_join(kg_scratch_dir(rec), "README.md");
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
    return path;
}

static char *text_of(const char *path) {
    char *text;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    return text;
}

static void make_tables(const char *readme, const char *bundles, bool check, int exit_code) {
    const char *script = kg_fixture_path("../docs/make-tables");
    struct kg_process_result r = check ? run(ARGS(script, kg_program_path(), "--check", readme, bundles))
                                       : run(ARGS(script, kg_program_path(), readme, bundles));
    expect_exit(&r, exit_code);
    kg_process_result_free(&r);
}

static const char AROUND[] = "before\n<!-- kigo:begin figures -->\nold\n<!-- kigo:end -->\nafter\n";

/* The stale page made anew, after which it is not stale; it has each of the texts. */
static void expect_made(const char *page, const char *bundles, const char *const *texts, size_t n_texts) {
    make_tables(page, bundles, true, 1);
    make_tables(page, bundles, false, 0);
    make_tables(page, bundles, true, 0);
    char *text = text_of(page);
    for (size_t i = 0; i < n_texts; i++)
        ck_assert_msg(strstr(text, texts[i]) != NULL, "no '%s' in:\n%s", texts[i], text);
    ck_assert(!strstr(text, "\nold\n"));
    free(text);
}

/* Each figure from its records, with interval, limit and verdict; what nobody measured is said to be so. A later run of
 * the model without the products of its shapes does not take the place of a run with both. */
static void figures_from_records(struct kg_record *rec, const void *arg) {
    static const char *const LINES[] = {
        "before\n<!-- kigo:begin figures -->\nFP16, from the records of `2",
        "| FT-056 | decode FP16, tokens a second | tokens\\_per\\_second >= 1500 /s | met | 2000 /s (1818 to 2222) |",
        " | 2000 /s (1818 to 2222) | `bench/model/decode[cuda,f16,model=0 ",
        "| decode FP16 over FP32 | speedup >= 1.5 | met | 2 (1.636 to 2.444) |",
        "| 512-token prefill FP16 | latency &lt;= 5 ms | missed | 8 ms (7.2 to 8.8) |",
        "| prefill FP16 over FP32 | speedup >= 2 | missed | 1.5 (1.227 to 1.833) |",
        "| decode, FP16 GEMM over FP32 GEMM | speedup >= 1.6 | unproven | 1.797 (",
        "| prefill, FP16 GEMM over FP32 GEMM | speedup >= 2 | unproven | no record |  |",
        "| KV cache at 8192 tokens, FP16 over FP32 | ratio == 0.5 | met | 0.5 |",
        " | pass | 14 | 14 | 0 | 0 |\n| 2",
        " | pass | 1 | 1 | 0 | 0 |\n<!-- kigo:end -->\nafter\n",
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *readme = readme_at(rec, AROUND);
    (void)arg;
    seal(root, ROWS, KG_COUNT_OF(ROWS));
    seal(root, PLAIN, KG_COUNT_OF(PLAIN));
    expect_made(readme, root, LINES, KG_COUNT_OF(LINES));
    free(readme);
    free(root);
}

/* A later check of chosen cases does not take the place of one of all. */
static void cases_of_a_whole_check(struct kg_record *rec, const void *arg) {
    static const struct made ALL[] = {
        { .layer = "tolerance", .op = "add", .name = "a", .dtype = "f16", .shape = "-" },
        { .layer = "tolerance", .op = "add", .name = "b", .dtype = "f16", .shape = "-" }
    };
    static const char *const CHOICES[] = { "layers", "filter", "cases", "words", "specs" };
    static const char *const LINES[] = { "| tolerance | 2 | 2 | 0 | 0 | 0 | 0 | 0 |\n| all | 2 | 2 |" };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *readme = readme_at(rec, AROUND);
    (void)arg;
    seal(root, ALL, KG_COUNT_OF(ALL));
    for (size_t i = 0; i < KG_COUNT_OF(CHOICES); i++) seal_about(root, ALL, 1, json_pack("{s:[s]}", CHOICES[i], "a"));
    seal_about(root, ALL, 1, json_pack("{s:i}", "sample", 2));
    expect_made(readme, root, LINES, KG_COUNT_OF(LINES));
    free(readme);
    free(root);
}

#define CALL(op, name, dtype, shape, ns, rate_, share)                                                                 \
    { TIMED(op, name, dtype, shape, "time", "graph", ns), .state = "warm", .rate = rate_, .pipe_share = share }
#define LARGE "B=4 H=16/16 S=2048 D=128 full"
#define SMALL "B=1 H=8/8 S=512 D=64 full"
static const struct made CALLS[] = {
    CALL("sdpa", "wgmma", "f16", LARGE, 250000, 550, 0.61), CALL("sdpa", "scalar", "f16", SMALL, 90000, 6, 0),
    CALL("sdpa", "auto", "f16", LARGE, 240000, 573, 0),     CALL("sdpa", "auto", "f16", SMALL, 3400, 158, 0),
    CALL("sdpa", "auto", "f8", SMALL, 3000, 179, 0),        CALL("sdpa_peer", "cudnn", "f16", SMALL, 9350, 57, 0),
};

/* Attention's tables: a row a shape, smallest work first, variants and peers in columns, no figure where there is no
 * record. */
static void attention_from_records(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin sdpa-ladder -->\n<!-- kigo:end -->\n<!-- kigo:begin sdpa-peers -->\n"
                               "<!-- kigo:end -->\n<!-- kigo:begin sdpa-counters -->\n<!-- kigo:end -->\n";
    static const char *const LINES[] = {
        "| inputs | shape | auto | scalar | wgmma |\n| --- | --- | ---: | ---: | ---: |\n"
        "| f16 | " SMALL " | 3.40 (158) | 90.00 (6) |  |\n| f16 | " LARGE " | 240.00 (573) |  | 250.00 (550) |\n"
        "| f8 | " SMALL " | 3.00 (179) |  |  |\n",
        "| f16 | " SMALL " | 3.40 | 9.35 |  |  |  | 2.75 |\n| f16 | " LARGE " | 240.00 |  |  |  |  |  |\n"
        "| f8 | " SMALL " | 3.00 | 9.35 |  |  |  | 3.12 |\n",
        "| wgmma | f16 | " LARGE " | 61.0 |  |  |  |  |  |  |  | 168 |  |  |\n<!-- kigo:end -->\n",
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(root, &err), err);
    make_tables(page, root, false, 0);
    char *text = text_of(page);
    ck_assert_ptr_nonnull(strstr(text, "sdpa-peers -->\nNo run is committed yet"));
    free(text);
    seal(root, CALLS, KG_COUNT_OF(CALLS));
    expect_made(page, root, LINES, KG_COUNT_OF(LINES));
    free(page);
    free(root);
}

#define TIMES(name, shape, half, four)                                                                                 \
    { TIMED("mxfp4_gemm", name, "f16", shape, "time", "graph", half), .metric = "weight_bytes" }, {                    \
        TIMED("mxfp4_gemm", name, "mxfp4", shape, "time", "graph", four), .metric = "weight_bytes"                     \
    }
#define OF_MODEL(name, work, timing, metric_, params_, value_)                                                         \
    { TIMED("model", name, "f16", "model=0 c.gguf" work, timing, "host", value_), .metric = metric_, .params = params_ }
#define GPT_OSS 20914757184.0
#define PHI3 3821079552.0
static const struct made FOURS[] = {
    TIMES("gemm", "M=512 N=64 K=96", 1000, 1210),
    TIMES("gemv", "M=1 N=64 K=96", 3700, 1000),
    TIMES("gemm", "M=64 N=64 K=96", 1000, 1000),
    TIMES("gemv_experts", "M=1 N=2880 K=2880 experts=4/32", 3000, 1010),
    { TIMED("mxfp4_gemm", "gemm", "mxfp4", "M=16 N=64 K=96", "time", "graph", 500) },
    OF_MODEL("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, GPT_OSS, 2e6),
    OF_MODEL("decode", " prompt=8000 tokens=128 ctx=8192", "token", NULL, GPT_OSS, 4e6),
    OF_MODEL("memory", " prompt=16 tokens=4 ctx=8192", NULL, "memory.weights", GPT_OSS, 13 << 20),
};
static const struct made PHI3_RUN[] = {
    OF_MODEL("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, PHI3, 4e6),
    { TIMED("model_peer", "llama-bench", "-", "model=0 c.gguf prompt=16 tokens=256 ctx=272", "token", "host", 8e6),
      .state = "warm" },
    { TIMED("model_peer", "llama-bench", "-", "model=0 other.gguf prompt=16 tokens=256 ctx=272", "token", "host", 1e6),
      .state = "warm" },
    OF_MODEL("prefill", " prompt=512 tokens=1 ctx=528", "prefill", NULL, PHI3, 5e6),
};
static const struct made PHI3_MXFP4[] = {
    { TIMED("model", "decode", "f16", "model=0 c.gguf prompt=16 tokens=256 ctx=272", "token", "host", 1e6),
      .params = PHI3, .weight_bits = 5 },
};

/* Newer than FOURS, but of some cases alone. */
static const struct made GPT_OSS_DECODE[] = {
    OF_MODEL("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, GPT_OSS, 1e6),
};

/* MXFP4's tables and those of whole models: each goal against the run's figures, models each from the newest run that
 * has them and their memory, what is not there neither reached nor missed. */
static void mxfp4_and_models_from_records(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin mxfp4-gemv -->\n<!-- kigo:end -->\n<!-- kigo:begin mxfp4-gemm -->\n"
                               "<!-- kigo:end -->\n<!-- kigo:begin mxfp4-memory -->\n<!-- kigo:end -->\n"
                               "<!-- kigo:begin models -->\n<!-- kigo:end -->\n";
    static const char *const LINES[] = {
        "| 64 x 96 |  | 3.70 | 1.00 | 3.70 | yes |",
        "| 2880 x 2880 | 4 of 32 | 3.00 | 1.01 | 2.97 | no |",
        "| 64 x 96 |  | 16 |  | 0.50 |  | 1.0 | unproven |\n| 64 x 96 |  | 64 | 1.00 | 1.00 | 1.000 | 1.0 | yes |\n"
        "| 64 x 96 |  | 512 | 1.00 | 1.21 | 1.210 | 1.2 | no |\n",
        "| 64 x 96 |  | 3700 | 1000 | 3.700 | yes |\n| 2880 x 2880 | 32 | 3000 | 1010 | 2.970 | no |\n",
        "| decode from a short prompt, tokens/s | at least 400 | 750 | 500 | 454.5 to 555.6 | yes | llama.cpp 331 |\n"
        "| decode at 8192 positions, tokens/s |  |  | 250 | 227.3 to 277.8 |  |  |\n",
        "| load, warm cache, ms |  |  |  |  |  |  |\n| weights, MiB |  |  | 13.0 |  |  |  |\n",
        "| decode from a short prompt, tokens/s | at least 400 | 500 | 250 | 227.3 to 277.8 | no |",
        "| 512-token prefill, ms | at most 15 | 9 | 5 | 4.5 to 5.5 | yes |",
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(root, &err), err);
    make_tables(page, root, false, 0);
    char *text = text_of(page);
    ck_assert_ptr_nonnull(strstr(text, "mxfp4-gemm -->\nNo run is committed yet"));
    ck_assert_ptr_nonnull(strstr(text, "Phi-3-mini, FP16: no run is committed yet"));
    free(text);
    seal(root, FOURS, KG_COUNT_OF(FOURS));
    seal(root, PHI3_RUN, KG_COUNT_OF(PHI3_RUN));
    seal(root, GPT_OSS_DECODE, KG_COUNT_OF(GPT_OSS_DECODE));
    expect_made(page, root, LINES, KG_COUNT_OF(LINES));
    free(page);
    free(root);
}

/* llama.cpp's figures on the same file in the same run, of the newest run in which it did the same, with a star where
 * the GPU was slowed down; a file that only kigo ran has no row, and what only kigo did in a newer run is not taken. */
static void llama_cpp_from_records(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin model-peers -->\n<!-- kigo:end -->\n";
#define SHORT "prompt=16 tokens=256 ctx=272"
#define PROMPT "prompt=512 tokens=1 ctx=528"
    static const struct made OLD[] = {
        { TIMED("model", "decode", "f16", "model=0 c.gguf " SHORT, "token", "host", 2e6) },
        { TIMED("model", "prefill", "f16", "model=0 c.gguf " PROMPT, "prefill", "host", 5e6), .slowed = true },
        { TIMED("model_peer", "llama-bench", "-", "model=0 c.gguf " SHORT, "token", "host", 2e6), .state = "warm" },
        { TIMED("model_peer", "llama-bench", "-", "model=0 c.gguf " PROMPT, "prefill", "host", 9e6), .state = "warm" },
    };
    static const struct made NEW[] = {
        { TIMED("model", "decode", "f16", "model=0 alone.gguf " SHORT, "token", "host", 2e6) },
        { TIMED("model", "decode", "f16", "model=1 c.gguf " SHORT, "token", "host", 1e6) },
        { TIMED("model", "prefill", "f16", "model=1 c.gguf " PROMPT, "prefill", "host", 3e6) },
        { TIMED("model_peer", "llama-bench", "-", "model=1 c.gguf " SHORT, "token", "host", 4e6), .state = "warm" },
        { TIMED("model_peer", "llama-bench", "-", "model=1 c.gguf prompt=20 tokens=1 ctx=21", "wall", "host", 7e6),
          .state = "warm" },
    };
#undef SHORT
#undef PROMPT
    static const char *const LINES[] = { "---: |\n| c | 1000 | 250 |  |  | 5* | 9 |  | 7 |\n\nRecords: `2" };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(root, &err), err);
    make_tables(page, root, false, 0);
    char *text = text_of(page);
    ck_assert_ptr_nonnull(strstr(text, "model-peers -->\nNo run is committed yet"));
    free(text);
    seal(root, OLD, KG_COUNT_OF(OLD));
    seal(root, NEW, KG_COUNT_OF(NEW));
    expect_made(page, root, LINES, KG_COUNT_OF(LINES));
    free(page);
    free(root);
}

/* The README's table: a row a model that some run measured, with the GPU, each from the newest run with llama.cpp
 * beside it, or else the newest, runs named once; a star where the GPU was slowed down; the counts of the newest run of
 * tolerance cases. */
static void headline_from_records(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin headline -->\n<!-- kigo:end -->\n";
    static const struct made CHECK = { .layer = "tolerance",
                                       TIMED("linear", "rows", "f16", "M=1", "time", "graph", 1) };
    static const char *const WITHOUT_CHECK[] = {
        "| --- |\n| Qwen2.5-0.5B, FP16 | ", /* and the GPU, where there is one */
        " | 2000 | 8 |  |  |\n| Phi-3-mini, FP16 | ",
        " | 250 | 5 |  | llama.cpp 125, transformers 52, compiled 88 |\n| Phi-3-mini, MXFP4 | ",
        " | 1000 |  |  |  |\n| GPT-OSS-20B, MXFP4 experts, 16-bit rest | ",
        " | 500 | 20* | 40 |  |\n\nRecords: `2",
        "`.\nA star: while it was measured, the GPU ran at a lower clock.\n<!-- kigo:end -->\n",
    };
    static const char *const WITH_CHECK[] = { ": 1 planned, 1 passed, 0 failed, 0 skipped (`2" };
    static const struct made MEMORY[] = {
        OF_MODEL("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, GPT_OSS, 2e6),
        OF_MODEL("memory", " prompt=16 tokens=4 ctx=8192", NULL, "memory.total", GPT_OSS, 40 << 20),
        { TIMED("model", "prefill", "f16", "model=0 c.gguf prompt=512 tokens=1 ctx=528", "prefill", "host", 20e6),
          .params = GPT_OSS, .slowed = true },
    };
    static const struct made ALONE[] = {
        OF_MODEL("decode", " prompt=16 tokens=256 ctx=272", "token", NULL, PHI3, 3e6),
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    (void)arg;
    seal(root, ROWS, KG_COUNT_OF(ROWS));
    seal(root, MEMORY, KG_COUNT_OF(MEMORY));
    seal(root, PHI3_RUN, KG_COUNT_OF(PHI3_RUN));
    seal(root, PHI3_MXFP4, KG_COUNT_OF(PHI3_MXFP4)); /* a later run of as many parameters, in other bits */
    seal(root, ALONE, KG_COUNT_OF(ALONE));           /* the latest, and without llama.cpp */
    expect_made(page, root, WITHOUT_CHECK, KG_COUNT_OF(WITHOUT_CHECK));
    seal(root, &CHECK, 1);
    expect_made(page, root, WITH_CHECK, KG_COUNT_OF(WITH_CHECK));
    free(page);
    free(root);
}

/* A sign-off's verdict, counts and what is not met, as its document says them. */
static void signoffs_by_their_own_words(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin signoffs -->\n<!-- kigo:end -->\n";
    static const char DOCUMENT[] = "# A sprint: missed\n\n2 criteria met, 1 missed, 0 unproven. Sprint a (SHA-256 00), "
                                   "2026.\n\n## Not met\n\n| story |\n"
                                   "| --- |\n| one |\n\n## Criteria\n\n| story |\n| --- |\n| two |\n";
    static const char WANTED[] =
        "<!-- kigo:begin signoffs -->\n**A sprint: missed**: 2 criteria met, 1 missed, 0 unproven "
        "(`proof-bundles/signoffs/a-1/signoff.md`).\n\n| story |\n| --- |\n| one |\n<!-- kigo:end -->\n";
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    char *dir = kg_path_join(root, "signoffs/a-1"), *path = kg_path_join(dir, "signoff.md");
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(dir, &err), err);
    make_tables(page, root, false, 0);
    char *text = text_of(page);
    ck_assert_ptr_nonnull(strstr(text, "\nNone is committed yet.\n"));
    free(text);
    EXPECT_OK(kg_file_write(path, DOCUMENT, strlen(DOCUMENT), &err), err);
    make_tables(page, root, false, 0);
    text = text_of(page);
    ck_assert_str_eq(text, WANTED);
    free(text);
    free(path);
    free(dir);
    free(page);
    free(root);
}

static void nothing_to_show(struct kg_record *rec, const void *arg) {
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *readme = readme_at(rec, AROUND);
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(root, &err), err);
    make_tables(readme, root, false, 0);
    char *text = text_of(readme);
    ck_assert_ptr_nonnull(strstr(text, "No run on a GPU is committed yet"));
    free(text);
    free(readme);
    free(root);
}

/* No table from a bundle that does not verify, and none in a page without the place for it, or with half a place. */
static void refuses(struct kg_record *rec, const void *arg) {
    static const char *const PAGES[] = {
        "no place\n", "<!-- kigo:begin figures -->\n", "<!-- kigo:begin nobody-knows -->\n",
        "<!-- kigo:begin figures -->\n<!-- kigo:begin figures -->\n<!-- kigo:end -->\n"
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *readme;
    (void)arg;
    seal(root, ROWS, 1);
    for (size_t i = 0; i < KG_COUNT_OF(PAGES); i++) {
        readme = readme_at(rec, PAGES[i]);
        make_tables(readme, root, false, 1);
        free(readme);
    }
    readme = readme_at(rec, AROUND);
    char *dir = kg_maker_only(root);
    kg_maker_append(dir, "data/report.md", "changed\n");
    make_tables(readme, root, false, KG_EXIT_INTEGRITY);
    char *text = text_of(readme);
    ck_assert_str_eq(text, AROUND);
    free(text);
    free(dir);
    free(readme);
    free(root);
}

static void pages_are_what_the_bundles_say(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = run(ARGS(kg_fixture_path("../docs/make-tables"), kg_program_path(), "--check"));
    if (r.exit_code == KG_EXIT_NOTHING_TO_DO) kg_record_skip(rec, "%s", r.err);
    else expect_exit(&r, 0);
    kg_process_result_free(&r);
}

static void show_as_markdown(struct kg_record *rec, const void *arg) {
    static const char *const STATUSES[] = { "pass", "fail", "skip" };
    static const char *const LINES[] = {
        "| verdict | **fail** (complete) |\n",
        "---: |\n| unit | 3 | 1 | 1 | 1 | 0 | 0 | 0 |\n| all | 3 | 1 | 1 | 1 | 0 | 0 | 0 |\n",
        "| fail | unit/sample/case\\_1 | 0.002 | 0.2 | as the maker was asked |\n",
    };
    const char *root = kg_scratch_dir(rec);
    char *bench = kg_path_join(root, "bench");
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_maker_write(root, STATUSES, 3, &summary, &err), err);
    struct kg_process_result r = run(ARGS(kg_program_path(), "show", "latest", "--markdown", "--bundles", root));
    expect_exit(&r, 0);
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++)
        ck_assert_msg(strstr(r.out, LINES[i]) != NULL, "no '%s' in:\n%s", LINES[i], r.out);
    ck_assert_ptr_null(strstr(r.out, "| figure |"));
    kg_process_result_free(&r);
    seal(bench, ROWS, KG_COUNT_OF(ROWS));
    r = run(ARGS(kg_program_path(), "show", "latest", "--markdown", "--bundles", bench));
    ck_assert_ptr_nonnull(
        strstr(r.out, "| token, host warm | 500 µs | 450 µs to 550 µs | 10 | 2 | 1 | bench/model/decode\\["));
    ck_assert_ptr_nonnull(strstr(r.out, "| memory.kv | 96 B |  |  |  |  | bench/model/memory\\["));
    kg_process_result_free(&r);
    r = run(ARGS(kg_program_path(), "show", "latest", "--markdown", "--json", "--bundles", bench));
    expect_exit(&r, KG_EXIT_USAGE);
    kg_process_result_free(&r);
    free(bench);
}

#define CHAIN(op_, name_, shape_, metric_, value_)                                                                     \
    { .op = op_, .name = name_, .dtype = "f16", .shape = shape_, .metric = metric_, .value = value_ }
#define QWEN(rows) "qwen2.5-0.5b rows=" rows " in=896 out=896"
#define LLAMA "llama-3.1-8b rows=512 in=14336 out=4096"
#define WEIGHTS "qwen2.5-0.5b queries=1 keys=512 heads=14/2 D=64 full"
static const struct made CHAINS[] = {
    CHAIN("unfused", "prefill_norm_qkv", QWEN("512"), "layer", 45000),
    CHAIN("fused", "prefill_norm_qkv", QWEN("512"), "layer", 20000),
    CHAIN("unfused", "decode_norm_qkv", QWEN("1"), "layer", 8000),
    CHAIN("fused", "decode_norm_qkv", QWEN("1"), "layer", 4000),
    CHAIN("unfused", "prefill_residual", LLAMA, "ncu.sum.dram_bytes", 9e6),
    CHAIN("fused", "prefill_residual", LLAMA, "ncu.sum.dram_bytes", 6e6),
    CHAIN("fused", "prefill_residual_mxfp4", "phi-3-mini rows=512 in=8192 out=3072", "layer", 7000),
    CHAIN("unfused", "memory", "prefill_norm_qkv " QWEN("512"), "workspace", 4e6),
    CHAIN("fused", "memory", "prefill_norm_qkv " QWEN("512"), "workspace", 3e6),
    { TIMED("unfused", "decode_attention_weights", "f16", WEIGHTS, "time", "graph", 6000) },
    { TIMED("fused", "decode_attention_weights", "f16", WEIGHTS, "time", "graph", 4000) },
};
/* Later, by themselves. */
static const struct made ONLY_WEIGHTS[] = {
    { TIMED("unfused", "decode_attention_weights", "f16", WEIGHTS, "time", "graph", 6000) },
    { TIMED("fused", "decode_attention_weights", "f16", WEIGHTS, "time", "graph", 3000) },
    { TIMED("fused", "prefill_attention_weights", "f16", WEIGHTS, "time", "graph", 9000) },
};

/* Chains node by node beside fused ones: a row of many rows has the one row of the same shapes; no figure of which one
 * of the two is missing. A run of scores alone takes the place of no chain. */
static void chains_from_records(struct kg_record *rec, const void *arg) {
    static const char PAGE[] = "<!-- kigo:begin fused-chains -->\nold\n<!-- kigo:end -->\n"
                               "<!-- kigo:begin fused-memory -->\n<!-- kigo:end -->\n"
                               "<!-- kigo:begin attention-weights -->\n<!-- kigo:end -->\n";
    static const char *const LINES[] = {
        "| norm + q, k, v + rotation + cache | qwen2.5-0.5b | 45 to 20 | 2.25 |  |  | 8 to 4 | 2.00 |\n"
        "| product + residual | llama-3.1-8b |  |  | 9 to 6 |  |  |  |\n"
        "| product + residual, MXFP4 | phi-3-mini |  |  |  |  |  |  |\n<!-- kigo:end -->",
        "| norm + q, k, v + rotation + cache | qwen2.5-0.5b | 4 to 3 | 25 |  |  |\n",
        "| " WEIGHTS " | 6 to 3 | 2.00 |\n",
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "bundles"), *page = readme_at(rec, PAGE);
    (void)arg;
    seal(root, CHAINS, KG_COUNT_OF(CHAINS));
    seal(root, ONLY_WEIGHTS, KG_COUNT_OF(ONLY_WEIGHTS));
    expect_made(page, root, LINES, KG_COUNT_OF(LINES));
    free(page);
    free(root);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "tables", .name = #function, .source_tree = true, .timeout_s = PATIENCE_S,       \
        .run = function                                                                                                \
    }

static const struct kg_case CASES[] = {
    CASE(figures_from_records),
    CASE(cases_of_a_whole_check),
    CASE(attention_from_records),
    CASE(mxfp4_and_models_from_records),
    CASE(llama_cpp_from_records),
    CASE(headline_from_records),
    CASE(chains_from_records),
    CASE(nothing_to_show),
    CASE(refuses),
    CASE(pages_are_what_the_bundles_say),
    CASE(show_as_markdown),
    CASE(signoffs_by_their_own_words),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
