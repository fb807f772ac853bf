/* Running an operation of the table on the tensors of a file. */
#include "base/size.h"
#include "cli/op_call.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kg_op_is_output(const struct kg_op_tensor *t) {
    return t->role == KG_OP_CACHE || t->role >= KG_OP_OUT;
}

static size_t find_tensor(const struct kg_op_call *c, const char *name) {
    size_t i = 0;
    while (i < kg_op_count_tensors(c->spec) && strcmp(c->spec->tensors[i].name, name) != 0) i++;
    return i;
}

void *kg_op_data(const struct kg_op_call *c, const char *name) {
    const size_t i = find_tensor(c, name);
    return i < KG_OP_MAX_TENSORS ? c->data[i] : NULL;
}

struct kg_weight kg_op_weight(const struct kg_op_call *c, const char *name) {
    const size_t i = find_tensor(c, name);
    return i < KG_OP_MAX_TENSORS ? c->weights[i] : (struct kg_weight){ 0 };
}

void kg_op_give(struct kg_op_call *c, const char *name, void *data) {
    const size_t i = find_tensor(c, name);
    if (i < KG_OP_MAX_TENSORS) c->data[i] = data;
}

enum kg_status kg_op_alloc(struct kg_op_call *c, enum kg_memory_tag tag, uint64_t size_bytes, void **data,
                           struct kg_error *err) {
    if (c->n_blocks == KG_OP_MAX_BLOCKS) return kg_fail(err, KG_ERR_INTERNAL, "more than %zu arrays", c->n_blocks);
    struct kg_block *block = &c->blocks[c->n_blocks];
    *block = (struct kg_block){ 0 };
    const enum kg_status status = c->backend->ops->alloc(c->backend, tag, size_bytes, c->spec->name, block, err);
    if (status != KG_OK) return status;
    c->n_blocks++;
    *data = block->data;
    return KG_OK;
}

enum kg_status kg_op_workspace(struct kg_op_call *c, const struct kg_op_extent *extent, struct kg_error *err) {
    uint64_t size_bytes = 0;
    struct kg_op_extent here = *extent;
    here.activations = c->activations;
    here.kv = c->kv;
    const enum kg_status status = kg_op_workspace_bytes(c->backend, &here, &size_bytes, err);
    if (status != KG_OK || size_bytes == 0) return status;
    return kg_op_alloc(c, KG_MEMORY_WORKSPACE, size_bytes, &c->workspace, err);
}

/* Outputs. */

static enum kg_precision output_precision(const struct kg_op_call *c, const struct kg_op_tensor *spec) {
    switch (spec->role) {
    case KG_OP_CACHE: return c->kv;
    case KG_OP_OUT_IDS: /* as long */
    case KG_OP_OUT_VECTOR: return KG_PRECISION_F32;
    case KG_OP_OUT_QUANTIZED: return c->quantized;
    default: return c->activations;
    }
}

static enum kg_status measure_output(struct kg_op_call *c, const struct kg_op_tensor *spec, struct kg_op_result *r,
                                     struct kg_error *err) {
    size_t rank[KG_OP_MAX_RANK];
    *r = (struct kg_op_result){ .name = spec->name, .n_dims = kg_op_parse_shape(c, spec->shape, rank), .n_elems = 1 };
    for (size_t d = 0; d < r->n_dims; d++) {
        r->dims[d] = c->lengths[rank[d]].value;
        if (!kg_mul_u64(r->n_elems, r->dims[d], &r->n_elems) || r->n_elems > INT64_MAX / sizeof(double))
            return kg_fail(err, KG_ERR_RANGE, "tensor '%s' overflows", spec->name);
    }
    if (c->flat && spec->role == KG_OP_OUT && r->n_dims == 3) {
        r->dims[1] *= r->dims[2];
        r->n_dims = 2;
    }
    return KG_OK;
}

/* An output holds NaN before, so that an element never written is seen; a cache that was not given holds zeros. */
static enum kg_status make_output(struct kg_op_call *c, size_t index, const struct kg_op_result *r,
                                  struct kg_error *err) {
    const struct kg_op_tensor *spec = &c->spec->tensors[index];
    const uint64_t size_bytes = r->n_elems * kg_precision_bytes(output_precision(c, spec));
    void *host;
    if (c->data[index]) return KG_OK; /* a cache that was given */
    enum kg_status status = kg_op_host_alloc(size_bytes, &host, err);
    if (status != KG_OK) return status;
    memset(host, spec->role == KG_OP_CACHE ? 0 : 0xFF, size_bytes);
    status = kg_op_put(c, host, size_bytes, &c->data[index], err);
    free(host);
    return status;
}

/* E4M3, int8 and ids as they are. */
static enum kg_status take_as_is(struct kg_op_call *c, const void *data, enum kg_op_role role, struct kg_op_result *r,
                                 void **values, struct kg_error *err) {
    const uint64_t size_bytes = r->n_elems * (role == KG_OP_OUT_IDS ? sizeof(int32_t) : 1);
    enum kg_status status = kg_op_host_alloc(size_bytes, values, err);
    if (status == KG_OK) status = c->backend->ops->download(c->backend, *values, data, size_bytes, err);
    const bool is_e4m3 = role == KG_OP_OUT_QUANTIZED && c->quantized == KG_PRECISION_F8;
    for (uint64_t i = 0; i < r->n_elems && status == KG_OK && is_e4m3; i++)
        r->n_nonfinite += !isfinite(kg_e4m3_to_f32(((const uint8_t *)*values)[i]));
    return status;
}

static enum kg_status take_output(struct kg_op_call *c, size_t index, struct kg_op_result *r, void **values,
                                  struct kg_error *err) {
    const struct kg_op_tensor *spec = &c->spec->tensors[index];
    const enum kg_precision precision = output_precision(c, spec);
    const uint64_t size_bytes = r->n_elems * kg_precision_bytes(precision);
    void *host = NULL;
    if (spec->role > KG_OP_OUT_VECTOR) return take_as_is(c, c->data[index], spec->role, r, values, err);
    if (kg_precision_is_quantized(precision))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "tensor '%s' cannot be given back from %s", r->name,
                       kg_precision_name(precision));
    enum kg_status status = kg_op_host_alloc(size_bytes, &host, err);
    if (status == KG_OK) status = kg_op_host_alloc(r->n_elems * sizeof(float), values, err);
    if (status == KG_OK) status = c->backend->ops->download(c->backend, host, c->data[index], size_bytes, err);
    for (uint64_t i = 0; i < r->n_elems && status == KG_OK; i++) {
        const float value =
            precision == KG_PRECISION_F16 ? kg_f16_to_f32(((const uint16_t *)host)[i]) : ((const float *)host)[i];
        ((float *)*values)[i] = value;
        r->n_nonfinite += !isfinite(value);
    }
    free(host);
    return status;
}

static enum kg_safetensors_dtype stored_dtype(const struct kg_op_call *c, enum kg_op_role role) {
    if (role == KG_OP_OUT_QUANTIZED)
        return c->quantized == KG_PRECISION_F8 ? KG_SAFETENSORS_F8_E4M3 : KG_SAFETENSORS_I8;
    return role == KG_OP_OUT_IDS ? KG_SAFETENSORS_I32 : KG_SAFETENSORS_F32;
}

static enum kg_status run_call(struct kg_op_call *c, const struct kg_op_request *request,
                               struct kg_op_result results[KG_OP_MAX_TENSORS], size_t *n_results,
                               struct kg_error *err) {
    size_t places[KG_OP_MAX_TENSORS], n = 0;
    void *values[KG_OP_MAX_TENSORS] = { NULL };
    struct kg_safetensors_output outputs[KG_OP_MAX_TENSORS];
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < kg_op_count_tensors(c->spec) && status == KG_OK; i++) {
        if (!kg_op_is_output(&c->spec->tensors[i])) continue;
        places[n] = i;
        status = measure_output(c, &c->spec->tensors[i], &results[n], err);
        if (status == KG_OK) status = make_output(c, i, &results[n], err);
        n++;
    }
    if (status == KG_OK) status = c->spec->run(c, err);
    if (status == KG_OK) status = c->backend->ops->synchronize(c->backend, err);
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        status = take_output(c, places[i], &results[i], &values[i], err);
        const enum kg_op_role role = c->spec->tensors[places[i]].role;
        outputs[i] = (struct kg_safetensors_output){
            .name = results[i].name,
            .dtype = stored_dtype(c, role),
            .n_dims = results[i].n_dims,
            .data = values[i],
        };
        memcpy(outputs[i].dims, results[i].dims, sizeof results[i].dims);
    }
    if (status == KG_OK) status = kg_safetensors_write(request->out, outputs, n, err);
    for (size_t i = 0; i < n; i++) free(values[i]);
    *n_results = n;
    return status;
}

enum kg_status kg_op_run(struct kg_op_request *request, const char **backend_name,
                         struct kg_op_result results[KG_OP_MAX_TENSORS], size_t *n_results, struct kg_error *err) {
    struct kg_op_call c = { .spec = request->spec, .activations = request->activations, .kv = request->kv };
    struct kg_safetensors *st;
    enum kg_status status = kg_safetensors_open(request->in, &st, err);
    if (status != KG_OK) return status;
    status = kg_op_take_params(&c, st, request, err);
    if (status == KG_OK) status = kg_op_bind_inputs(&c, st, err);
    if (status == KG_OK && c.spec->settle) status = c.spec->settle(&c, err);
    if (status == KG_OK) status = kg_backend_open(request->backend, 0, &c.backend, err);
    if (status == KG_OK) {
        *backend_name = c.backend->ops->name;
        /* Quantised inputs have no precision of output in their name: it is what the back end has, f32 on the CPU. */
        if (kg_precision_is_quantized(c.kv) && c.quantized == c.kv && c.backend->ops == &kg_cpu_ops)
            request->activations = c.activations = KG_PRECISION_F32;
        status = kg_op_put_inputs(&c, st, err);
    }
    if (status == KG_OK) status = run_call(&c, request, results, n_results, err);
    for (size_t i = c.n_blocks; i-- > 0;) c.backend->ops->free(c.backend, &c.blocks[i]);
    if (c.backend) kg_backend_close(c.backend);
    kg_safetensors_close(st);
    return status;
}
