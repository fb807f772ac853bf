#include "format/safetensors_write.h"
#include "base/buffer.h"
#include "base/draft.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_ALIGNMENT = 8 };

static const uint64_t ELEM_BYTES[KG_SAFETENSORS_DTYPE_COUNT] = {
#define ELEM(name, elem_bytes) [KG_SAFETENSORS_##name] = (elem_bytes),
    KG_SAFETENSORS_DTYPE_LIST(ELEM)
#undef ELEM
};

static enum kg_status measure(const struct kg_safetensors_output *t, uint64_t *size_bytes, struct kg_error *err) {
    uint64_t n_bytes = (unsigned)t->dtype < KG_SAFETENSORS_DTYPE_COUNT ? ELEM_BYTES[t->dtype] : 0;
    if (n_bytes == 0 || t->n_dims > KG_SAFETENSORS_MAX_DIMS)
        return kg_fail(err, KG_ERR_USAGE, "tensor '%s': dtype %d with %zu dimensions", t->name, (int)t->dtype,
                       t->n_dims);
    for (size_t d = 0; d < t->n_dims; d++)
        if (!kg_mul_u64(n_bytes, t->dims[d], &n_bytes) || n_bytes > INT64_MAX)
            return kg_fail(err, KG_ERR_RANGE, "tensor '%s': its size overflows", t->name);
    *size_bytes = n_bytes;
    return KG_OK;
}

static enum kg_status describe(json_t *header, const struct kg_safetensors_output *t, uint64_t begin, uint64_t end,
                               struct kg_error *err) {
    if (!kg_utf8_valid(t->name, strlen(t->name)) || strcmp(t->name, "__metadata__") == 0 ||
        json_object_get(header, t->name))
        return kg_fail(err, KG_ERR_USAGE, "'%s' cannot be a tensor's name here: no UTF-8, reserved or given twice",
                       kg_quote(t->name, strlen(t->name)).text);
    json_t *shape = json_array();
    for (size_t d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
    json_object_set_new(header, t->name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", kg_safetensors_dtype_name(t->dtype), "shape", shape,
                                  "data_offsets", (json_int_t)begin, (json_int_t)end));
    return KG_OK;
}

static enum kg_status put_header(const struct kg_safetensors_output *tensors, size_t n, struct kg_buffer *head,
                                 struct kg_error *err) {
    enum kg_status status = KG_OK;
    uint64_t begin = 0;
    json_t *header = json_object();
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        uint64_t size_bytes = 0;
        status = measure(&tensors[i], &size_bytes, err);
        if (status == KG_OK) status = describe(header, &tensors[i], begin, begin + size_bytes, err);
        begin += size_bytes;
    }
    char *text = status == KG_OK ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (!text) return status;
    const size_t len = strlen(text);
    const uint64_t padded = (len + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
    kg_buffer_append(head, &padded, sizeof padded);
    kg_buffer_append(head, text, len);
    for (size_t i = len; i < padded; i++) kg_buffer_append(head, " ", 1);
    free(text);
    return KG_OK;
}

enum kg_status kg_safetensors_write(const char *path, const struct kg_safetensors_output *tensors, size_t n,
                                    struct kg_error *err) {
    struct kg_buffer head = KG_BUFFER_INIT;
    struct kg_draft draft;
    enum kg_status status = put_header(tensors, n, &head, err);
    if (status != KG_OK) {
        kg_buffer_free(&head);
        return kg_error_context(err, status, "%s", path);
    }
    status = kg_draft_open(path, &draft, err);
    if (status == KG_OK) {
        status = kg_fd_write(draft.fd, head.data, head.len, err);
        for (size_t i = 0; i < n && status == KG_OK; i++) {
            uint64_t size_bytes = 0;
            status = measure(&tensors[i], &size_bytes, err);
            if (status == KG_OK && size_bytes > 0) status = kg_fd_write(draft.fd, tensors[i].data, size_bytes, err);
        }
        if (status == KG_OK) status = kg_draft_publish(&draft, err);
        else kg_error_prefix(err, "%s", path);
        kg_draft_discard(&draft);
    }
    kg_buffer_free(&head);
    return status;
}
