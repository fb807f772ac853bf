/* Block formats of tensor data: sizes, and decoding and encoding of rows.
 *
 * A row is n_elems consecutive elements; n_elems is a multiple of the format's block. Layouts are GGUF's (ggml's
 * specification), little-endian; dtype_<name>.c describes each in bytes. */
#ifndef KIGO_FORMAT_DTYPE_H
#define KIGO_FORMAT_DTYPE_H

#include <kigo/status.h>
#include <stdint.h>
#include <stddef.h>

/* X(name, GGUF type id, text, elements in a block, bytes of a block) */
#define KG_DTYPE_LIST(X)                                                                                               \
    X(F32, 0, "F32", 1, 4)                                                                                             \
    X(F16, 1, "F16", 1, 2)                                                                                             \
    X(Q4_0, 2, "Q4_0", 32, 18)                                                                                         \
    X(Q5_0, 6, "Q5_0", 32, 22)                                                                                         \
    X(Q8_0, 8, "Q8_0", 32, 34)                                                                                         \
    X(Q4_K, 12, "Q4_K", 256, 144)                                                                                      \
    X(Q5_K, 13, "Q5_K", 256, 176)                                                                                      \
    X(Q6_K, 14, "Q6_K", 256, 210)                                                                                      \
    X(BF16, 30, "BF16", 1, 2)                                                                                          \
    X(MXFP4, 39, "MXFP4", 32, 17)

enum kg_dtype {
#define KG_DTYPE_ENUM(name, gguf_id, text, block_elems, block_bytes) KG_DTYPE_##name,
    KG_DTYPE_LIST(KG_DTYPE_ENUM)
#undef KG_DTYPE_ENUM
        KG_DTYPE_COUNT
};

struct kg_dtype_info {
    const char *name;
    uint32_t gguf_id;
    uint32_t block_elems;
    uint32_t block_bytes;
    /* dst[n_elems] = the exact values of the row, rounded to float32 if they do not fit. */
    void (*decode)(const void *src, float *dst, size_t n_elems);
    /* dst = the row rounded to the format: dtype_q8_0.c, dtype_mxfp4.c, encode_blocks.c say how. */
    void (*encode)(const float *src, void *dst, size_t n_elems);
};

/* Never NULL for a valid dtype. */
const struct kg_dtype_info *kg_dtype_info(enum kg_dtype dtype);

/* The dtype of a GGUF type id. KG_ERR_UNSUPPORTED for an id that kigo does not read. */
KG_WARN_UNUSED enum kg_status kg_dtype_from_gguf(uint32_t gguf_id, enum kg_dtype *dtype, struct kg_error *err);

/* The dtype of a name ("Q8_0"), case-insensitive. */
KG_WARN_UNUSED enum kg_status kg_dtype_from_name(const char *name, enum kg_dtype *dtype, struct kg_error *err);

/* *bytes = size of n_elems consecutive elements. KG_ERR_FORMAT if n_elems is not a multiple of the block, or the size
 * overflows. */
KG_WARN_UNUSED enum kg_status kg_dtype_row_bytes(enum kg_dtype dtype, uint64_t n_elems, uint64_t *bytes,
                                                 struct kg_error *err);

/* IEEE 754 binary16 and bfloat16, round to nearest even. */
float kg_f16_to_f32(uint16_t h);
uint16_t kg_f32_to_f16(float f);
float kg_bf16_to_f32(uint16_t h);
uint16_t kg_f32_to_bf16(float f);

/* FP8 E4M3 (dtype_e4m3.c). Decoding is exact. Encoding rounds to nearest even and saturates: magnitudes above 448 and
 * infinities become +-448; NaN stays NaN. */
float kg_e4m3_to_f32(uint8_t b);
uint8_t kg_f32_to_e4m3(float f);

#endif
