#include "suites/integration/fault_places.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <stdbool.h>
#include <stdlib.h>

struct call {
    uint64_t place;
    size_t number;
};

static int by_place(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    if (x->place != y->place) return x->place > y->place ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b) {
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

size_t *kg_fault_choose(const struct kg_fault_report *report, const struct kg_fault_sweep *how, uint64_t seed,
                        size_t *n_places, size_t *n_chosen) {
    const size_t n_calls = report->n_calls < KG_FAULT_MAX_CALLS ? (size_t)report->n_calls : KG_FAULT_MAX_CALLS;
    struct call *calls = kg_xcalloc(n_calls, sizeof *calls);
    size_t *chosen = kg_xcalloc(2 * n_calls + how->n_drawn, sizeof *chosen), n = 0, n_once = 0;
    struct kg_rng rng;
    *n_places = 0;
    for (size_t i = 0; i < n_calls; i++) calls[i] = (struct call){ how->every_call ? i : report->place[i], i + 1 };
    qsort(calls, n_calls, sizeof *calls, by_place);
    for (size_t i = 0; i < n_calls; i++) {
        const bool first = i == 0 || calls[i].place != calls[i - 1].place;
        const bool last = i + 1 == n_calls || calls[i].place != calls[i + 1].place;
        if (first || last) chosen[n++] = calls[i].number;
        *n_places += first;
    }
    free(calls);
    kg_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < how->n_drawn; i++) chosen[n++] = 1 + (size_t)kg_rng_below(&rng, n_calls);
    qsort(chosen, n, sizeof *chosen, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || chosen[i] != chosen[i - 1]) chosen[n_once++] = chosen[i];
    *n_chosen = n_once;
    return chosen;
}
