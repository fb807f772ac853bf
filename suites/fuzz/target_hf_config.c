#include "suites/fuzz/targets.h"
#include "model/hf_config.h"
#include <math.h>
#include <stdlib.h>

/* What was accepted holds for who computes with it. */
static void expect_sound(const struct kg_hf_config *c) {
    const struct kg_hf_rope *r = &c->rope;
    if (!c->n_layers || !c->n_ctx || !c->n_embd || !c->n_ff || !c->n_vocab || !c->head_dim) abort();
    if (!c->n_heads || !c->n_kv_heads || c->n_heads % c->n_kv_heads != 0 || c->n_experts_used > c->n_experts) abort();
    if (!isfinite(c->norm_eps) || (!isnan(r->base) && !(r->base > 0))) abort();
    if ((r->scaling == KG_HF_ROPE_LONGROPE) != (r->long_factors != NULL) || !r->long_factors != !r->short_factors)
        abort();
    for (uint32_t i = 0; r->long_factors && i < c->n_rot / 2; i++)
        if (!(r->long_factors[i] > 0) || !(r->short_factors[i] > 0)) abort();
}

bool kg_fuzz_hf_config(const uint8_t *data, size_t size) {
    struct kg_hf_config config;
    struct kg_error err;
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (!json) return false;
    const bool accepted = kg_hf_config_read("fuzz", json, &config, &err) == KG_OK;
    if (accepted) {
        expect_sound(&config);
        kg_hf_config_free(&config);
    } else {
        kg_fuzz_expect_error(&err);
    }
    json_decref(json);
    return accepted;
}
