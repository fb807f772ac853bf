/* FT-056: a cold start. Fresh processes of kigo generate, from the spawn to the first token's arrival, and where that
 * time goes by what the process says itself: opening the back end, loading (its bytes over its time are the rate of the
 * load), making the session, the first token; and how long the process takes to end. Model file and program are in the
 * page cache: a first process is not counted. The fixture, and each model of --model. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/size.h"
#include "bundle/records.h"
#include "engine/prompt.h"
#include "format/gguf.h"
#include "suites/bench/model_work.h"
#include "suites/harness/must.h"
#include "suites/support/haiku_stage.h"
#include "suites/support/machine.h"
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Begins the prompt of every model; as much of it is taken as makes N_PROMPT tokens of the model's own. */
static const char TEXT[] = "The old pond is still tonight and then a frog jumps in and we hear the sound of cold water";

enum { N_STARTS = 5, N_PROMPT = 20 };

struct start_case {
    const char *backend, *path; /* path NULL: the fixture */
    enum kg_precision precision;
};

static const char *path_of(const struct start_case *c) {
    return c->path ? c->path : kg_fixture_path(KG_HAIKU_MODEL);
}

/* The runtime is asked which GPUs there are: a context of this process would make the child's start shorter. */
static bool can_start(struct kg_record *rec, const struct start_case *c) {
    struct kg_gpu_info gpus[1];
    struct kg_error err = { 0 };
    struct stat file;
    size_t n = 0;
    if (strcmp(c->backend, "cuda") == 0) {
        const enum kg_status status = kg_gpu_list(gpus, 1, &n, &err);
        if (status == KG_OK && n > 0) return true;
        kg_record_skip(rec, "%s", status ? err.message : "no CUDA device");
        return false;
    }
    if (stat(path_of(c), &file) != 0 || file.st_size <= KG_BENCH_MOST_CPU_BYTES) return true;
    kg_record_skip(rec, "%lld bytes are too much for the reference back end", (long long)file.st_size);
    return false;
}

/* malloc'ed. A token is a word of most vocabularies, and a byte of made-up ones. */
static char *prompt_of(const struct start_case *c) {
    struct kg_gguf *gguf;
    struct kg_tokenizer *tokenizer;
    struct kg_error err = { 0 };
    size_t n_bytes = 0, n_tokens = 0;
    kg_must(kg_gguf_open(path_of(c), &gguf, &err), &err);
    kg_must(kg_tokenizer_create(gguf, &tokenizer, &err), &err);
    while (n_tokens < N_PROMPT && n_bytes < sizeof TEXT - 1) {
        struct kg_ids ids = { 0 };
        kg_must(kg_prompt_encode_text(tokenizer, TEXT, ++n_bytes, &ids, &err), &err);
        n_tokens = ids.n;
        kg_ids_free(&ids);
    }
    kg_tokenizer_free(tokenizer);
    kg_gguf_close(gguf);
    return kg_xstrndup(TEXT, n_bytes);
}

/* What a process said, and when. */
struct start {
    uint64_t first_byte_ns, end_ns; /* after the spawn */
    struct kg_buffer out;
    int state;           /* as waitpid gives it */
    char complaint[512]; /* the beginning of its standard error */
};

/* Reads what the child writes to its end. */
static void read_all(int fd, uint64_t spawned_ns, struct start *start) {
    char part[4096];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0 && start->out.len == 0) start->first_byte_ns = kg_clock_monotonic_ns() - spawned_ns;
        if (n > 0) kg_buffer_append(&start->out, part, (size_t)n);
    }
}

static struct start start_kigo(const char *const *argv) {
    struct start start = { .out = KG_BUFFER_INIT };
    FILE *const errors = tmpfile();
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t child;
    ck_assert_ptr_nonnull(errors);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO), 0);
    ck_assert_int_eq(posix_spawn_file_actions_addclose(&actions, ends[0]), 0);
    ck_assert_int_eq(posix_spawn_file_actions_addclose(&actions, ends[1]), 0);
    const uint64_t spawned_ns = kg_clock_monotonic_ns();
    const int code = posix_spawn(&child, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    ck_assert_msg(code == 0, "%s: %s", argv[0], strerror(code));
    close(ends[1]);
    read_all(ends[0], spawned_ns, &start);
    while (waitpid(child, &start.state, 0) < 0) ck_assert_int_eq(errno, EINTR);
    start.end_ns = kg_clock_monotonic_ns() - spawned_ns;
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    rewind(errors);
    start.complaint[fread(start.complaint, 1, sizeof start.complaint - 1, errors)] = '\0';
    fclose(errors);
    return start;
}

/* What the process says of itself; fails the case if it failed, or says no such thing. */
static json_t *answer_of(const struct start *start) {
    json_error_t why;
    const bool exited = WIFEXITED(start->state);
    ck_assert_msg(exited && WEXITSTATUS(start->state) == 0, "kigo generate ended with %s %d: %s",
                  exited ? "exit code" : "signal", exited ? WEXITSTATUS(start->state) : WTERMSIG(start->state),
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
static void take_apart(const struct start *start, const json_t *answer, uint64_t ns[N_PARTS]) {
    const double backend_ms = ms_of(answer, "backend_ms"), load_ms = ms_of(answer, "load_ms");
    ns[WALL] = start->first_byte_ns;
    ns[BACKEND] = (uint64_t)(1e6 * backend_ms);
    ck_assert_double_ge(load_ms, backend_ms);
    ns[LOAD] = (uint64_t)(1e6 * (load_ms - backend_ms));
    ns[SESSION] = (uint64_t)(1e6 * ms_of(answer, "session_ms"));
    ns[FIRST_TOKEN] = (uint64_t)(1e6 * ms_of(answer, "first_token_ms"));
    ns[EXIT] = start->end_ns - start->first_byte_ns;
    ck_assert_msg(ns[WALL] >= ns[BACKEND] + ns[LOAD] + ns[SESSION] + ns[FIRST_TOKEN],
                  "the parts take longer than the whole of %llu ns", (unsigned long long)ns[WALL]);
}

static void cold_start(struct kg_record *rec, const void *arg) {
    static const char *const NAMES[N_PARTS] = { "wall", "backend", "load", "session", "first_token", "exit" };
    const struct start_case *c = arg;
    if (!can_start(rec, c)) return;
    char *prompt = prompt_of(c);
    const char *const argv[] = {
        kg_program_path(), "generate", "--json", "--backend", c->backend, "--dtype", kg_precision_name(c->precision),
        "--temp",          "0",        "-n",     "1",         "-p",       prompt,    "-m",
        path_of(c),        NULL
    };
    uint64_t samples_ns[N_PARTS][N_STARTS], ns[N_PARTS];
    double n_bytes = 0;
    for (int i = -1; i < N_STARTS; i++) {
        struct start start = start_kigo(argv);
        json_t *answer = answer_of(&start);
        take_apart(&start, answer, ns);
        for (int part = 0; part < N_PARTS && i >= 0; part++) samples_ns[part][i] = ns[part];
        n_bytes = kg_json_number(json_object_get(answer, "model"), "weight_bytes", 0);
        if (i < 0)
            kg_record_metric(rec, "prompt_tokens", "count",
                             (double)json_array_size(json_object_get(answer, "prompt_ids")));
        json_decref(answer);
        kg_buffer_free(&start.out);
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
    const struct kg_model_work work = { .n_prompt = N_PROMPT, .n_tokens = 1, .n_ctx = N_PROMPT + 1 };
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
