/* A model that generates scripted ids: a tiny model on the cpu back end whose logits are overwritten by a script, so
 * that generation can be tested id by id. */
#ifndef KIGO_SUITES_SCRIPTED_H
#define KIGO_SUITES_SCRIPTED_H

#include "backend/backend.h"
#include "suites/harness/case.h"
#include "suites/support/tiny_model.h"
#include <kigo/engine.h>

enum { KG_SCRIPT_NAN = -2, KG_SCRIPT_MAX = 64 };

struct kg_scripted {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
};

/* ids[i] is by far the likeliest after position i of the session; KG_SCRIPT_NAN makes logit 3 there NaN. Positions past
 * n_ids want the byte 'z'. The model has rows past the tokenizer's tokens (n_vocab 270). One at a time in a process.
 * draws: the back end draws itself (host_draws.h). */
void kg_scripted_open(struct kg_record *rec, const int32_t *ids, size_t n_ids, uint32_t n_ctx, bool draws,
                      struct kg_scripted *s);
void kg_scripted_close(struct kg_scripted *s);

#endif
