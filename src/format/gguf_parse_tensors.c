/* The tensors of a GGUF file: names, shapes and types, and where in the file their data lies. */
#include "format/gguf_private.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 }; /* a one-byte name and one dimension */

_Static_assert(offsetof(struct kg_gguf_tensor, name) == 0, "kg_gguf_index finds a tensor by its name's address");

enum kg_status kg_gguf_tensor_measure(struct kg_gguf_tensor *tensor, struct kg_error *err) {
    uint64_t n_rows = 1, row_bytes;
    if (tensor->n_dims < 1 || tensor->n_dims > KG_GGUF_MAX_DIMS)
        return kg_fail(err, KG_ERR_FORMAT, "%" PRIu32 " dimensions are outside 1 to %d", tensor->n_dims,
                       KG_GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < tensor->n_dims; d++) {
        if (tensor->dims[d] == 0) return kg_fail(err, KG_ERR_FORMAT, "dimension %" PRIu32 " is 0", d);
        if (d > 0 && !kg_mul_u64(n_rows, tensor->dims[d], &n_rows))
            return kg_fail(err, KG_ERR_FORMAT,
                           "the product of its dimensions overflows at dimension %" PRIu32 " (%" PRIu64 ")", d,
                           tensor->dims[d]);
    }
    const enum kg_status status = kg_dtype_row_bytes(tensor->dtype, tensor->dims[0], &row_bytes, err);
    if (status != KG_OK) return status;
    if (!kg_mul_u64(n_rows, tensor->dims[0], &tensor->n_elems) || !kg_mul_u64(n_rows, row_bytes, &tensor->size_bytes))
        return kg_fail(err, KG_ERR_FORMAT, "its size overflows: %" PRIu64 " rows of %" PRIu64 " bytes", n_rows,
                       row_bytes);
    return KG_OK;
}

static enum kg_status take_shape(struct kg_gguf_cursor *c, struct kg_gguf_tensor *tensor, uint64_t *offset,
                                 struct kg_error *err) {
    uint32_t dtype_id;
    enum kg_status status = kg_gguf_take_u32(c, "the number of dimensions", &tensor->n_dims, err);
    if (status == KG_OK && tensor->n_dims > KG_GGUF_MAX_DIMS)
        return kg_fail(err, KG_ERR_FORMAT, "%" PRIu32 " dimensions are more than %d", tensor->n_dims, KG_GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < KG_GGUF_MAX_DIMS; d++) tensor->dims[d] = 1;
    for (uint32_t d = 0; status == KG_OK && d < tensor->n_dims; d++)
        status = kg_gguf_take_u64(c, "a dimension", &tensor->dims[d], err);
    if (status == KG_OK) status = kg_gguf_take_u32(c, "the type", &dtype_id, err);
    if (status == KG_OK) status = kg_gguf_take_u64(c, "the offset", offset, err);
    if (status == KG_OK) status = kg_dtype_from_gguf(dtype_id, &tensor->dtype, err);
    return status == KG_OK ? kg_gguf_tensor_measure(tensor, err) : status;
}

static enum kg_status take_tensor(struct kg_gguf_cursor *c, uint64_t index, uint64_t n, struct kg_gguf_tensor *tensor,
                                  uint64_t *offset, struct kg_error *err) {
    enum kg_status status = kg_gguf_take_str(c, "the name", &tensor->name, err);
    if (status == KG_OK && tensor->name.len == 0) status = kg_fail(err, KG_ERR_FORMAT, "the name is empty");
    if (status != KG_OK) return kg_error_context(err, status, "tensor %" PRIu64 " of %" PRIu64, index, n);
    status = take_shape(c, tensor, offset, err);
    if (status == KG_OK) return KG_OK;
    return kg_error_context(err, status, "tensor '%s'", kg_quote(tensor->name.data, tensor->name.len).text);
}

static enum kg_status place_tensor(const struct kg_gguf *gguf, const struct kg_gguf_cursor *c, uint64_t data_start,
                                   uint64_t offset, struct kg_gguf_tensor *tensor, struct kg_error *err) {
    const struct kg_quoted name = kg_quote(tensor->name.data, tensor->name.len);
    uint64_t begin, end;
    if (offset % gguf->alignment != 0)
        return kg_fail(err, KG_ERR_FORMAT, "tensor '%s': offset %" PRIu64 " is no multiple of the alignment %" PRIu64,
                       name.text, offset, gguf->alignment);
    if (!kg_add_u64(data_start, offset, &begin) || !kg_add_u64(begin, tensor->size_bytes, &end))
        return kg_fail(err, KG_ERR_FORMAT, "tensor '%s': offset %" PRIu64 " and size %" PRIu64 " overflow", name.text,
                       offset, tensor->size_bytes);
    if (end > c->size_bytes)
        return kg_fail(err, KG_ERR_FORMAT,
                       "truncated: tensor '%s' lies at bytes %" PRIu64 " to %" PRIu64 ", the file has %" PRIu64,
                       name.text, begin, end, c->size_bytes);
    tensor->data = c->data + begin;
    return KG_OK;
}

static int compare_places(const void *a, const void *b) {
    const struct kg_gguf_tensor *x = *(const struct kg_gguf_tensor *const *)a;
    const struct kg_gguf_tensor *y = *(const struct kg_gguf_tensor *const *)b;
    const uintptr_t x_at = (uintptr_t)x->data, y_at = (uintptr_t)y->data;
    return (x_at > y_at) - (x_at < y_at);
}

static enum kg_status check_overlaps(const struct kg_gguf *gguf, struct kg_error *err) {
    const size_t n = gguf->n_tensors;
    const struct kg_gguf_tensor **placed = malloc(n ? n * sizeof *placed : 1);
    if (!placed) return kg_fail(err, KG_ERR_NO_MEMORY, "out of memory for the order of %zu tensors", n);
    for (size_t i = 0; i < n; i++) placed[i] = &gguf->tensors[i];
    if (n > 1) qsort(placed, n, sizeof *placed, compare_places);
    enum kg_status status = KG_OK;
    for (size_t i = 1; i < n && status == KG_OK; i++) {
        const struct kg_gguf_tensor *a = placed[i - 1], *b = placed[i];
        if ((uintptr_t)a->data + a->size_bytes > (uintptr_t)b->data)
            status = kg_fail(err, KG_ERR_FORMAT, "tensors '%s' and '%s' overlap",
                             kg_quote(a->name.data, a->name.len).text, kg_quote(b->name.data, b->name.len).text);
    }
    free(placed);
    return status;
}

enum kg_status kg_gguf_parse_tensors(struct kg_gguf *gguf, struct kg_gguf_cursor *c, uint64_t n, struct kg_error *err) {
    const uint64_t left = c->size_bytes - c->at;
    if (n > left / MIN_TENSOR_BYTES)
        return kg_fail(err, KG_ERR_FORMAT, "%" PRIu64 " tensors cannot lie in the %" PRIu64 " bytes left", n, left);
    uint64_t *offsets = NULL, data_start;
    size_t tensors_capacity = 0, offsets_capacity = 0;
    enum kg_status status = KG_OK;
    for (uint64_t i = 0; i < n && status == KG_OK; i++) {
        void *tensors = gguf->tensors, *places = offsets;
        status = kg_gguf_grow(&tensors, i, &tensors_capacity, sizeof *gguf->tensors, err);
        if (status == KG_OK) status = kg_gguf_grow(&places, i, &offsets_capacity, sizeof *offsets, err);
        gguf->tensors = tensors;
        offsets = places;
        if (status == KG_OK) status = take_tensor(c, i, n, &gguf->tensors[i], &offsets[i], err);
        if (status == KG_OK) gguf->n_tensors++;
    }
    if (status == KG_OK && !kg_align_u64(c->at, gguf->alignment, &data_start))
        status =
            kg_fail(err, KG_ERR_FORMAT, "aligning offset %" PRIu64 " to %" PRIu64 " overflows", c->at, gguf->alignment);
    for (size_t i = 0; offsets && i < gguf->n_tensors && status == KG_OK; i++)
        status = place_tensor(gguf, c, data_start, offsets[i], &gguf->tensors[i], err);
    free(offsets);
    if (status == KG_OK)
        status =
            kg_gguf_index(&gguf->tensor_names, gguf->tensors, gguf->n_tensors, sizeof *gguf->tensors, "tensor", err);
    return status == KG_OK ? check_overlaps(gguf, err) : status;
}
