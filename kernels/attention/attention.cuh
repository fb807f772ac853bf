/* What the attention kernels share: the largest head, launchers. */
#ifndef KIGO_KERNELS_ATTENTION_ATTENTION_CUH
#define KIGO_KERNELS_ATTENTION_ATTENTION_CUH

#include "kernels/block/precision.cuh"

extern "C" {
#include "ops/sdpa.h"
}

constexpr uint32_t KG_ATTENTION_CUDA_MAX_HEAD_DIM = 256;

/* Launchers, for arguments that have been checked; n_rows > 0. */

/* One row. While a decode step is captured the number of keys is cuda->step->position + 1, read when the kernel runs.
 * zeroed: kg_attention_decode_bytes bytes (group: query heads of a KV head), 0 before and after. */
enum kg_status kg_attention_decode(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args,
                                   void *zeroed, struct kg_error *err);
uint64_t kg_attention_decode_bytes(const struct kg_cuda_backend *cuda, uint32_t group, uint32_t head_dim);
/* The kernels of one row. The first that does not refuse, with a reason, is taken: by shapes, types, context and
 * window, and in a step by its most keys: few, or the context's. few_keys is of steps alone. */
enum { KG_ATTENTION_FEW_KEYS, KG_ATTENTION_SPLIT, KG_ATTENTION_CUDA_CORES, KG_ATTENTION_KERNELS };
struct kg_attention_kernel {
    const char *name;
    const char *(*refuses)(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args);
};
extern const struct kg_attention_kernel kg_attention_kernels[KG_ATTENTION_KERNELS];

/* few_keys.cu. Few are the keys up to which it is the faster kernel in a whole step (docs/decode.md). */
uint32_t kg_attention_few(const struct kg_attention_args *args);
const char *kg_attention_few_keys_refuses(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args);
enum kg_status kg_attention_few_keys(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args,
                                     struct kg_error *err);

/* The kernels of more rows than one, chosen in the same way. */
enum { KG_ATTENTION_SDPA, KG_ATTENTION_PREFILL, KG_ATTENTION_ROWS_KERNELS };
extern const struct kg_attention_kernel kg_attention_rows_kernels[KG_ATTENTION_ROWS_KERNELS];

/* prefill.cu */
enum kg_status kg_attention_prefill(cudaStream_t stream, const struct kg_attention_args *p, struct kg_error *err);

/* The rows as an sdpa call of f16, without a workspace. */
struct kg_sdpa_args kg_attention_as_sdpa(const struct kg_attention_args *args);

#endif
