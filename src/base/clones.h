/* KG_VECTOR_CLONES: compiles a function twice, for AVX2 and for the baseline; the loader selects one at start.
 *
 * Use it only for functions whose result has the same bits either way: a fixed order of additions, and no contraction
 * (AVX2 here is without FMA). It needs glibc's indirect functions; it is off under sanitizers, which run before those
 * are resolved. */
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
