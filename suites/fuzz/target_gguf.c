#include "suites/fuzz/readers.h"
#include "cli/inspect.h"
#include "format/gguf.h"
#include <stdlib.h>
#include <string.h>

/* A tensor's blocks are decoded if they are few; so is the whole shown as JSON. */
enum { MAX_DECODED_ELEMS = 1 << 16 };

static void decode_tensor(const struct kg_gguf_tensor *tensor) {
    if (tensor->n_elems > MAX_DECODED_ELEMS) return;
    float *row = malloc(tensor->n_elems * sizeof *row);
    kg_dtype_info(tensor->dtype)->decode(tensor->data, row, tensor->n_elems);
    free(row);
}

/* A name without NUL is found again, as itself. */
static void find_key_again(const struct kg_gguf *gguf, const struct kg_gguf_key *key) {
    if (memchr(key->name.data, '\0', key->name.len)) return;
    char *name = malloc(key->name.len + 1);
    memcpy(name, key->name.data, key->name.len);
    name[key->name.len] = '\0';
    if (kg_gguf_find_key(gguf, name) != key) kg_fuzz_give_up("the key \"%s\" is not found as itself", name);
    free(name);
}

static void ask_every_way(const struct kg_gguf *gguf) {
    static const char *const NAMES[] = { "general.alignment", "k.u8", "k.f64", "k.str", "k.strs" };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct kg_error err;
        uint32_t u;
        float f;
        bool b;
        struct kg_str s;
        const struct kg_gguf_key *key;
        if (kg_gguf_get_u32(gguf, NAMES[i], &u, &err) != KG_OK) kg_fuzz_expect_error(&err);
        if (kg_gguf_get_f32(gguf, NAMES[i], &f, &err) != KG_OK) kg_fuzz_expect_error(&err);
        if (kg_gguf_get_bool(gguf, NAMES[i], &b, &err) != KG_OK) kg_fuzz_expect_error(&err);
        if (kg_gguf_get_str(gguf, NAMES[i], &s, &err) != KG_OK) kg_fuzz_expect_error(&err);
        if (kg_gguf_get_array(gguf, NAMES[i], KG_GGUF_STRING, &key, &err) != KG_OK) kg_fuzz_expect_error(&err);
    }
}

KG_FUZZ_READER(gguf) {
    (void)target;
    struct kg_gguf *gguf;
    struct kg_error err = { .status = KG_OK };
    if (kg_gguf_parse(data, size, "fuzz", &gguf, &err) != KG_OK) return kg_fuzz_expect_error(&err);
    for (size_t i = 0; i < kg_gguf_n_keys(gguf); i++) find_key_again(gguf, kg_gguf_key_at(gguf, i));
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) decode_tensor(kg_gguf_tensor_at(gguf, i));
    ask_every_way(gguf);
    struct kg_buffer text = KG_BUFFER_INIT;
    const struct kg_inspect_totals totals = { .all = { 0, 0, 0 } };
    const struct kg_inspect_parts parts = { true, true, true };
    kg_inspect_json(&text, gguf, &totals, &parts);
    kg_inspect_text(&text, gguf, &totals, &parts);
    kg_buffer_free(&text);
    kg_gguf_close(gguf);
    return KG_OK;
}
