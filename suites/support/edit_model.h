/* Copies of a model file with one thing about them changed: what the loader has to name. */
#ifndef KIGO_SUITES_EDIT_MODEL_H
#define KIGO_SUITES_EDIT_MODEL_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kg_tensor_edit {
    KG_TENSOR_KEEP,
    KG_TENSOR_DROP,
    KG_TENSOR_TRANSPOSE, /* the first two dimensions exchanged, the bytes as they are */
    KG_TENSOR_ROW_LESS,  /* without its last row */
    KG_TENSOR_FLAT,      /* one dimension of all elements */
    KG_TENSOR_ZERO_Q8_0, /* as Q8_0 of zeros; rows of a multiple of 32 */
    KG_TENSOR_NAN,       /* its first element not a number (F16, F32) */
    KG_TENSOR_INFINITE,  /* its first element infinite (F16, F32) */
    KG_TENSOR_LARGE,     /* every element 2^17 times as large (F32) */
};

struct kg_model_edit {
    const char *drop_key;
    const char *u32_key; /* its value is replaced by this one */
    uint32_t u32;
    const char *f32_key;
    float f32;
    const char *str_key, *str;
    const char *tensor; /* the one edited */
    enum kg_tensor_edit how;
    const char *add_tensor; /* one more, of four F32 */
    bool no_tensors;        /* the vocabulary only */
    size_t n_tokens;        /* 0: as it is; tokens (cut, or more of them) */
    size_t n_token_types;   /* 0: as it is */
};

/* Writes `to` as `from` with the edit. KG_ERR_NOT_FOUND if what is to be dropped or edited is not there. */
KG_WARN_UNUSED enum kg_status kg_model_edit(const char *from, const char *to, const struct kg_model_edit *edit,
                                            struct kg_error *err);

#endif
