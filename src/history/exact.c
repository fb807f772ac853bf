#include "history/exact.h"
#include <math.h>

static size_t count_changes(const struct kg_exact_past *past) {
    size_t n = 0;
    for (size_t i = 1; i < past->n; i++) n += past->values[i] != past->values[i - 1];
    return n;
}

uint32_t kg_exact_visits(const struct kg_exact_past *past) {
    uint32_t visits = 0;
    if (count_changes(past) < 2) return 0; /* nothing came and went */
    for (size_t newer = 0; newer < past->n; newer++)
        for (size_t older = newer + 2; older < past->n; older++)
            for (size_t i = newer + 1; i < older && past->values[newer] == past->values[older]; i++)
                if (past->values[i] != past->values[newer] && past->values[i] != past->values[i - 1])
                    visits |= UINT32_C(1) << i;
    return visits;
}

static bool is_unsteady(const struct kg_exact_past *past) {
    return past->n >= 4 && 2 * count_changes(past) > past->n;
}

/* Of the commits, each as bad as its worst run. */
static double lowest_level(const struct kg_exact_past *past) {
    double lowest = INFINITY;
    if (count_changes(past) == 0) return past->values[0];
    for (size_t i = 0; i < past->n; i++) {
        double level = past->values[i];
        for (size_t k = 0; k < past->n; k++)
            if (past->commits[k] == past->commits[i]) level = fmax(level, past->values[k]);
        lowest = fmin(lowest, level);
    }
    return lowest;
}

enum kg_exact_verdict kg_exact_judge(const struct kg_exact_past *past, double value, uint32_t others_visits,
                                     double *limit) {
    enum { ENOUGH_PLACES = 3 };
    double lowest = past->values[0], worst = past->values[0], worst_visit = -INFINITY;
    const uint32_t visits = kg_exact_visits(past);
    for (size_t i = 0; i < past->n; i++) {
        lowest = fmin(lowest, past->values[i]);
        worst = fmax(worst, past->values[i]);
        if (visits >> i & 1) worst_visit = fmax(worst_visit, past->values[i]);
    }
    *limit = is_unsteady(past) ? worst : lowest_level(past);
    if (value < lowest) {
        *limit = lowest;
        return KG_EXACT_BETTER;
    }
    if (value <= *limit) return KG_EXACT_SAME;
    return value <= worst_visit || __builtin_popcount(others_visits | visits) >= ENOUGH_PLACES ? KG_EXACT_SUSPECT
                                                                                               : KG_EXACT_WORSE;
}
