/* Evidence that a haiku was written by a forward pass of the model in the file, and not pasted together.
 *
 * The judge trusts nothing it can find out by itself: it spells the expected prompt, encodes and decodes with its own
 * tokenizer, reads the weights' size from the file, holds the clock, compares the poet's logits with transformers', and
 * draws every id again from the poet's own logits with the same seed. */
#ifndef KIGO_SUITES_EVIDENCE_H
#define KIGO_SUITES_EVIDENCE_H

#include "suites/support/poet.h"
#include "suites/harness/compare.h"
#include "suites/support/golden.h"
#include <stdbool.h>

/* X(name, text) */
#define KG_EVIDENCE_FAULT_LIST(X)                                                                                      \
    X(PROMPT, "the prompt is not the request in the model's chat format")                                              \
    X(IDS, "the ids are none the model can have written")                                                              \
    X(TEXT, "the text is not what the ids say")                                                                        \
    X(END, "the answer was not ended by the model")                                                                    \
    X(ALLOCATIONS, "memory was allocated while decoding")                                                              \
    X(MEMORY, "the back end holds less than the weights")                                                              \
    X(TIME, "the answer came faster than any machine reads the weights")                                               \
    X(REPLAY, "the ids do not follow from the logits")                                                                 \
    X(GOLDEN, "the logits are not the model's")                                                                        \
    X(POEM, "the poem is not the one asked for")

enum kg_evidence_bit {
#define KG_EVIDENCE_BIT(name, text) KG_EVIDENCE_BIT_##name,
    KG_EVIDENCE_FAULT_LIST(KG_EVIDENCE_BIT)
#undef KG_EVIDENCE_BIT
        KG_EVIDENCE_BITS
};
enum kg_evidence_fault {
#define KG_EVIDENCE_FAULT(name, text) KG_EVIDENCE_##name = 1 << KG_EVIDENCE_BIT_##name,
    KG_EVIDENCE_FAULT_LIST(KG_EVIDENCE_FAULT)
#undef KG_EVIDENCE_FAULT
};

/* What the judge knows of the model by itself. */
struct kg_haiku_bench {
    struct kg_tokenizer *tokenizer;
    struct kg_lexicon *lexicon;
    struct kg_golden *golden; /* transformers' float32 logits of a prompt; NULL if it was not asked */
    size_t n_vocab;
    size_t n_tokens;                      /* rows past them are padding: tokens of type UNUSED */
    uint64_t weight_bytes;                /* of all tensors in the file */
    uint64_t streamed_bytes;              /* of the tensors every token reads whole */
    double bytes_per_s;                   /* more than any such machine reads weights at */
    struct kg_tolerance golden_tolerance; /* of logits in the precision, against the golden */
};
/* Of a model file; golden_path may be NULL. Fails the running case if the golden is not as it should be. */
KG_WARN_UNUSED enum kg_status kg_haiku_bench_open(const char *model_path, const char *golden_path,
                                                  const char *backend_name, enum kg_precision precision,
                                                  struct kg_haiku_bench *bench, struct kg_error *err);
void kg_haiku_bench_close(struct kg_haiku_bench *bench);

/* Always: ids, text, memory, allocations, time. Besides: */
enum { KG_JUDGE_REPLAY = 1, KG_JUDGE_GOLDEN = 2, KG_JUDGE_POEM = 4, KG_JUDGE_CHAT = 8, KG_JUDGE_ALL = 15 };

struct kg_haiku_judgement {
    struct kg_haiku_answer answer; /* owned */
    uint64_t answer_ns;            /* by the judge's clock */
    uint64_t floor_ns;             /* what it takes at least */
    bool canonical_ids;            /* the text encodes to the very ids */
    struct kg_poem_verdict poem;
    struct kg_compare golden; /* of all positions, with its tolerance's margin */
    double golden_margin;
    uint32_t faults;   /* a set of enum kg_evidence_fault */
    char message[512]; /* the first fault; "" if there is none */
};

/* Has the poet answer and judges it. `what` adds checks. An error of the poet itself is a status. */
KG_WARN_UNUSED enum kg_status kg_haiku_judge(const struct kg_haiku_bench *bench, const struct kg_poet *poet,
                                             const struct kg_haiku_request *request, int what,
                                             struct kg_haiku_judgement *judgement, struct kg_error *err);
void kg_haiku_judgement_free(struct kg_haiku_judgement *judgement);

/* A line of the transcript: request, prompt, ids, text, times, options, verdict. */
kg_json *kg_haiku_transcript(const struct kg_haiku_request *request, const struct kg_haiku_judgement *judgement);

#endif
