/* GGUF files, versions 2 and 3 (ggml's docs/gguf.md): reading from a memory mapping, and writing.
 *
 * Bytes, little-endian: "GGUF", u32 version, u64 n_tensors, u64 n_keys; per key: string name, u32 type, value; per
 * tensor: string name, u32 n_dims, u64 dims[n_dims] (the first is the fastest), u32 dtype, u64 offset from the start of
 * the data; padding to general.alignment (32 unless given); the data. A string is u64 length and bytes without NUL.
 *
 * Every count, length, offset, type and product is checked against the file's size before use; errors name the file,
 * the key or tensor, and the offending value. Names and strings point into the mapping: they carry lengths and stay
 * valid until kg_gguf_close. */
#ifndef KIGO_FORMAT_GGUF_H
#define KIGO_FORMAT_GGUF_H

#include "format/dtype.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum kg_gguf_type {
    KG_GGUF_U8 = 0,
    KG_GGUF_I8 = 1,
    KG_GGUF_U16 = 2,
    KG_GGUF_I16 = 3,
    KG_GGUF_U32 = 4,
    KG_GGUF_I32 = 5,
    KG_GGUF_F32 = 6,
    KG_GGUF_BOOL = 7,
    KG_GGUF_STRING = 8,
    KG_GGUF_ARRAY = 9,
    KG_GGUF_U64 = 10,
    KG_GGUF_I64 = 11,
    KG_GGUF_F64 = 12,
};

enum { KG_GGUF_MAX_DIMS = 4 };

/* Bytes that need not be NUL-terminated nor valid UTF-8. */
struct kg_str {
    const char *data;
    size_t len; /* in bytes */
};

struct kg_gguf_key {
    struct kg_str name;
    enum kg_gguf_type type;
    union {
        uint64_t u; /* U8, U16, U32, U64 */
        int64_t i;  /* I8 ... I64 */
        double f;   /* F32, F64 */
        bool b;
        struct kg_str s;
        struct {
            enum kg_gguf_type elem_type; /* never ARRAY: nested arrays are rejected */
            uint64_t n;
            const uint8_t *data;          /* the elements as in the file, unaligned */
            const struct kg_str *strings; /* the elements if elem_type is STRING, else NULL */
        } array;
    } value;
};

struct kg_gguf_tensor {
    struct kg_str name;
    enum kg_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[KG_GGUF_MAX_DIMS]; /* in elements, fastest first; 1 from n_dims on */
    uint64_t n_elems;
    uint64_t size_bytes;
    const void *data; /* in the mapping, at a multiple of the file's alignment */
};

struct kg_gguf; /* opaque */

KG_WARN_UNUSED enum kg_status kg_gguf_open(const char *path, struct kg_gguf **gguf, struct kg_error *err);
void kg_gguf_close(struct kg_gguf *gguf);

/* Parses a file image in memory, for fuzzing and tests. `name` replaces the path in errors. The bytes are borrowed
 * until kg_gguf_close. */
KG_WARN_UNUSED enum kg_status kg_gguf_parse(const void *data, size_t size_bytes, const char *name,
                                            struct kg_gguf **gguf, struct kg_error *err);

const char *kg_gguf_path(const struct kg_gguf *gguf);
/* What all of its data lies in; NULL for borrowed bytes. */
const struct kg_file_map *kg_gguf_map(const struct kg_gguf *gguf);
uint32_t kg_gguf_version(const struct kg_gguf *gguf);
uint64_t kg_gguf_alignment(const struct kg_gguf *gguf);
size_t kg_gguf_n_keys(const struct kg_gguf *gguf);
size_t kg_gguf_n_tensors(const struct kg_gguf *gguf);
const struct kg_gguf_key *kg_gguf_key_at(const struct kg_gguf *gguf, size_t index);
/* Tensors are one array: kg_gguf_tensor_at(g, i) == kg_gguf_tensor_at(g, 0) + i. */
const struct kg_gguf_tensor *kg_gguf_tensor_at(const struct kg_gguf *gguf, size_t index);

/* Binary search by name; NULL if absent. */
const struct kg_gguf_key *kg_gguf_find_key(const struct kg_gguf *gguf, const char *name);
const struct kg_gguf_tensor *kg_gguf_find_tensor(const struct kg_gguf *gguf, const char *name);

/* A key's value, type-checked. get_u32 accepts every integer type whose value fits; get_f32 accepts F32 and F64.
 * KG_ERR_NOT_FOUND for an absent key, KG_ERR_FORMAT for another type or a value that does not fit; both name file and
 * key. */
KG_WARN_UNUSED enum kg_status kg_gguf_get_u32(const struct kg_gguf *g, const char *key, uint32_t *out,
                                              struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_get_f32(const struct kg_gguf *g, const char *key, float *out,
                                              struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_get_bool(const struct kg_gguf *g, const char *key, bool *out,
                                               struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_get_str(const struct kg_gguf *g, const char *key, struct kg_str *out,
                                              struct kg_error *err);
/* A key that must be an array of elem_type; errors as above. */
KG_WARN_UNUSED enum kg_status kg_gguf_get_array(const struct kg_gguf *g, const char *key, enum kg_gguf_type elem_type,
                                                const struct kg_gguf_key **out, struct kg_error *err);
/* An element of a numeric array; index < n. */
int64_t kg_gguf_array_int(const struct kg_gguf_key *key, uint64_t index);
double kg_gguf_array_float(const struct kg_gguf_key *key, uint64_t index);

const char *kg_gguf_type_name(enum kg_gguf_type type);
bool kg_str_eq(struct kg_str s, const char *text);

/* Writing: the writer collects keys and tensors, then kg_gguf_writer_finish writes them in one pass as version 3. Names
 * and values are copied; tensor data is borrowed until then. */
struct kg_gguf_writer;

struct kg_gguf_writer *kg_gguf_writer_new(
    uint32_t alignment); /* a power of two, 32 usually; written as a key if not 32 */
void kg_gguf_writer_free(struct kg_gguf_writer *w);
void kg_gguf_writer_u32(struct kg_gguf_writer *w, const char *key, uint32_t value);
void kg_gguf_writer_f32(struct kg_gguf_writer *w, const char *key, float value);
void kg_gguf_writer_bool(struct kg_gguf_writer *w, const char *key, bool value);
void kg_gguf_writer_str(struct kg_gguf_writer *w, const char *key, const char *value, size_t len);
void kg_gguf_writer_strings(struct kg_gguf_writer *w, const char *key, const struct kg_str *values, size_t n);
/* Arrays of I32 or F32. */
void kg_gguf_writer_i32s(struct kg_gguf_writer *w, const char *key, const int32_t *values, size_t n);
void kg_gguf_writer_f32s(struct kg_gguf_writer *w, const char *key, const float *values, size_t n);
/* Copies a key that was read from another file. */
void kg_gguf_writer_copy_key(struct kg_gguf_writer *w, const struct kg_gguf_key *key);
KG_WARN_UNUSED enum kg_status kg_gguf_writer_tensor(struct kg_gguf_writer *w, const char *name, enum kg_dtype dtype,
                                                    uint32_t n_dims, const uint64_t *dims, const void *data,
                                                    struct kg_error *err);
/* A tensor whose data is generated while the file is written, so that the file may be larger than memory. The writer
 * calls fill for consecutive pieces; fill writes the n_bytes at offset_bytes of the tensor. Offsets are multiples of
 * KG_GGUF_PIECE_BLOCKS blocks of the dtype; so is n_bytes, except in the last piece. A status other than KG_OK aborts
 * the writing. */
enum { KG_GGUF_PIECE_BLOCKS = 256, KG_GGUF_PIECE_BYTES = 16 << 20 };
typedef enum kg_status (*kg_gguf_fill_fn)(void *arg, uint64_t offset_bytes, void *to, size_t n_bytes,
                                          struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_gguf_writer_tensor_made(struct kg_gguf_writer *w, const char *name,
                                                         enum kg_dtype dtype, uint32_t n_dims, const uint64_t *dims,
                                                         kg_gguf_fill_fn fill, void *arg, struct kg_error *err);
/* Progress: kg_gguf_writer_finish calls fn while it writes tensor data. */
typedef void (*kg_gguf_progress_fn)(void *arg, uint64_t done_bytes, uint64_t total_bytes);
void kg_gguf_writer_on_progress(struct kg_gguf_writer *w, kg_gguf_progress_fn fn, void *arg);
/* Appends the image of a file with the keys so far, so that a reader can check them before tensors are added;
 * KG_ERR_USAGE after the first tensor. */
struct kg_buffer;
KG_WARN_UNUSED enum kg_status kg_gguf_writer_keys(const struct kg_gguf_writer *w, struct kg_buffer *image,
                                                  struct kg_error *err);
/* Writes the file atomically (base/draft.h): on failure, path is unchanged and nothing is left behind. */
KG_WARN_UNUSED enum kg_status kg_gguf_writer_finish(struct kg_gguf_writer *w, const char *path, struct kg_error *err);

#endif
