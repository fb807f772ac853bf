/* Tiny models with something wrong, and what their refusal must say. */
#ifndef KIGO_SUITES_REFUSALS_H
#define KIGO_SUITES_REFUSALS_H

#include "suites/harness/case.h"
#include "suites/support/tiny_model.h"
#include <kigo/model.h>

struct kg_backend;

enum { KG_MAX_EDITS = 4 };

/* A tiny model with something wrong, and what the refusal must say. */
struct kg_refusal {
    const char *name;
    const char *architecture; /* NULL: qwen2 */
    struct kg_tiny_edit edits[KG_MAX_EDITS];
    enum kg_status status;
    const char *says;
};

#define OMIT(key)                                                                                                      \
    { .name = key, .change = KG_TINY_OMIT }
#define U32(key, n)                                                                                                    \
    { .name = key, .change = KG_TINY_KEY_U32, .number = n }
#define F32(key, n)                                                                                                    \
    { .name = key, .change = KG_TINY_KEY_F32, .number = n }
#define TEXT(key, t)                                                                                                   \
    { .name = key, .change = KG_TINY_KEY_TEXT, .text = t }
#define PAIR(key, n)                                                                                                   \
    { .name = key, .change = KG_TINY_KEY_I32S, .number = n }
#define DTYPE(tensor, type)                                                                                            \
    { .name = tensor, .change = KG_TINY_TENSOR_DTYPE, .dtype = KG_DTYPE_##type }
#define DIMS(tensor, a, b)                                                                                             \
    {                                                                                                                  \
        .name = tensor, .change = KG_TINY_TENSOR_DIMS, .dims = { a, b }                                                \
    }
#define ADD(tensor, a, b)                                                                                              \
    {                                                                                                                  \
        .name = tensor, .change = KG_TINY_TENSOR_ADD, .dims = { a, b }                                                 \
    }

/* A case's function: arg is a struct kg_refusal. The file is refused with its status and words, names the file and
 * leaves nothing behind. */
void kg_refusal_run(struct kg_record *rec, const void *arg);

struct kg_tiny_model kg_tiny_of(const char *architecture);
/* "model.gguf" in the case's scratch folder, malloc'ed. */
char *kg_scratch_model(struct kg_record *rec);
struct kg_backend *kg_cpu_of_one_thread(void);
uint64_t kg_bytes_in_use(const struct kg_backend *backend);
/* A tiny model that loads. */
struct kg_model *kg_tiny_load(const char *path, const struct kg_tiny_model *model, const struct kg_tiny_edit *edits,
                              size_t n_edits, struct kg_backend *backend);

#endif
