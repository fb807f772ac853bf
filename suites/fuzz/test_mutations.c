/* Every fuzz target over good files made wrong: none may crash, hang or answer with a bad error. */
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "bundle/archive.h"
#include "format/gguf.h"
#include "suites/fuzz/mutate.h"
#include "suites/fuzz/targets.h"
#include "suites/harness/case.h"
#include "suites/support/tar_image.h"
#include "suites/support/gguf_image.h"
#include "suites/support/hf_maker.h"
#include "suites/support/vocabulary.h"
#include "tokenizer/byte_level.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_SEEDS = 3, N_TRIALS = 50000 };

static void load_fixture(struct kg_buffer *image, const char *path) {
    struct kg_error err = { 0 };
    char *data;
    size_t len;
    ck_assert_msg(kg_file_read(kg_fixture_path(path), &data, &len, &err) == KG_OK, "%s", err.message);
    kg_buffer_append(image, data, len);
    free(data);
}

static void gguf_seeds(struct kg_buffer seeds[N_SEEDS]) {
    kg_image_build_sample(&seeds[0], 2);
    kg_image_build_sample(&seeds[1], 3);
    load_fixture(&seeds[2], "formats/other-writer.gguf");
}

static void put_safetensors(struct kg_buffer *image, const char *header, size_t n_data) {
    const uint64_t len = strlen(header);
    kg_buffer_append(image, &len, sizeof len);
    kg_buffer_puts(image, header);
    for (size_t i = 0; i < n_data; i++) kg_buffer_append(image, &(char){ (char)i }, 1);
}

static void safetensors_seeds(struct kg_buffer seeds[N_SEEDS]) {
    put_safetensors(&seeds[0], "{\"t\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    put_safetensors(&seeds[1],
                    "{\"__metadata__\":{\"made_by\":\"hand\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[5],\"data_offsets\":"
                    "[8,18]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},\"c\":{\"dtype\":\"BOOL\","
                    "\"shape\":[0,7],\"data_offsets\":[18,18]}}  ",
                    18);
    put_safetensors(&seeds[2], "{}", 0);
}

/* A vocabulary-only file of each kind of pre-tokenizer, small: the bytes, a merge, a token found in text. */
static void put_str(struct kg_buffer *image, const char *text) {
    const uint64_t len = strlen(text);
    kg_buffer_append(image, &len, sizeof len);
    kg_buffer_puts(image, text);
}

static void put_key(struct kg_buffer *image, const char *name, uint32_t type) {
    put_str(image, name);
    kg_buffer_append(image, &type, sizeof type);
}

static void put_array(struct kg_buffer *image, const char *name, uint32_t elem_type, uint64_t n) {
    put_key(image, name, KG_GGUF_ARRAY);
    kg_buffer_append(image, &elem_type, sizeof elem_type);
    kg_buffer_append(image, &n, sizeof n);
}

static void put_vocabulary(struct kg_buffer *image, const char *pre) {
    enum { N_TOKENS = 259 };
    static const char *const MERGES[] = { "h e" };
    const uint64_t counts[] = { 0, 8 };
    kg_buffer_append(image, "GGUF\3\0\0", 8);
    kg_buffer_append(image, counts, sizeof counts);
    put_key(image, "tokenizer.ggml.model", KG_GGUF_STRING);
    put_str(image, "gpt2");
    put_key(image, "tokenizer.ggml.pre", KG_GGUF_STRING);
    put_str(image, pre);
    put_key(image, "kigo.tokenizer.ignore_merges", KG_GGUF_BOOL);
    kg_buffer_append(image, &(uint8_t){ 1 }, 1);
    put_array(image, "tokenizer.ggml.merges", KG_GGUF_STRING, KG_COUNT_OF(MERGES));
    for (size_t i = 0; i < KG_COUNT_OF(MERGES); i++) put_str(image, MERGES[i]);
    put_key(image, "tokenizer.ggml.eos_token_id", KG_GGUF_U32);
    kg_buffer_append(image, &(uint32_t){ 257 }, sizeof(uint32_t));
    put_key(image, "tokenizer.chat_template", KG_GGUF_STRING);
    put_str(image, "'<|im_start|>system\\nBe kind.<|im_end|>'");
    put_array(image, "tokenizer.ggml.token_type", KG_GGUF_I32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) {
        const int32_t type = i == 257 ? 3 : (i == 258 ? 4 : 1);
        kg_buffer_append(image, &type, sizeof type);
    }
    put_array(image, "tokenizer.ggml.tokens", KG_GGUF_STRING, N_TOKENS);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[KG_UTF8_MAX_BYTES + 1];
        text[kg_utf8_put(kg_byte_level_code_point((unsigned char)byte), text)] = '\0';
        put_str(image, text);
    }
    put_str(image, "he");
    put_str(image, "<|im_end|>");
    put_str(image, "<a>");
}

static void vocabulary_seeds(struct kg_buffer seeds[N_SEEDS]) {
    put_vocabulary(&seeds[0], "gpt-2");
    put_vocabulary(&seeds[1], "qwen2");
    put_vocabulary(&seeds[2], "llama-bpe");
}

/* SentencePiece-style, with scores, with merges too, and with tokens past the end of a word. */
static void put_pieces(struct kg_buffer *image, bool merges, const char *last) {
    static const char *const PIECES[] = {
        "\u2581", "h", "e", "l", "he", "ll", "\u2581he", "hell", "<|im_end|>", "<a>"
    };
    enum { N_BYTES = 256, FIRST_PIECE = 3 + N_BYTES, N_TOKENS = FIRST_PIECE + KG_COUNT_OF(PIECES) + 1 };
    const uint64_t counts[] = { 0, 6 + 3 * merges };
    kg_buffer_append(image, "GGUF\3\0\0", 8);
    kg_buffer_append(image, counts, sizeof counts);
    put_key(image, "tokenizer.ggml.model", KG_GGUF_STRING);
    put_str(image, "llama");
    put_key(image, "tokenizer.ggml.add_space_prefix", KG_GGUF_BOOL);
    kg_buffer_append(image, &(uint8_t){ 1 }, 1);
    put_array(image, "kigo.tokenizer.rstrip_token_ids", KG_GGUF_I32, 1);
    kg_buffer_append(image, &(int32_t){ FIRST_PIECE + 8 }, sizeof(int32_t));
    if (merges) {
        put_key(image, "kigo.tokenizer.prepend_scheme", KG_GGUF_STRING);
        put_str(image, "first");
        put_array(image, "kigo.tokenizer.normalized_token_ids", KG_GGUF_I32, 1);
        kg_buffer_append(image, &(int32_t){ FIRST_PIECE + 9 }, sizeof(int32_t));
        put_array(image, "tokenizer.ggml.merges", KG_GGUF_STRING, 2);
        put_str(image, "h e");
        put_str(image, "l l");
    }
    put_array(image, "tokenizer.ggml.token_type", KG_GGUF_I32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) {
        const int32_t special = i == 0 ? 2 : i < 3 || i == FIRST_PIECE + 8 ? 3 : i == FIRST_PIECE + 9 ? 4 : 1;
        const int32_t type = i >= 3 && i < FIRST_PIECE ? 6 : special;
        kg_buffer_append(image, &type, sizeof type);
    }
    put_array(image, "tokenizer.ggml.scores", KG_GGUF_F32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) kg_buffer_append(image, &(float){ -(float)i }, sizeof(float));
    put_array(image, "tokenizer.ggml.tokens", KG_GGUF_STRING, N_TOKENS);
    put_str(image, "<unk>");
    put_str(image, "<s>");
    put_str(image, "</s>");
    for (unsigned byte = 0; byte < N_BYTES; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        put_str(image, text);
    }
    for (size_t i = 0; i < KG_COUNT_OF(PIECES); i++) put_str(image, PIECES[i]);
    put_str(image, last);
}

static void pieces_seeds(struct kg_buffer seeds[N_SEEDS]) {
    put_pieces(&seeds[0], false, "\u00e9l");
    put_pieces(&seeds[1], true, "x");
    put_pieces(&seeds[2], false, "l\u2581");
}

static void text_seeds(struct kg_buffer seeds[N_SEEDS]) {
    kg_buffer_puts(&seeds[0],
                   "I'm we'LL <|im_end|> <a>hello 1234567 \r\n\n  \t x<|im_start|>user\n <|end|> \n</s>  a\u2581b");
    kg_buffer_puts(&seeds[1],
                   "e\u0301 a\u0302\u0323 \u1100\u1161\u11a8 \u2126 \U0001f468\u200d\U0001f469 \U00031350\u0897");
    kg_buffer_puts(&seeds[2], "\u6771\u4eac \u05e9\u05dc\u05d5\u05dd \u0e01\u0e33 \u3000\u180e\u00a0\u0660'\u017f");
}

static void bundle_seeds(struct kg_buffer seeds[N_SEEDS]) {
    static const char SHA[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    kg_buffer_printf(&seeds[0], "0%s  data/env.json\n%s *data/failures/a b/case.json\n", SHA, SHA);
    kg_buffer_puts(&seeds[1], "1Payload-Oxum: 12.3\nKigo-State: complete\nKigo-Verdict: pass\n");
    kg_buffer_printf(
        &seeds[2],
        "2{\"key\":\"unit/a/b\",\"suite\":\"s\",\"layer\":\"unit\",\"op\":\"a\",\"name\":\"b\",\"seed\":\"1\","
        "\"def_sha\":\"%s\",\"timeout_s\":60.5}\n{\"key\":\"unit/a/b\",\"suite\":\"s\",\"def_sha\":\"%s\","
        "\"status\":\"fail\",\"reason\":\"r\\u00fc<script>\\u202e\",\"seed\":\"1\",\"started_us\":1,\"duration_ns\":"
        "null,"
        "\"errors\":[{\"name\":\"<img\",\"margin\":1e-3,\"judged\":true,\"max_abs\":1e-4,\"n\":3,\"why\":\"<base\","
        "\"tolerance\":"
        "{\"max_abs\":0.1}}],\"timings\":[{\"name\":\"<link\",\"kind\":\"host\",\"state\":\"warm\",\"n\":9,\"median\":"
        "5.5,"
        "\"ci_lo\":5,\"ci_hi\":6,\"bytes\":7,\"flops\":8,\"valid\":true}],\"metrics\":[{\"name\":\"m\",\"unit\":\"<"
        "iframe\","
        "\"value\":1}],\"memory\":[{\"tag\":\"<script>\",\"peak_bytes\":4096,\"left_bytes\":1}]}\n",
        SHA, SHA);
}

static void hf_config_seeds(struct kg_buffer seeds[N_SEEDS]) {
    static const char *const NAMES[N_SEEDS] = { "llama3_rope", "phi3_long", "gpt_oss_mxfp4" };
    for (size_t s = 0; s < N_SEEDS; s++) {
        char *text = json_dumps(json_object_get(kg_hf_expected(NAMES[s]), "config"), JSON_COMPACT);
        kg_buffer_puts(&seeds[s], text);
        free(text);
    }
}

static void ncu_seeds(struct kg_buffer seeds[N_SEEDS]) {
    static const char HEAD[] =
        "==PROF== Connected\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    kg_buffer_printf(&seeds[0], "%s\"0\",\"k<1, 2>\",\"gpu__time_duration.sum\",\"ns\",\"36,160\"\n", HEAD);
    kg_buffer_printf(
        &seeds[1],
        "%s\"0\",\"a \"\"b\"\"\",\"launch__registers_per_thread\",\"\",\"18\"\r\n==ERROR== x\n\"1\",\"c\",\"m\","
        "\"\",\"n/a\"",
        HEAD);
    kg_buffer_puts(&seeds[2], HEAD);
}

/* Two bundles' worth of entries and one long name; small, so that changes meet the headers. */
static void archive_seeds(struct kg_buffer seeds[N_SEEDS]) {
    static const char *const NAMES[N_SEEDS][3] = {
        { "20261120T093822Z-0123456789ab-89abcdef/bagit.txt",
          "20261120T093822Z-0123456789ab-89abcdef/data/plan.ndjson" },
        { "20261120T093822Z-nogit-89abcdef/bagit.txt", "20261120T093822Z-nogit-89abcdef/data/failures/a b/case.json",
          "20261120T093822Z-nogit-89abcdef/data/logs/unit.txt" },
        { "20261120T093822Z-0123456789ab-dirty-89abcdef/data/failures/"
          "unit_a_name_that_takes_more_than_a_hundred_bytes_of_a_"
          "header/worst.json" },
    };
    for (size_t s = 0; s < N_SEEDS; s++) {
        for (size_t i = 0; i < KG_COUNT_OF(NAMES[s]) && NAMES[s][i]; i++)
            kg_tar_add(&seeds[s], &(struct kg_tar_entry){ .name = NAMES[s][i], .data = "line\n", .data_bytes = 5 });
        kg_tar_end(&seeds[s]);
    }
}

static bool encode_by_qwen2(const uint8_t *data, size_t size) {
    return kg_fuzz_encode(published_vocabulary("qwen2.5"), data, size);
}

static bool encode_by_phi3(const uint8_t *data, size_t size) {
    return kg_fuzz_encode(published_vocabulary("phi3"), data, size);
}

struct target {
    const char *name;
    void (*make_seeds)(struct kg_buffer seeds[N_SEEDS]);
    bool (*run)(const uint8_t *data, size_t size);
    int n_trials; /* 0: N_TRIALS */
    const char *definition;
};
static const struct target TARGETS[] = {
    { "gguf", gguf_seeds, kg_fuzz_gguf, 0, NULL },
    { "safetensors", safetensors_seeds, kg_fuzz_safetensors, 0, NULL },
    { "vocabulary", vocabulary_seeds, kg_fuzz_vocabulary, 0, NULL },
    { "sentencepiece", pieces_seeds, kg_fuzz_vocabulary, 0, NULL },
    { "hf_config", hf_config_seeds, kg_fuzz_hf_config, 0, NULL },
    { "bundle", bundle_seeds, kg_fuzz_bundle, 0, NULL },
    { "ncu", ncu_seeds, kg_fuzz_ncu, 0, NULL },
    { "encode", text_seeds, encode_by_qwen2, 0, NULL },
    { "encode_by_characters", text_seeds, encode_by_phi3, 0, NULL },
    { "archive", archive_seeds, kg_fuzz_archive, 10000, "10000 mutations" }, /* each makes files */
};

/* The target sees an allocation of exactly the image's size, so that a read past its end is one past the allocation's.
 */
static bool run_exactly(const struct target *target, const struct kg_buffer *image) {
    uint8_t *bytes = malloc(image->len ? image->len : 1);
    if (image->len) memcpy(bytes, image->data, image->len);
    const bool accepted = target->run(bytes, image->len);
    free(bytes);
    return accepted;
}

static void mutated_files(struct kg_record *rec, const void *arg) {
    const struct target *target = arg;
    struct kg_buffer seeds[N_SEEDS] = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT }, image = KG_BUFFER_INIT;
    struct kg_rng rng;
    size_t n_accepted = 0;
    const int n_trials = target->n_trials ? target->n_trials : N_TRIALS;
    if (target->run == kg_fuzz_archive && kg_archive_missing()) {
        kg_record_skip(rec, "%s", kg_archive_missing());
        return;
    }
    target->make_seeds(seeds);
    for (int s = 0; s < N_SEEDS; s++) {
        kg_fuzz_name_input("seed %d as it is", s);
        ck_assert_msg(run_exactly(target, &seeds[s]), "seed %d is refused", s);
    }
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < n_trials; trial++) {
        const size_t s = kg_rng_below(&rng, N_SEEDS);
        const struct kg_buffer *seed = &seeds[s];
        kg_buffer_clear(&image);
        kg_buffer_append(&image, seed->data, seed->len);
        kg_mutate(&image, &rng);
        kg_fuzz_name_input("mutation %d, of seed %zu", trial, s);
        n_accepted += run_exactly(target, &image);
    }
    ck_assert_uint_gt(n_accepted, n_trials / 100); /* some changes do no harm, most do */
    ck_assert_uint_lt(n_accepted, n_trials * 3 / 4);
    kg_record_metric(rec, "accepted", "count", (double)n_accepted);
    kg_record_metric(rec, "trials", "count", n_trials);
    kg_buffer_free(&image);
    for (int s = 0; s < N_SEEDS; s++) kg_buffer_free(&seeds[s]);
}

/* In a separate process: a bad error for the input "a\"\\\377". */
static void give_up_into(int fd) {
    static const uint8_t BYTES[] = { 'a', '"', '\\', 0xff };
    const struct kg_error bad = { .status = KG_ERR_FORMAT, .message = "" };
    dup2(fd, STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    kg_fuzz_name_input("mutation %d", 7);
    kg_fuzz_begin("sample", BYTES, sizeof BYTES);
    kg_fuzz_expect_error(&bad);
    _exit(0);
}

static void says_what_it_found(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    char said[256] = "", expected[256];
    size_t n_said = 0;
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) give_up_into(ends[1]);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], said + n_said, sizeof said - 1 - n_said)) > 0;) n_said += (size_t)n;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    snprintf(expected, sizeof expected,
             "kg_fuzz_sample: an error of status %d without a message: mutation 7, 4 bytes \"a\\\"\\\\\\377\"\n",
             (int)KG_ERR_FORMAT);
    ck_assert_str_eq(said, expected);
}

static void build(struct kg_case_list *list) {
    kg_case_list_add(
        list,
        &(struct kg_case){ .layer = "unit", .op = "fuzz", .name = "says_what_it_found", .run = says_what_it_found });
    for (size_t i = 0; i < KG_COUNT_OF(TARGETS); i++)
        kg_case_list_add(
            list, &(struct kg_case){ .layer = "unit",
                                     .op = "fuzz",
                                     .name = TARGETS[i].name,
                                     .definition = TARGETS[i].definition ? TARGETS[i].definition : "50000 mutations",
                                     .run = mutated_files,
                                     .arg = &TARGETS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
