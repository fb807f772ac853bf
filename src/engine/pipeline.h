/* Decoding with the draws in back-end memory: the host gets ids, not logits, and a step is enqueued before the id that
 * it evaluates has reached the host.
 *
 * A step is the evaluation of the id drawn last and the draw from its logits. At most one is ahead: enqueued while the
 * draw before it was not taken. A step that is never taken leaves no trace: the positions of a session count when a
 * draw is taken, and what the step wrote (a position of the cache past those, activations) is written again before it
 * is read. */
#ifndef KIGO_ENGINE_PIPELINE_H
#define KIGO_ENGINE_PIPELINE_H

#include "engine/session.h"

struct kg_pipeline {
    struct kg_session *session;
    const struct kg_sampler_options *options; /* in range, the caller's */
    uint32_t n_drawable;
    uint32_t n_history; /* ids in buffers->history, those not taken included */
    uint64_t n_draws;
    struct {
        uint32_t n_rows; /* evaluated for it */
        uint32_t sequence;
    } waiting[KG_DRAWS_WAITING]; /* oldest first */
    uint32_t n_waiting;
};

/* Whether the session's back end draws; not while a tap is on, which wants every step on the host, nor where the
 * sequence, grown by n_prompt ids and then by up to n_more, would come to another list of rope factors after the
 * prompt: its keys are made again from ids that the host has. */
bool kg_pipeline_can(const struct kg_session *session, size_t n_prompt, size_t n_more);

/* Evaluates the prompt behind its first n_held ids after what the session holds, and draws the first id, as
 * kg_session_eval and kg_sampler_draw of the whole prompt would: KG_ERR_RANGE and KG_ERR_NUMERIC are theirs. The prompt
 * and the ids drawn must fit the context. */
KG_WARN_UNUSED enum kg_status kg_pipeline_begin(struct kg_pipeline *pipeline, struct kg_session *session,
                                                const struct kg_sampler_options *options, uint32_t n_drawable,
                                                const int32_t *prompt, size_t n_prompt, size_t n_held, int32_t *id,
                                                struct kg_error *err);

/* Evaluates the id given last and draws the next; the context has room for it. go_on: the id after that may be asked
 * for too, so its step is enqueued as well if the context has room. */
KG_WARN_UNUSED enum kg_status kg_pipeline_next(struct kg_pipeline *pipeline, bool go_on, int32_t *id,
                                               struct kg_error *err);

#endif
