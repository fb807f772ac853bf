/* Generation after generation in one session, from prompts that begin alike: what the KV cache holds of a prompt is not
 * evaluated again. A conversation is such a series: each prompt is the one before it, its answer and a question. */
#ifndef KIGO_ENGINE_PROMPT_CACHE_H
#define KIGO_ENGINE_PROMPT_CACHE_H

#include <kigo/engine.h>
#include <kigo/tokenizer.h>

struct kg_prompt_cache {
    struct kg_session *session; /* borrowed; nobody else evaluates in it */
    struct kg_ids ids;          /* those of the session's positions */
    size_t n_held;              /* of the last prompt: ids that were not evaluated again */
};

/* What kg_generate gives for the whole prompt in an empty session, to the bit on a back end whose results do not depend
 * on how a prompt is cut into chunks (cpu). options->n_held is not read. The positions from the first id on that
 * differs are dropped, so memory and time are those of the rest; the last id of a prompt is always evaluated. After a
 * failure or a cancelled answer the cache holds what was evaluated until then. KG_ERR_RANGE as from kg_generate, before
 * anything is dropped. */
KG_WARN_UNUSED enum kg_status kg_prompt_cache_generate(struct kg_prompt_cache *cache, const int32_t *prompt,
                                                       size_t n_prompt, const struct kg_generate_options *options,
                                                       struct kg_generate_result *result, struct kg_error *err);

/* Frees the ids; the session stays the caller's. */
void kg_prompt_cache_free(struct kg_prompt_cache *cache);

#endif
