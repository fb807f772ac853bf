#include "suites/support/as_llama.h"
#include "base/buffer.h"
#include "format/gguf.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static void write_keys(struct kg_gguf_writer *w, const struct kg_gguf *gguf) {
    static const char FROM[] = "qwen2.", TO[] = "llama.";
    for (size_t i = 0; i < kg_gguf_n_keys(gguf); i++) {
        struct kg_gguf_key key = *kg_gguf_key_at(gguf, i);
        char *name = kg_xstrndup(key.name.data, key.name.len);
        if (strncmp(name, FROM, sizeof FROM - 1) == 0) memcpy(name, TO, sizeof TO - 1);
        key.name.data = name;
        if (strcmp(name, "general.architecture") == 0) kg_gguf_writer_str(w, name, "llama", 5);
        else if (strcmp(name, "general.alignment") != 0) kg_gguf_writer_copy_key(w, &key);
        free(name);
    }
}

/* Of each head, rows i and i + head_dim / 2 become 2i and 2i + 1. malloc'ed. */
static void *interleave_heads(const struct kg_gguf_tensor *tensor, uint64_t n_rows, uint32_t head_dim) {
    const size_t row_bytes = tensor->size_bytes / n_rows;
    char *to = kg_xmalloc(tensor->size_bytes);
    for (uint64_t r = 0; r < n_rows; r++) {
        const uint64_t at = r % head_dim, pair = at % (head_dim / 2) * 2 + at / (head_dim / 2);
        memcpy(to + (r - at + pair) * row_bytes, (const char *)tensor->data + r * row_bytes, row_bytes);
    }
    return to;
}

enum kg_status kg_haiku_write_as_llama(const char *from, const char *to, const char *permuted_tensors,
                                       struct kg_error *err) {
    struct kg_gguf *gguf = NULL;
    struct kg_gguf_writer *w = NULL;
    void **permuted = NULL;
    uint32_t n_heads = 0, n_embd = 0;
    enum kg_status status = kg_gguf_open(from, &gguf, err);
    if (status == KG_OK) status = kg_gguf_get_u32(gguf, "qwen2.attention.head_count", &n_heads, err);
    if (status == KG_OK) status = kg_gguf_get_u32(gguf, "qwen2.embedding_length", &n_embd, err);
    if (status != KG_OK) goto cleanup;
    w = kg_gguf_writer_new((uint32_t)kg_gguf_alignment(gguf));
    permuted = kg_xcalloc(kg_gguf_n_tensors(gguf), sizeof *permuted);
    write_keys(w, gguf);
    for (size_t i = 0; status == KG_OK && i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *tensor = kg_gguf_tensor_at(gguf, i);
        char *name = kg_xstrndup(tensor->name.data, tensor->name.len);
        if (fnmatch(permuted_tensors, name, 0) == 0)
            permuted[i] = interleave_heads(tensor, tensor->dims[tensor->n_dims - 1], n_embd / n_heads);
        status = kg_gguf_writer_tensor(w, name, tensor->dtype, tensor->n_dims, tensor->dims,
                                       permuted[i] ? permuted[i] : tensor->data, err);
        free(name);
    }
    if (status == KG_OK) status = kg_gguf_writer_finish(w, to, err);
cleanup:
    for (size_t i = 0; permuted && i < kg_gguf_n_tensors(gguf); i++) free(permuted[i]);
    free(permuted);
    kg_gguf_writer_free(w);
    kg_gguf_close(gguf);
    return status;
}
