/* `kigo bench -m FILE`: which benches it runs, the table that it prints, cold starts, and llama.cpp's llama-bench
 * beside it; a script stands in for that program. It prints what tools/llama-bench/llama-bench.cpp's json_printer
 * prints: the same members in the same order, numbers and texts alike. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/integration/check_lab.h"
#include "suites/support/run_kigo.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_OF_MODEL "haiku-qwen2/haiku-qwen2-f16.gguf"
#define SHAPE_OF(lengths) "model=0 haiku-qwen2-f16.gguf " lengths
#define PREFILL SHAPE_OF("prompt=64 tokens=1 ctx=80")
#define DECODE SHAPE_OF("prompt=16 tokens=32 ctx=48")

/* A prompt of 64 takes it 32 ms and a token 0.5 ms: 2000 tokens a second either way. */
static const char LLAMA_BENCH[] =
    "#!/bin/sh\n"
    "echo \"$@\" >>\"$0.calls\"\n"
    "depth=0\n"
    "while [ $# -gt 0 ]; do\n"
    "  case $1 in\n"
    "    -m) model=$2 ;; -p) prompt=$2 ;; -n) gen=$2 ;; -d) depth=$2 ;; -r) samples=$2 ;; -t) threads=$2 ;;\n"
    "    -ngl) layers=$2 ;; -o) [ \"$2\" = json ] || exit 1 ;;\n"
    "    --no-warmup) shift && continue ;;\n"
    "    *) echo \"error: invalid parameter for argument: $1\" >&2; exit 1 ;;\n"
    "  esac\n"
    "  shift 2\n"
    "done\n"
    "ns=$(((prompt + gen) * 500000))\n"
    "list=$ns list_ts=2000 k=1\n"
    "while [ $k -lt $samples ]; do list=\"$list, $ns\" list_ts=\"$list_ts, 2000\" k=$((k + 1)); done\n"
    "cat <<END\n"
    "[\n"
    "  {\n"
    "    \"build_commit\": \"1a2b3c4d5\",\n    \"build_number\": 6500,\n    \"cpu_info\": \"A CPU\",\n"
    "    \"gpu_info\": \"\",\n    \"backends\": \"CPU\",\n    \"model_filename\": \"$model\",\n"
    "    \"model_type\": \"qwen2 ?B F16\",\n    \"model_size\": 7060480,\n    \"model_n_params\": 3526400,\n"
    "    \"n_batch\": 2048,\n    \"n_ubatch\": 512,\n    \"n_threads\": $threads,\n    \"cpu_mask\": \"0x0\",\n"
    "    \"cpu_strict\": false,\n    \"poll\": 50,\n    \"type_k\": \"f16\",\n    \"type_v\": \"f16\",\n"
    "    \"n_gpu_layers\": $layers,\n    \"n_cpu_moe\": 0,\n    \"split_mode\": \"layer\",\n    \"main_gpu\": 0,\n"
    "    \"no_kv_offload\": false,\n    \"flash_attn\": 0,\n    \"devices\": \"auto\",\n    \"tensor_split\": "
    "\"0.00\",\n"
    "    \"tensor_buft_overrides\": \"none\",\n    \"load_mode\": \"mmap\",\n    \"embeddings\": false,\n"
    "    \"no_op_offload\": 0,\n    \"no_host\": false,\n    \"fit_target\": 0,\n    \"fit_min_ctx\": 0,\n"
    "    \"n_prompt\": $prompt,\n    \"n_gen\": $gen,\n    \"n_depth\": $depth,\n"
    "    \"test_time\": \"2026-11-23T18:00:00Z\",\n    \"avg_ns\": $ns,\n    \"stddev_ns\": 0,\n"
    "    \"avg_ts\": 2000.000000,\n    \"stddev_ts\": 0.000000,\n"
    "    \"samples_ns\": [ $list ],\n    \"samples_ts\": [ $list_ts ]\n"
    "  }\n"
    "]\n"
    "END\n";

/* The script in the case's scratch folder; malloc'ed path. */
static char *stand_in(const struct kg_record *rec, const char *script) {
    char *path = kg_path_join(kg_scratch_dir(rec), "llama-bench");
    ck_assert_int_eq(kg_file_write(path, script, strlen(script), NULL), KG_OK);
    ck_assert_int_eq(chmod(path, 0700), 0);
    return path;
}

/* "PATH=": the case's scratch folder, then the others. */
static char *path_variable(const struct kg_record *rec) {
    const char *path = getenv("PATH");
    return kg_xasprintf("PATH=%s:%s", kg_scratch_dir(rec), path ? path : "/usr/bin:/bin");
}

/* A stand-in that PATH leads to is not passed over for a program that this machine's environment names. */
static struct kg_process_result bench(struct kg_record *rec, const char *const *args, const char *env) {
    enum { MOST_ARGS = 32 };
    const bool by_path = env && strncmp(env, "PATH=", 5) == 0;
    const char *argv[MOST_ARGS] = { "bench", "--quick", "--bundles" };
    const char *const variables[] = { env, by_path ? "KIGO_LLAMA_BENCH=" : NULL, NULL };
    char *bundles = kg_path_join(kg_scratch_dir(rec), "bundles");
    size_t n = 3;
    argv[n++] = bundles;
    for (; *args; args++) {
        ck_assert_uint_lt(n + 1, MOST_ARGS);
        argv[n++] = *args;
    }
    struct kg_process_result r =
        kg_run_kigo(rec, argv, (struct kg_process){ .env = env ? variables : NULL, .timeout_s = 120 });
    free(bundles);
    return r;
}

static char *only_bundle(const struct kg_record *rec) {
    char *dir = kg_path_join(kg_scratch_dir(rec), "bundles"), *found = NULL;
    struct kg_dir_list list;
    ck_assert_int_eq(kg_dir_list(dir, &list, NULL), KG_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        if (list.names[i][0] < '0' || list.names[i][0] > '9') continue;
        ck_assert_ptr_null(found);
        found = kg_path_join(dir, list.names[i]);
    }
    kg_dir_list_free(&list);
    free(dir);
    ck_assert_ptr_nonnull(found);
    return found;
}

static char *text_of(const char *dir, const char *name) {
    char *path = kg_path_join(dir, name), *text;
    size_t size;
    ck_assert_msg(kg_file_read(path, &text, &size, NULL) == KG_OK, "%s is missing", path);
    free(path);
    return text;
}

static double number(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* The line that holds both; fails without one. malloc'ed. */
static char *line_with(const char *text, const char *first, const char *second) {
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");
        char *copy = kg_xstrndup(line, n);
        if (strstr(copy, first) && strstr(copy, second)) return copy;
        free(copy);
        line += n + (line[n] == '\n');
    }
    ck_abort_msg("no line with '%s' and '%s' in %s", first, second, text);
    return NULL;
}

/* What is sealed of the peer: its samples as timings, its own words, a line of peers.csv. */
static void expect_peers_sealed(const char *bundle, const json_t *results) {
    const json_t *prefill = kg_lab_result(results, "bench/model_peer/llama-bench[cpu,-," PREFILL "]");
    const json_t *decode = kg_lab_result(results, "bench/model_peer/llama-bench[cpu,-," DECODE "]");
    const json_t *timing = json_array_get(json_object_get(prefill, "timings"), 0);
    ck_assert_double_eq(number(timing, "median"), 32e6);
    ck_assert_int_eq((int)number(timing, "n"), 10);
    timing = json_array_get(json_object_get(decode, "timings"), 0);
    ck_assert_double_eq(number(timing, "median"), 5e5);
    ck_assert_str_eq(json_string_value(json_object_get(timing, "name")), "token");
    char *csv = text_of(bundle, "data/peers.csv"), *said = text_of(bundle, "data/transcripts/bench.ndjson");
    free(line_with(csv, "model,cpu,f32," PREFILL ",host,", ",llama-bench,3.2e+07,"));
    free(line_with(csv, "model,cpu,f32," DECODE ",host,", ",llama-bench,500000,"));
    ck_assert_ptr_nonnull(strstr(said, "\"build_commit\":\"1a2b3c4d5\""));
    free(said);
    free(csv);
}

/* A row a test, kigo's speeds those of the records, the peer's beside them; each asked for the lengths of kigo's. */
static void peer_beside(struct kg_record *rec, const void *arg) {
    (void)arg;
    const char *model = kg_fixture_path(FILE_OF_MODEL);
    char *script = stand_in(rec, LLAMA_BENCH), *path = path_variable(rec);
    struct kg_process_result r = bench(rec,
                                       ARGS("--backend", "cpu", "--model", model, "--filter", "model/prefill*model=0*",
                                            "--filter", "model/decode*model=0*", "--peer"),
                                       path);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec);
    kg_lab_expect_verified(bundle);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const json_t *prefill = kg_lab_result(results, "bench/model/prefill[cpu,f32," PREFILL "]");
    const json_t *timing = json_array_get(json_object_get(prefill, "timings"), 0);
    const double fast = 64e9 / number(timing, "ci_lo"), slow = 64e9 / number(timing, "ci_hi");
    char *speed = kg_xasprintf("%.2f ± %.2f  ", 64e9 / number(timing, "median"), (fast - slow) / 2);
    free(line_with(r.out, "back end  dtype  threads  test", "  llama.cpp t/s"));
    char *pp = line_with(r.out, "haiku-qwen2-f16.gguf  6.733 MiB  3.53 M  cpu", "  pp64  ");
    ck_assert_msg(strstr(pp, speed) && strstr(pp, "  2000.00 ± 0.00"), "no '%s' in %s", speed, pp);
    char *tg = line_with(r.out, "  tg32 @ d16  ", "  2000.00 ± 0.00");
    char *calls = text_of(kg_scratch_dir(rec), "llama-bench.calls");
    ck_assert_msg(strstr(calls, "haiku-qwen2-f16.gguf -o json -p 64 -n 0 -r 10 -ngl 0 -t ") != NULL, "%s", calls);
    ck_assert_msg(strstr(calls, "haiku-qwen2-f16.gguf -o json -p 0 -n 32 -r 10 -ngl 0 -t ") != NULL, "%s", calls);
    free(line_with(calls, "-n 32 ", " -d 16"));
    expect_peers_sealed(bundle, results);
    free(calls);
    free(tg);
    free(pp);
    free(speed);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
    free(path);
    free(script);
}

/* The model's benches and no other; a filter, a case or a report chooses as it does without a model. */
static void model_alone(struct kg_record *rec, const void *arg) {
    static const char FIXTURE[] = "bench/model/load[cpu,-,fixture]";
    static const struct {
        const char *args[4];
        const char *all_begin, *some, *none; /* with what every line begins; what some holds; what none does */
    } ROWS[] = {
        { { NULL }, "bench/model/", "bench/model/decode[cpu,f32," DECODE "]\n", "fixture" },
        { { "--peer" }, "bench/model", "bench/model_peer/llama-bench[cpu,-," DECODE "]\n", "fixture" },
        { { "--filter", "linear/*" }, "bench/linear/", "bench/linear/decode_qwen_qkv[cpu,", "model=" },
        { { "--filter", "model/*" }, "", "bench/model/load[cpu,-,fixture]\n", "_peer/" },
        { { "--case", FIXTURE }, FIXTURE, FIXTURE, "model=" },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const char *const *more = ROWS[i].args;
        struct kg_process_result r =
            bench(rec, ARGS("--list", "-m", kg_fixture_path(FILE_OF_MODEL), more[0], more[1]), NULL);
        ck_assert_msg(r.exit_code == KG_EXIT_OK && r.out_len > 0, "row %zu: %d: %s", i, r.exit_code, r.err);
        ck_assert_msg(strstr(r.out, ROWS[i].some) && !strstr(r.out, ROWS[i].none), "row %zu: %s", i, r.out);
        for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1)
            ck_assert_msg(strncmp(line, ROWS[i].all_begin, strlen(ROWS[i].all_begin)) == 0, "row %zu: %.100s", i, line);
        kg_process_result_free(&r);
    }
}

/* Only a filter asks for long contexts, and no quick run has them. */
static void long_contexts_by_filter(struct kg_record *rec, const void *arg) {
    static const char KEYS[] = "bench/long_context/decode[cuda,f16," SHAPE_OF(
        "prompt=7936 tokens=128 ctx=8192") "]\n"
                                           "bench/long_context/decode[cuda,f16," SHAPE_OF(
                                               "prompt=32512 tokens=128 ctx=32768") "]\n"
                                                                                    "bench/long_context/"
                                                                                    "decode[cuda,f16," SHAPE_OF(
                                                                                        "prompt=130816 tokens=128 "
                                                                                        "ctx=131072") "]\n";
    static const char *const VARIABLES[] = { "KIGO_BENCH=", NULL };
    static const char FILTER[] = "bench/long_context/*";
    const char *file = kg_fixture_path(FILE_OF_MODEL);
    (void)arg;
    struct kg_process_result r = kg_run_kigo(rec, ARGS("bench", "--list", "-m", file, "--filter", FILTER),
                                             (struct kg_process){ .env = VARIABLES });
    ck_assert_str_eq(r.out, KEYS);
    kg_process_result_free(&r);
    r = kg_run_kigo(rec, ARGS("bench", "--list", "-m", file), (struct kg_process){ .env = VARIABLES });
    ck_assert(strstr(r.out, "bench/model/decode[cuda,f16,") && !strstr(r.out, "long_context"));
    kg_process_result_free(&r);
    r = kg_run_kigo(rec, ARGS("bench", "--quick", "--list", "-m", file, "--filter", FILTER), (struct kg_process){ 0 });
    ck_assert(!strstr(r.out, "long_context/decode"));
    kg_process_result_free(&r);
}

#define COLD(model) "bench/model/cold_start[cpu,f32,model=0 " model " prompt=20 tokens=1 ctx=21]"

/* The whole of a start and its parts, each of every process; the load with its bytes. */
static void cold_start_in_parts(struct kg_record *rec, const void *arg) {
    static const char *const PARTS[] = { "wall", "backend", "load", "session", "first_token", "exit" };
    static const char KEY[] = COLD("haiku-qwen2-f16.gguf");
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("-m", kg_fixture_path(FILE_OF_MODEL), "--case", KEY), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const json_t *timings = json_object_get(kg_lab_result(results, KEY), "timings");
    double sum = 0;
    ck_assert_uint_eq(json_array_size(timings), KG_COUNT_OF(PARTS));
    for (size_t i = 0; i < KG_COUNT_OF(PARTS); i++) {
        const json_t *timing = json_array_get(timings, i);
        ck_assert_str_eq(json_string_value(json_object_get(timing, "name")), PARTS[i]);
        ck_assert_int_eq((int)number(timing, "n"), 5);
        if (i > 0 && strcmp(PARTS[i], "exit") != 0) sum += number(timing, "min");
    }
    ck_assert_double_gt(sum, 0);
    ck_assert_double_le(sum, number(json_array_get(timings, 0), "max"));
    ck_assert_double_gt(number(json_array_get(timings, 2), "bytes"), 1e6);
    const json_t *metric = json_array_get(json_object_get(kg_lab_result(results, KEY), "metrics"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(metric, "name")), "prompt_tokens");
    ck_assert_double_eq(number(metric, "value"), 20);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
}

/* The peer's processes beside kigo's, and a line of peers.csv for both; it is asked for one pass and no warm-up. */
static void cold_start_beside(struct kg_record *rec, const void *arg) {
    static const char SHAPE[] = SHAPE_OF("prompt=20 tokens=1 ctx=21");
    (void)arg;
    char *script = stand_in(rec, LLAMA_BENCH), *path = path_variable(rec);
    struct kg_process_result r = bench(rec,
                                       ARGS("--backend", "cpu", "-m", kg_fixture_path(FILE_OF_MODEL), "--filter",
                                            "model/cold_start*model=0*", "--peer"),
                                       path);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec), *csv = text_of(bundle, "data/peers.csv"),
         *start = kg_xasprintf("model,cpu,f32,%s,host,", SHAPE),
         *key = kg_xasprintf("bench/model_peer/llama-bench[cpu,-,%s]", SHAPE),
         *calls = text_of(kg_scratch_dir(rec), "llama-bench.calls");
    free(line_with(csv, start, ",llama-bench,"));
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const json_t *timing = json_array_get(json_object_get(kg_lab_result(results, key), "timings"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(timing, "name")), "wall");
    ck_assert_int_eq((int)number(timing, "n"), 5);
    ck_assert_double_gt(number(timing, "min"), 1e5); /* a shell does not start in less */
    size_t n = 0;
    for (const char *at = calls; (at = strstr(at, "haiku-qwen2-f16.gguf -o json -p 20 -n 0 -r 1 ")); at++) {
        ck_assert_ptr_nonnull(strstr(at, " --no-warmup"));
        n++;
    }
    ck_assert_uint_ge(n, 6);
    json_decref(results);
    free(calls);
    free(key);
    free(start);
    free(csv);
    free(bundle);
    kg_process_result_free(&r);
    free(path);
    free(script);
}

/* A process that fails, here of logits that are no numbers, has no time. */
static void cold_start_that_fails(struct kg_record *rec, const void *arg) {
    static const char KEY[] = COLD("nan");
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("-m", NAN_MODEL, "--case", KEY), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_FAILED, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    free(line_with(r.out, "kigo generate ended with exit code ", ": logit "));
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    kg_lab_expect_status(results, KEY, "fail");
    ck_assert_uint_eq(json_array_size(json_object_get(kg_lab_result(results, KEY), "timings")), 0);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
}

#define ANSWERS_OF(n_prompt, file, n_threads, rest)                                                                    \
    "#!/bin/sh\n"                                                                                                      \
    "while [ $# -gt 1 ]; do case $1 in -m) model=$2 ;; -t) threads=$2 ;; esac; shift 2; done\n"                        \
    "echo \"[{\\\"n_prompt\\\": " n_prompt ", \\\"n_gen\\\": 0, \\\"model_filename\\\": \\\"" file                     \
    "\\\", \\\"n_threads\\\": " n_threads rest "}]\"\n"
#define ANSWERS(file, n_threads, samples) ANSWERS_OF("64", file, n_threads, ", \\\"samples_ns\\\": [" samples "]")

/* What answers as no llama-bench does fails, and says how; where there is none, the case is skipped. */
static const struct odd_row {
    const char *name, *script; /* NULL: there is none */
    const char *status, *reason;
} ODD[] = {
    { "is_not_installed", NULL, "skip", "llama-bench was not found (KIGO_LLAMA_BENCH names it)" },
    { "dies", "#!/bin/sh\necho 'error: failed to load model' >&2\nexit 1\n", "fail", "1: error: failed to load model" },
    { "answers_no_json", "#!/bin/sh\necho '| model | size |'\n", "fail", "no JSON array" },
    { "answers_something_else", "#!/bin/sh\necho '[{\"n_prompt\": 512, \"n_gen\": 0, \"samples_ns\": [1]}]'\n", "fail",
      "no test of n_prompt 64" },
    { "gives_too_few_samples", ANSWERS("$model", "$threads", "1, 2"), "fail", "json_array_size(samples) == 2" },
    { "took_no_time", ANSWERS("$model", "$threads", "1, 2, 3, 4, 0, 6, 7, 8, 9, 10"), "fail", "a sample of 0 ns" },
    { "measured_another_file", ANSWERS("other.gguf", "$threads", "1, 2"), "fail", "measured 'other.gguf', not '" },
    { "ran_on_other_threads", ANSWERS("$model", "1$threads", "1, 2"), "fail", " threads, not " },
};

/* The same of a fresh process. */
static const struct odd_row ODD_STARTS[] = {
    { "does_not_start", NULL, "skip", "llama-bench was not found (KIGO_LLAMA_BENCH names it)" },
    { "starts_and_dies", "#!/bin/sh\necho 'error: failed to load model' >&2\nexit 1\n", "fail",
      "1: error: failed to load model" },
    { "starts_for_something_else", "#!/bin/sh\necho '[{\"n_prompt\": 512, \"n_gen\": 0, \"samples_ns\": [1]}]'\n",
      "fail", "no test of n_prompt 20" },
    { "starts_and_gives_no_samples", ANSWERS_OF("20", "$model", "$threads", ""), "fail", "gave no samples_ns" },
    { "is_too_old_to_start_cold", "#!/bin/sh\necho 'error: invalid parameter for argument: --no-warmup' >&2\nexit 1\n",
      "skip", "does not know --no-warmup" },
};

static void expect_odd(struct kg_record *rec, const struct odd_row *row, const char *key) {
    char *script = row->script ? stand_in(rec, row->script) : kg_xstrdup("/nowhere/llama-bench");
    char *variable = kg_xasprintf("KIGO_LLAMA_BENCH=%s", script);
    struct kg_process_result r = bench(rec, ARGS("--case", key), variable);
    const bool fails = strcmp(row->status, "fail") == 0;
    ck_assert_msg(r.exit_code == (fails ? KG_EXIT_FAILED : KG_EXIT_INCOMPLETE), "%d: %s%s", r.exit_code, r.out, r.err);
    ck_assert_msg(strstr(r.out, row->reason) != NULL, "no '%s' in %s", row->reason, r.out);
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    kg_lab_expect_status(results, key, row->status);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
    free(variable);
    free(script);
}

static void odd_peer(struct kg_record *rec, const void *arg) {
    expect_odd(rec, arg, "bench/model_peer/llama-bench[cpu,-,fixture prompt=64 tokens=1 ctx=80]");
}

static void odd_start(struct kg_record *rec, const void *arg) {
    expect_odd(rec, arg, "bench/model_peer/llama-bench[cpu,-,fixture prompt=20 tokens=1 ctx=21]");
}

/* A speed that the machine was too hot for is no figure, and is not left out in silence. */
static void throttled_speed_says_so(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "bench_throttled", "bench_throttled");
    char *suites = kg_xasprintf("KIGO_SUITES=%s", lab.suites);
    struct kg_process_result r = bench(rec, ARGS(NULL), suites);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    free(line_with(r.out, "cool.gguf  ", "  tg32 @ d16      1000.00"));
    free(line_with(r.out, "hot.gguf  ", "  slowed down"));
    free(line_with(r.out, "cool.gguf  ", "  tg128 @ d32512  1000.00"));
    kg_process_result_free(&r);
    free(suites);
    kg_lab_close(&lab);
}

/* The program itself, where KIGO_LLAMA_BENCH names one: it loads what kigo synth writes, as each architecture, and
 * the table has its speed beside kigo's in every row. */
static void real_program(struct kg_record *rec, const void *arg) {
    static const char *const LIKE[][3] = {
        { "tiny-qwen2.5", "qwen2", "f16" },      { "tiny-phi-3", "phi3", "f16" },
        { "tiny-phi-3", "llama", "f16" },        { "tiny-gpt-oss", "gpt-oss", "mxfp4" },
        { "tiny-gpt2", "gpt2", "f16" },          { "tiny-qwen3", "qwen3", "q5_k_m" },
        { "tiny-llama-3.1", "llama", "q4_k_m" }, { "tiny-gpt-oss", "gpt-oss", "mxfp4_moe" },
        { "tiny-phi-3", "phi3", "mxfp4" },
    };
    const char *program = getenv("KIGO_LLAMA_BENCH"), *argv[2 * KG_COUNT_OF(LIKE) + 8] = {
        "--backend", "cpu", "--peer", "--filter", "model/prefill*model=*", "--filter", "model/decode*model=*"
    };
    char *files[KG_COUNT_OF(LIKE)];
    size_t n = 7, n_rows = 0;
    (void)arg;
    if (!program || !*program) {
        kg_record_skip(rec, "KIGO_LLAMA_BENCH names no llama-bench of llama.cpp");
        return;
    }
    for (size_t i = 0; i < KG_COUNT_OF(LIKE); i++) {
        char *name = kg_xasprintf("%s-%s.gguf", LIKE[i][1], LIKE[i][2]);
        files[i] = kg_path_join(kg_scratch_dir(rec), name);
        struct kg_process_result made = kg_run_kigo(
            rec, ARGS("synth", "--like", LIKE[i][0], "--arch", LIKE[i][1], "--type", LIKE[i][2], "-o", files[i]),
            (struct kg_process){ 0 });
        ck_assert_msg(made.exit_code == KG_EXIT_OK, "%s", made.err);
        kg_process_result_free(&made);
        free(name);
        argv[n++] = "-m";
        argv[n++] = files[i];
    }
    struct kg_process_result r = bench(rec, argv, NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %.2000s%.1000s", r.exit_code, r.out, r.err);
    for (size_t i = 0; i < KG_COUNT_OF(LIKE); i++) {
        char *prefill = kg_xasprintf("%s-%s.gguf ", LIKE[i][1], LIKE[i][2]);
        for (const char *at = r.out; (at = strstr(at, prefill)) != NULL; at++) {
            const char *end = at + strcspn(at, "\n"), *speed = strstr(at, " ± ");
            ck_assert_msg(speed && (speed = strstr(speed + 1, " ± ")) && speed < end, "no speed of llama.cpp in %.150s",
                          at);
            n_rows++;
        }
        free(prefill);
        free(files[i]);
    }
    ck_assert_msg(n_rows == 2 * KG_COUNT_OF(LIKE), "%zu rows in %.3000s", n_rows, r.out);
    kg_process_result_free(&r);
}

static void add_odd(struct kg_case_list *list, const struct odd_row *rows, size_t n_rows,
                    void (*run)(struct kg_record *rec, const void *row)) {
    for (size_t i = 0; i < n_rows; i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "bench_llama",
                                                  .spec = "FT-054",
                                                  .name = rows[i].name,
                                                  .run = run,
                                                  .arg = &rows[i],
                                                  .timeout_s = 180 });
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "peer_beside", .run = peer_beside },
        { .name = "model_alone", .run = model_alone },
        { .name = "long_contexts_by_filter", .run = long_contexts_by_filter },
        { .name = "cold_start_in_parts", .run = cold_start_in_parts },
        { .name = "cold_start_beside", .run = cold_start_beside },
        { .name = "cold_start_that_fails", .run = cold_start_that_fails },
        { .name = "throttled_speed_says_so", .run = throttled_speed_says_so },
        { .name = "real_program", .run = real_program },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "integration";
        c.op = "bench_models";
        c.spec = "FT-054";
        c.timeout_s = 180;
        kg_case_list_add(list, &c);
    }
    add_odd(list, ODD, KG_COUNT_OF(ODD), odd_peer);
    add_odd(list, ODD_STARTS, KG_COUNT_OF(ODD_STARTS), odd_start);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
