/* Rewriting a GGUF file with some keys or tensors changed, to make a wrong model (or one in another format) from a
 * right one. Every failure fails the case, and so does an edit that finds nothing to change: a mutant must differ. */
#ifndef KIGO_SUITES_GGUF_EDIT_H
#define KIGO_SUITES_GGUF_EDIT_H

#include "format/gguf.h"

enum kg_key_change { KG_KEY_DROP = 1, KG_KEY_SET_U32, KG_KEY_SET_F32 };

struct kg_key_edit {
    const char *key;
    enum kg_key_change change; /* 0 ends the list */
    double value;
};

/* A tensor as it will be written; all of it may be changed. */
struct kg_edited_tensor {
    char name[64];
    enum kg_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[KG_GGUF_MAX_DIMS]; /* fastest first */
    uint8_t *data;                   /* malloc'ed */
    uint64_t size_bytes;
    bool dropped;
};

enum { KG_GGUF_EDIT_MAX_KEYS = 4 };

struct kg_gguf_edit {
    struct kg_key_edit keys[KG_GGUF_EDIT_MAX_KEYS];
    const char *tensors; /* fnmatch patterns, separated by spaces, of the tensors to change; NULL for none */
    void (*change)(struct kg_edited_tensor *tensor, const void *user);
    const void *user;
};

/* Writes `from`, edited, to `to`. edit NULL: everything as it is, written by kigo's writer. */
void kg_gguf_rewrite(const char *from, const char *to, const struct kg_gguf_edit *edit);

/* The tensor's values (malloc'ed), and back in its own dtype or another that kigo writes. */
float *kg_edited_values(const struct kg_edited_tensor *tensor);
void kg_edited_set_values(struct kg_edited_tensor *tensor, enum kg_dtype dtype, const float *values);
uint64_t kg_edited_n_elems(const struct kg_edited_tensor *tensor);

#endif
