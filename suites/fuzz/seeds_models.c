/* Small good files of models: GGUF, safetensors, and what stands beside those in a Hugging Face folder. */
#include "suites/fuzz/readers.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/fuzz/folder.h"
#include "suites/harness/case.h"
#include "suites/support/gguf_image.h"
#include "suites/support/hf_maker.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void load(struct kg_buffer *image, const char *path) {
    struct kg_error err = { 0 };
    char *data;
    size_t len;
    ck_assert_msg(kg_file_read(path, &data, &len, &err) == KG_OK, "%s", err.message);
    kg_buffer_append(image, data, len);
    free(data);
}

KG_FUZZ_SEEDS(gguf) {
    (void)target;
    kg_image_build_sample(&seeds[0], 2);
    kg_image_build_sample(&seeds[1], 3);
    load(&seeds[2], kg_fixture_path("formats/other-writer.gguf"));
    return 3;
}

/* Whole models of a few kilobytes: most of their bytes are what the readers look at. */
KG_FUZZ_SEEDS(model) {
    struct kg_tiny_model models[] = { KG_TINY_QWEN2,   KG_TINY_LLAMA, KG_TINY_PHI3,
                                      KG_TINY_GPT_OSS, KG_TINY_GPT2,  KG_TINY_GEMMA3 };
    static const uint32_t EMBD = 8, FF = 8;
    char path[] = "/tmp/kigo-fuzz-XXXXXX";
    const int fd = mkstemp(path);
    (void)target;
    ck_assert_int_ge(fd, 0);
    close(fd);
    for (size_t i = 0; i < KG_COUNT_OF(models); i++) {
        struct kg_tiny_model *m = &models[i];
        m->n_embd = EMBD;
        m->n_ff = FF;
        m->n_ctx = 16;
        m->n_layers = 1;
        m->n_heads = 2;
        m->n_kv_heads = strcmp(m->architecture, "gpt2") == 0 ? 2 : 1;
        m->head_dim = m->head_dim ? 8 : 0;
        m->long_short = strcmp(m->architecture, "phi3") == 0;
        kg_tiny_model_write(path, m, NULL, 0);
        load(&seeds[i], path);
    }
    unlink(path);
    return KG_COUNT_OF(models);
}

static void put_safetensors(struct kg_buffer *image, const char *header, size_t n_data) {
    const uint64_t len = strlen(header);
    kg_buffer_append(image, &len, sizeof len);
    kg_buffer_puts(image, header);
    for (size_t i = 0; i < n_data; i++) kg_buffer_append(image, &(char){ (char)i }, 1);
}

KG_FUZZ_SEEDS(safetensors) {
    (void)target;
    put_safetensors(&seeds[0], "{\"t\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    put_safetensors(&seeds[1],
                    "{\"__metadata__\":{\"made_by\":\"hand\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[5],\"data_offsets\":"
                    "[8,18]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},\"c\":{\"dtype\":\"BOOL\","
                    "\"shape\":[0,7],\"data_offsets\":[18,18]}}  ",
                    18);
    put_safetensors(&seeds[2], "{}", 0);
    return 3;
}

KG_FUZZ_SEEDS(hf_config) {
    (void)target;
    enum { N_CONFIGS = 6 };
    static const char *const NAMES[N_CONFIGS] = { "llama3_rope", "phi3_long",  "gpt_oss_mxfp4",
                                                  "gpt2",        "qwen3_bias", "gemma3_parameters" };
    for (size_t s = 0; s < N_CONFIGS; s++) {
        char *text = json_dumps(json_object_get(kg_hf_expected(NAMES[s]), "config"), JSON_COMPACT);
        kg_buffer_puts(&seeds[s], text);
        free(text);
    }
    return N_CONFIGS;
}

static void put_sentencepiece(struct kg_buffer *out) {
    static const char *const PIECES[] = { "\u2581", "h", "e", "l", "he", "ll", "\u2581he" };
    kg_buffer_puts(out, "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":"
                        "\"<s>\",\"special\":true,\"rstrip\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
                        "\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\",\"split\":false},"
                        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
                        "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                        "\"merges\":[\"h e\",[\"l\",\"l\"],\"\u2581 he\"],\"vocab\":{\"<unk>\":0,\"<s>\":1");
    for (unsigned byte = 0; byte < 256; byte++) kg_buffer_printf(out, ",\"<0x%02X>\":%u", byte, byte + 2);
    for (size_t i = 0; i < KG_COUNT_OF(PIECES); i++) kg_buffer_printf(out, ",\"%s\":%zu", PIECES[i], 258 + i);
    kg_buffer_puts(out, "}}}");
}

/* By the name of the file that the target stands for. */
KG_FUZZ_SEEDS(hf_folder) {
    const char *dir = kg_fuzz_folder_template()->hf;
    if (strcmp(target->file, "tokenizer_config.json") == 0) {
        kg_buffer_puts(&seeds[0], "{\"eos_token\":\"<|end|>\",\"bos_token\":{\"content\":\"he\",\"lstrip\":false},"
                                  "\"pad_token\":null,\"add_bos_token\":true,\"add_eos_token\":false,"
                                  "\"model_max_length\":1000000000000000019884624838656,"
                                  "\"chat_template\":\"{% for m in messages %}<|im_start|>{{ m }}{% endfor %}\"}");
        return 1;
    }
    char *path = kg_path_join(dir, target->file);
    load(&seeds[0], path);
    free(path);
    if (strcmp(target->file, "tokenizer.json") != 0) return 1;
    put_sentencepiece(&seeds[1]);
    return 2;
}
