#include "kernels/ptx/tensor_map.h"
#include "kernels/cuda_backend.h"

using encode_function = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                     const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                     CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, found at run time: kigo links no driver library. */
static encode_function find_encode() {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
        return nullptr;
    return reinterpret_cast<encode_function>(found);
}

enum kg_status kg_tensor_map_make(CUtensorMap *map, const struct kg_tensor_extent *e, const char *what,
                                  struct kg_error *err) {
    static const encode_function encode = find_encode();
    if (!encode) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: the driver has no cuTensorMapEncodeTiled", what);
    const cuuint64_t sizes[4] = { e->head_dim, e->n_rows, e->n_heads, e->n_batch };
    /* The stride of a dimension of one entry is never used, but looked at. */
    const cuuint64_t row = e->n_rows > 1 ? e->strides.row * e->element_bytes : 16,
                     head = e->n_heads > 1 ? e->strides.head * e->element_bytes : 16,
                     batch = e->n_batch > 1 ? e->strides.batch * e->element_bytes : 16;
    const cuuint64_t strides[3] = { row, head, batch };
    const cuuint32_t box[4] = { e->box_bytes / e->element_bytes, e->box_rows, 1, 1 };
    const cuuint32_t every[4] = { 1, 1, 1, 1 };
    const CUresult result =
        encode(map, e->element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
               const_cast<void *>(e->data), sizes, strides, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
               e->box_bytes == 64    ? CU_TENSOR_MAP_SWIZZLE_64B
               : e->box_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : CU_TENSOR_MAP_SWIZZLE_NONE,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return KG_OK;
    return kg_fail(err, KG_ERR_INTERNAL, "%s: cuTensorMapEncodeTiled refused (%d)", what, (int)result);
}

enum kg_status kg_tensor_map_make_rows(CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_halves,
                                       uint64_t row_halves, uint32_t box_rows, uint32_t box_bytes, const char *what,
                                       struct kg_error *err) {
    struct kg_tensor_extent e = {};
    e.data = data;
    e.strides.row = row_halves;
    e.n_batch = e.n_heads = 1;
    e.n_rows = n_rows, e.head_dim = n_halves;
    e.element_bytes = 2, e.box_rows = box_rows, e.box_bytes = box_bytes;
    return kg_tensor_map_make(map, &e, what, err);
}
