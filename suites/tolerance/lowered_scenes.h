/* Models whose decode steps have all the launches there are, in every precision that is lowered; and the mutants of
 * those launches. */
#ifndef KIGO_SUITES_LOWERED_SCENES_H
#define KIGO_SUITES_LOWERED_SCENES_H

#include "suites/harness/compare.h"
#include "suites/support/tiny_model.h"
#include "suites/tolerance/lowered_mistakes.h"

/* Block formats: float16 activations, one kernel for all of them (blocks.cu). MXFP4: as it is repacked (repacked.cu).
 */
enum {
    KG_LOWERED_F16,
    KG_LOWERED_F32,
    KG_LOWERED_F32_KV_F16,
    KG_LOWERED_BLOCKS,
    KG_LOWERED_Q8_0 = KG_LOWERED_BLOCKS,
    KG_LOWERED_Q4_0,
    KG_LOWERED_Q5_0,
    KG_LOWERED_Q4_K,
    KG_LOWERED_Q5_K,
    KG_LOWERED_Q6_K,
    KG_LOWERED_Q4_K_Q6_K,
    KG_LOWERED_Q8_0_Q5_0,
    KG_LOWERED_BF16, /* not repacked: as these taken by the captured graph, but by F16's kernel (matrix.cu) */
    KG_LOWERED_MXFP4,
    KG_LOWERED_N_PRECISIONS
};
extern const struct kg_lowered_form {
    enum kg_precision activations, kv;
    enum kg_dtype matrices;
    const char *dtype;
    struct kg_tolerance tol;
    enum kg_dtype more_bits;
    bool has_mutants; /* one form of each kernel */
} KG_LOWERED_FORMS[KG_LOWERED_N_PRECISIONS];

#define KG_LOWERED_PERSISTENT "persistent kernel"
#define KG_LOWERED_GRAPH "captured graph"
#define KG_LOWERED_ATTENTION "attention in one launch"
#define KG_LOWERED_QUANTISED "linear of quantised formats"

extern const struct kg_lowered_scene {
    const char *name, *path;
    const char *attention[KG_LOWERED_BLOCKS]; /* the kernel of its first layer; NULL: of an instruction */
    struct kg_tiny_model model;
    uint32_t n_past;
    enum { KG_LOWERED_OF_ALL, KG_LOWERED_OF_BLOCKS, KG_LOWERED_OF_MXFP4 } formats;
} KG_LOWERED_SCENES[];
extern const size_t KG_LOWERED_N_SCENES;

enum kg_lowered_how { KG_LOWERED_CHANGED, KG_LOWERED_TWICE, KG_LOWERED_LEFT_OUT }; /* the step's nodes */

/* nth: of the steps of that kernel. first: how the name of the first place outside begins. */
extern const struct kg_lowered_mutant {
    const char *name, *scene, *kernel;
    uint32_t nth;
    const char *first;
    kg_mistake *change;
    enum kg_lowered_how how;
    bool f16_only; /* the step is taken in float16 alone */
} KG_LOWERED_MUTANTS[];
extern const size_t KG_LOWERED_N_MUTANTS;

#endif
