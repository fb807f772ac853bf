/* sdpa: which variant computes a call (contract in ops/sdpa.h). The evidence for the order and the conditions is in
 * docs/sdpa.md. */
#include "kernels/attention/sdpa/sdpa.h"

struct variant {
    enum kg_sdpa_variant id;
    const char *(*refuses)(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args);
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args, struct kg_error *err);
    /* Of the calls it does not refuse, those that AUTO gives it. */
    bool (*suits)(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args);
};

static bool any(const struct kg_cuda_backend *, const struct kg_sdpa_args *) {
    return true;
}

/* One wave of clusters: beyond it they run one after another, and bigger tiles are faster. */
static bool few_tiles(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    constexpr uint64_t TILE_QUERIES = 64, BLOCKS = 2; /* of a cluster's tile */
    return (uint64_t)args->n_batch * args->n_heads * ((args->n_queries + TILE_QUERIES - 1) / TILE_QUERIES) * BLOCKS <=
           (uint64_t)cuda->n_sms;
}

static bool few_queries(const struct kg_cuda_backend *, const struct kg_sdpa_args *args) {
    return args->n_queries <= KG_SDPA_SPLIT_MAX_QUERIES;
}

/* AUTO takes the first that neither refuses nor leaves the call to a later one. */
static const struct variant VARIANTS[] = {
    { KG_SDPA_SPLIT, kg_sdpa_split_refuses, kg_sdpa_split_launch, few_queries },
    { KG_SDPA_CLUSTER, kg_sdpa_cluster_refuses, kg_sdpa_cluster_launch, few_tiles },
    { KG_SDPA_WGMMA, kg_sdpa_wgmma_refuses, kg_sdpa_wgmma_launch, any },
    { KG_SDPA_MMA, kg_sdpa_mma_refuses, kg_sdpa_mma_launch, any },
    { KG_SDPA_SCALAR, kg_sdpa_scalar_refuses, kg_sdpa_scalar_launch, any }, /* takes what no other does */
};

/* Why no variant may have the call, as text, or NULL. */
static const char *refuses_any(const struct kg_sdpa_args *args) {
    if (args->inputs == KG_PRECISION_F32) return "inputs are f32, not f16, f8 or i8";
    if (args->output != KG_PRECISION_F16) return "the output is not f16";
    return NULL;
}

static enum kg_status refuse(const struct kg_sdpa_args *args, const char *why, struct kg_error *err) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "sdpa: the variant '%s' of the cuda back end does not take this call: %s",
                   kg_sdpa_variant_name(args->variant), why);
}

extern "C" enum kg_status kg_cuda_sdpa(struct kg_backend *backend, const struct kg_sdpa_args *args,
                                       struct kg_error *err) {
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const enum kg_status status = kg_sdpa_check(args, err);
    if (status) return status;
    const char *why = refuses_any(args);
    if (why) return refuse(args, why, err);
    if (args->n_batch == 0 || args->n_queries == 0) return KG_OK;
    for (const struct variant &v : VARIANTS) {
        if (args->variant != KG_SDPA_AUTO && args->variant != v.id) continue;
        why = v.refuses(cuda, args);
        if (!why && (args->variant == v.id || v.suits(cuda, args))) return v.launch(cuda, args, err);
    }
    return refuse(args, why ? why : "no variant has it", err);
}
