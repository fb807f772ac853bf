/* FT-056: a cold start. Fresh processes of kigo generate, from the spawn to the first token's arrival, and where that
 * time goes by what the process says itself: opening the back end, loading (its bytes over its time are the rate of the
 * load), making the session, the first token; and how long the process takes to end. Model file and program are in the
 * page cache: a first process is not counted. The fixture, and each model of --model. */
#include "base/size.h"
#include "bundle/records.h"
#include "engine/prompt.h"
#include "format/gguf.h"
#include "suites/bench/fresh_process.h"
#include "suites/bench/model_work.h"
#include "suites/harness/must.h"
#include "suites/support/haiku_stage.h"
#include "suites/support/machine.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Begins the prompt of every model; as much of it is taken as makes so many tokens of the model's own. */
static const char TEXT[] = "The old pond is still tonight and then a frog jumps in and we hear the sound of cold water";

enum { N_STARTS = 5 };

struct start_case {
    const char *backend, *path; /* path NULL: the fixture */
    enum kg_precision precision;
};

static const char *path_of(const struct start_case *c) {
    return c->path ? c->path : kg_fixture_path(KG_HAIKU_MODEL);
}

/* malloc'ed. A token is a word of most vocabularies, and a byte of made-up ones. */
static char *prompt_of(const struct start_case *c) {
    struct kg_gguf *gguf;
    struct kg_tokenizer *tokenizer;
    struct kg_error err = { 0 };
    size_t n_bytes = 0, n_tokens = 0;
    kg_must(kg_gguf_open(path_of(c), &gguf, &err), &err);
    kg_must(kg_tokenizer_create(gguf, &tokenizer, &err), &err);
    while (n_tokens < kg_cold_start_work().n_prompt && n_bytes < sizeof TEXT - 1) {
        struct kg_ids ids = { 0 };
        kg_must(kg_prompt_encode_text(tokenizer, TEXT, ++n_bytes, &ids, &err), &err);
        n_tokens = ids.n;
        kg_ids_free(&ids);
    }
    kg_tokenizer_free(tokenizer);
    kg_gguf_close(gguf);
    return kg_xstrndup(TEXT, n_bytes);
}

/* What the process says of itself; fails the case if it failed, or says no such thing. */
static json_t *answer_of(const struct kg_fresh_times *start) {
    json_error_t why;
    ck_assert_msg(start->exit_code == 0, "kigo generate ended with exit code %d: %s", start->exit_code,
                  start->complaint);
    json_t *answer = json_loadb(kg_buffer_text(&start->out), start->out.len, 0, &why);
    ck_assert_msg(answer != NULL, "kigo generate printed no JSON: %s", why.text);
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "ids")), 1);
    return answer;
}

static double ms_of(const json_t *answer, const char *name) {
    const double ms = kg_json_number(json_object_get(answer, "timings"), name, NAN);
    ck_assert_msg(ms >= 0, "kigo generate gave no %s", name);
    return ms;
}

enum part { WALL, BACKEND, LOAD, SESSION, FIRST_TOKEN, EXIT, N_PARTS };

/* Nanoseconds of each part; the load without the back end, whose time the JSON has in both. */
static void take_apart(const struct kg_fresh_times *start, const json_t *answer, uint64_t ns[N_PARTS]) {
    const double backend_ms = ms_of(answer, "backend_ms"), load_ms = ms_of(answer, "load_ms");
    ns[WALL] = start->said_ns;
    ns[BACKEND] = (uint64_t)(1e6 * backend_ms);
    ck_assert_double_ge(load_ms, backend_ms);
    ns[LOAD] = (uint64_t)(1e6 * (load_ms - backend_ms));
    ns[SESSION] = (uint64_t)(1e6 * ms_of(answer, "session_ms"));
    ns[FIRST_TOKEN] = (uint64_t)(1e6 * ms_of(answer, "first_token_ms"));
    ns[EXIT] = start->end_ns - start->said_ns;
    ck_assert_msg(ns[WALL] >= ns[BACKEND] + ns[LOAD] + ns[SESSION] + ns[FIRST_TOKEN],
                  "the parts take longer than the whole of %llu ns", (unsigned long long)ns[WALL]);
}

static void cold_start(struct kg_record *rec, const void *arg) {
    static const char *const NAMES[N_PARTS] = { "wall", "backend", "load", "session", "first_token", "exit" };
    const struct start_case *c = arg;
    if (!kg_model_work_is_timed(rec, c->backend, path_of(c))) return;
    char *prompt = prompt_of(c);
    const char *const argv[] = {
        kg_program_path(), "generate", "--json", "--backend", c->backend, "--dtype", kg_precision_name(c->precision),
        "--temp",          "0",        "-n",     "1",         "-p",       prompt,    "-m",
        path_of(c),        NULL
    };
    uint64_t samples_ns[N_PARTS][N_STARTS], ns[N_PARTS];
    double n_bytes = 0;
    for (int i = -1; i < N_STARTS; i++) {
        struct kg_fresh_times start;
        ck_assert(kg_fresh_process_run(&(struct kg_fresh_process){ .argv = argv }, &start));
        json_t *answer = answer_of(&start);
        take_apart(&start, answer, ns);
        for (int part = 0; part < N_PARTS && i >= 0; part++) samples_ns[part][i] = ns[part];
        n_bytes = kg_json_number(json_object_get(answer, "model"), "weight_bytes", 0);
        if (i < 0)
            kg_record_metric(rec, "prompt_tokens", "count",
                             (double)json_array_size(json_object_get(answer, "prompt_ids")));
        json_decref(answer);
        kg_fresh_times_free(&start);
    }
    free(prompt);
    kg_record_metric(rec, "weights", "bytes", n_bytes);
    for (int part = 0; part < N_PARTS; part++)
        kg_record_timing(rec, NAMES[part], "host", "warm", samples_ns[part], N_STARTS, part == LOAD ? n_bytes : 0, 0);
}

/* Arguments live as long as the process, like the cases they belong to. */
static const struct start_case *keep(struct start_case c) {
    static struct kept {
        struct start_case c;
        struct kept *next;
    } * all;
    struct kept *kept = kg_xmalloc(sizeof *kept);
    *kept = (struct kept){ .c = c, .next = all };
    all = kept;
    return &kept->c;
}

static void add(struct kg_case_list *list, size_t model_index, struct start_case c) {
    const struct kg_model_work work = kg_cold_start_work();
    char model[KG_MODEL_WORK_TEXT], shape[KG_MODEL_WORK_TEXT];
    kg_model_work_name(model_index, c.path, model);
    kg_model_work_shape(model, &work, shape);
    kg_case_list_add(list, &(struct kg_case){ .layer = "bench",
                                              .op = "model",
                                              .name = "cold_start",
                                              .backend = c.backend,
                                              .dtype = kg_precision_name(c.precision),
                                              .shape = shape,
                                              .spec = "FT-056",
                                              .definition = "kigo generate -n 1 with 20 tokens; 5 processes after one",
                                              .timeout_s = 300,
                                              .run = cold_start,
                                              .arg = keep(c) });
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *backend;
        enum kg_precision precision;
    } WAYS[] = { { "cpu", KG_PRECISION_F32 }, { "cuda", KG_PRECISION_F32 }, { "cuda", KG_PRECISION_F16 } };
    size_t n_models;
    const char *const *const models = kg_extra_models(&n_models);
    for (size_t w = 0; w < KG_COUNT_OF(WAYS); w++)
        for (size_t i = 0; i <= n_models; i++)
            add(list, i > 0 ? i - 1 : 0,
                (struct start_case){ WAYS[w].backend, i > 0 ? models[i - 1] : NULL, WAYS[w].precision });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
