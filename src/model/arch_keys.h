/* Helpers for writing GGUF keys of an architecture, "<architecture>.<suffix>", with llama.cpp's names. */
#ifndef KIGO_MODEL_ARCH_KEYS_H
#define KIGO_MODEL_ARCH_KEYS_H

#include "format/gguf.h"
#include <stdio.h>
#include <string.h>

struct kg_arch_keys {
    struct kg_gguf_writer *w;
    const char *architecture;
    char key[128]; /* the result of the last call */
};

static inline const char *kg_arch_key(struct kg_arch_keys *keys, const char *suffix) {
    snprintf(keys->key, sizeof keys->key, "%s.%s", keys->architecture, suffix);
    return keys->key;
}

static inline void kg_put_text(struct kg_gguf_writer *w, const char *key, const char *text) {
    kg_gguf_writer_str(w, key, text, strlen(text));
}

#endif
