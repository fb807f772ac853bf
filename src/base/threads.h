/* A fixed pool of worker threads for loops whose iterations are independent. */
#ifndef KIGO_BASE_THREADS_H
#define KIGO_BASE_THREADS_H

#include <kigo/status.h>
#include <stddef.h>

/* How many processors this process may use, at least 1. */
int kg_processors_allowed(void);

struct kg_thread_pool;

/* n_threads includes the calling thread; 0: as many as the processors this process may use. */
KG_WARN_UNUSED enum kg_status kg_thread_pool_create(int n_threads, struct kg_thread_pool **pool, struct kg_error *err);
void kg_thread_pool_destroy(struct kg_thread_pool *pool);
int kg_thread_pool_size(const struct kg_thread_pool *pool);

/* Splits [0, n) into disjoint ranges of at least min_per_range (if n allows), calls body(arg, begin, end) on them in
 * parallel and in any order, and returns when all are done. A single range, or any loop with a NULL pool, runs on the
 * calling thread. A pool runs one loop at a time. */
void kg_parallel_for(struct kg_thread_pool *pool, size_t n, size_t min_per_range,
                     void (*body)(void *arg, size_t begin, size_t end), void *arg);

#endif
