/* Changes of tensors that make a wrong model of a right one; `change` functions of struct kg_gguf_edit. */
#ifndef KIGO_SUITES_MUTANT_FILES_H
#define KIGO_SUITES_MUTANT_FILES_H

#include "suites/support/gguf_edit.h"

void kg_mutant_drop(struct kg_edited_tensor *t, const void *user);
void kg_mutant_zero(struct kg_edited_tensor *t, const void *user);
void kg_mutant_scale(struct kg_edited_tensor *t, const void *user);      /* user: const double *, the factor */
void kg_mutant_minus_one(struct kg_edited_tensor *t, const void *user);  /* a norm as gemma's folders have it */
void kg_mutant_transpose(struct kg_edited_tensor *t, const void *user);  /* the data of a square matrix, not its dims */
void kg_mutant_next_row(struct kg_edited_tensor *t, const void *user);   /* user: const int32_t *, the row replaced */
void kg_mutant_swap_names(struct kg_edited_tensor *t, const void *user); /* user: const char *[2], parts of names */
void kg_mutant_swap_nibbles(struct kg_edited_tensor *t, const void *user); /* MXFP4, Q4_0 */
void kg_mutant_interleave_nibbles(struct kg_edited_tensor *t,
                                  const void *user);                     /* MXFP4: low, high, low, ... in order */
void kg_mutant_no_minimum(struct kg_edited_tensor *t, const void *user); /* Q4_K: dmin = 0 */
/* The rows of q or k of a llama file in the order of the halves; user: const uint32_t *, the rows of a head. */
void kg_mutant_rows_in_halves(struct kg_edited_tensor *t, const void *user);

#endif
