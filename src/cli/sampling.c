#include "cli/sampling.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "engine/sampler.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small enough to be exact wherever JSON numbers are read as doubles. */
static uint64_t seed_of_the_moment(void) {
    uint64_t seed;
    if (getentropy(&seed, sizeof seed)) seed = (uint64_t)kg_clock_utc_us();
    return seed & ((UINT64_C(1) << 53) - 1);
}

struct kg_cli_sampling kg_cli_sampling_defaults(void) {
    struct kg_cli_sampling s = { .sampler = KG_SAMPLER_DEFAULTS };
    s.sampler.seed = seed_of_the_moment();
    s.repeat_last_n = s.sampler.repeat_last_n;
    s.top_k = s.sampler.top_k;
    return s;
}

enum kg_status kg_cli_sampling_check(struct kg_cli_sampling *s, struct kg_error *err) {
    s->sampler.top_k = (uint32_t)s->top_k;
    s->sampler.repeat_last_n = (uint32_t)s->repeat_last_n;
    return kg_sampler_check(&s->sampler, err);
}

enum kg_status kg_cli_sampling_encode_stops(struct kg_cli_sampling *s, const struct kg_tokenizer *t,
                                            struct kg_error *err) {
    const size_t n = s->stop_texts.n_items;
    s->stop_ids = kg_xcalloc(n + 1, sizeof *s->stop_ids);
    s->stops = kg_xcalloc(n + 1, sizeof *s->stops);
    for (size_t i = 0; i < n; i++) {
        const char *text = s->stop_texts.items[i];
        if (!*text) return kg_fail(err, KG_ERR_USAGE, "--stop: the text is empty");
        const enum kg_status status = kg_tokenizer_encode_inside(t, text, strlen(text), true, &s->stop_ids[i], err);
        if (status) return kg_error_context(err, status, "--stop '%s'", text);
        s->stops[i] = (struct kg_stop_sequence){ .ids = s->stop_ids[i].ids, .n = s->stop_ids[i].n };
    }
    return KG_OK;
}

struct kg_generate_options kg_cli_sampling_options(const struct kg_cli_sampling *s) {
    return (struct kg_generate_options){ .sampler = s->sampler,
                                         .max_tokens = (uint32_t)s->max_tokens,
                                         .stops = s->stops,
                                         .n_stops = s->stop_texts.n_items,
                                         .ignore_end = s->ignore_end };
}

void kg_cli_sampling_free(struct kg_cli_sampling *s) {
    for (size_t i = 0; s->stop_ids && i < s->stop_texts.n_items; i++) kg_ids_free(&s->stop_ids[i]);
    free(s->stop_ids);
    free(s->stops);
    free(s->stop_texts.items);
    *s = (struct kg_cli_sampling){ 0 };
}
