#include "base/threads.h"
#include "base/buffer.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct loop {
    void (*body)(void *arg, size_t begin, size_t end);
    void *arg;
    size_t n, n_ranges;
};

struct kg_thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    pthread_t *workers;
    int n_workers; /* without the calling thread */
    struct loop loop;
    size_t next_range, n_unfinished; /* of the loop; both guarded by lock */
    unsigned long generation;        /* number of loops started, so that a worker detects the next one */
    bool stopping;
};

static void run_range(const struct loop *loop, size_t index) {
    const size_t begin = loop->n * index / loop->n_ranges;
    const size_t end = loop->n * (index + 1) / loop->n_ranges;
    loop->body(loop->arg, begin, end);
}

/* Runs ranges until none is left. The caller holds the lock, before and after. */
static void take_ranges(struct kg_thread_pool *pool) {
    while (pool->next_range < pool->loop.n_ranges) {
        const size_t index = pool->next_range++;
        const struct loop loop = pool->loop;
        pthread_mutex_unlock(&pool->lock);
        run_range(&loop, index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_unfinished == 0) pthread_cond_signal(&pool->work_done);
    }
}

static void *worker_main(void *arg) {
    struct kg_thread_pool *pool = arg;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        if (pool->generation == seen) {
            pthread_cond_wait(&pool->work_ready, &pool->lock);
            continue;
        }
        seen = pool->generation;
        take_ranges(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int kg_processors_allowed(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set);
}

enum kg_status kg_thread_pool_create(int n_threads, struct kg_thread_pool **out, struct kg_error *err) {
    if (n_threads < 0) return kg_fail(err, KG_ERR_USAGE, "a pool cannot have %d threads", n_threads);
    struct kg_thread_pool *pool = kg_xcalloc(1, sizeof *pool);
    const int n_workers = (n_threads ? n_threads : kg_processors_allowed()) - 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_ready, NULL);
    pthread_cond_init(&pool->work_done, NULL);
    pool->workers = kg_xcalloc((size_t)n_workers, sizeof *pool->workers);
    for (; pool->n_workers < n_workers; pool->n_workers++) {
        const int code = pthread_create(&pool->workers[pool->n_workers], NULL, worker_main, pool);
        if (code != 0) {
            kg_thread_pool_destroy(pool);
            return kg_fail(err, KG_ERR_NO_MEMORY, "cannot start a worker thread: %s", strerror(code));
        }
    }
    *out = pool;
    return KG_OK;
}

void kg_thread_pool_destroy(struct kg_thread_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work_ready);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_workers; i++) pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->work_done);
    pthread_cond_destroy(&pool->work_ready);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int kg_thread_pool_size(const struct kg_thread_pool *pool) {
    return pool ? pool->n_workers + 1 : 1;
}

void kg_parallel_for(struct kg_thread_pool *pool, size_t n, size_t min_per_range,
                     void (*body)(void *arg, size_t begin, size_t end), void *arg) {
    if (n == 0) return;
    const size_t most = min_per_range ? n / min_per_range : n;
    size_t n_ranges = (size_t)kg_thread_pool_size(pool);
    if (n_ranges > most) n_ranges = most;
    if (n_ranges <= 1) {
        body(arg, 0, n);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->loop = (struct loop){ body, arg, n, n_ranges };
    pool->next_range = 0;
    pool->n_unfinished = n_ranges;
    pool->generation++;
    pthread_cond_broadcast(&pool->work_ready);
    take_ranges(pool);
    while (pool->n_unfinished > 0) pthread_cond_wait(&pool->work_done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
