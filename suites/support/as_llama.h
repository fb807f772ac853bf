/* The qwen2 fixture as a file of architecture llama: the same network (llama's layers take biases on q, k and v), whose
 * q and k rows are permuted as llama.cpp's converter permutes them, because llama rotates neighbouring pairs. There is
 * no trained llama fixture; this one writes the same poems and has the same goldens. */
#ifndef KIGO_SUITES_AS_LLAMA_H
#define KIGO_SUITES_AS_LLAMA_H

#include <kigo/status.h>

/* Of the permutation, a glob of the tensors it is for: KG_LLAMA_PERMUTED for a right file. */
#define KG_LLAMA_PERMUTED "blk.*.attn_[qk].*"
KG_WARN_UNUSED enum kg_status kg_haiku_write_as_llama(const char *from, const char *to, const char *permuted_tensors,
                                                      struct kg_error *err);

#endif
