/* Poets: who answers FT-050's request. The engine is one; the others only pretend, and the judge (evidence.h) has to
 * distinguish them. */
#ifndef KIGO_SUITES_POET_H
#define KIGO_SUITES_POET_H

#include "suites/support/poem.h"
#include <kigo/engine.h>
#include <kigo/model.h>
#include <kigo/tokenizer.h>
#include <stdint.h>

enum { KG_HAIKU_MAX_TOKENS = 64 };

/* How a model's chat format lays out one request: before, the date (of formats that have one), between, what the user
 * says, after. Spelled in the suites, so that the engine's formats are compared with something else than themselves. */
struct kg_haiku_chat {
    const char *before, *date, *between, *after;
};
extern const struct kg_haiku_chat KG_HAIKU_CHATML;

/* The request, and how it is to be answered. */
struct kg_haiku_request {
    const struct kg_haiku_chat *chat; /* KG_HAIKU_CHATML unless set */
    const char *topic;
    const char *minute_word;
    char nonce[KG_NONCE_LEN + 1];
    struct kg_sampler_options sampler;
    uint32_t max_tokens;
};

/* A request about the topic-th of many topics (any number serves) with a nonce made from the seed; the sampler draws at
 * the temperature, from the same seed. */
struct kg_haiku_request kg_haiku_request_make(uint64_t topic, const char *minute_word, double temperature,
                                              uint64_t seed);

/* malloc'ed: what the user says, and that in the chat format as the model must see it. */
char *kg_haiku_user_text(const struct kg_haiku_request *request);
char *kg_haiku_prompt_text(const struct kg_haiku_request *request);

struct kg_haiku_answer {
    char *prompt_text; /* as it was encoded */
    struct kg_ids prompt_ids;
    struct kg_generate_result result;
};
void kg_haiku_answer_free(struct kg_haiku_answer *answer);

struct kg_poet {
    void *self;
    KG_WARN_UNUSED enum kg_status (*answer)(void *self, const struct kg_haiku_request *request,
                                            struct kg_haiku_answer *answer, struct kg_error *err);
    /* Logits of the positions of ids, rows of n_vocab floats: the first n_prefill at once, the others one by one. Of
     * the first, all_rows or only the last, as a generation asks for it: other kernels may then compute it, whose
     * roundings decide between ids that are nearly as likely. */
    KG_WARN_UNUSED enum kg_status (*logits)(void *self, const int32_t *ids, size_t n, size_t n_prefill, bool all_rows,
                                            float *rows, struct kg_error *err);
    void (*memory)(void *self, struct kg_memory_use *use);
};

/* The engine. */
struct kg_engine_poet {
    struct kg_backend *backend;
    struct kg_model *model;
    const struct kg_tokenizer *tokenizer;
    uint32_t n_vocab;
    enum kg_precision precision; /* of activations and cache */
    bool plain;                  /* the user's text alone is the prompt, for models that know no chat format */
};
KG_WARN_UNUSED enum kg_status kg_engine_poet_open(const char *backend_name, enum kg_precision precision,
                                                  const char *model_path, struct kg_engine_poet *poet,
                                                  struct kg_error *err);
void kg_engine_poet_close(struct kg_engine_poet *poet);
struct kg_poet kg_engine_poet(struct kg_engine_poet *poet);

/* Pretenders paste the minute word from the prompt into a template of three good lines. Each hides one thing more than
 * the one before it; what it cannot hide is in its row of test_haiku.c. */
enum kg_paste_skill {
    KG_PASTE_TEXT,   /* text only, with ids that have nothing to do with it */
    KG_PASTE_IDS,    /* the ids of its text */
    KG_PASTE_MEMORY, /* ... and a model loaded beside it */
    KG_PASTE_WAIT,   /* ... and it takes its time */
    KG_PASTE_LOGITS, /* ... and the model's own logits for any ids */
};
struct kg_paste_poet {
    enum kg_paste_skill skill;
    struct kg_engine_poet *engine; /* whose tokenizer, memory and logits it shows */
};
struct kg_poet kg_paste_poet(struct kg_paste_poet *poet);

#endif
