#include "suites/fuzz/readers.h"
#include "convert/hf_config.h"
#include <inttypes.h>
#include <math.h>

/* What was accepted holds for who computes with it. */
static void expect_sound(const struct kg_hf_config *c) {
    const struct kg_hf_rope *r = &c->rope;
    const bool sizes = c->n_layers && c->n_ctx && c->n_embd && c->n_ff && c->n_vocab && c->head_dim;
    const bool heads = c->n_heads && c->n_kv_heads && c->n_heads % c->n_kv_heads == 0;
    const bool both_factors = !r->long_factors == !r->short_factors;
    if (!sizes) kg_fuzz_give_up("a size of 0 is accepted");
    if (!heads) kg_fuzz_give_up("%" PRIu32 " heads of %" PRIu32 " KV heads are accepted", c->n_heads, c->n_kv_heads);
    if (c->n_experts_used > c->n_experts)
        kg_fuzz_give_up("%" PRIu32 " of %" PRIu32 " experts are accepted", c->n_experts_used, c->n_experts);
    if (!isfinite(c->norm_eps)) kg_fuzz_give_up("an epsilon of %g is accepted", c->norm_eps);
    if (!isnan(r->base) && !(r->base > 0)) kg_fuzz_give_up("a rope base of %g is accepted", r->base);
    if ((r->scaling == KG_HF_ROPE_LONGROPE) != (r->long_factors != NULL) || !both_factors)
        kg_fuzz_give_up("rope factors and the scaling they belong to do not come together");
    for (uint32_t i = 0; r->long_factors && i < c->n_rot / 2; i++)
        if (!(r->long_factors[i] > 0) || !(r->short_factors[i] > 0))
            kg_fuzz_give_up("rope factors %" PRIu32 " of %g and %g are accepted", i, (double)r->long_factors[i],
                            (double)r->short_factors[i]);
}

KG_FUZZ_READER(hf_config) {
    (void)target;
    struct kg_hf_config config;
    struct kg_error err;
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (!json) return KG_ERR_FORMAT;
    const enum kg_status status = kg_hf_config_read("fuzz", json, &config, &err);
    if (status == KG_OK) {
        expect_sound(&config);
        kg_hf_config_free(&config);
    } else {
        kg_fuzz_expect_error(&err);
    }
    json_decref(json);
    return status;
}
