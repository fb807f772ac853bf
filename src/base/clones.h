/* Wider vectors where the processor has them: a function marked KG_VECTOR_CLONES is compiled for AVX2 as well, and the
 * loader chooses.
 *
 * Only for functions whose result is the same bits either way: additions in a fixed order, and (as AVX2 here is without
 * FMA) no contraction. Needs glibc's indirect functions; sanitizers run before those are resolved. */
#ifndef KIGO_BASE_CLONES_H
#define KIGO_BASE_CLONES_H

#include <features.h> /* for __GLIBC__ */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && !defined(__SANITIZE_ADDRESS__)
#if __has_attribute(target_clones) && !defined(__clang__)
#define KG_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef KG_VECTOR_CLONES
#define KG_VECTOR_CLONES
#endif

#endif
