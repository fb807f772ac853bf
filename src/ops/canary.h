/* The memory canaries of the cpu back end: plain loops over a pool of threads, for the roofline of measure/device.h. */
#ifndef KIGO_OPS_CANARY_H
#define KIGO_OPS_CANARY_H

#include "base/threads.h"
#include <stdint.h>

/* size_bytes is a multiple of 16, pointers are 16-byte aligned. */
void kg_cpu_canary_copy(struct kg_thread_pool *pool, void *to, const void *from, uint64_t size_bytes);

/* The sum of all 64-bit words modulo 2^64. */
uint64_t kg_cpu_canary_read(struct kg_thread_pool *pool, const void *from, uint64_t size_bytes);

#endif
