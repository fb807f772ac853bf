#include "ops/canary.h"
#include <stdatomic.h>
#include <string.h>

enum { MIN_WORDS_PER_RANGE = 8192 };

struct canary {
    uint64_t *to;
    const uint64_t *from;
    _Atomic uint64_t sum;
};

static void copy_range(void *arg, size_t begin, size_t end) {
    struct canary *c = arg;
    memcpy(c->to + begin, c->from + begin, (end - begin) * sizeof *c->to);
}

static void read_range(void *arg, size_t begin, size_t end) {
    struct canary *c = arg;
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++) sum += c->from[i];
    atomic_fetch_add(&c->sum, sum); /* sums modulo 2^64 do not depend on the order of ranges */
}

void kg_cpu_canary_copy(struct kg_thread_pool *pool, void *to, const void *from, uint64_t size_bytes) {
    struct canary c = { .to = to, .from = from };
    kg_parallel_for(pool, size_bytes / sizeof *c.to, MIN_WORDS_PER_RANGE, copy_range, &c);
}

uint64_t kg_cpu_canary_read(struct kg_thread_pool *pool, const void *from, uint64_t size_bytes) {
    struct canary c = { .from = from };
    kg_parallel_for(pool, size_bytes / sizeof *c.from, MIN_WORDS_PER_RANGE, read_range, &c);
    return atomic_load(&c.sum);
}
