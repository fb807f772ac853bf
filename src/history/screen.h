/* The screen: which noisy figures of a run lie further from their baseline than noise explains.
 *
 * Every value is the natural logarithm of a run's median, with its sign chosen so that more is worse, and freed of the
 * machine's drift. For figure i with baseline values x_ij, j = 1 .. n_i, and the run's value y_i: change_i = y_i - m_i
 * m_i: the Hodges-Lehmann centre of x_i s_i      = robust sigma of x_i (MAD), drawn towards the median of all figures'
 * sigmas by as much as the sigmas' own scatter is no more than n_i values explain (the idea of G. K. Smyth, Stat. Appl.
 * Genet. Mol. Biol. 3 (2004) 3, with a robust scale): a scale of 20 values is off by a quarter, that of a thousand
 * figures is not z_i      = change_i / (s_i * sqrt(1 + 1 / (0.955 n_i))) and the figure is worse if change_i > floor_i
 * and z_i > the limit, better if both hold with signs reversed. The limit is the value that a Student's t exceeds in
 * one of 2000 cases (3.29 sigmas where the scale is known well, 5 with a scale from 20 values): 3 sigmas alone would
 * flag 1.35 of 1000 figures that did not change. */
#ifndef KIGO_HISTORY_SCREEN_H
#define KIGO_HISTORY_SCREEN_H

#include <stddef.h>

enum { KG_SCREEN_FEWEST = 5 }; /* baseline values below which there is no scale */

enum kg_screen_verdict { KG_SCREEN_SAME, KG_SCREEN_WORSE, KG_SCREEN_BETTER, KG_SCREEN_TOO_FEW, KG_SCREEN_SUSPECT };

struct kg_screen_figure {
    const double *baseline; /* n_baseline values */
    size_t n_baseline;
    double value;
    double floor; /* as a logarithm: log1p(0.03) for 3% */
    /* What follows is the answer. */
    double centre, change, sigma, z, z_limit;
    enum kg_screen_verdict verdict; /* TOO_FEW: beyond the floor, and no scale to judge it by; SUSPECT: see noisy.h */
};

void kg_screen(struct kg_screen_figure *figures, size_t n_figures);

#endif
