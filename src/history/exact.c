#include "history/exact.h"
#include <math.h>

uint32_t kg_exact_visits(const struct kg_exact_past *past) {
    uint32_t visits = 0;
    for (size_t newer = 0; newer < past->n; newer++)
        for (size_t older = newer + 2; older < past->n; older++)
            for (size_t i = newer + 1; i < older && past->values[newer] == past->values[older]; i++)
                if (past->values[i] != past->values[newer] && past->values[i] != past->values[i - 1])
                    visits |= UINT32_C(1) << i;
    return visits;
}

static bool is_unsteady(const struct kg_exact_past *past) {
    size_t n_changes = 0;
    for (size_t i = 1; i < past->n; i++) n_changes += past->values[i] != past->values[i - 1];
    return past->n >= 4 && 2 * n_changes > past->n;
}

/* Of the commit of run i. */
static double level_of(const struct kg_exact_past *past, size_t i) {
    double level = past->values[i];
    for (size_t k = 0; k < past->n; k++)
        if (past->commits[k] == past->commits[i]) level = fmax(level, past->values[k]);
    return level;
}

enum kg_exact_verdict kg_exact_judge(const struct kg_exact_past *past, double value, uint32_t others_visits,
                                     double *limit) {
    enum { ENOUGH_PLACES = 3 };
    double lowest = past->values[0], lowest_level = INFINITY, worst = past->values[0], worst_visit = -INFINITY;
    const uint32_t visits = kg_exact_visits(past);
    for (size_t i = 0; i < past->n; i++) {
        lowest = fmin(lowest, past->values[i]);
        lowest_level = fmin(lowest_level, level_of(past, i));
        worst = fmax(worst, past->values[i]);
        if (visits >> i & 1) worst_visit = fmax(worst_visit, past->values[i]);
    }
    *limit = is_unsteady(past) ? worst : lowest_level;
    if (value < lowest) {
        *limit = lowest;
        return KG_EXACT_BETTER;
    }
    if (value <= *limit) return KG_EXACT_SAME;
    return value <= worst_visit || __builtin_popcount(others_visits | visits) >= ENOUGH_PLACES ? KG_EXACT_SUSPECT
                                                                                               : KG_EXACT_WORSE;
}
