/* Memory that a target may use, counted by every allocation of the process: those of libraries too, which a limit on
 * the address space would not tell from the sanitizer's. */
#ifndef KIGO_SUITES_FUZZ_LIMITS_H
#define KIGO_SUITES_FUZZ_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* 4 x the input's size and 64 MiB, and 10 s. */
enum { KG_FUZZ_TIMES_SIZE = 4, KG_FUZZ_SECONDS = 10 };
#define KG_FUZZ_BASE_BYTES ((uint64_t)64 << 20)

/* Bytes in use from here on are counted from 0; an allocation by which they exceed max_bytes is a violation
 * (kg_fuzz_give_up). */
void kg_fuzz_memory_begin(uint64_t max_bytes);
/* *peak_bytes: the most that were in use since; returns what still is. */
int64_t kg_fuzz_memory_end(int64_t *peak_bytes);

#endif
