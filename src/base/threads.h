/* A fixed pool of worker threads for loops whose iterations are independent. */
#ifndef KIGO_BASE_THREADS_H
#define KIGO_BASE_THREADS_H

#include <kigo/status.h>
#include <stddef.h>

struct kg_thread_pool;

/* n_threads counts the calling thread; 0 takes the processors this process may use. */
KG_WARN_UNUSED enum kg_status kg_thread_pool_create(int n_threads, struct kg_thread_pool **pool, struct kg_error *err);
void kg_thread_pool_destroy(struct kg_thread_pool *pool);
int kg_thread_pool_size(const struct kg_thread_pool *pool);

/* Calls body(arg, begin, end) on disjoint ranges that cover [0, n), in any order and at once; returns when all are
 * done. A range is at least min_per_range long where n allows; with a NULL pool, or when one range is enough, it runs
 * on the calling thread. One loop at a time per pool. */
void kg_parallel_for(struct kg_thread_pool *pool, size_t n, size_t min_per_range,
                     void (*body)(void *arg, size_t begin, size_t end), void *arg);

#endif
