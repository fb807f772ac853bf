/* Elements of safetensors tensors as floating-point numbers. */
#include "format/safetensors.h"
#include "format/dtype.h"
#include <string.h>

/* One loader per element type: reads *bytes, at any alignment, as a double. */
#define LOADER(name, type)                                                                                             \
    static double load_##name(const uint8_t *bytes) {                                                                  \
        type value;                                                                                                    \
        memcpy(&value, bytes, sizeof value);                                                                           \
        return (double)value;                                                                                          \
    }
LOADER(f64, double)
LOADER(f32, float)
LOADER(i64, int64_t)
LOADER(i32, int32_t)
LOADER(i16, int16_t)
LOADER(i8, int8_t)
LOADER(u64, uint64_t)
LOADER(u32, uint32_t)
LOADER(u16, uint16_t)
LOADER(u8, uint8_t)
#undef LOADER

static double load_f16(const uint8_t *bytes) {
    return kg_f16_to_f32((uint16_t)load_u16(bytes));
}

static double load_bf16(const uint8_t *bytes) {
    return kg_bf16_to_f32((uint16_t)load_u16(bytes));
}

static double load_bool(const uint8_t *bytes) {
    return *bytes != 0;
}

static double (*const LOADERS[KG_SAFETENSORS_DTYPE_COUNT])(const uint8_t *bytes) = {
    [KG_SAFETENSORS_F64] = load_f64,   [KG_SAFETENSORS_F32] = load_f32, [KG_SAFETENSORS_F16] = load_f16,
    [KG_SAFETENSORS_BF16] = load_bf16, [KG_SAFETENSORS_I64] = load_i64, [KG_SAFETENSORS_I32] = load_i32,
    [KG_SAFETENSORS_I16] = load_i16,   [KG_SAFETENSORS_I8] = load_i8,   [KG_SAFETENSORS_U64] = load_u64,
    [KG_SAFETENSORS_U32] = load_u32,   [KG_SAFETENSORS_U16] = load_u16, [KG_SAFETENSORS_U8] = load_u8,
    [KG_SAFETENSORS_BOOL] = load_bool,
};

static enum kg_status unsupported(const struct kg_safetensors_tensor *tensor, struct kg_error *err) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "tensor '%s': values of type %s are not read", tensor->name,
                   kg_safetensors_dtype_name(tensor->dtype));
}

enum kg_status kg_safetensors_to_f64(const struct kg_safetensors_tensor *tensor, double *dst, struct kg_error *err) {
    double (*const load)(const uint8_t *) = LOADERS[tensor->dtype];
    if (!load) return unsupported(tensor, err);
    const uint8_t *bytes = tensor->data;
    const uint64_t step = tensor->n_elems ? tensor->size_bytes / tensor->n_elems : 0;
    for (uint64_t i = 0; i < tensor->n_elems; i++) dst[i] = load(bytes + i * step);
    return KG_OK;
}

enum kg_status kg_safetensors_to_f32(const struct kg_safetensors_tensor *tensor, float *dst, struct kg_error *err) {
    double (*const load)(const uint8_t *) = LOADERS[tensor->dtype];
    if (!load) return unsupported(tensor, err);
    const uint8_t *bytes = tensor->data;
    const uint64_t step = tensor->n_elems ? tensor->size_bytes / tensor->n_elems : 0;
    for (uint64_t i = 0; i < tensor->n_elems; i++) dst[i] = (float)load(bytes + i * step);
    return KG_OK;
}
