#include "format/dtype.h"
#include "format/dtype_rows.h"
#include "base/size.h"
#include <inttypes.h>
#include <strings.h>

/* Row functions by the names of KG_DTYPE_LIST. */
#define ROWS_F32 kg_f32_decode, kg_f32_encode
#define ROWS_F16 kg_f16_decode, kg_f16_encode
#define ROWS_BF16 kg_bf16_decode, kg_bf16_encode
#define ROWS_Q8_0 kg_q8_0_decode, kg_q8_0_encode
#define ROWS_Q4_0 kg_q4_0_decode, kg_q4_0_encode
#define ROWS_Q5_0 kg_q5_0_decode, kg_q5_0_encode
#define ROWS_Q4_K kg_q4_k_decode, kg_q4_k_encode
#define ROWS_Q5_K kg_q5_k_decode, kg_q5_k_encode
#define ROWS_Q6_K kg_q6_k_decode, kg_q6_k_encode
#define ROWS_MXFP4 kg_mxfp4_decode, kg_mxfp4_encode

static const struct kg_dtype_info INFOS[KG_DTYPE_COUNT] = {
#define INFO(name, gguf_id, text, block_elems, block_bytes)                                                            \
    [KG_DTYPE_##name] = { text, gguf_id, block_elems, block_bytes, ROWS_##name },
    KG_DTYPE_LIST(INFO)
#undef INFO
};

/* Types of GGUF files that kigo does not read, by id, so that an error can call them by name. */
static const char *const UNREAD[] = {
    [3] = "Q4_1",      [4] = "Q4_2",   [5] = "Q4_3",     [7] = "Q5_1",        [9] = "Q8_1",        [10] = "Q2_K",
    [11] = "Q3_K",     [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",     [18] = "IQ3_XXS",    [19] = "IQ1_S",
    [20] = "IQ4_NL",   [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",     [24] = "I8",         [25] = "I16",
    [26] = "I32",      [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",      [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",
    [33] = "Q4_0_8_8", [34] = "TQ1_0", [35] = "TQ2_0",   [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8",
    [40] = "NVFP4",    [41] = "Q1_0",
};

const struct kg_dtype_info *kg_dtype_info(enum kg_dtype dtype) {
    return &INFOS[dtype];
}

enum kg_status kg_dtype_from_gguf(uint32_t gguf_id, enum kg_dtype *dtype, struct kg_error *err) {
    for (size_t i = 0; i < KG_DTYPE_COUNT; i++) {
        if (INFOS[i].gguf_id != gguf_id) continue;
        *dtype = (enum kg_dtype)i;
        return KG_OK;
    }
    const char *name = gguf_id < KG_COUNT_OF(UNREAD) ? UNREAD[gguf_id] : NULL;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "type %s (%" PRIu32 ") is not supported", name ? name : "unknown", gguf_id);
}

enum kg_status kg_dtype_from_name(const char *name, enum kg_dtype *dtype, struct kg_error *err) {
    for (size_t i = 0; i < KG_DTYPE_COUNT; i++) {
        if (strcasecmp(INFOS[i].name, name) != 0) continue;
        *dtype = (enum kg_dtype)i;
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_UNSUPPORTED, "type '%s' is not supported", name);
}

enum kg_status kg_dtype_row_bytes(enum kg_dtype dtype, uint64_t n_elems, uint64_t *bytes, struct kg_error *err) {
    const struct kg_dtype_info *info = &INFOS[dtype];
    uint64_t size;
    if (n_elems % info->block_elems != 0)
        return kg_fail(err, KG_ERR_FORMAT,
                       "a row of %" PRIu64 " elements is no multiple of the %" PRIu32 " in a block of %s", n_elems,
                       info->block_elems, info->name);
    if (!kg_mul_u64(n_elems / info->block_elems, info->block_bytes, &size))
        return kg_fail(err, KG_ERR_FORMAT, "the size of %" PRIu64 " elements of %s overflows", n_elems, info->name);
    *bytes = size;
    return KG_OK;
}
