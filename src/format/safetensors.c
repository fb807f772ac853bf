#include "format/safetensors.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char METADATA[] = "__metadata__";
static const uint64_t MAX_HEADER_BYTES =
    100000000; /* the limit of the reference implementation: parsed JSON is large */

struct kg_safetensors {
    char *path;
    struct kg_file_map map; /* of kg_safetensors_open; empty for borrowed bytes */
    json_t *header;         /* holds the names and the metadata */
    struct kg_safetensors_tensor *tensors;
    const struct kg_safetensors_tensor **by_name;
    size_t n_tensors;
};

static const struct {
    const char *name;
    uint64_t elem_bytes;
} DTYPES[KG_SAFETENSORS_DTYPE_COUNT] = {
#define DTYPE(name, elem_bytes) [KG_SAFETENSORS_##name] = { #name, elem_bytes },
    KG_SAFETENSORS_DTYPE_LIST(DTYPE)
#undef DTYPE
};

const char *kg_safetensors_dtype_name(enum kg_safetensors_dtype dtype) {
    return (unsigned)dtype < KG_SAFETENSORS_DTYPE_COUNT ? DTYPES[dtype].name : "?";
}

/* A JSON integer >= 0. */
static enum kg_status to_count(const json_t *value, const char *what, uint64_t *out, struct kg_error *err) {
    if (!json_is_integer(value)) return kg_fail(err, KG_ERR_FORMAT, "%s is not a whole number", what);
    const json_int_t number = json_integer_value(value);
    if (number < 0) return kg_fail(err, KG_ERR_FORMAT, "%s is %" JSON_INTEGER_FORMAT, what, number);
    *out = (uint64_t)number;
    return KG_OK;
}

static enum kg_status read_dtype(const json_t *entry, struct kg_safetensors_tensor *tensor, struct kg_error *err) {
    const json_t *value = json_object_get(entry, "dtype");
    if (!json_is_string(value)) return kg_fail(err, KG_ERR_FORMAT, "dtype is missing or no string");
    const char *name = json_string_value(value);
    for (size_t i = 0; i < KG_SAFETENSORS_DTYPE_COUNT; i++) {
        if (strcmp(DTYPES[i].name, name) != 0) continue;
        tensor->dtype = (enum kg_safetensors_dtype)i;
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_UNSUPPORTED, "dtype '%s' is not supported", kg_quote(name, strlen(name)).text);
}

static enum kg_status read_shape(const json_t *entry, struct kg_safetensors_tensor *tensor, struct kg_error *err) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return kg_fail(err, KG_ERR_FORMAT, "shape is missing or no array");
    tensor->n_dims = json_array_size(shape);
    if (tensor->n_dims > KG_SAFETENSORS_MAX_DIMS)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%zu dimensions are more than %d", tensor->n_dims,
                       KG_SAFETENSORS_MAX_DIMS);
    tensor->n_elems = 1;
    for (size_t d = 0; d < KG_SAFETENSORS_MAX_DIMS; d++) tensor->dims[d] = 1;
    for (size_t d = 0; d < tensor->n_dims; d++) {
        const enum kg_status status = to_count(json_array_get(shape, d), "a dimension", &tensor->dims[d], err);
        if (status != KG_OK) return status;
        if (!kg_mul_u64(tensor->n_elems, tensor->dims[d], &tensor->n_elems))
            return kg_fail(err, KG_ERR_FORMAT, "the product of its dimensions overflows at %" PRIu64, tensor->dims[d]);
    }
    if (!kg_mul_u64(tensor->n_elems, DTYPES[tensor->dtype].elem_bytes, &tensor->size_bytes))
        return kg_fail(err, KG_ERR_FORMAT, "the size of %" PRIu64 " elements overflows", tensor->n_elems);
    return KG_OK;
}

static enum kg_status read_place(const json_t *entry, const uint8_t *data, uint64_t data_bytes,
                                 struct kg_safetensors_tensor *tensor, struct kg_error *err) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return kg_fail(err, KG_ERR_FORMAT, "data_offsets is missing or no pair");
    enum kg_status status = to_count(json_array_get(offsets, 0), "the first of data_offsets", &begin, err);
    if (status == KG_OK) status = to_count(json_array_get(offsets, 1), "the second of data_offsets", &end, err);
    if (status != KG_OK) return status;
    if (begin > end || end > data_bytes)
        return kg_fail(err, KG_ERR_FORMAT,
                       "data_offsets [%" PRIu64 ", %" PRIu64 "] lie outside the %" PRIu64 " bytes of data", begin, end,
                       data_bytes);
    if (end - begin != tensor->size_bytes)
        return kg_fail(err, KG_ERR_FORMAT,
                       "data_offsets [%" PRIu64 ", %" PRIu64 "] do not hold the %" PRIu64 " bytes of its shape", begin,
                       end, tensor->size_bytes);
    tensor->data = data + begin;
    return KG_OK;
}

static enum kg_status read_tensor(const char *name, const json_t *entry, const uint8_t *data, uint64_t data_bytes,
                                  struct kg_safetensors_tensor *tensor, struct kg_error *err) {
    enum kg_status status = KG_OK;
    *tensor = (struct kg_safetensors_tensor){ .name = name };
    if (!json_is_object(entry)) status = kg_fail(err, KG_ERR_FORMAT, "its entry is no object");
    if (status == KG_OK) status = read_dtype(entry, tensor, err);
    if (status == KG_OK) status = read_shape(entry, tensor, err);
    if (status == KG_OK) status = read_place(entry, data, data_bytes, tensor, err);
    return status == KG_OK ? KG_OK : kg_error_context(err, status, "tensor '%s'", kg_quote(name, strlen(name)).text);
}

static enum kg_status check_metadata(const json_t *metadata, struct kg_error *err) {
    const char *key;
    json_t *value;
    if (!metadata) return KG_OK;
    if (!json_is_object(metadata)) return kg_fail(err, KG_ERR_FORMAT, "%s is no object", METADATA);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return kg_fail(err, KG_ERR_FORMAT, "%s: '%s' is no string", METADATA, kg_quote(key, strlen(key)).text);
    }
    return KG_OK;
}

static int compare_places(const void *a, const void *b) {
    const struct kg_safetensors_tensor *x = a, *y = b;
    const uintptr_t x_at = (uintptr_t)x->data, y_at = (uintptr_t)y->data;
    if (x_at != y_at) return x_at < y_at ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1; /* empty ones first */
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b) {
    const struct kg_safetensors_tensor *x = *(const struct kg_safetensors_tensor *const *)a;
    const struct kg_safetensors_tensor *y = *(const struct kg_safetensors_tensor *const *)b;
    return strcmp(x->name, y->name);
}

/* Tensors, sorted by offset, must be contiguous and cover the data. */
static enum kg_status check_cover(const struct kg_safetensors *st, const uint8_t *data, uint64_t data_bytes,
                                  struct kg_error *err) {
    uint64_t filled = 0;
    for (size_t i = 0; i < st->n_tensors; i++) {
        const struct kg_safetensors_tensor *t = &st->tensors[i];
        const uint64_t begin = (uint64_t)((const uint8_t *)t->data - data);
        if (begin != filled)
            return kg_fail(err, KG_ERR_FORMAT, "tensor '%s' begins at %" PRIu64 " of the data, %s at %" PRIu64,
                           kg_quote(t->name, strlen(t->name)).text, begin,
                           begin < filled ? "overlapping what ends" : "leaving a hole from what ends", filled);
        filled += t->size_bytes;
    }
    if (filled != data_bytes)
        return kg_fail(err, KG_ERR_FORMAT, "its tensors end at %" PRIu64 " of %" PRIu64 " bytes of data", filled,
                       data_bytes);
    return KG_OK;
}

static enum kg_status read_tensors(struct kg_safetensors *st, const uint8_t *data, uint64_t data_bytes,
                                   struct kg_error *err) {
    const size_t n_members = json_object_size(st->header);
    const char *name;
    json_t *entry;
    st->tensors = kg_xcalloc(n_members, sizeof *st->tensors);
    json_object_foreach(st->header, name, entry) {
        if (strcmp(name, METADATA) == 0) continue;
        const enum kg_status status = read_tensor(name, entry, data, data_bytes, &st->tensors[st->n_tensors], err);
        if (status != KG_OK) return status;
        st->n_tensors++;
    }
    if (st->n_tensors > 1) qsort(st->tensors, st->n_tensors, sizeof *st->tensors, compare_places);
    st->by_name = kg_xcalloc(st->n_tensors, sizeof *st->by_name);
    for (size_t i = 0; i < st->n_tensors; i++) st->by_name[i] = &st->tensors[i];
    if (st->n_tensors > 1) qsort(st->by_name, st->n_tensors, sizeof *st->by_name, compare_names);
    return check_cover(st, data, data_bytes, err);
}

static enum kg_status read_header(struct kg_safetensors *st, const uint8_t *bytes, size_t size_bytes,
                                  struct kg_error *err) {
    uint64_t header_bytes;
    json_error_t problem;
    const enum kg_status fetched = kg_check_fetched(bytes, size_bytes, err);
    if (fetched != KG_OK) return fetched;
    if (size_bytes < sizeof header_bytes)
        return kg_fail(err, KG_ERR_FORMAT, "%zu bytes are too few for a safetensors file", size_bytes);
    memcpy(&header_bytes, bytes, sizeof header_bytes);
    if (header_bytes > size_bytes - sizeof header_bytes)
        return kg_fail(err, KG_ERR_FORMAT, "a header of %" PRIu64 " bytes does not lie in the file of %zu",
                       header_bytes, size_bytes);
    if (header_bytes > MAX_HEADER_BYTES)
        return kg_fail(err, KG_ERR_FORMAT, "a header of %" PRIu64 " bytes is more than %" PRIu64, header_bytes,
                       MAX_HEADER_BYTES);
    const char *text = (const char *)bytes + sizeof header_bytes;
    st->header = json_loadb(text, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!st->header)
        return kg_fail(err, KG_ERR_FORMAT, "header: %s at byte %d", kg_quote(problem.text, strlen(problem.text)).text,
                       problem.position);
    if (!json_is_object(st->header)) return kg_fail(err, KG_ERR_FORMAT, "the header is no JSON object");
    const enum kg_status status = check_metadata(json_object_get(st->header, METADATA), err);
    if (status != KG_OK) return status;
    const size_t data_at = sizeof header_bytes + (size_t)header_bytes;
    return read_tensors(st, bytes + data_at, size_bytes - data_at, err);
}

/* Takes ownership of the map. */
static enum kg_status parse_image(const void *data, size_t size_bytes, struct kg_file_map map, const char *path,
                                  struct kg_safetensors **out, struct kg_error *err) {
    struct kg_safetensors *st = kg_xcalloc(1, sizeof *st);
    st->path = kg_xstrdup(path);
    st->map = map;
    enum kg_status status = read_header(st, data, size_bytes, err);
    if (status == KG_OK) {
        *out = st;
        return KG_OK;
    }
    status = kg_error_context(err, status, "%s", path);
    kg_safetensors_close(st);
    return status;
}

enum kg_status kg_safetensors_parse(const void *data, size_t size_bytes, const char *name, struct kg_safetensors **st,
                                    struct kg_error *err) {
    return parse_image(data, size_bytes, KG_NO_FILE_MAP, name, st, err);
}

enum kg_status kg_safetensors_open(const char *path, struct kg_safetensors **st, struct kg_error *err) {
    struct kg_file_map map;
    const enum kg_status status = kg_file_map_open(path, &map, err);
    return status == KG_OK ? parse_image(map.data, map.size_bytes, map, path, st, err) : status;
}

void kg_safetensors_close(struct kg_safetensors *st) {
    if (!st) return;
    free(st->by_name);
    free(st->tensors);
    json_decref(st->header);
    kg_file_map_close(&st->map);
    free(st->path);
    free(st);
}

const char *kg_safetensors_path(const struct kg_safetensors *st) {
    return st->path;
}

size_t kg_safetensors_n_tensors(const struct kg_safetensors *st) {
    return st->n_tensors;
}

const struct kg_safetensors_tensor *kg_safetensors_tensor_at(const struct kg_safetensors *st, size_t index) {
    return &st->tensors[index];
}

const struct kg_safetensors_tensor *kg_safetensors_find(const struct kg_safetensors *st, const char *name) {
    if (st->n_tensors == 0) return NULL;
    const struct kg_safetensors_tensor wanted = { .name = name }, *key = &wanted;
    const struct kg_safetensors_tensor *const *hit =
        bsearch(&key, st->by_name, st->n_tensors, sizeof *st->by_name, compare_names);
    return hit ? *hit : NULL;
}

const char *kg_safetensors_metadata(const struct kg_safetensors *st, const char *key) {
    return json_string_value(json_object_get(json_object_get(st->header, METADATA), key));
}
