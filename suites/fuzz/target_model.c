/* A model's configuration and weights by any GGUF file, as generate loads them on the CPU. */
#include "suites/fuzz/readers.h"
#include "model/weights.h"
#include <kigo/backend.h>
#include <math.h>

static struct kg_backend *backend(void) {
    static struct kg_backend *cpu;
    struct kg_error err;
    if (!cpu && kg_backend_open("cpu", 1, &cpu, &err) != KG_OK) kg_fuzz_give_up("%s", err.message);
    return cpu;
}

/* What was accepted holds for who computes with it. */
static void expect_sound(const struct kg_model_config *c) {
    if (!c->n_layers || !c->n_ctx_train || !c->n_embd || !c->n_vocab || !c->head_dim || !c->n_ff)
        kg_fuzz_give_up("a size of 0 is accepted");
    if (!c->n_heads || !c->n_kv_heads || c->n_heads % c->n_kv_heads != 0)
        kg_fuzz_give_up("%u heads of %u KV heads are accepted", c->n_heads, c->n_kv_heads);
    if (c->n_rot > c->head_dim || c->n_rot % 2 != 0) kg_fuzz_give_up("%u rotated dims are accepted", c->n_rot);
    if (c->n_experts_used > c->n_experts)
        kg_fuzz_give_up("%u of %u experts are accepted", c->n_experts_used, c->n_experts);
    if (!isfinite(c->norm_eps) || !isfinite(c->attn_scale))
        kg_fuzz_give_up("an epsilon of %g and a scale of %g are accepted", (double)c->norm_eps, (double)c->attn_scale);
}

KG_FUZZ_READER(model) {
    (void)target;
    struct kg_gguf *gguf;
    struct kg_model_config config;
    struct kg_model_weights weights;
    struct kg_error err = { .status = KG_OK };
    enum kg_status status = kg_gguf_parse(data, size, "fuzz", &gguf, &err);
    if (status != KG_OK) return kg_fuzz_expect_error(&err);
    status = kg_config_read(gguf, &config, &err);
    if (status == KG_OK) expect_sound(&config);
    if (status == KG_OK) status = kg_weights_load(gguf, &config, backend(), NULL, &weights, &err);
    if (status == KG_OK) kg_weights_free(backend(), &weights);
    else kg_fuzz_expect_error(&err);
    kg_gguf_close(gguf);
    return status;
}
