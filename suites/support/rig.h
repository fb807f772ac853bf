/* A model on a back end, for cases that use the engine as a program would. */
#ifndef KIGO_SUITES_RIG_H
#define KIGO_SUITES_RIG_H

#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <kigo/engine.h>
#include <kigo/model.h>
#include <kigo/tokenizer.h>
#include <stddef.h>
#include <stdint.h>

#define KG_HAIKU_MODEL "haiku-qwen2/haiku-qwen2-f16.gguf"

struct kg_rig {
    struct kg_backend *backend;
    struct kg_model *model;
    const struct kg_tokenizer *tokenizer;
    const struct kg_model_config *config;
    double float32_nmse; /* the largest of its goldens (kg_layer_models) */
};

/* Every case that kg_rig_add takes runs on each of these; one that is not there is a skip with the reason. */
struct kg_rig_target {
    const char *backend, *dtype;
    enum kg_precision precision; /* of activations and cache */
    const char *spec;            /* of cases that name none; NULL: none */
};
enum { KG_RIG_N_TARGETS = 3 };
extern const struct kg_rig_target KG_RIG_TARGETS[KG_RIG_N_TARGETS];
/* Adds the case for the back end it names, or once for each target if it names none, with the target's dtype if the
 * case has one; c->arg must outlive the list. */
void kg_rig_add(struct kg_case_list *list, const struct kg_case *c);
/* Index of the target that the running case is for; the first where kg_rig_add did not make the case. */
size_t kg_rig_current(void);

/* `fixture` below fixtures/; n_threads 0 for all processors. Every one of these fails the case where something fails.
 */
struct kg_rig kg_rig_open(const char *fixture, int n_threads); /* on the case's back end */
void kg_rig_close(struct kg_rig *rig);
/* The haiku model on the case's back end, opened once in a process. */
const struct kg_rig *kg_rig_shared(void);

/* In the target's precision. */
struct kg_session_options kg_rig_options(uint32_t n_ctx);
struct kg_session *kg_rig_session(const struct kg_rig *rig, uint32_t n_ctx);
/* malloc'ed: n ids of the vocabulary from the seed. */
int32_t *kg_rig_random_ids(const struct kg_rig *rig, uint64_t seed, size_t n);
/* The ids of a text, special tokens parsed. */
struct kg_ids kg_rig_encode(const struct kg_rig *rig, const char *text);
/* malloc'ed: logits of each of n ids, after what the session holds, n_at_once at a time; rows of n_vocab. */
float *kg_rig_logits(const struct kg_rig *rig, struct kg_session *session, const int32_t *ids, size_t n,
                     size_t n_at_once);

/* Fails the case at the first float32 whose bits differ. */
void kg_expect_same_bits(const char *what, const float *got, const float *want, size_t n);
/* The same rows of logits computed in another way: the same bits on the cpu, whose sums have one order; on a GPU rows
 * in other numbers take other kernels, so float32 sums differ and so does where float16 is rounded. */
void kg_rig_expect_same(const struct kg_rig *rig, const char *what, const float *got, const float *want, size_t n);
void kg_expect_same_ids(const char *what, const int32_t *got, size_t n_got, const int32_t *want, size_t n_want);

#endif
