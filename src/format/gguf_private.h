/* Internals shared by the GGUF reader and writer. */
#ifndef KIGO_FORMAT_GGUF_PRIVATE_H
#define KIGO_FORMAT_GGUF_PRIVATE_H

#include "base/file.h"
#include "format/gguf.h"

enum {
    KG_GGUF_DEFAULT_ALIGNMENT = 32,
    KG_GGUF_MAX_KEY_BYTES = 65535, /* the specification's limit on a key's name */
    KG_GGUF_N_TYPES = KG_GGUF_F64 + 1,
};

/* Names in bytewise order, for binary search and for detecting duplicates. Each points at the name member of its key or
 * tensor, which is the first member. */
struct kg_gguf_names {
    const struct kg_str **sorted;
    size_t n;
};

struct kg_gguf {
    char *path;
    struct kg_file_map map; /* of kg_gguf_open; empty for borrowed bytes */
    uint32_t version;
    uint64_t alignment;
    struct kg_gguf_key *keys;
    size_t n_keys;
    struct kg_gguf_tensor *tensors;
    size_t n_tensors;
    struct kg_gguf_names key_names, tensor_names;
};

/* Reading position in the file image; 0 <= at <= size_bytes always. */
struct kg_gguf_cursor {
    const uint8_t *data;
    uint64_t size_bytes, at;
};

/* *bytes = the next n bytes; advances the cursor. KG_ERR_FORMAT naming `what` if the file is too short. */
KG_WARN_UNUSED enum kg_status kg_gguf_take(struct kg_gguf_cursor *c, uint64_t n, const char *what,
                                           const uint8_t **bytes, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_take_u32(struct kg_gguf_cursor *c, const char *what, uint32_t *out,
                                               struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_take_u64(struct kg_gguf_cursor *c, const char *what, uint64_t *out,
                                               struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_take_str(struct kg_gguf_cursor *c, const char *what, struct kg_str *out,
                                               struct kg_error *err);

/* Reads n keys or tensors at the cursor into gguf, which owns them. The caller adds the file's name to errors. */
KG_WARN_UNUSED enum kg_status kg_gguf_parse_keys(struct kg_gguf *gguf, struct kg_gguf_cursor *c, uint64_t n,
                                                 struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_parse_tensors(struct kg_gguf *gguf, struct kg_gguf_cursor *c, uint64_t n,
                                                    struct kg_error *err);

/* Grows *array to hold n + 1 elements by doubling, so that memory stays proportional to the data read so far, whatever
 * counts the file claims. */
KG_WARN_UNUSED enum kg_status kg_gguf_grow(void **array, size_t n, size_t *capacity, size_t elem_bytes,
                                           struct kg_error *err);

/* Builds the sorted index of the n names at first, first + stride, ... KG_ERR_FORMAT for a name that occurs twice
 * ("duplicate key"). */
KG_WARN_UNUSED enum kg_status kg_gguf_index(struct kg_gguf_names *names, const void *first, size_t n, size_t stride,
                                            const char *kind, struct kg_error *err);
const void *kg_gguf_lookup(const struct kg_gguf_names *names, const char *name);

/* Bytes of a scalar; 0 for STRING and ARRAY. */
size_t kg_gguf_scalar_bytes(enum kg_gguf_type type);
/* Loads a scalar of an integer type or BOOL, sign- or zero-extended (U64 above INT64_MAX wraps). bytes may be
 * unaligned. */
int64_t kg_gguf_load_int(enum kg_gguf_type type, const uint8_t *bytes);
/* Loads a scalar of any numeric type. */
double kg_gguf_load_float(enum kg_gguf_type type, const uint8_t *bytes);

/* Computes n_elems and size_bytes from dtype, n_dims and dims. KG_ERR_FORMAT if a dimension is 0, a product overflows,
 * or a row is not a multiple of the dtype's block. */
KG_WARN_UNUSED enum kg_status kg_gguf_tensor_measure(struct kg_gguf_tensor *tensor, struct kg_error *err);

#endif
