/* Memory-bandwidth canaries of the cpu back end: multithreaded copy and read loops for the roofline
 * (backend/measure.h). */
#ifndef KIGO_OPS_CANARY_H
#define KIGO_OPS_CANARY_H

#include "base/threads.h"
#include <stdint.h>

/* Copies size_bytes, a multiple of 16, between 16-byte aligned buffers. */
void kg_cpu_canary_copy(struct kg_thread_pool *pool, void *to, const void *from, uint64_t size_bytes);

/* Reads size_bytes (same alignment) and returns the sum of its 64-bit words modulo 2^64. */
uint64_t kg_cpu_canary_read(struct kg_thread_pool *pool, const void *from, uint64_t size_bytes);

#endif
