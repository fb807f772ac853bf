/* Safetensors files (Hugging Face): reading from a memory mapping.
 *
 * Bytes: u64 little-endian n, then n bytes of JSON, then the data. The JSON object has one member per tensor:
 * {"dtype":"F32", "shape":[...] (last dimension fastest), "data_offsets":[begin,end] from the start of the data}. It
 * may also have "__metadata__", an object of strings. The tensors cover the data without gap or overlap.
 *
 * Header length, JSON, duplicate names, products, and offsets against shapes and the file's size are checked before
 * use; errors name the file, the tensor, and the offending value. Everything read stays valid until
 * kg_safetensors_close. */
#ifndef KIGO_FORMAT_SAFETENSORS_H
#define KIGO_FORMAT_SAFETENSORS_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, bytes of an element) */
#define KG_SAFETENSORS_DTYPE_LIST(X)                                                                                   \
    X(F64, 8)                                                                                                          \
    X(F32, 4)                                                                                                          \
    X(F16, 2)                                                                                                          \
    X(BF16, 2)                                                                                                         \
    X(I64, 8)                                                                                                          \
    X(I32, 4)                                                                                                          \
    X(I16, 2)                                                                                                          \
    X(I8, 1)                                                                                                           \
    X(U64, 8)                                                                                                          \
    X(U32, 4)                                                                                                          \
    X(U16, 2)                                                                                                          \
    X(U8, 1)                                                                                                           \
    X(BOOL, 1)                                                                                                         \
    X(F8_E4M3, 1)                                                                                                      \
    X(F8_E5M2, 1)

enum kg_safetensors_dtype {
#define KG_SAFETENSORS_ENUM(name, elem_bytes) KG_SAFETENSORS_##name,
    KG_SAFETENSORS_DTYPE_LIST(KG_SAFETENSORS_ENUM)
#undef KG_SAFETENSORS_ENUM
        KG_SAFETENSORS_DTYPE_COUNT
};

enum { KG_SAFETENSORS_MAX_DIMS = 8 };

struct kg_safetensors_tensor {
    const char *name; /* UTF-8 */
    enum kg_safetensors_dtype dtype;
    size_t n_dims;                          /* 0 for a scalar */
    uint64_t dims[KG_SAFETENSORS_MAX_DIMS]; /* in elements, slowest first; 1 from n_dims on */
    uint64_t n_elems;                       /* 0 if a dimension is 0 */
    uint64_t size_bytes;
    const void *data; /* in the mapping, at any alignment */
};

struct kg_safetensors; /* opaque */

KG_WARN_UNUSED enum kg_status kg_safetensors_open(const char *path, struct kg_safetensors **st, struct kg_error *err);
/* Parses a file image in memory. `name` replaces the path in errors. The bytes are borrowed until
 * kg_safetensors_close. */
KG_WARN_UNUSED enum kg_status kg_safetensors_parse(const void *data, size_t size_bytes, const char *name,
                                                   struct kg_safetensors **st, struct kg_error *err);
void kg_safetensors_close(struct kg_safetensors *st);

const char *kg_safetensors_path(const struct kg_safetensors *st);

/* Tensors in the order of their data. */
size_t kg_safetensors_n_tensors(const struct kg_safetensors *st);
const struct kg_safetensors_tensor *kg_safetensors_tensor_at(const struct kg_safetensors *st, size_t index);
const struct kg_safetensors_tensor *kg_safetensors_find(const struct kg_safetensors *st,
                                                        const char *name); /* or NULL */

/* A string of "__metadata__", NULL if absent. */
const char *kg_safetensors_metadata(const struct kg_safetensors *st, const char *key);

/* dst[n_elems] = the tensor's elements, rounded to nearest if they do not fit. BOOL gives 0 and 1. KG_ERR_UNSUPPORTED
 * for the 8-bit floats. */
KG_WARN_UNUSED enum kg_status kg_safetensors_to_f32(const struct kg_safetensors_tensor *tensor, float *dst,
                                                    struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_safetensors_to_f64(const struct kg_safetensors_tensor *tensor, double *dst,
                                                    struct kg_error *err);

const char *kg_safetensors_dtype_name(enum kg_safetensors_dtype dtype);

#endif
