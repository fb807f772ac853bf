/* FT-056: whole models. How long one takes to load, to its first token and to each token after it, what memory it needs
 * for 512 and 8192 tokens, and what f16 changes against f32. The fixture, and each model of --model, on every back end
 * in every precision it has. Figures are recorded, never judged, but logits in f16 against those in f32; what fails
 * else is work that fails. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include "model/weights.h"
#include "suites/bench/model_work.h"
#include "suites/support/layer_models.h"
#include "suites/support/machine.h"
#include "suites/support/minute_words.h"
#include "suites/support/poet.h"
#include "suites/support/routes.h"
#include "suites/support/haiku_stage.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SAMPLES = 10, N_WARMUP = 2, N_LOADS = 3 };

struct model_case {
    const char *backend;
    enum kg_precision precision;
    const char *path; /* NULL: the fixture */
    struct kg_model_work work;
};

/* The model that was asked for last, kept between the cases about it. */
struct stage {
    struct kg_backend *backend;
    struct kg_model *model;
    const char *backend_name, *path;
    uint64_t load_ns;
};
static struct stage stage;

static void stage_close(void) {
    kg_model_free(stage.model);
    if (stage.backend) kg_backend_close(stage.backend);
    stage = (struct stage){ 0 };
}

static const char *path_of(const struct model_case *c) {
    return c->path ? c->path : kg_fixture_path(KG_HAIKU_MODEL);
}

/* False, with the case skipped, if the back end is not there or has not the precision. */
static bool stage_open(struct kg_record *rec, const struct model_case *c) {
    struct kg_error err = { 0 };
    const bool same = stage.model && stage.path == c->path && strcmp(stage.backend_name, c->backend) == 0;
    if (!same) {
        stage_close();
        const enum kg_status status = kg_backend_open(c->backend, 0, &stage.backend, &err);
        if (status == KG_ERR_UNSUPPORTED && strcmp(c->backend, "cpu") != 0) {
            kg_record_skip(rec, "%s", err.message);
            return false;
        }
        kg_must(status, &err);
        const uint64_t start_ns = kg_clock_monotonic_ns();
        kg_must(kg_model_load(path_of(c), stage.backend, NULL, &stage.model, &err), &err);
        stage.load_ns = kg_clock_monotonic_ns() - start_ns;
        stage.path = c->path;
        stage.backend_name = c->backend;
    }
    if (strcmp(c->backend, "cpu") == 0 && kg_model_weight_bytes(stage.model) > KG_BENCH_MOST_CPU_BYTES) {
        kg_record_skip(rec, "%llu bytes of weights are too much for the reference back end",
                       (unsigned long long)kg_model_weight_bytes(stage.model));
        return false;
    }
    const struct kg_model_config *config = kg_model_config(stage.model);
    if (config->has_positions && c->work.n_ctx > config->n_ctx_train) {
        kg_record_skip(rec, "a context of %u: the model has %u learned positions", c->work.n_ctx, config->n_ctx_train);
        return false;
    }
    /* What distinguishes two files of one architecture: the report pairs them. */
    kg_record_metric(rec, "params", "count", (double)kg_model_n_params(stage.model));
    kg_record_metric(rec, "weights", "bytes", (double)kg_model_weight_bytes(stage.model));
    return true;
}

static struct kg_session *open_session(enum kg_precision precision, uint32_t n_ctx) {
    const struct kg_session_options options = { .n_ctx = n_ctx, .activations = precision, .kv = precision };
    struct kg_session *session;
    struct kg_error err = { 0 };
    kg_must(kg_session_create(stage.model, &options, &session, &err), &err);
    return session;
}

/* malloc'ed: n ids of the tokenizer from the seed. */
static int32_t *random_ids(const struct kg_record *rec, size_t n) {
    struct kg_rng rng;
    int32_t *ids = kg_xcalloc(n, sizeof *ids);
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)kg_rng_below(&rng, kg_model_config(stage.model)->n_vocab);
    return ids;
}

static struct kg_generate_result greedy(struct kg_session *session, const int32_t *prompt, size_t n_prompt,
                                        uint32_t max_tokens, bool ignore_end) {
    const struct kg_generate_options options = { .sampler = { .temperature = 0, .repeat_penalty = 1, .top_p = 1 },
                                                 .max_tokens = max_tokens,
                                                 .ignore_end = ignore_end };
    struct kg_generate_result result;
    struct kg_error err = { 0 };
    kg_must(kg_session_truncate(session, 0, &err), &err);
    kg_must(kg_generate(session, prompt, n_prompt, &options, &result, &err), &err);
    return result;
}

/* The experts' matrices, as a sum of measure(matrix), and the share of them that answers a token. */
static double of_experts(double (*measure)(const struct kg_weight *w)) {
    const struct kg_model_config *config = kg_model_config(stage.model);
    double sum = 0;
    for (uint32_t i = 0; config->ffn == KG_FFN_EXPERTS && i < config->n_layers; i++) {
        const struct kg_layer_weights *l = &kg_model_weights(stage.model)->layers[i];
        sum += measure(&l->gate) + measure(&l->up) + measure(&l->down);
    }
    return sum;
}

static double bytes_of(const struct kg_weight *w) {
    return (double)kg_weight_row_bytes(w) * w->n_rows;
}

static double elems_of(const struct kg_weight *w) {
    return (double)w->n_rows * w->n_cols;
}

static double idle_share(void) {
    const struct kg_model_config *config = kg_model_config(stage.model);
    return config->n_experts ? 1 - (double)config->n_experts_used / config->n_experts : 0;
}

/* Bytes of weights that a forward pass of n_rows reads: all, but of an embedding that is not the output matrix too only
 * some rows, and of experts, for a single row, those chosen. */
static double weight_bytes_read(size_t n_rows) {
    const struct kg_model_weights *w = kg_model_weights(stage.model);
    const bool tied = w->output.data == w->embedding.data;
    return (double)kg_model_weight_bytes(stage.model) - (n_rows == 1 ? idle_share() * of_experts(bytes_of) : 0) -
           (tied ? 0 : (double)(kg_weight_row_bytes(&w->embedding) * w->embedding.n_rows));
}

/* A multiply-add with each weight of the layers (of experts, of those chosen) for each row, and with the output matrix
 * for each row of logits. */
static double flops_of(size_t n_rows, size_t n_logits) {
    const struct kg_model_weights *w = kg_model_weights(stage.model);
    const double matrix = (double)w->embedding.n_rows * w->embedding.n_cols;
    const double tables = w->output.data == w->embedding.data ? matrix : 2 * matrix;
    const double layers = (double)kg_model_n_params(stage.model) - tables - idle_share() * of_experts(elems_of);
    return 2 * ((double)n_rows * layers + (double)n_logits * matrix);
}

/* Of keys and values of n positions. */
static double kv_bytes(const struct model_case *c, uint32_t n) {
    return (double)kg_kv_cache_bytes(kg_model_config(stage.model), n, c->precision);
}

/* The canaries of this process, so that a record's share can be worked out from it alone. The stage is on the same back
 * end, so it is there. */
static struct kg_bench_machine *record_roofline(struct kg_record *rec, const struct model_case *c) {
    struct kg_bench_machine *const machine = kg_bench_machine_open(rec, c->backend);
    ck_assert_ptr_nonnull(machine);
    kg_bench_record_roofline(rec, kg_bench_roofline(machine, c->precision));
    return machine;
}

/* A load reads the whole file; the page cache has it after the first. */
static void load(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    uint64_t samples_ns[N_LOADS];
    stage_close();
    if (!stage_open(rec, c)) return;
    const double bytes = (double)kg_model_weight_bytes(stage.model);
    for (size_t i = 0; i < N_LOADS; i++) {
        struct kg_model *again;
        struct kg_error err = { 0 };
        kg_model_free(stage.model); /* there may be no room for two */
        stage.model = NULL;
        const uint64_t start_ns = kg_clock_monotonic_ns();
        kg_must(kg_model_load(path_of(c), stage.backend, NULL, &again, &err), &err);
        samples_ns[i] = kg_clock_monotonic_ns() - start_ns;
        stage.model = again;
    }
    kg_record_timing(rec, "load", "host", "warm", samples_ns, N_LOADS, bytes, 0);
}

/* A session with a prompt, measured as a whole and, where the GPU was slowed down, again. */
struct job {
    const struct model_case *c;
    struct kg_session *session;
    int32_t *ids;
    uint64_t samples_ns[N_SAMPLES];
    struct kg_generate_result result;
};

static struct job job_open(const struct kg_record *rec, const struct model_case *c) {
    return (struct job){ .c = c,
                         .session = open_session(c->precision, c->work.n_ctx),
                         .ids = random_ids(rec, c->work.n_prompt) };
}

static void job_close(struct job *job) {
    kg_generate_result_free(&job->result);
    free(job->ids);
    kg_session_free(job->session);
}

static enum kg_status eval_prompts(void *arg, struct kg_error *err) {
    struct job *job = arg;
    for (size_t i = 0; i < N_WARMUP + N_SAMPLES; i++) {
        const float *logits;
        enum kg_status status = kg_session_truncate(job->session, 0, err);
        const uint64_t start_ns = kg_clock_monotonic_ns();
        if (status == KG_OK)
            status = kg_session_eval(job->session, job->ids, job->c->work.n_prompt, KG_LOGITS_LAST, &logits, err);
        if (status != KG_OK) return status;
        if (i >= N_WARMUP) job->samples_ns[i - N_WARMUP] = kg_clock_monotonic_ns() - start_ns;
    }
    return KG_OK;
}

static void record_prompts(struct kg_record *rec, const char *name,
                           enum kg_status (*measure)(void *, struct kg_error *), const struct model_case *c) {
    if (!stage_open(rec, c)) return;
    struct job job = job_open(rec, c);
    const struct kg_throttle_findings findings = kg_bench_guard(c->backend, measure, &job);
    kg_record_timing(rec, name, "host", "warm", job.samples_ns, N_SAMPLES,
                     weight_bytes_read(c->work.n_prompt) + kv_bytes(c, c->work.n_prompt),
                     flops_of(c->work.n_prompt, 1));
    kg_bench_record_guarded(rec, name, &findings, N_SAMPLES);
    job_close(&job);
    (void)record_roofline(rec, c);
}

static void prefill(struct kg_record *rec, const void *arg) {
    record_prompts(rec, "prefill", eval_prompts, arg);
}

static enum kg_status first_tokens(void *arg, struct kg_error *err) {
    (void)err;
    struct job *job = arg;
    for (size_t i = 0; i < N_WARMUP + N_SAMPLES; i++) {
        struct kg_generate_result result = greedy(job->session, job->ids, job->c->work.n_prompt, 1, true);
        if (i >= N_WARMUP) job->samples_ns[i - N_WARMUP] = result.first_token_ns;
        kg_generate_result_free(&result);
    }
    return KG_OK;
}

/* From the call to the first id: prefill and draw. */
static void first_token(struct kg_record *rec, const void *arg) {
    record_prompts(rec, "first_token", first_tokens, arg);
}

static enum kg_status decode_tokens(void *arg, struct kg_error *err) {
    (void)err;
    struct job *job = arg;
    kg_generate_result_free(&job->result);
    job->result = greedy(job->session, job->ids, job->c->work.n_prompt, job->c->work.n_tokens, true);
    return KG_OK;
}

/* Single-token steps in a row, past end tokens, after a first run that is not counted. A token's bytes: the weights it
 * reads, and the keys and values of the positions before it, on average. */
static void record_tokens(struct kg_record *rec, const struct model_case *c) {
    enum { N_FIRST = 8, FIRST_PROMPT = 8192 };
    struct job job = job_open(rec, c);
    job.result =
        greedy(job.session, job.ids, c->work.n_prompt < FIRST_PROMPT ? c->work.n_prompt : FIRST_PROMPT, N_FIRST, true);
    const struct kg_throttle_findings findings = kg_bench_guard(c->backend, decode_tokens, &job);
    const struct kg_generate_result *const result = &job.result;
    ck_assert_uint_eq(result->n_ids, c->work.n_tokens);
    ck_assert_uint_gt(result->n_evals, 0);
    ck_assert_uint_eq(result->n_decode_allocations, 0);
    ck_assert_uint_eq(result->n_decode_waits, 0);
    const double bytes = weight_bytes_read(1) + kv_bytes(c, c->work.n_prompt + c->work.n_tokens / 2);
    const bool cold =
        bytes > 2 * (double)record_roofline(rec, c)->cache_bytes; /* no token finds what the last one read */
    kg_record_timing(rec, "token", "host", cold ? "cold" : "warm", result->token_ns, result->n_evals, bytes,
                     flops_of(1, 1));
    kg_bench_record_guarded(rec, "token", &findings, result->n_evals);
    kg_record_metric(rec, "speed", "tokens/s", 1e9 * (double)result->n_evals / (double)result->decode_ns);
    job_close(&job);
}

static void decode(struct kg_record *rec, const void *arg) {
    if (stage_open(rec, arg)) record_tokens(rec, arg);
}

/* Where the model is one of so many positions. */
static void decode_in_context(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    if (!stage_open(rec, c)) return;
    const uint32_t trained = kg_model_config(stage.model)->n_ctx_train;
    if (c->work.n_ctx <= trained) record_tokens(rec, c);
    else kg_record_skip(rec, "a context of %u: the model was trained on %u", c->work.n_ctx, trained);
}

/* What is held while a session of n_ctx positions works: by the allocator's count, not as a difference of two readings.
 */
static void memory(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    if (!stage_open(rec, c)) return;
    struct kg_session *session = open_session(c->precision, c->work.n_ctx);
    int32_t *ids = random_ids(rec, c->work.n_prompt);
    struct kg_generate_result result = greedy(session, ids, c->work.n_prompt, 4, true);
    struct kg_memory_use use;
    kg_backend_memory(stage.backend, &use);
    kg_record_memory(rec, &use);
    uint64_t sum = 0;
    for (int tag = 0; tag < KG_MEMORY_TAG_COUNT; tag++) {
        char name[64];
        snprintf(name, sizeof name, "memory.%s", kg_memory_tag_name((enum kg_memory_tag)tag));
        kg_record_metric(rec, name, "bytes", (double)use.current_bytes[tag]);
        sum += use.current_bytes[tag];
    }
    kg_record_metric(rec, "memory.total", "bytes", (double)use.total_current_bytes);
    ck_assert_uint_eq(sum, use.total_current_bytes);
    ck_assert_uint_eq(use.current_bytes[KG_MEMORY_KV],
                      kg_kv_cache_bytes(kg_model_config(stage.model), c->work.n_ctx, c->precision));
    ck_assert_uint_ge(use.current_bytes[KG_MEMORY_WEIGHTS], kg_model_weight_bytes(stage.model));
    kg_generate_result_free(&result);
    free(ids);
    kg_session_free(session);
}

/* The ids of a minute's request, in ChatML. */
static struct kg_ids request_ids(struct kg_haiku_request *request, int minute, uint64_t seed) {
    struct kg_ids ids = { 0 };
    struct kg_error err = { 0 };
    const struct kg_tokenizer *tokenizer;
    *request = kg_haiku_request_make((uint64_t)minute, kg_minute_word(minute), 0, seed);
    char *text = kg_haiku_prompt_text(request);
    kg_must(kg_model_require_tokenizer(stage.model, &tokenizer, &err), &err);
    kg_must(kg_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &err), &err);
    free(text);
    return ids;
}

struct against_f32 {
    size_t n_tokens;  /* f32's */
    size_t n_free;    /* of them that f16 wrote differently, left to itself */
    size_t n_forced;  /* of them that f16 would write differently after f32's own */
    float *f32, *f16; /* logits of those positions */
    float *forced;    /* f16's with the experts that f32 chose; NULL: the model is no mixture */
    struct kg_routes routes;
    size_t n_rows, n_vocab;
    size_t n_drawable; /* ids below it may be drawn; rows past them only pad the matrix */
};

static size_t largest(const float *row, size_t n) {
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[at]) at = i;
    return at;
}

/* Logits of the positions that predict `ids`, after the prompt, all given. */
static void logits_of(enum kg_precision precision, const int32_t *all, size_t n_all, size_t n_rows, float *rows) {
    struct kg_session *session = open_session(precision, (uint32_t)n_all);
    const size_t n_vocab = kg_model_config(stage.model)->n_vocab;
    const float *logits;
    struct kg_error err = { 0 };
    kg_must(kg_session_eval(session, all, n_all - 1, KG_LOGITS_ALL, &logits, &err), &err);
    memcpy(rows, logits + (n_all - 1 - n_rows) * n_vocab, n_rows * n_vocab * sizeof *rows);
    kg_session_free(session);
}

/* One prompt: both precisions write, and both read what f32 wrote. */
static void compare_prompt(struct against_f32 *a, const struct kg_ids *prompt, uint32_t max_tokens) {
    const uint32_t n_ctx = (uint32_t)prompt->n + max_tokens;
    struct kg_session *full = open_session(KG_PRECISION_F32, n_ctx), *half = open_session(KG_PRECISION_F16, n_ctx);
    struct kg_generate_result want = greedy(full, prompt->ids, prompt->n, max_tokens, false);
    struct kg_generate_result got = greedy(half, prompt->ids, prompt->n, max_tokens, false);
    kg_session_free(half);
    kg_session_free(full);
    const size_t n = want.n_ids;
    for (size_t i = 0; i < n; i++) a->n_free += i >= got.n_ids || got.ids[i] != want.ids[i];
    if (n > 0) {
        int32_t *all = kg_xcalloc(prompt->n + n, sizeof *all);
        memcpy(all, prompt->ids, prompt->n * sizeof *all);
        memcpy(all + prompt->n, want.ids, n * sizeof *all);
        float *f32 = a->f32 + a->n_rows * a->n_vocab, *f16 = a->f16 + a->n_rows * a->n_vocab;
        if (a->forced) kg_routes_take_down(stage.backend, &a->routes);
        logits_of(KG_PRECISION_F32, all, prompt->n + n, n, f32);
        if (a->forced) kg_routes_end(stage.backend);
        logits_of(KG_PRECISION_F16, all, prompt->n + n, n, f16);
        if (a->forced) {
            kg_routes_force(stage.backend, &a->routes);
            logits_of(KG_PRECISION_F16, all, prompt->n + n, n, a->forced + a->n_rows * a->n_vocab);
            kg_routes_end(stage.backend);
            kg_routes_clear(&a->routes);
        }
        for (size_t i = 0; i < n; i++)
            a->n_forced += largest(f16 + i * a->n_vocab, a->n_drawable) != (size_t)want.ids[i];
        a->n_rows += n;
        free(all);
    }
    a->n_tokens += n;
    kg_generate_result_free(&want);
    kg_generate_result_free(&got);
}

/* Of a mixture with the same experts in both precisions: where two are nearly as good, rounding may choose the other,
 * and a model of random weights then says something else. That is counted, not judged. */
#define FAR                                                                                                            \
    "weights that training made have activations far larger than others; with random ones plain FP16 implementations " \
    "give 4e-6"
static void expect_close(struct kg_record *rec, const struct kg_compare *logits) {
    const struct kg_tolerance tol = { .nmse = KG_LAYER_NMSE_F16, .why = KG_LAYER_WHY_F16, .far = FAR };
    double margin;
    kg_record_judged(rec, "logits_of_same_routes", logits, &tol);
    ck_assert_msg(kg_within(logits, &tol, &margin), "outside the tolerance by a factor of %.4g", margin);
}

static void against_f32(struct kg_record *rec, const void *arg) {
    enum { PER_PROMPT = 48 };
    const struct model_case *c = arg;
    if (!stage_open(rec, c)) return;
    struct against_f32 a = { .n_vocab = kg_model_config(stage.model)->n_vocab };
    a.n_drawable = (size_t)kg_tokenizer_n_drawable(kg_model_tokenizer(stage.model));
    const size_t most = c->work.n_tokens + PER_PROMPT;
    a.f32 = kg_xcalloc(most * a.n_vocab, sizeof *a.f32);
    a.f16 = kg_xcalloc(most * a.n_vocab, sizeof *a.f16);
    if (kg_model_config(stage.model)->ffn == KG_FFN_EXPERTS) a.forced = kg_xcalloc(most * a.n_vocab, sizeof *a.forced);
    for (int minute = 0; minute < KG_MINUTES && a.n_tokens < c->work.n_tokens; minute++) {
        struct kg_haiku_request request;
        struct kg_ids prompt = request_ids(&request, minute, kg_record_seed(rec));
        compare_prompt(&a, &prompt, PER_PROMPT);
        kg_ids_free(&prompt);
    }
    ck_assert_uint_gt(a.n_tokens, 0);
    struct kg_compare logits;
    kg_compare_f32(a.f16, a.f32, a.n_rows * a.n_vocab, &logits);
    kg_record_metric(rec, "tokens", "count", (double)a.n_tokens);
    kg_record_metric(rec, "token_mismatch", "ratio", (double)a.n_free / (double)a.n_tokens);
    kg_record_metric(rec, "token_mismatch_forced", "ratio", (double)a.n_forced / (double)a.n_tokens);
    kg_record_metric(rec, "logits.max_abs", "abs", logits.max_abs);
    kg_record_metric(rec, "logits.nmse", "abs", logits.nmse);
    if (a.forced) {
        kg_record_metric(rec, "routes", "count", (double)a.routes.n_decisions);
        kg_record_metric(rec, "route_flips", "ratio", (double)a.routes.n_flips / (double)a.routes.n_decisions);
        kg_record_metric(rec, "route_flip_gap", "abs", a.routes.widest_flip);
        kg_compare_f32(a.forced, a.f32, a.n_rows * a.n_vocab, &logits);
    }
    expect_close(rec, &logits);
    free(a.f32);
    free(a.f16);
    free(a.forced);
}

/* The fixture writes a haiku for every minute; how many are one is recorded. */
static void haiku(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    if (!stage_open(rec, c)) return;
    struct kg_lexicon *lexicon;
    struct kg_error err = { 0 };
    kg_must(kg_lexicon_open(kg_fixture_path("lexicon/syllables.tsv"), &lexicon, &err), &err);
    struct kg_session *session = open_session(c->precision, c->work.n_ctx);
    const int n_minutes = kg_bench_quick() ? 5 : KG_MINUTES;
    int n_valid = 0;
    for (int minute = 0; minute < n_minutes; minute++) {
        struct kg_haiku_request request;
        struct kg_poem_verdict verdict;
        struct kg_ids prompt = request_ids(&request, minute, kg_record_seed(rec));
        struct kg_generate_result result = greedy(session, prompt.ids, prompt.n, KG_HAIKU_MAX_TOKENS, false);
        kg_poem_judge(lexicon, result.text, result.text_len, request.minute_word, request.nonce, &verdict);
        n_valid += result.finish == KG_FINISH_END_TOKEN && verdict.faults == 0;
        kg_generate_result_free(&result);
        kg_ids_free(&prompt);
    }
    kg_record_metric(rec, "haiku_asked", "count", n_minutes);
    kg_record_metric(rec, "haiku_valid", "count", n_valid);
    kg_session_free(session);
    kg_lexicon_free(lexicon);
}

/* Arguments live as long as the process, like the cases they belong to. */
static const struct model_case *keep(struct model_case c) {
    static struct kept {
        struct model_case c;
        struct kept *next;
    } * all;
    struct kept *kept = kg_xmalloc(sizeof *kept);
    *kept = (struct kept){ .c = c, .next = all };
    all = kept;
    return &kept->c;
}

static void add_to(struct kg_case_list *list, const char *op, const char *name, struct model_case c, const char *model,
                   bool has_dtype, void (*run)(struct kg_record *, const void *)) {
    char shape[KG_MODEL_WORK_TEXT];
    kg_model_work_shape(model, &c.work, shape);
    kg_case_list_add(list, &(struct kg_case){ .layer = "bench",
                                              .op = op,
                                              .name = name,
                                              .backend = c.backend,
                                              .dtype = has_dtype ? kg_precision_name(c.precision) : NULL,
                                              .shape = shape,
                                              .spec = "FT-056",
                                              .definition = "greedy; random ids, requests for haiku where text matters",
                                              .timeout_s = 300,
                                              .run = run,
                                              .arg = keep(c) });
}

static void add(struct kg_case_list *list, const char *name, struct model_case c, const char *model, bool has_dtype,
                void (*run)(struct kg_record *, const void *)) {
    add_to(list, "model", name, c, model, has_dtype, run);
}

/* Minutes a model: a filter has to choose them. */
static void add_contexts(struct kg_case_list *list, const char *backend, const char *path, const char *model) {
    static const uint32_t CONTEXTS[] = { 8192, 32768, 131072 };
    struct model_case c = { .backend = backend, .precision = KG_PRECISION_F16, .path = path };
    for (size_t i = 0; i < KG_COUNT_OF(CONTEXTS); i++) {
        c.work = kg_context_work(CONTEXTS[i]);
        add_to(list, "long_context", "decode", c, model, true, decode_in_context);
    }
}

static void add_model(struct kg_case_list *list, const char *backend, const char *path, const char *model) {
    const bool quick = kg_bench_quick(), device = strcmp(backend, "cpu") != 0;
    add(list, "load", (struct model_case){ .backend = backend, .path = path }, model, false, load);
    for (int p = KG_PRECISION_F32; p <= (device ? KG_PRECISION_F16 : KG_PRECISION_F32); p++) {
        struct model_case c = { .backend = backend, .precision = (enum kg_precision)p, .path = path };
        c.work = kg_prefill_work();
        add(list, "prefill", c, model, true, prefill);
        add(list, "first_token", c, model, true, first_token);
        c.work = kg_decode_work(false);
        add(list, "decode", c, model, true, decode);
        c.work.n_tokens = 4, c.work.n_ctx = 512;
        add(list, "memory", c, model, true, memory);
        c.work.n_ctx = 8192;
        add(list, "memory", c, model, true, memory);
        c.work = kg_decode_work(true);
        if (device && !quick) add(list, "decode", c, model, true, decode);
        c.work = (struct kg_model_work){ .n_tokens = kg_decode_work(false).n_tokens, .n_ctx = 512 };
        if (p == KG_PRECISION_F16) add(list, "against_f32", c, model, true, against_f32);
        if (!path) add(list, "haiku", c, model, true, haiku);
    }
}

static void build(struct kg_case_list *list) {
    static const char *const BACKENDS[] = { "cpu", "cuda" };
    size_t n_models;
    const char *const *const models = kg_extra_models(&n_models);
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++) {
        add_model(list, BACKENDS[b], NULL, "fixture");
        for (size_t i = 0; i < n_models; i++) {
            char model[KG_MODEL_WORK_TEXT];
            kg_model_work_name(i, models[i], model);
            add_model(list, BACKENDS[b], models[i], model);
            if (strcmp(BACKENDS[b], "cpu") != 0 && !kg_bench_quick()) add_contexts(list, BACKENDS[b], models[i], model);
        }
    }
}

int main(int argc, char **argv) {
    const int code = kg_suite_main_built(argc, argv, build);
    stage_close();
    return code;
}
