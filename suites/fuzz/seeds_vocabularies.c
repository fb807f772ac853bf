/* Small good files of models' vocabularies, and texts to encode. */
#include "suites/fuzz/readers.h"
#include "base/size.h"
#include "base/utf8.h"
#include "format/gguf.h"
#include "suites/support/vocabulary.h"
#include "tokenizer/byte_level.h"
#include <string.h>

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

KG_FUZZ_SEEDS(byte_level) {
    (void)target;
    put_vocabulary(&seeds[0], "gpt-2");
    put_vocabulary(&seeds[1], "qwen2");
    put_vocabulary(&seeds[2], "llama-bpe");
    return 3;
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

KG_FUZZ_SEEDS(sentencepiece) {
    (void)target;
    put_pieces(&seeds[0], false, "\u00e9l");
    put_pieces(&seeds[1], true, "x");
    put_pieces(&seeds[2], false, "l\u2581");
    return 3;
}

/* The vocabulary, too, before the process forks. */
KG_FUZZ_SEEDS(text) {
    (void)published_vocabulary(target->file);
    kg_buffer_puts(&seeds[0],
                   "I'm we'LL <|im_end|> <a>hello 1234567 \r\n\n  \t x<|im_start|>user\n <|end|> \n</s>  a\u2581b");
    kg_buffer_puts(&seeds[1],
                   "e\u0301 a\u0302\u0323 \u1100\u1161\u11a8 \u2126 \U0001f468\u200d\U0001f469 \U00031350\u0897");
    kg_buffer_puts(&seeds[2], "\u6771\u4eac \u05e9\u05dc\u05d5\u05dd \u0e01\u0e33 \u3000\u180e\u00a0\u0660'\u017f");
    return 3;
}
