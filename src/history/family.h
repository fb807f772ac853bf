/* How far unchanged figures of these very runs have lain, whatever their noise looks like.
 *
 * t_ij = (x_ij - m_i) / (s_i d_j) for figure i and run j, the judged run being one of them:
 *   m_i  the Hodges-Lehmann centre
 *   s_i  the robust sigma (MAD), drawn towards that of the other figures by as much as their scatter is no more than
 *        few values explain, but no further than its own error; at least 2/3 of the distance of the third highest
 *        value, so that a second mode or a tail on one side counts
 *   d_j  at least 1: how much further than in normal values the lowest tenth of run j's figures lies; a run on a
 *        disturbed machine is wide on both sides, one of a slower program only above
 *
 * The farthest figure of each run, M_j = max over i of t_ij, makes a rank: if the judged run is one like the others,
 * M_0 is the largest of n + 1 with probability 1 / (n + 1), under every noise, with whatever tails, modes and
 * dependence between figures. (P. H. Westfall and S. S. Young, Resampling-Based Multiple Testing, 1993, of which this
 * is the exact form for one run.)
 *
 * What stays slow joins its own baseline. So the newest k runs are held with the judged one against those before them:
 * a figure that lies as far in all k + 1 is as rare as k + 1 given runs being the farthest of n + 1, which is
 * 1 / C(n + 1, k + 1): all k together add a tenth to what k = 0 has. */
#ifndef KIGO_HISTORY_FAMILY_H
#define KIGO_HISTORY_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

struct kg_family {
    double *t;      /* of the judged run, by figure; NaN: none */
    double *unit;   /* s_i d_0: what t counts, as a logarithm */
    double red;     /* 1.1 times the farthest M_j of the baseline, more where it has less than 20 runs; INFINITY: < 5 */
    double suspect; /* an M_j that a fifth of the baseline's runs reach */
    double *farthest, *width; /* M_j and d_j, by run; M_j is -INFINITY without figures */
    double middle, spread2;   /* median of the sigmas' logarithms and their own variance; spread2 INFINITY: too few */
};

struct kg_family_since {
    size_t n_runs;                    /* of the baseline's newest that lie as far as the judged one */
    double centre, sigma, t, t_limit; /* of the runs before; the nearest of those that lie far, and what it is beyond */
};

/* by_run[i][j]: logarithms, more is worse, freed of drift; run 0 is judged; NaN where there is none. */
void kg_family_find(const double *const *by_run, size_t n_figures, size_t n_runs, struct kg_family *out);

/* Whether one figure is worse in the judged run and the newest k >= 1 of the baseline than in all runs before, by more
 * than floor: the least such k. by_run as above, of n_runs. False for fewer than 5 runs before. */
bool kg_family_stays_worse(const struct kg_family *family, const double *by_run, size_t n_runs, double floor,
                           struct kg_family_since *since);
void kg_family_free(struct kg_family *family);

#endif
