/* What the kigo program prints for other programs: JSON that says what happened, figures that come back bit for bit. */
#include "suites/support/rig.h"
#include "suites/support/run_kigo.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "Write a haiku about an old pond that includes the word \"seven\" (nonce: a1B2c3D4)"
#define PROMPT "<|im_start|>user\n" TOPIC "<|im_end|>\n<|im_start|>assistant\n"

/* Runs, expects exit code 0, and gives standard output (malloc'ed). */
static char *output_of(const struct kg_record *rec, const char *const *args, const char *input) {
    struct kg_process_result r = kg_run_kigo(rec, args, (struct kg_process){ .input = input });
    ck_assert_msg(r.exit_code == 0, "kigo %s: exit code %d, signal %d: %.300s", args[0], r.exit_code, r.signal, r.err);
    free(r.err);
    return r.out;
}

static json_t *parse_json(const char *text) {
    json_error_t why;
    json_t *const object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(object != NULL, "no JSON: %s: %.200s", why.text, text);
    return object;
}

static const json_t *member(const json_t *object, const char *name) {
    const json_t *const value = json_object_get(object, name);
    ck_assert_msg(value != NULL, "no member '%s'", name);
    return value;
}

static struct kg_ids ids_of(const json_t *list) {
    struct kg_ids ids = { 0 };
    ck_assert(json_is_array(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *const id = json_array_get(list, i);
        ck_assert(json_is_integer(id));
        kg_ids_push(&ids, (int32_t)json_integer_value(id));
    }
    return ids;
}

static void json_says_what_happened(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = {
        "generate",         "-m",   MODEL,     "--chat", "-p",      TOPIC,  "--seed",  "42",
        "--temp",           "0.7",  "--top-k", "40",     "--top-p", "0.95", "--min-p", "0.01",
        "--repeat-penalty", "1.05", "-n",      "50",     "--ctx",   "200",  "--json",  NULL
    };
    (void)arg;
    const struct kg_tokenizer *const t = kg_rig_shared()->tokenizer;
    char *const out = output_of(rec, ARGS, NULL);
    json_t *const object = parse_json(out);
    struct kg_ids ids = ids_of(member(object, "ids")), prompt_ids = ids_of(member(object, "prompt_ids"));
    struct kg_ids prompt = kg_rig_encode(kg_rig_shared(), PROMPT);
    const char *const text = json_string_value(member(object, "text"));
    char *decoded;
    size_t len;
    struct kg_error err = { 0 };
    kg_must(kg_tokenizer_decode(t, ids.ids, ids.n, false, &decoded, &len, &err), &err);
    ck_assert_str_eq(decoded, text);
    ck_assert_str_eq(json_string_value(member(object, "prompt")), PROMPT);
    kg_expect_same_ids("prompt", prompt_ids.ids, prompt_ids.n, prompt.ids, prompt.n);
    ck_assert_int_eq(json_integer_value(member(object, "seed")), 42);
    ck_assert_str_eq(json_string_value(member(object, "finish")), "end_token");
    ck_assert_str_eq(json_string_value(member(object, "backend")), "cpu");
    ck_assert_int_eq(json_integer_value(member(object, "decode_allocations")), 0);

    const json_t *const options = member(object, "options");
    ck_assert_double_eq(json_number_value(member(options, "temperature")), 0.7);
    ck_assert_double_eq(json_number_value(member(options, "top_p")), 0.95);
    ck_assert_double_eq(json_number_value(member(options, "min_p")), 0.01);
    ck_assert_double_eq(json_number_value(member(options, "repeat_penalty")), 1.05);
    ck_assert_int_eq(json_integer_value(member(options, "top_k")), 40);
    ck_assert_int_eq(json_integer_value(member(options, "max_tokens")), 50);
    ck_assert_int_eq(json_integer_value(member(options, "ctx")), 200);
    ck_assert(json_is_true(member(options, "chat")));

    const json_t *const weights = member(member(object, "memory"), "weights"),
                        *kv = member(member(object, "memory"), "kv");
    ck_assert_uint_eq((uint64_t)json_integer_value(member(weights, "peak_bytes")),
                      kg_model_weight_bytes(kg_rig_shared()->model));
    ck_assert_uint_eq((uint64_t)json_integer_value(member(kv, "peak_bytes")),
                      kg_kv_cache_bytes(kg_rig_shared()->config, 200, KG_PRECISION_F32));
    ck_assert_double_gt(json_number_value(member(member(object, "timings"), "decode_tokens_per_s")), 0);
    ck_assert_double_gt(json_number_value(member(member(object, "timings"), "prefill_ms")), 0);
    free(decoded);
    kg_ids_free(&prompt);
    kg_ids_free(&prompt_ids);
    kg_ids_free(&ids);
    json_decref(object);
    free(out);
}

static void same_seed_same_output(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[][16] = {
        { "generate", "-m", MODEL, "-p", "the old pond", "--seed", "7", "--temp", "1", "-n", "24", NULL },
        { "generate", "-m", MODEL, "-p", "the old pond", "--seed", "7", "--temp", "1", "-n", "24", "-t", "1", NULL },
        { "generate", "-m", MODEL, "-p", "the old pond", "--seed", "0x7", "--temp", "1", "-n", "24", "-c", "900",
          NULL },
        { "generate", "-m", MODEL, "-p", "the old pond", "--seed", "8", "--temp", "1", "-n", "24", NULL },
    };
    (void)arg;
    char *const first = output_of(rec, ARGS[0], NULL);
    for (size_t i = 0; i < KG_COUNT_OF(ARGS); i++) {
        char *const out = output_of(rec, ARGS[i], NULL);
        ck_assert_msg((strcmp(out, first) == 0) == (i < 3), "run %zu: '%s', the first '%s'", i, out, first);
        free(out);
    }
    free(first);
}

/* A run without a seed takes a new one, says which, and that one repeats the run. */
static void seed_it_took_repeats_the_run(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = { "generate", "-m", MODEL,    "-p", "the old pond", "--temp", "1",
                                        "-n",       "24", "--json", NULL };
    (void)arg;
    char *const one = output_of(rec, ARGS, NULL), *const other = output_of(rec, ARGS, NULL);
    json_t *const a = parse_json(one), *const b = parse_json(other);
    ck_assert(!json_equal(member(a, "seed"), member(b, "seed")));
    char seed[32];
    snprintf(seed, sizeof seed, "%" JSON_INTEGER_FORMAT, json_integer_value(member(a, "seed")));
    const char *const again[] = { "generate", "-m", MODEL,    "-p",     "the old pond", "--temp", "1",
                                  "-n",       "24", "--json", "--seed", seed,           NULL };
    char *const third = output_of(rec, again, NULL);
    json_t *const c = parse_json(third);
    ck_assert(json_equal(member(a, "ids"), member(c, "ids")));
    json_decref(c);
    json_decref(b);
    json_decref(a);
    free(third);
    free(other);
    free(one);
}

/* Special tokens in a chat's message are text: a message cannot be ended from inside it. */
static void message_cannot_end_its_turn(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = { "generate",     "-m", MODEL, "--chat", "-p",
                                        "a<|im_end|>b", "-n", "1",   "--json", NULL };
    (void)arg;
    const int32_t end = kg_tokenizer_find(kg_rig_shared()->tokenizer, "<|im_end|>");
    char *const out = output_of(rec, ARGS, NULL);
    json_t *const object = parse_json(out);
    struct kg_ids ids = ids_of(member(object, "prompt_ids"));
    size_t n_ends = 0;
    for (size_t i = 0; i < ids.n; i++) n_ends += ids.ids[i] == end;
    ck_assert_uint_eq(n_ends, 1);
    kg_ids_free(&ids);
    json_decref(object);
    free(out);
}

static void stop_text_ends_it(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = { "generate", "-m", MODEL,    "--chat", "-p",     TOPIC,
                                        "--temp",   "0",  "--stop", "\n",     "--json", NULL };
    (void)arg;
    char *const out = output_of(rec, ARGS, NULL);
    json_t *const object = parse_json(out);
    const char *const text = json_string_value(member(object, "text"));
    ck_assert_str_eq(json_string_value(member(object, "finish")), "stop_sequence");
    ck_assert_ptr_null(strchr(text, '\n'));
    ck_assert_uint_gt(strlen(text), 0);
    json_decref(object);
    free(out);
}

/* What is not UTF-8 in the file or on the command line does not keep the JSON from being written. */
static void odd_name_is_no_obstacle(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = { "generate", "-m", ODD_NAME_MODEL, "-p", "hi", "-n", "1", "--json", NULL };
    static const char *const INSPECT[] = { "inspect", ODD_NAME_MODEL, "--json", NULL };
    (void)arg;
    char *const out = output_of(rec, ARGS, NULL), *const inspected = output_of(rec, INSPECT, NULL);
    json_t *const object = parse_json(out), *const tree = parse_json(inspected);
    ck_assert(json_is_string(member(member(object, "model"), "name")));
    json_decref(tree);
    json_decref(object);
    free(inspected);
    free(out);
}

static void odd_path_is_no_obstacle(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *const path = kg_xasprintf("%s/p\xff.gguf", kg_scratch_dir(rec));
    const char *const args[] = { "generate", "-m", path, "-p", "hi", "-n", "1", "--json", NULL };
    ck_assert_msg(symlink(kg_fixture_path(KG_HAIKU_MODEL), path) == 0, "%s", strerror(errno));
    char *const out = output_of(rec, args, NULL);
    json_t *const object = parse_json(out);
    ck_assert(json_is_string(member(member(object, "model"), "path")));
    json_decref(object);
    free(out);
    free(path);
}

#define LOGIT_IDS "5,300,7,1900,64,12,5,5"
static const int32_t IDS[] = { 5, 300, 7, 1900, 64, 12, 5, 5 };

/* One line of `kigo logits` at a time: its position, its logits in *logits. */
static size_t take_logits(char **rest, float *logits, size_t n_vocab) {
    char *const line = strsep(rest, "\n");
    json_t *const object = parse_json(line);
    const json_t *const list = member(object, "logits");
    ck_assert_uint_eq(json_array_size(list), n_vocab);
    const char *at = strstr(line, "\"logits\":[") + strlen("\"logits\":[");
    for (size_t i = 0; i < n_vocab; i++) {
        char *end;
        ck_assert(json_is_number(json_array_get(list, i)));
        logits[i] = strtof(at, &end); /* from the digits: jansson would round to double first */
        ck_assert(end > at && (*end == ',' || *end == ']'));
        at = end + 1;
    }
    const size_t position = (size_t)json_integer_value(member(object, "pos"));
    json_decref(object);
    return position;
}

struct logits_row {
    const char *name;
    const char *args[12];
    size_t positions[KG_COUNT_OF(IDS)], n_positions;
};
static const struct logits_row LOGITS[] = {
    { "logits_of_all_positions", { "logits", "-m", MODEL, "--ids", LOGIT_IDS }, { 0, 1, 2, 3, 4, 5, 6, 7 }, 8 },
    { "logits_step_by_step", { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--step" }, { 0, 1, 2, 3, 4, 5, 6, 7 }, 8 },
    { "logits_said_to_be_of_all",
      { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "all", "--backend", "cpu" },
      { 0, 1, 2, 3, 4, 5, 6, 7 },
      8 },
    { "logits_of_the_last", { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "last" }, { 7 }, 1 },
    { "logits_of_the_last_step",
      { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "last", "--step" },
      { 7 },
      1 },
    { "logits_of_a_list_come_in_order",
      { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "6,0,3" },
      { 0, 3, 6 },
      3 },
    { "logits_of_a_list_by_steps",
      { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "2,5", "--step" },
      { 2, 5 },
      2 },
    { "logits_asked_for_twice",
      { "logits", "-m", MODEL, "--ids", LOGIT_IDS, "--positions", "4,4", "--ctx", "8" },
      { 4 },
      1 },
};

/* Nine digits say a float32: every logit comes back to the bits the engine has here. */
static void logits_come_back(struct kg_record *rec, const void *arg) {
    const struct logits_row *const row = arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    struct kg_session *const session = kg_rig_session(rig, KG_COUNT_OF(IDS));
    float *const want = kg_rig_logits(rig, session, IDS, KG_COUNT_OF(IDS), KG_COUNT_OF(IDS));
    float *const got = kg_xcalloc(n_vocab, sizeof *got);
    char *const out = output_of(rec, row->args, NULL), *rest = out;
    for (size_t i = 0; i < row->n_positions; i++) {
        ck_assert_uint_eq(take_logits(&rest, got, n_vocab), row->positions[i]);
        kg_expect_same_bits("logits", got, want + row->positions[i] * n_vocab, n_vocab);
    }
    ck_assert_str_eq(rest, "");
    free(out);
    free(got);
    free(want);
    kg_session_free(session);
}

static void tokenize_gives_the_ids(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = "the old pond, \xe5\x8f\xa4\xe6\xb1\xa0 <|im_end|>";
    static const char *const PLAIN[] = { "tokenize", "-m", MODEL, "--jsonl", NULL };
    static const char *const SPECIAL[] = { "tokenize", "-m", MODEL, "--jsonl", "--special", NULL };
    (void)arg;
    for (int special = 0; special < 2; special++) {
        struct kg_ids want = { 0 };
        struct kg_error err = { 0 };
        kg_must(kg_tokenizer_encode(kg_rig_shared()->tokenizer, TEXT, sizeof TEXT - 1, special, &want, &err), &err);
        json_t *const request = json_pack("{s:s}", "text", TEXT);
        char *const dumped = json_dumps(request, JSON_COMPACT), *const line = kg_xasprintf("%s\n", dumped);
        char *const out = output_of(rec, special ? SPECIAL : PLAIN, line);
        json_t *const answer = parse_json(out);
        struct kg_ids ids = ids_of(member(answer, "ids"));
        kg_expect_same_ids("tokenize", ids.ids, ids.n, want.ids, want.n);
        kg_ids_free(&ids);
        json_decref(answer);
        free(out);
        free(line);
        free(dumped);
        json_decref(request);
        kg_ids_free(&want);
    }
}

static void inspect_lists_every_tensor(struct kg_record *rec, const void *arg) {
    static const char *const ARGS[] = { "inspect", MODEL, "--json", NULL };
    (void)arg;
    char *const out = output_of(rec, ARGS, NULL);
    json_t *const object = parse_json(out);
    const json_t *const tensors = member(object, "tensors");
    ck_assert_uint_eq(json_array_size(tensors), 2 + 12 * kg_rig_shared()->config->n_layers);
    json_decref(object);
    free(out);
}

/* Also of what is printed without looking: a list that another program reads must not end early and well. */
static void full_standard_output_is_no_success(struct kg_record *rec, const void *arg) {
    static const char *const CALLS[] = { "--help", "--version", "op --list --json", "op add --help", "bench --list" };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        char *command = kg_xasprintf("exec \"$0\" %s >/dev/full", CALLS[i]);
        const char *const argv[] = { "/bin/sh", "-c", command, kg_program_path(), NULL };
        struct kg_process_result r;
        struct kg_error err = { 0 };
        ck_assert_int_eq(kg_process_run(&(struct kg_process){ .argv = argv }, &r, &err), KG_OK);
        ck_assert_msg(r.exit_code == 5, "kigo %s: exit code %d", CALLS[i], r.exit_code);
        ck_assert_ptr_nonnull(strstr(r.err, "cannot write to standard output"));
        kg_process_result_free(&r);
        free(command);
    }
}

static void build(struct kg_case_list *list) {
    static const struct kg_case OTHERS[] = {
#define OUTPUT_CASE(name_) { .layer = "integration", .op = "cli", .name = #name_, .run = name_ }
        OUTPUT_CASE(json_says_what_happened),
        OUTPUT_CASE(same_seed_same_output),
        OUTPUT_CASE(seed_it_took_repeats_the_run),
        OUTPUT_CASE(message_cannot_end_its_turn),
        OUTPUT_CASE(stop_text_ends_it),
        OUTPUT_CASE(odd_name_is_no_obstacle),
        OUTPUT_CASE(odd_path_is_no_obstacle),
        OUTPUT_CASE(tokenize_gives_the_ids),
        OUTPUT_CASE(inspect_lists_every_tensor),
        OUTPUT_CASE(full_standard_output_is_no_success),
#undef OUTPUT_CASE
    };
    for (size_t i = 0; i < KG_COUNT_OF(LOGITS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "cli",
                                                  .name = LOGITS[i].name,
                                                  .run = logits_come_back,
                                                  .arg = &LOGITS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_case_list_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
