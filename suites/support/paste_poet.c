#include "suites/support/poet.h"
#include "base/buffer.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A good poem for every minute word of two syllables. */
static char *paste(const char *minute_word) {
    return kg_xasprintf("the quiet mountain\n%s silver clouds drift by\na frog in the rain", minute_word);
}

/* About what the engine would take. */
static void wait_a_while(void) {
    const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
    nanosleep(&pause, NULL);
}

static enum kg_status answer_request(void *self, const struct kg_haiku_request *request, struct kg_haiku_answer *answer,
                                     struct kg_error *err) {
    const struct kg_paste_poet *const poet = self;
    const struct kg_tokenizer *const tokenizer = poet->engine->tokenizer;
    struct kg_haiku_answer own = { .prompt_text = kg_haiku_prompt_text(request) };
    own.result.text = paste(request->minute_word);
    own.result.text_len = strlen(own.result.text);
    own.result.finish = KG_FINISH_END_TOKEN;
    struct kg_ids ids = { 0 };
    enum kg_status status =
        kg_tokenizer_encode(tokenizer, own.prompt_text, strlen(own.prompt_text), true, &own.prompt_ids, err);
    if (status == KG_OK)
        status = kg_tokenizer_encode(tokenizer, own.result.text, own.result.text_len, false, &ids, err);
    if (status == KG_OK && poet->skill == KG_PASTE_TEXT)
        for (size_t i = 0; i < ids.n; i++) ids.ids[i] = (int32_t)i;
    own.result.ids = ids.ids;
    own.result.n_ids = ids.n;
    if (poet->skill >= KG_PASTE_WAIT) wait_a_while();
    if (status == KG_OK) *answer = own;
    else kg_haiku_answer_free(&own);
    return status;
}

/* Without the model's logits: all the weight on the id that comes next. */
static enum kg_status logits(void *self, const int32_t *ids, size_t n, size_t n_prefill, bool all_rows, float *rows,
                             struct kg_error *err) {
    const struct kg_paste_poet *const poet = self;
    if (poet->skill >= KG_PASTE_LOGITS) {
        const struct kg_poet engine = kg_engine_poet(poet->engine);
        return engine.logits(engine.self, ids, n, n_prefill, all_rows, rows, err);
    }
    const size_t n_vocab = poet->engine->n_vocab;
    memset(rows, 0, n * n_vocab * sizeof *rows);
    const int32_t end = kg_tokenizer_eos(poet->engine->tokenizer);
    for (size_t i = 0; i < n; i++) rows[i * n_vocab + (size_t)(i + 1 < n ? ids[i + 1] : end)] = 100.0f;
    return KG_OK;
}

static void memory(void *self, struct kg_memory_use *use) {
    const struct kg_paste_poet *const poet = self;
    if (poet->skill >= KG_PASTE_MEMORY) kg_backend_memory(poet->engine->backend, use);
    else memset(use, 0, sizeof *use);
}

struct kg_poet kg_paste_poet(struct kg_paste_poet *poet) {
    return (struct kg_poet){ .self = poet, .answer = answer_request, .logits = logits, .memory = memory };
}
