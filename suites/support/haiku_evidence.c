#include "suites/support/haiku_evidence.h"
#include "base/buffer.h"
#include "base/clock.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const FAULT_TEXTS[] = {
#define FAULT_TEXT(name, text) text,
    KG_EVIDENCE_FAULT_LIST(FAULT_TEXT)
#undef FAULT_TEXT
};

static void KG_PRINTF(3, 4)
    blame(struct kg_haiku_judgement *judgement, enum kg_evidence_bit bit, const char *fmt, ...) {
    const bool first = judgement->faults == 0;
    judgement->faults |= 1u << bit;
    if (!first) return;
    const int n = snprintf(judgement->message, sizeof judgement->message, "%s: ", FAULT_TEXTS[bit]);
    va_list args;
    va_start(args, fmt);
    vsnprintf(judgement->message + n, sizeof judgement->message - (size_t)n, fmt, args);
    va_end(args);
}

static bool same_ids(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b) {
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof *a) == 0);
}

/* Rendered as spelled here, and encoded as the judge's own tokenizer does. */
static enum kg_status check_prompt(const struct kg_haiku_bench *bench, const struct kg_haiku_request *request,
                                   struct kg_haiku_judgement *j, struct kg_error *err) {
    char *const expected = kg_haiku_prompt_text(request);
    struct kg_ids ids = { 0 };
    if (strcmp(j->answer.prompt_text, expected) != 0) blame(j, KG_EVIDENCE_BIT_PROMPT, "'%s'", j->answer.prompt_text);
    const enum kg_status status = kg_tokenizer_encode(bench->tokenizer, expected, strlen(expected), true, &ids, err);
    if (status == KG_OK && !same_ids(ids.ids, ids.n, j->answer.prompt_ids.ids, j->answer.prompt_ids.n))
        blame(j, KG_EVIDENCE_BIT_PROMPT, "%zu ids, %zu expected, or other ones", j->answer.prompt_ids.n, ids.n);
    kg_ids_free(&ids);
    free(expected);
    return status;
}

/* Ids of the vocabulary, none padding and in a poem none a special token but those of an answer's channels, that are
 * shown as the text byte for byte. */
static enum kg_status check_ids(const struct kg_haiku_bench *bench, int what, struct kg_haiku_judgement *j,
                                struct kg_error *err) {
    const struct kg_generate_result *const result = &j->answer.result;
    const bool may_be_special = kg_chat_has_channels(bench->tokenizer) || !(what & KG_JUDGE_POEM);
    if (result->n_ids == 0) blame(j, KG_EVIDENCE_BIT_IDS, "none");
    for (size_t i = 0; i < result->n_ids; i++) {
        const int32_t id = result->ids[i];
        const bool special = !may_be_special && kg_tokenizer_is_special(bench->tokenizer, id);
        if (id < 0 || (size_t)id >= bench->n_tokens || special) {
            blame(j, KG_EVIDENCE_BIT_IDS, "id %d at %zu of %zu", id, i, result->n_ids);
            return KG_OK;
        }
    }
    char *text;
    size_t len;
    const enum kg_status status = kg_tokenizer_show(bench->tokenizer, j->answer.prompt_ids.ids, j->answer.prompt_ids.n,
                                                    result->ids, result->n_ids, false, &text, &len, err);
    if (status != KG_OK) return status;
    if (len != result->text_len || memcmp(text, result->text, len) != 0)
        blame(j, KG_EVIDENCE_BIT_TEXT, "'%s' of ids that say '%s'", result->text, text);
    free(text);
    return KG_OK;
}

/* A poem's own ids decode to it again. They need not be the answer's: a model may write a word in other pieces than the
 * tokenizer would, which is recorded. */
static enum kg_status check_round_trip(const struct kg_haiku_bench *bench, struct kg_haiku_judgement *j,
                                       struct kg_error *err) {
    const struct kg_generate_result *const result = &j->answer.result;
    struct kg_ids ids = { 0 };
    char *again = NULL;
    size_t len = 0;
    enum kg_status status = kg_tokenizer_encode(bench->tokenizer, result->text, result->text_len, false, &ids, err);
    if (status == KG_OK) status = kg_tokenizer_decode(bench->tokenizer, ids.ids, ids.n, false, &again, &len, err);
    if (status == KG_OK && (len != result->text_len || memcmp(again, result->text, len) != 0))
        blame(j, KG_EVIDENCE_BIT_TEXT, "'%s' comes back as '%s'", result->text, again);
    j->canonical_ids = status == KG_OK && same_ids(ids.ids, ids.n, result->ids, result->n_ids);
    kg_ids_free(&ids);
    free(again);
    return status;
}

static void check_cost(const struct kg_haiku_bench *bench, const struct kg_poet *poet, struct kg_haiku_judgement *j) {
    const struct kg_generate_result *const result = &j->answer.result;
    struct kg_memory_use use;
    poet->memory(poet->self, &use);
    if (use.current_bytes[KG_MEMORY_WEIGHTS] < bench->weight_bytes)
        blame(j, KG_EVIDENCE_BIT_MEMORY, "%llu bytes of weights, the file has %llu",
              (unsigned long long)use.current_bytes[KG_MEMORY_WEIGHTS], (unsigned long long)bench->weight_bytes);
    if (result->n_decode_allocations != 0)
        blame(j, KG_EVIDENCE_BIT_ALLOCATIONS, "%llu", (unsigned long long)result->n_decode_allocations);
    j->floor_ns = (uint64_t)(1e9 * (double)bench->streamed_bytes * (double)result->n_ids / bench->bytes_per_s);
    if (j->answer_ns < j->floor_ns)
        blame(j, KG_EVIDENCE_BIT_TIME, "%llu ns for %zu tokens, at least %llu expected",
              (unsigned long long)j->answer_ns, result->n_ids, (unsigned long long)j->floor_ns);
    uint64_t claimed_ns = 0;
    for (size_t i = 0; i < result->n_evals; i++) claimed_ns += result->token_ns[i];
    if (claimed_ns > j->answer_ns)
        blame(j, KG_EVIDENCE_BIT_TIME, "%llu ns of steps in %llu ns", (unsigned long long)claimed_ns,
              (unsigned long long)j->answer_ns);
}

/* Draws the answer again from logits[n_prompt - 1 ...]; where the model ended it, so must the id after the last one. */
static enum kg_status draw_again(const struct kg_haiku_bench *bench, const struct kg_sampler_options *options,
                                 const int32_t *ids, size_t n_prompt, size_t n_ids, const float *rows,
                                 struct kg_haiku_judgement *j, struct kg_error *err) {
    struct kg_sampler *sampler;
    enum kg_status status =
        kg_sampler_create(options, (uint32_t)kg_tokenizer_n_drawable(bench->tokenizer), &sampler, err);
    if (status != KG_OK) return status;
    const size_t n_drawn = n_ids + (j->answer.result.finish == KG_FINISH_END_TOKEN);
    for (size_t i = 0; i < n_drawn && status == KG_OK; i++) {
        int32_t id = -1;
        const float *const row = rows + (n_prompt - 1 + i) * bench->n_vocab;
        status = kg_sampler_draw(sampler, row, ids, n_prompt + i, &id, err);
        if (status != KG_OK) break;
        const bool right = i < n_ids ? id == ids[n_prompt + i] : kg_tokenizer_is_end(bench->tokenizer, id);
        if (right) continue;
        blame(j, KG_EVIDENCE_BIT_REPLAY, "token %zu of %zu is %d, drawn again %d", i, n_ids,
              i < n_ids ? ids[n_prompt + i] : -1, id);
        break;
    }
    kg_sampler_free(sampler);
    return status;
}

static enum kg_status check_replay(const struct kg_haiku_bench *bench, const struct kg_poet *poet,
                                   const struct kg_haiku_request *request, struct kg_haiku_judgement *j,
                                   struct kg_error *err) {
    const struct kg_ids *const prompt = &j->answer.prompt_ids;
    const struct kg_generate_result *const result = &j->answer.result;
    const size_t n = prompt->n + result->n_ids;
    if (prompt->n == 0 || j->faults & KG_EVIDENCE_IDS) return KG_OK;
    int32_t *const ids = kg_xcalloc(n, sizeof *ids);
    float *const rows = kg_xcalloc(n, bench->n_vocab * sizeof *rows);
    memcpy(ids, prompt->ids, prompt->n * sizeof *ids);
    memcpy(ids + prompt->n, result->ids, result->n_ids * sizeof *ids);
    enum kg_status status = poet->logits(poet->self, ids, n, prompt->n, false, rows, err);
    if (status == KG_OK) status = draw_again(bench, &request->sampler, ids, prompt->n, result->n_ids, rows, j, err);
    free(rows);
    free(ids);
    return status;
}

static enum kg_status check_golden(const struct kg_haiku_bench *bench, const struct kg_poet *poet,
                                   struct kg_haiku_judgement *j, struct kg_error *err) {
    const size_t n_vocab = bench->n_vocab;
    size_t n_ids, n_kept, rows_kept, cols;
    const int32_t *const ids = kg_golden_i32(bench->golden, "ids", &n_ids);
    const int32_t *const positions = kg_golden_i32(bench->golden, "positions", &n_kept);
    const float *const logits = kg_golden_f32(bench->golden, "logits", &rows_kept, &cols);
    if (rows_kept != n_kept || cols != n_vocab)
        return kg_fail(err, KG_ERR_FORMAT, "%s: logits of %zu x %zu, %zu positions and %zu ids in the vocabulary",
                       kg_golden_path(bench->golden), rows_kept, cols, n_kept, n_vocab);
    float *const rows = kg_xcalloc(n_ids, n_vocab * sizeof *rows);
    float *const kept = kg_xcalloc(n_kept, n_vocab * sizeof *kept);
    const enum kg_status status = poet->logits(poet->self, ids, n_ids, n_ids, true, rows, err);
    for (size_t i = 0; i < n_kept; i++)
        memcpy(kept + i * n_vocab, rows + (size_t)positions[i] * n_vocab, n_vocab * sizeof *rows);
    if (status == KG_OK) {
        kg_compare_f32(kept, logits, n_kept * n_vocab, &j->golden);
        if (!kg_within(&j->golden, &bench->golden_tolerance, &j->golden_margin))
            blame(j, KG_EVIDENCE_BIT_GOLDEN, "NMSE %.3g, largest difference %.3g, %zu not finite", j->golden.nmse,
                  j->golden.max_abs, j->golden.n_nonfinite);
    }
    free(kept);
    free(rows);
    return status;
}

enum kg_status kg_haiku_judge(const struct kg_haiku_bench *bench, const struct kg_poet *poet,
                              const struct kg_haiku_request *request, int what, struct kg_haiku_judgement *judgement,
                              struct kg_error *err) {
    struct kg_haiku_judgement j = { 0 };
    const uint64_t start_ns = kg_clock_monotonic_ns();
    enum kg_status status = poet->answer(poet->self, request, &j.answer, err);
    j.answer_ns = kg_clock_monotonic_ns() - start_ns;
    if (status != KG_OK) return status;
    if (what & KG_JUDGE_CHAT) status = check_prompt(bench, request, &j, err);
    if (status == KG_OK) status = check_ids(bench, what, &j, err);
    if (status == KG_OK && what & KG_JUDGE_POEM) status = check_round_trip(bench, &j, err);
    if (status == KG_OK) {
        check_cost(bench, poet, &j);
        kg_poem_judge(bench->lexicon, j.answer.result.text, j.answer.result.text_len, request->minute_word,
                      request->nonce, &j.poem);
    }
    if (status == KG_OK && what & KG_JUDGE_POEM) {
        if (j.answer.result.finish != KG_FINISH_END_TOKEN)
            blame(&j, KG_EVIDENCE_BIT_END, "%s", kg_finish_name(j.answer.result.finish));
        if (j.poem.faults) blame(&j, KG_EVIDENCE_BIT_POEM, "%s", j.poem.message);
    }
    if (status == KG_OK && what & KG_JUDGE_REPLAY) status = check_replay(bench, poet, request, &j, err);
    if (status == KG_OK && what & KG_JUDGE_GOLDEN) status = check_golden(bench, poet, &j, err);
    if (status == KG_OK) *judgement = j;
    else kg_haiku_answer_free(&j.answer);
    return status;
}

void kg_haiku_judgement_free(struct kg_haiku_judgement *judgement) {
    kg_haiku_answer_free(&judgement->answer);
}
