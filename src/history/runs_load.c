/* Several runs of an index at once: each question opens its own connection for reading (query.c), so that threads share
 * nothing but the catalogue, which none changes. */
#include "base/buffer.h"
#include "base/size.h"
#include "base/threads.h"
#include "history/internal.h"
#include "history/run.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 8 };

struct loads {
    struct kg_history *index;
    const int64_t *bundle_nos;
    const struct kg_catalogue *catalogue;
    struct kg_run *runs;
    struct load {
        enum kg_status status;
        struct kg_error err;
    } * ended;
};

static void load_range(void *arg, size_t begin, size_t end) {
    const struct loads *loads = arg;
    for (size_t i = begin; i < end; i++)
        loads->ended[i].status =
            kg_run_load(loads->index, loads->bundle_nos[i], loads->catalogue, &loads->runs[i], &loads->ended[i].err);
}

/* One where the connection is shared, or where SQLite was built for one. */
static int threads_for(const struct kg_history *index, int n_threads, size_t n_runs) {
    const bool alone = !sqlite3_threadsafe() || strcmp(index->path, ":memory:") == 0;
    size_t most = n_threads > 0 ? (size_t)n_threads : (size_t)kg_processors_allowed();
    if (most > MOST_THREADS) most = MOST_THREADS;
    return alone ? 1 : (int)kg_min_size(most, n_runs);
}

enum kg_status kg_runs_load(struct kg_history *index, const int64_t *bundle_nos, size_t n_runs,
                            const struct kg_catalogue *catalogue, int n_threads, struct kg_run *runs,
                            struct kg_error *err) {
    struct loads loads = { index, bundle_nos, catalogue, runs, kg_xcalloc(n_runs, sizeof *loads.ended) };
    struct kg_thread_pool *pool = NULL;
    struct kg_error unheard;
    enum kg_status status = KG_OK;
    assert(!index->store);
    n_threads = threads_for(index, n_threads, n_runs);
    if (n_threads > 1 && kg_thread_pool_create(n_threads, &pool, &unheard) != KG_OK) pool = NULL; /* one does it all */
    kg_parallel_for(pool, n_runs, 1, load_range, &loads);
    kg_thread_pool_destroy(pool);
    for (size_t i = 0; i < n_runs && status == KG_OK; i++)
        if (loads.ended[i].status != KG_OK)
            status = kg_fail(err, loads.ended[i].status, "%s", loads.ended[i].err.message);
    for (size_t i = 0; i < n_runs && status != KG_OK; i++) kg_run_free(&runs[i]); /* one that failed is empty */
    free(loads.ended);
    return status;
}
