/* The tensors of a file in a back end's memory, in the precisions the operation takes. */
#include "base/size.h"
#include "cli/op_call.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kg_status kg_op_host_alloc(uint64_t size_bytes, void **host, struct kg_error *err) {
    *host = malloc(size_bytes ? size_bytes : 1);
    if (*host) return KG_OK;
    return kg_fail(err, KG_ERR_NO_MEMORY, "no %" PRIu64 " bytes of host memory for a tensor", size_bytes);
}

enum kg_status kg_op_put(struct kg_op_call *c, const void *host, uint64_t size_bytes, void **data,
                         struct kg_error *err) {
    const enum kg_status status = kg_op_alloc(c, KG_MEMORY_ACTIVATIONS, size_bytes, data, err);
    return status == KG_OK ? c->backend->ops->upload(c->backend, *data, host, size_bytes, err) : status;
}

static bool dtype_among(const struct kg_safetensors_tensor *t, const enum kg_safetensors_dtype *allowed, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (t->dtype == allowed[i]) return true;
    return false;
}

#define REQUIRE_DTYPE(t, names, ...)                                                                                   \
    do {                                                                                                               \
        const enum kg_safetensors_dtype allowed[] = { __VA_ARGS__ };                                                   \
        if (!dtype_among((t), allowed, KG_COUNT_OF(allowed)))                                                          \
            return kg_fail(err, KG_ERR_USAGE, "tensor '%s' is %s; it may be " names, (t)->name,                        \
                           kg_safetensors_dtype_name((t)->dtype));                                                     \
    } while (0)

static enum kg_status put_numbers(struct kg_op_call *c, const struct kg_safetensors_tensor *t,
                                  enum kg_precision precision, void **data, struct kg_error *err) {
    void *host;
    REQUIRE_DTYPE(t, "F64, F32, F16 or BF16", KG_SAFETENSORS_F64, KG_SAFETENSORS_F32, KG_SAFETENSORS_F16,
                  KG_SAFETENSORS_BF16);
    if (kg_precision_is_quantized(precision))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "tensor '%s' cannot be given in %s", t->name,
                       kg_precision_name(precision));
    enum kg_status status = kg_op_host_alloc(t->n_elems * sizeof(float), &host, err);
    if (status != KG_OK) return status;
    float *values = host;
    status = kg_safetensors_to_f32(t, values, err);
    if (precision == KG_PRECISION_F16) { /* in place: a half is never behind the float it comes from */
        uint16_t *halves = host;
        for (uint64_t i = 0; i < t->n_elems; i++) {
            float value;
            memcpy(&value, (const char *)host + i * sizeof value, sizeof value);
            halves[i] = kg_f32_to_f16(value);
        }
    }
    if (status == KG_OK) status = kg_op_put(c, host, t->n_elems * kg_precision_bytes(precision), data, err);
    free(host);
    return status;
}

/* A weight's rows and columns from a tensor of its shape. */
static enum kg_status fold_rows(const struct kg_safetensors_tensor *t, struct kg_weight *w, struct kg_error *err) {
    const uint64_t n_cols = t->dims[t->n_dims - 1], n_rows = t->n_elems / n_cols;
    if (n_rows > UINT32_MAX || n_cols > UINT32_MAX)
        return kg_fail(err, KG_ERR_RANGE, "tensor '%s' has %" PRIu64 " rows of %" PRIu64, t->name, n_rows, n_cols);
    w->n_rows = (uint32_t)n_rows;
    w->n_cols = (uint32_t)n_cols;
    return KG_OK;
}

static enum kg_status put_weight(struct kg_op_call *c, const struct kg_safetensors_tensor *t, struct kg_weight *to,
                                 struct kg_error *err) {
    struct kg_weight w;
    void *data;
    REQUIRE_DTYPE(t, "F32, F16 or BF16", KG_SAFETENSORS_F32, KG_SAFETENSORS_F16, KG_SAFETENSORS_BF16);
    enum kg_status status = fold_rows(t, &w, err);
    if (status != KG_OK) return status;
    w.dtype = t->dtype == KG_SAFETENSORS_F32   ? KG_DTYPE_F32
              : t->dtype == KG_SAFETENSORS_F16 ? KG_DTYPE_F16
                                               : KG_DTYPE_BF16;
    status = kg_op_put(c, t->data, t->size_bytes, &data, err);
    w.data = data;
    *to = w;
    return status;
}

/* Rows of a block format: their length in elements follows from that in bytes. */
static enum kg_status measure_blocks(struct kg_op_call *c, const struct kg_op_tensor *spec,
                                     const struct kg_safetensors_tensor *t, struct kg_weight *w, struct kg_error *err) {
    const double id = kg_op_param(c, "weight_dtype");
    REQUIRE_DTYPE(t, "U8", KG_SAFETENSORS_U8);
    if (isnan(id)) return kg_fail(err, KG_ERR_USAGE, "tensor '%s' needs --param weight_dtype=NAME", t->name);
    enum kg_status status = kg_dtype_from_gguf((uint32_t)id, &w->dtype, err);
    if (status != KG_OK) return kg_error_context(err, status, "parameter weight_dtype");
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const size_t last = t->n_dims - 1;
    if (t->n_dims < 2 || t->dims[last] % info->block_bytes != 0)
        return kg_fail(err, KG_ERR_USAGE, "tensor '%s': rows of %" PRIu64 " bytes are no whole %s blocks of %u",
                       t->name, t->n_dims < 2 ? t->size_bytes : t->dims[last], info->name, info->block_bytes);
    struct kg_safetensors_tensor as_elems = *t;
    as_elems.dims[last] = t->dims[last] / info->block_bytes * info->block_elems;
    as_elems.n_elems = t->n_elems / info->block_bytes * info->block_elems;
    status = kg_op_bind_shape(c, spec, &as_elems, err);
    return status == KG_OK ? fold_rows(&as_elems, w, err) : status;
}

/* As a model's weights are put: the back end may repack them. */
static enum kg_status put_blocks(struct kg_op_call *c, const struct kg_safetensors_tensor *t, struct kg_weight *w,
                                 void **data, struct kg_error *err) {
    const struct kg_backend_ops *ops = c->backend->ops;
    const uint32_t n_experts = kg_op_length(c, "n_experts");
    const enum kg_status status = kg_op_put(c, t->data, t->size_bytes, data, err);
    w->data = *data;
    if (status != KG_OK || !ops->repack_weight) return status;
    return ops->repack_weight(c->backend, w, n_experts ? n_experts : 1, err);
}

/* What ids are below: the first length of the weight's shape; whether that counts rows of the weight. */
static uint32_t id_limit(const struct kg_op_call *c, bool *of_rows) {
    for (size_t i = 0; i < kg_op_count_tensors(c->spec); i++) {
        const struct kg_op_tensor *spec = &c->spec->tensors[i];
        if (spec->role != KG_OP_WEIGHT) continue;
        char name[sizeof c->lengths[0].name];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(spec->shape, " "), spec->shape);
        *of_rows = kg_op_length(c, name) == c->weights[i].n_rows;
        return kg_op_length(c, name);
    }
    return 0;
}

static enum kg_status put_ids(struct kg_op_call *c, const struct kg_safetensors_tensor *t, void **data,
                              struct kg_error *err) {
    void *host;
    REQUIRE_DTYPE(t, "I32 or I64", KG_SAFETENSORS_I32, KG_SAFETENSORS_I64);
    enum kg_status status = kg_op_host_alloc(t->n_elems * sizeof(int32_t), &host, err);
    if (status != KG_OK) return status;
    int32_t *ids = host;
    bool of_rows = false;
    const uint32_t limit = id_limit(c, &of_rows);
    const char *at = t->data;
    for (uint64_t i = 0; i < t->n_elems && status == KG_OK; i++) {
        int32_t narrow;
        int64_t id;
        memcpy(&narrow, at + i * (t->dtype == KG_SAFETENSORS_I32 ? 4 : 8), sizeof narrow);
        if (t->dtype == KG_SAFETENSORS_I32) id = narrow;
        else memcpy(&id, at + i * sizeof id, sizeof id);
        if (id < 0 || id >= limit)
            status = kg_fail(err, KG_ERR_RANGE, "%s[%" PRIu64 "] is %" PRId64 ", outside the %u %s of the weight",
                             t->name, i, id, limit, of_rows ? "rows" : "matrices");
        else ids[i] = (int32_t)id;
    }
    if (status == KG_OK) status = kg_op_put(c, host, t->n_elems * sizeof *ids, data, err);
    free(host);
    return status;
}

/* What a tensor is stored in: f8, i8, or `numbers`. */
static enum kg_precision stored_in(const struct kg_safetensors_tensor *t, enum kg_precision numbers) {
    if (t->dtype == KG_SAFETENSORS_U8 || t->dtype == KG_SAFETENSORS_F8_E4M3) return KG_PRECISION_F8;
    return t->dtype == KG_SAFETENSORS_I8 ? KG_PRECISION_I8 : numbers;
}

/* The first decides for all; `--dtype f8` means E4M3, i8 int8. */
static enum kg_status note_quantized(struct kg_op_call *c, const struct kg_op_tensor *spec,
                                     const struct kg_safetensors_tensor *t, struct kg_error *err) {
    static const char *const STORED[] = { [KG_PRECISION_F32] = "F64, F32, F16 or BF16",
                                          [KG_PRECISION_F16] = "F64, F32, F16 or BF16",
                                          [KG_PRECISION_F8] = "U8 or F8_E4M3",
                                          [KG_PRECISION_I8] = "I8" };
    const bool asked = kg_precision_is_quantized(c->kv);
    const enum kg_precision stored = stored_in(t, c->activations);
    if (spec == c->spec->tensors) c->quantized = asked ? c->kv : stored;
    if (stored == c->quantized) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "tensor '%s' is %s; it may be %s, as %s%s", t->name,
                   kg_safetensors_dtype_name(t->dtype), STORED[c->quantized], asked ? "--dtype is " : "",
                   asked ? kg_precision_name(c->kv) : c->spec->tensors[0].name);
}

/* What stands in the file for a tensor of the table, NULL if nothing does. */
static const struct kg_safetensors_tensor *find_input(const struct kg_safetensors *st,
                                                      const struct kg_op_tensor *spec) {
    const struct kg_safetensors_tensor *t = kg_safetensors_find(st, spec->name);
    for (size_t i = 0; i < kg_safetensors_n_tensors(st) && !t; i++)
        if (kg_op_is_bytes_of(spec, kg_safetensors_tensor_at(st, i)->name)) t = kg_safetensors_tensor_at(st, i);
    return t;
}

enum kg_status kg_op_bind_inputs(struct kg_op_call *c, const struct kg_safetensors *st, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < kg_op_count_tensors(c->spec) && status == KG_OK; i++) {
        const struct kg_op_tensor *spec = &c->spec->tensors[i];
        if (kg_op_is_output(spec) && spec->role != KG_OP_CACHE) continue;
        const struct kg_safetensors_tensor *t = find_input(st, spec);
        if (!t && !spec->optional)
            return kg_fail(err, KG_ERR_USAGE, "tensor '%s' (%s) is missing in %s", spec->name, spec->shape,
                           kg_safetensors_path(st));
        if (t)
            status = kg_op_is_bytes_of(spec, t->name) ? measure_blocks(c, spec, t, &c->weights[i], err)
                                                      : kg_op_bind_shape(c, spec, t, err);
        if (t && spec->role == KG_OP_QUANTIZED && status == KG_OK) status = note_quantized(c, spec, t, err);
        /* Its place shows that it is there, until it is in the back end's memory. */
        if (t) c->data[i] = c;
    }
    return status;
}

static enum kg_precision number_precision(const struct kg_op_call *c, enum kg_op_role role) {
    if (role == KG_OP_CACHE) return c->kv;
    return role == KG_OP_ACTIVATIONS || role == KG_OP_QUANTIZED ? c->activations : KG_PRECISION_F32;
}

enum kg_status kg_op_put_inputs(struct kg_op_call *c, const struct kg_safetensors *st, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < kg_op_count_tensors(c->spec) && status == KG_OK; i++) {
        const struct kg_op_tensor *spec = &c->spec->tensors[i];
        if (!c->data[i]) continue;
        const struct kg_safetensors_tensor *t = find_input(st, spec);
        void *data = NULL;
        if (kg_op_is_bytes_of(spec, t->name)) {
            status = put_blocks(c, t, &c->weights[i], &data, err);
        } else if (spec->role == KG_OP_WEIGHT) {
            status = put_weight(c, t, &c->weights[i], err);
        } else if (spec->role == KG_OP_IDS) {
            status = put_ids(c, t, &data, err);
        } else if (spec->role == KG_OP_QUANTIZED && kg_precision_is_quantized(c->quantized)) {
            status = kg_op_put(c, t->data, t->size_bytes, &data, err);
        } else {
            status = put_numbers(c, t, number_precision(c, spec->role), &data, err);
        }
        c->data[i] = data;
    }
    return status;
}
