/* Tensor maps for Hopper's tensor copies (CUDA Driver API, "Tensor Map Object Management"). */
#ifndef KIGO_KERNELS_PTX_TENSOR_MAP_H
#define KIGO_KERNELS_PTX_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime.h>

extern "C" {
#include "ops/sdpa.h"
}

/* A tensor (batch, heads, rows, head_dim) of elements of element_bytes (1 or 2), seen through boxes of box_rows x
 * box_bytes that are written to shared memory, or read from there, with a swizzle of as many bytes (64 or 128; of
 * others with none); what lies beyond the tensor comes as zeros. KG_ERR_INTERNAL naming `what` if the driver refuses.
 */
struct kg_tensor_extent {
    const void *data;
    struct kg_sdpa_strides strides;
    uint32_t n_batch, n_heads, n_rows, head_dim;
    uint32_t element_bytes, box_rows, box_bytes;
};
KG_WARN_UNUSED enum kg_status kg_tensor_map_make(CUtensorMap *map, const struct kg_tensor_extent *extent,
                                                 const char *what, struct kg_error *err);

/* The same of one matrix: n_rows of n_halves 2-byte elements, row_halves apart. */
KG_WARN_UNUSED enum kg_status kg_tensor_map_make_rows(CUtensorMap *map, const void *data, uint32_t n_rows,
                                                      uint32_t n_halves, uint64_t row_halves, uint32_t box_rows,
                                                      uint32_t box_bytes, const char *what, struct kg_error *err);

#endif
