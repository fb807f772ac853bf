#include "base/size.h"
#include "suites/support/sdpa_problem.h"

const struct kg_sdpa_untaken KG_SDPA_UNTAKEN[] = {
    { KG_SDPA_SPLIT, KG_PRECISION_F16, 0, KG_SDPA_SPLIT_MAX_QUERIES, 0 },
    { KG_SDPA_SPLIT, KG_PRECISION_F8, 0, KG_SDPA_SPLIT_MAX_QUERIES, 0 },
    { KG_SDPA_SPLIT, KG_PRECISION_I8, 0, KG_SDPA_SPLIT_MAX_QUERIES, 0 },
    { KG_SDPA_CLUSTER, KG_PRECISION_F8, 0, 0, 512 },
    { KG_SDPA_CLUSTER, KG_PRECISION_I8, 0, 0, 512 },
    { KG_SDPA_CLUSTER, KG_PRECISION_F16, 0, 0, 512 }, /* tiles of all keys at once */
};
const size_t KG_SDPA_N_UNTAKEN = KG_COUNT_OF(KG_SDPA_UNTAKEN);

bool kg_sdpa_is_untaken(enum kg_sdpa_variant variant, enum kg_precision inputs, const struct kg_sdpa_problem_shape *s) {
    for (size_t i = 0; i < KG_SDPA_N_UNTAKEN; i++) {
        const struct kg_sdpa_untaken *u = &KG_SDPA_UNTAKEN[i];
        if (u->variant == variant && u->inputs == inputs && (u->head_dim == 0 || u->head_dim == s->head_dim) &&
            (u->queries_above == 0 || s->n_queries > u->queries_above) &&
            (u->keys_above == 0 || s->n_keys > u->keys_above))
            return true;
    }
    return false;
}

bool kg_sdpa_share_count(struct kg_sdpa_share *share, enum kg_sdpa_variant variant, enum kg_precision inputs,
                         const struct kg_sdpa_problem_shape *shape, bool taken) {
    share->n_asked++;
    share->n_taken += taken;
    return taken != kg_sdpa_is_untaken(variant, inputs, shape);
}

const struct kg_sdpa_floor *kg_sdpa_floor(enum kg_sdpa_variant variant) {
    static const struct kg_sdpa_floor FLOORS[KG_SDPA_VARIANT_COUNT] = {
        [KG_SDPA_AUTO] = { 1, "it gives each call to a variant that takes it" },
        [KG_SDPA_SCALAR] = { 1, "it takes what no other variant does" },
        [KG_SDPA_MMA] = { 1, "it takes every shape of aligned rows" },
        [KG_SDPA_WGMMA] = { 1, "it takes every shape of aligned rows" },
        [KG_SDPA_SPLIT] = { 0.41, "6 of a configuration's 14 lengths have at most 16 queries" },
        [KG_SDPA_CLUSTER] = { 0.79, "at least 11 of a configuration's 14 lengths have at most 512 keys" },
    };
    return &FLOORS[variant];
}
