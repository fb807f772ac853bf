/* The published patterns: GPT-2's from encoder.py, the others from their tokenizer.json. */
#include "base/size.h"
#include "tokenizer/pretokenize.h"
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define O200K_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WHITE_SPACE "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const struct kg_pre_kind KG_PRE_KINDS[] = {
    {
        .name = "gpt-2",
        .aliases = "gpt2 default", /* llama.cpp writes "default" where it knew of no other kind */
        .published = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        .from_byte_level = true,
    },
    {
        .name = "qwen2",
        .aliases = "",
        .published = CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WHITE_SPACE,
        .nfc = true,
    },
    {
        .name = "gpt-4o",
        .aliases = "o200k o200k_base o200k_harmony",
        .published = "[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "*" O200K_LOWER "+" CONTRACTIONS "?"
                     "|[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "+" O200K_LOWER "*" CONTRACTIONS "?"
                     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" WHITE_SPACE,
    },
    {
        .name = "llama-bpe",
        .aliases = "llama3 llama-v3",
        .published =
            CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WHITE_SPACE,
        .ignore_merges = true,
    },
};
const size_t KG_N_PRE_KINDS = KG_COUNT_OF(KG_PRE_KINDS);

/* True if the space-separated list holds the word. */
static bool list_has(const char *list, struct kg_str word) {
    while (*list) {
        const size_t n = strcspn(list, " ");
        if (n == word.len && memcmp(list, word.data, n) == 0) return true;
        list += n;
        list += strspn(list, " ");
    }
    return false;
}

const struct kg_pre_kind *kg_pre_kind_find(struct kg_str name) {
    if (name.len == 0) return NULL;
    for (size_t i = 0; i < KG_N_PRE_KINDS; i++)
        if (kg_str_eq(name, KG_PRE_KINDS[i].name) || list_has(KG_PRE_KINDS[i].aliases, name)) return &KG_PRE_KINDS[i];
    return NULL;
}
