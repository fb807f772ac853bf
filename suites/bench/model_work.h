/* What the benches of whole models and of their peers share: how a case names its model and its lengths, so that what
 * both timed is found by name. */
#ifndef KIGO_SUITES_MODEL_WORK_H
#define KIGO_SUITES_MODEL_WORK_H

#include "suites/harness/case.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reference back end is not timed with more. */
enum { KG_BENCH_MOST_CPU_BYTES = 256 << 20 };

struct kg_model_work {
    uint32_t n_prompt, n_tokens, n_ctx; /* n_prompt 0: the case has no lengths */
};

/* One pass over a prompt; tokens one by one behind a short prompt, and (long_context) behind one that fills 8192
 * positions; as long as kg_bench_quick has it. */
struct kg_model_work kg_prefill_work(void);
struct kg_model_work kg_decode_work(bool long_context);

/* Tokens one by one behind a prompt that nearly fills so many positions. */
struct kg_model_work kg_context_work(uint32_t n_ctx);

/* The first token of a fresh process behind a prompt of 20. */
struct kg_model_work kg_cold_start_work(void);

/* Whether the back end is there, and the file at path not too much for the reference back end; else the case is
 * skipped. No context is made on a GPU: it would make another process's start shorter. */
bool kg_model_work_is_timed(struct kg_record *rec, const char *backend, const char *path);

enum { KG_MODEL_WORK_TEXT = 160 };
/* "fixture", or of a file "model=0 file.gguf": what a case key may hold. path: NULL for the fixture. */
void kg_model_work_name(size_t index, const char *path, char name[KG_MODEL_WORK_TEXT]);
/* "fixture prompt=16 tokens=32 ctx=48": a case's shape. */
void kg_model_work_shape(const char *name, const struct kg_model_work *work, char shape[KG_MODEL_WORK_TEXT]);

#endif
