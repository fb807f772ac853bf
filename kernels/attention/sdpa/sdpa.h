/* The variants of sdpa on the GPU (contract in ops/sdpa.h), one file each, and the table that picks among them
 * (dispatch.cu). A variant has two functions: kg_sdpa_<variant>_refuses gives as text why it cannot take a call (NULL:
 * it can), kg_sdpa_<variant>_launch enqueues one that it can take. args have passed kg_sdpa_check; neither looks at
 * args->variant. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_SDPA_H
#define KIGO_KERNELS_ATTENTION_SDPA_SDPA_H

#include "kernels/cuda_backend.h"

extern "C" {
#include "ops/sdpa.h"
}

#define KG_SDPA_VARIANT_FUNCTIONS(variant)                                                                             \
    const char *kg_sdpa_##variant##_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args);      \
    enum kg_status kg_sdpa_##variant##_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,     \
                                              struct kg_error *err);
KG_SDPA_VARIANT_FUNCTIONS(scalar)
KG_SDPA_VARIANT_FUNCTIONS(mma)
KG_SDPA_VARIANT_FUNCTIONS(split)
KG_SDPA_VARIANT_FUNCTIONS(wgmma)
KG_SDPA_VARIANT_FUNCTIONS(cluster)
#undef KG_SDPA_VARIANT_FUNCTIONS

#endif
