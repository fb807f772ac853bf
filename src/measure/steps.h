/* Steps in a series: where a noisy figure changed its level for good. */
#ifndef KIGO_MEASURE_STEPS_H
#define KIGO_MEASURE_STEPS_H

#include <stdbool.h>
#include <stddef.h>

enum { KG_STEP_REACH = 4, KG_STEP_PLACES = 2 * KG_STEP_REACH + 1 };

struct kg_step {
    size_t at;            /* the first value after the step */
    double before, after; /* Hodges-Lehmann centres of the up to 60 values next to it on each side */
    size_t n_before, n_after;
    double p; /* two-sided exact Mann-Whitney of the values next to it (of 64 together, or of more if one side is short)
               */
    bool creeps;                  /* a stair of a creep, cut where it is surest: there is no one place */
    double costs[KG_STEP_PLACES]; /* of a step at `at - KG_STEP_REACH + i`: -2 ln likelihood and a constant; infinite
                                     where there can be none */
};

/* Splits the values into levels of at least 3 values (partition.h), then takes back, the weakest first, steps that do
 * not hold. With sigma and phi of what the levels leave (Huber's scale, P. J. Huber, Ann. Math. Statist. 35 (1964) 73;
 * correlation of neighbours, less 1.2 of its standard errors) and
 *   e = 1.05 sigma sqrt((1 / n_before + 1 / n_after) (1 + phi) / (1 - phi)),
 * the error of a difference of two centres of AR(1) values, a step holds if
 *   |after - before| + 1.96 e >= least                      it may be of interest
 *   |after - before| >= (5.5 + 15 / n) (1 + phi)^1.5 e      values that hang together do not go so far
 *   p <= 0.003 / n                                          nor does chance at any of n places
 * (at least 16 values, 8 on each side, or 3 after 64). A level of which the last third lies as many errors from the
 * first, by the noise about a straight line, creeps: its steps are those that hold by that noise. Last, each step moves
 * by up to 4 values to where the squares, clipped at 3 sigma, are least. Returns how many steps there are, in order, in
 * steps (room for n). O(n^2 log n). */
size_t kg_steps_find(const double *values, size_t n, double least, struct kg_step *steps);

#endif
