#include "suites/support/poet.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include <stdlib.h>

/* Of every kind: what the fixture was trained on, and what nobody thought of. */
static const char *const TOPICS[] = {
    "GPU computing",
    "autumn rain",
    "a quiet mountain",
    "silicon dreams",
    "an old pond",
    "winter light",
    "parallel threads",
    "the memory bus",
    "my neighbour's noisy lawnmower",
    "sourdough",
    "the KV cache",
    "migrating geese",
    "zero trust",
    "debugging at 3 a.m.",
    "FP16 rounding errors",
    "a letter never sent",
    "warm bread and salt",
    "the last bus home",
    "jellyfish",
    "Ada Lovelace",
    "C++",
    "RAIN",
    "x",
    "1+1=2",
    "l'\xc3\xa9t\xc3\xa9 \xc3\xa0 Paris",
    "\xe5\x8f\xa4\xe6\xb1\xa0",
    "floating point numbers",
    "seven samurai",
    "twenty-one pilots",
    "a walk in the park",
    "the smell of fresh paint",
    "everything",
};

const struct kg_haiku_chat KG_HAIKU_CHATML = { .before = "<|im_start|>user\n",
                                               .after = "<|im_end|>\n<|im_start|>assistant\n" };

static const char NONCE_DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

struct kg_haiku_request kg_haiku_request_make(uint64_t topic, const char *minute_word, double temperature,
                                              uint64_t seed) {
    struct kg_haiku_request request = {
        .chat = &KG_HAIKU_CHATML,
        .topic = TOPICS[topic % KG_COUNT_OF(TOPICS)],
        .minute_word = minute_word,
        .sampler = KG_SAMPLER_DEFAULTS,
        .max_tokens = KG_HAIKU_MAX_TOKENS,
    };
    struct kg_rng rng;
    kg_rng_init(&rng, seed, topic);
    for (int i = 0; i < KG_NONCE_LEN; i++) request.nonce[i] = NONCE_DIGITS[kg_rng_below(&rng, sizeof NONCE_DIGITS - 1)];
    request.sampler.temperature = temperature;
    request.sampler.seed = seed;
    return request;
}

char *kg_haiku_user_text(const struct kg_haiku_request *request) {
    return kg_xasprintf("Write a haiku about %s that includes the word \"%s\" (nonce: %s)", request->topic,
                        request->minute_word, request->nonce);
}

char *kg_haiku_prompt_text(const struct kg_haiku_request *request) {
    char *const user = kg_haiku_user_text(request);
    const struct kg_haiku_chat *const chat = request->chat;
    char *const prompt = kg_xasprintf("%s%s%s%s%s", chat->before, chat->date ? chat->date : "",
                                      chat->between ? chat->between : "", user, chat->after);
    free(user);
    return prompt;
}

void kg_haiku_answer_free(struct kg_haiku_answer *answer) {
    free(answer->prompt_text);
    kg_ids_free(&answer->prompt_ids);
    kg_generate_result_free(&answer->result);
}
