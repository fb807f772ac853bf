#include "engine/prompt_cache.h"

static size_t n_alike(const struct kg_ids *ids, const int32_t *prompt, size_t n_prompt) {
    size_t n = 0;
    while (n < ids->n && n < n_prompt && ids->ids[n] == prompt[n]) n++;
    return n;
}

/* Ids behind the n_kept first ones, as far as the session has evaluated them. */
static void note(struct kg_prompt_cache *cache, const int32_t *ids, size_t n) {
    const size_t n_past = kg_session_n_past(cache->session);
    for (size_t i = 0; i < n && cache->ids.n < n_past; i++) kg_ids_push(&cache->ids, ids[i]);
}

enum kg_status kg_prompt_cache_generate(struct kg_prompt_cache *cache, const int32_t *prompt, size_t n_prompt,
                                        const struct kg_generate_options *options, struct kg_generate_result *result,
                                        struct kg_error *err) {
    const uint32_t n_ctx = kg_session_n_ctx(cache->session);
    if (n_prompt == 0) return kg_fail(err, KG_ERR_USAGE, "the prompt is empty");
    if (n_prompt > n_ctx)
        return kg_fail(err, KG_ERR_RANGE, "the prompt has %zu tokens, the context has room for %u", n_prompt, n_ctx);

    size_t n_held = n_alike(&cache->ids, prompt, n_prompt);
    if (n_held == n_prompt) n_held--;
    enum kg_status status = kg_session_truncate(cache->session, (uint32_t)n_held, err);
    if (status) return status;
    cache->ids.n = cache->n_held = n_held;

    struct kg_generate_options rest = *options;
    rest.n_held = n_held;
    status = kg_generate(cache->session, prompt, n_prompt, &rest, result, err);
    note(cache, prompt + n_held, n_prompt - n_held);
    if (!status) note(cache, result->ids, result->n_ids);
    /* Drops the positions of a stop sequence, which is no part of the answer: fewer than are filled, so it succeeds. */
    struct kg_error none;
    const enum kg_status cut = kg_session_truncate(cache->session, (uint32_t)cache->ids.n, &none);
    (void)cut;
    return status;
}

void kg_prompt_cache_free(struct kg_prompt_cache *cache) {
    kg_ids_free(&cache->ids);
    cache->n_held = 0;
}
