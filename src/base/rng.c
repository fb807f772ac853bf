#include "base/rng.h"
#include <math.h>

void kg_philox4x32(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]) {
    const uint32_t multiplier[2] = { 0xD2511F53u, 0xCD9E8D57u };
    const uint32_t weyl[2] = { 0x9E3779B9u, 0xBB67AE85u };
    enum { N_ROUNDS = 10 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t x[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) };
    for (int round = 0; round < N_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)multiplier[0] * x[0];
        const uint64_t p1 = (uint64_t)multiplier[1] * x[2];
        const uint32_t next[4] = { (uint32_t)(p1 >> 32) ^ x[1] ^ key[0], (uint32_t)p1,
                                   (uint32_t)(p0 >> 32) ^ x[3] ^ key[1], (uint32_t)p0 };
        for (int i = 0; i < 4; i++) x[i] = next[i];
        key[0] += weyl[0];
        key[1] += weyl[1];
    }
    for (int i = 0; i < 4; i++) out[i] = x[i];
}

void kg_rng_init(struct kg_rng *rng, uint64_t seed, uint64_t stream) {
    *rng = (struct kg_rng){ .seed = seed, .stream = stream, .used = 4 };
}

uint32_t kg_rng_u32(struct kg_rng *rng) {
    if (rng->used == 4) {
        kg_philox4x32(rng->seed, rng->stream, rng->counter++, rng->block);
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

static uint64_t next_u64(struct kg_rng *rng) {
    const uint64_t high = kg_rng_u32(rng);
    return high << 32 | kg_rng_u32(rng);
}

uint64_t kg_rng_below(struct kg_rng *rng, uint64_t n) {
    const uint64_t reject_below = -n % n; /* 2^64 mod n: the values from there on are a multiple of n */
    uint64_t x;
    do x = next_u64(rng);
    while (x < reject_below);
    return x % n;
}

double kg_rng_uniform(struct kg_rng *rng) {
    return (double)(next_u64(rng) >> 11) * 0x1p-53;
}

double kg_rng_normal(struct kg_rng *rng) {
    const double two_pi = 6.283185307179586476925;
    const double u = 1.0 - kg_rng_uniform(rng); /* in (0, 1], so that log(u) is finite */
    return sqrt(-2.0 * log(u)) * cos(two_pi * kg_rng_uniform(rng));
}
