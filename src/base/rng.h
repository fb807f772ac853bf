/* Philox4x32-10: a counter-based random number generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * SC11).
 *
 * The n-th number of a (seed, stream) pair can be computed independently, on host or device, so a draw never depends on
 * how the work was split. */
#ifndef KIGO_BASE_RNG_H
#define KIGO_BASE_RNG_H

#include <stdint.h>

struct kg_rng {
    uint64_t seed;
    uint64_t stream;
    uint64_t counter; /* index of the next block of four numbers */
    uint32_t block[4];
    int used; /* numbers of `block` already used */
};

/* out = block `counter` of (seed, stream). */
void kg_philox4x32(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]);

void kg_rng_init(struct kg_rng *rng, uint64_t seed, uint64_t stream);
uint32_t kg_rng_u32(struct kg_rng *rng);
uint64_t kg_rng_below(struct kg_rng *rng, uint64_t n); /* uniform in [0, n), unbiased; n > 0 */
double kg_rng_uniform(struct kg_rng *rng);             /* in [0, 1), 53 bits */
double kg_rng_normal(struct kg_rng *rng);              /* mean 0, variance 1, Box-Muller */

#endif
