/* Phase D: what others take for the shapes of bench_sdpa.c, in the same run: PyTorch's attention through cuDNN,
 * FlashAttention, the memory-efficient kernel and plain operations, by peers/torch_sdpa.py. A case's name is the peer.
 * Skipped where Python, PyTorch or a GPU is missing; KIGO_PYTHON names another interpreter than python3. One process of
 * the script answers all cases of a program: loading PyTorch takes longer than most of them. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/machine.h"
#include "suites/bench/sdpa_work.h"
#include "suites/harness/compare.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer_case {
    const char *name;
    const struct kg_sdpa_shape *shape;
};

/* Plain operations write all scores to memory: left out where those are more than 2 GB, whose passes take tens of
 * milliseconds. */
static bool is_left_out(const char *peer, const struct kg_sdpa_shape *s) {
    const double score_bytes = 2.0 * s->n_batch * s->n_heads * s->n_queries * s->n_keys;
    return strcmp(peer, "math") == 0 && score_bytes > 2e9;
}

/* The script, from the first case that asks; it ends when its input does. */
static struct {
    pid_t pid; /* 0: not started, or gone */
    FILE *requests, *answers;
} script;

/* Between fork and exec. */
static void become_script(const char *path, int in, int out) {
    const char *python = getenv("KIGO_PYTHON");
    if (!python || !*python) python = "python3";
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(126);
    execlp(python, python, path, (char *)NULL);
    _exit(127);
}

static void start_script(void) {
    int to[2], from[2];
    const char *path = kg_fixture_path("../suites/bench/peers/torch_sdpa.py");
    ck_assert_msg(pipe(to) == 0 && pipe(from) == 0, "no pipes for %s", path);
    signal(SIGPIPE, SIG_IGN); /* a script that is gone is an end of its answers */
    script.pid = fork();
    ck_assert_msg(script.pid >= 0, "no process for %s", path);
    if (script.pid == 0) {
        close(to[1]);
        close(from[0]);
        become_script(path, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    script.requests = fdopen(to[1], "w");
    script.answers = fdopen(from[0], "r");
    ck_assert_ptr_nonnull(script.requests);
    ck_assert_ptr_nonnull(script.answers);
}

/* As waitpid reports. */
static int end_script(void) {
    int status = 0;
    fclose(script.requests);
    fclose(script.answers);
    waitpid(script.pid, &status, 0);
    script.pid = 0;
    return status;
}

/* The script's answer, NULL if it ended instead: *wait_status says how. */
static json_t *ask(json_t *request, int *wait_status) {
    char *text = json_dumps(request, JSON_COMPACT), *line = NULL;
    size_t capacity = 0;
    json_t *answer = NULL;
    if (script.pid == 0) start_script();
    fprintf(script.requests, "%s\n", text);
    fflush(script.requests);
    const ssize_t n = getline(&line, &capacity, script.answers);
    if (n > 0) answer = json_loadb(line, (size_t)n, 0, NULL);
    ck_assert_msg(n <= 0 || json_is_object(answer), "the script answered no JSON object: %s", line);
    if (n <= 0) *wait_status = end_script();
    free(line);
    free(text);
    return answer;
}

static double number_of(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : INFINITY;
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void record_timings(struct kg_record *rec, const json_t *answer, const struct kg_throttle_findings *findings) {
    enum { MOST = 1000 };
    const json_t *timings = json_object_get(answer, "timings");
    ck_assert_uint_gt(json_array_size(timings), 0);
    for (size_t i = 0; i < json_array_size(timings); i++) {
        const json_t *t = json_array_get(timings, i), *samples = json_object_get(t, "samples");
        const size_t n = json_array_size(samples);
        uint64_t samples_ns[MOST];
        ck_assert_msg(n > 0 && n <= MOST, "%zu samples", n);
        for (size_t s = 0; s < n; s++) {
            const json_int_t ns = json_integer_value(json_array_get(samples, s));
            ck_assert_msg(ns > 0, "a sample of %lld ns", (long long)ns);
            samples_ns[s] = (uint64_t)ns;
        }
        char guarded[64];
        kg_record_timing(rec, text_of(t, "name"), text_of(t, "kind"), text_of(t, "state"), samples_ns, n,
                         number_of(t, "bytes"), number_of(t, "flops"));
        snprintf(guarded, sizeof guarded, "%s.%s", text_of(t, "kind"), text_of(t, "state"));
        kg_bench_record_guarded(rec, guarded, findings, n);
    }
}

/* A peer is right before it is fast, too. */
static void record_errors(struct kg_record *rec, const json_t *answer) {
    static const struct kg_tolerance TOLERANCE = { .max_abs = 1e-2,
                                                   .nmse = 1e-6,
                                                   .why = "FP16 attention against float64, as kigo's own" };
    const json_t *errors = json_object_get(answer, "errors");
    ck_assert_uint_gt(json_array_size(errors), 0);
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *e = json_array_get(errors, i);
        const struct kg_compare compare = { .n = (size_t)json_integer_value(json_object_get(e, "n")),
                                            .n_nonfinite =
                                                (size_t)json_integer_value(json_object_get(e, "n_nonfinite")),
                                            .max_abs = number_of(e, "max_abs"),
                                            .nmse = number_of(e, "nmse"),
                                            .worst_index =
                                                (size_t)json_integer_value(json_object_get(e, "worst_index")),
                                            .worst_got = number_of(e, "worst_got"),
                                            .worst_want = number_of(e, "worst_want") };
        kg_record_judged(rec, text_of(e, "name"), &compare, &TOLERANCE);
        ck_assert_msg(kg_within(&compare, &TOLERANCE, NULL),
                      "%s: max_abs %g, NMSE %g (at [%zu]: %.9g, float64 has %.9g)", text_of(e, "name"), compare.max_abs,
                      compare.nmse, compare.worst_index, compare.worst_got, compare.worst_want);
    }
}

struct question {
    json_t *request, *answer; /* answer: NULL if the script ended instead */
    int wait_status;
};

/* Asked again, as kigo's own timings are taken again, while the GPU was slowed down. */
static enum kg_status ask_once(void *arg, struct kg_error *err) {
    struct question *q = arg;
    (void)err;
    json_decref(q->answer);
    q->answer = ask(q->request, &q->wait_status);
    return KG_OK;
}

static void peer(struct kg_record *rec, const void *arg) {
    const struct peer_case *c = arg;
    const struct kg_sdpa_shape *s = c->shape;
    struct question q = { 0 };
    q.request =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:I}", "key", kg_record_key(rec), "name",
                  c->name, "n_batch", (int)s->n_batch, "n_heads", (int)s->n_heads, "n_kv_heads", (int)s->n_kv_heads,
                  "n_queries", (int)s->n_queries, "n_keys", (int)s->n_keys, "head_dim", (int)s->head_dim, "causal",
                  s->causal, "bytes", kg_sdpa_bytes(s, KG_PRECISION_F16, KG_PRECISION_F16), "flops", kg_sdpa_flops(s),
                  "seed", (json_int_t)(kg_record_seed(rec) >> 2));
    const struct kg_throttle_findings findings = kg_bench_guard("cuda", ask_once, &q);
    json_t *const answer = q.answer;
    json_decref(q.request);
    if (!answer) {
        const bool no_python = WIFEXITED(q.wait_status) && WEXITSTATUS(q.wait_status) == 127;
        ck_assert_msg(no_python, "the script ended without an answer (wait status %d)", q.wait_status);
        kg_record_skip(rec, "python3 is not installed");
    } else if (strcmp(text_of(answer, "status"), "skip") == 0) {
        kg_record_skip(rec, "%s", text_of(answer, "reason"));
    } else {
        ck_assert_msg(strcmp(text_of(answer, "status"), "pass") == 0, "%s", text_of(answer, "reason"));
        record_timings(rec, answer, &findings);
        record_errors(rec, answer);
    }
    json_decref(answer);
}

static void build(struct kg_case_list *list) {
    static const char *const PEERS[] = { "cudnn", "flash", "efficient", "math" };
    enum { MOST = 128 };
    static struct peer_case kept[MOST];
    size_t n_kept = 0;
    for (size_t i = 0; i < KG_N_SDPA_SHAPES; i++) {
        if (kg_bench_quick() != KG_SDPA_SHAPES[i].quick) continue;
        for (size_t p = 0; p < KG_COUNT_OF(PEERS) && n_kept < MOST; p++) {
            char shape[KG_SDPA_PROBLEM_TEXT];
            if (is_left_out(PEERS[p], &KG_SDPA_SHAPES[i])) continue;
            kg_sdpa_shape_text(&KG_SDPA_SHAPES[i], shape);
            kept[n_kept] = (struct peer_case){ PEERS[p], &KG_SDPA_SHAPES[i] };
            kg_case_list_add(list, &(struct kg_case){ .layer = "bench",
                                                      .op = "sdpa_peer",
                                                      .name = PEERS[p],
                                                      .backend = "cuda",
                                                      .dtype = "f16",
                                                      .shape = shape,
                                                      .spec = "Phase D",
                                                      .definition = "peers/torch_sdpa.py",
                                                      .timeout_s = 300,
                                                      .run = peer,
                                                      .arg = &kept[n_kept++] });
        }
    }
}

int main(int argc, char **argv) {
    const int code = kg_suite_main_built(argc, argv, build);
    if (script.pid != 0) (void)end_script();
    return code;
}
