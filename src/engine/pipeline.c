#include "engine/pipeline.h"
#include "engine/sampler.h"

bool kg_pipeline_can(const struct kg_session *s, size_t n_prompt, size_t n_more) {
    const uint32_t n_after = s->n_past + (uint32_t)n_prompt;
    return s->mailbox && !s->tap && !kg_session_rope_changes(s, n_after, (uint64_t)n_after + n_more);
}

static uint32_t n_enqueued(const struct kg_pipeline *p) {
    uint32_t n = p->session->n_past;
    for (uint32_t i = 0; i < p->n_waiting; i++) n += p->waiting[i].n_rows;
    return n;
}

static bool has_room(const struct kg_pipeline *p) {
    return n_enqueued(p) < p->session->options.n_ctx;
}

/* A result's place: draws waiting at once have different ones. */
static struct kg_sample_result *place_of(const struct kg_pipeline *p, uint32_t sequence) {
    return &p->session->mailbox[sequence % KG_DRAWS_WAITING];
}

/* From the logits of the last of n_rows ids. */
static enum kg_status draw(struct kg_pipeline *p, uint32_t n_rows, struct kg_error *err) {
    struct kg_session *s = p->session;
    const uint32_t sequence = ++s->n_draws_asked;
    const struct kg_sample_args args = { .logits = s->buffers.logits,
                                         .n_vocab = s->config->n_vocab,
                                         .n_drawable = p->n_drawable,
                                         .options = p->options,
                                         .uniform = kg_sampler_uniform(p->options->seed, ++p->n_draws),
                                         .history = s->buffers.history,
                                         .n_history = p->n_history++,
                                         .next = s->buffers.ids,
                                         .result = place_of(p, sequence),
                                         .sequence = sequence,
                                         .workspace = s->workspace.data };
    const enum kg_status status = s->backend->ops->draws->sample(s->backend, &args, err);
    if (status) return status;
    p->waiting[p->n_waiting].n_rows = n_rows;
    p->waiting[p->n_waiting++].sequence = sequence;
    return KG_OK;
}

static enum kg_status step(struct kg_pipeline *p, struct kg_error *err) {
    const struct kg_logit_rows last = { .n_rows = 1 };
    const enum kg_status status = kg_forward(p->session, NULL, 1, n_enqueued(p), &last, err);
    return status ? status : draw(p, 1, err);
}

static enum kg_status take(struct kg_pipeline *p, int32_t *id, struct kg_error *err) {
    struct kg_session *s = p->session;
    struct kg_sample_result result;
    const uint32_t sequence = p->waiting[0].sequence, n_past = s->n_past + p->waiting[0].n_rows;
    const enum kg_status status =
        s->backend->ops->draws->wait(s->backend, place_of(p, sequence), sequence, &result, err);
    if (status) return status;
    if (result.first_bad < s->config->n_vocab)
        return kg_session_bad_logit(err, result.first_bad, n_past - 1, result.bad);
    s->n_past = n_past;
    *id = result.id;
    if (s->past_ids && n_past < s->options.n_ctx) s->past_ids[n_past] = result.id;
    p->n_waiting--;
    for (uint32_t i = 0; i < p->n_waiting; i++) p->waiting[i] = p->waiting[i + 1];
    return KG_OK;
}

enum kg_status kg_pipeline_begin(struct kg_pipeline *p, struct kg_session *session,
                                 const struct kg_sampler_options *options, uint32_t n_drawable, const int32_t *prompt,
                                 size_t n_prompt, size_t n_held, int32_t *id, struct kg_error *err) {
    *p = (struct kg_pipeline){
        .session = session, .options = options, .n_drawable = n_drawable, .n_history = (uint32_t)n_prompt
    };
    enum kg_status status = KG_OK;
    if (kg_sample_penalises(options))
        status = session->backend->ops->upload(session->backend, session->buffers.history, prompt,
                                               n_prompt * sizeof *prompt, err);
    if (!status) status = kg_session_enqueue(session, prompt + n_held, n_prompt - n_held, err);
    if (!status) status = draw(p, (uint32_t)(n_prompt - n_held), err);
    return status ? status : take(p, id, err);
}

enum kg_status kg_pipeline_next(struct kg_pipeline *p, bool go_on, int32_t *id, struct kg_error *err) {
    enum kg_status status = p->n_waiting == 0 ? step(p, err) : KG_OK;
    if (!status && go_on && has_room(p)) status = step(p, err);
    return status ? status : take(p, id, err);
}
