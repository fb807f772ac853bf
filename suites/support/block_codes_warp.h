/* x of kernels/decode/digits.cuh, and the products of block_codes.cuh by a warp on the host (host_warp.cuh). */
#ifndef KIGO_SUITES_BLOCK_CODES_WARP_H
#define KIGO_SUITES_BLOCK_CODES_WARP_H

#include "format/dtype.h"
#include <stdbool.h>
#include <stdint.h>

enum { KG_BLOCK_CODES_ROWS = 16, KG_BLOCK_CODES_MAX_COLS = 2048 };

struct kg_block_codes_call {
    enum kg_dtype dtype;
    uint32_t n_cols;   /* a multiple of the format's block, at most KG_BLOCK_CODES_MAX_COLS */
    uint32_t n_blocks; /* of 32 columns, that count: n_cols / 32 */
    /* Whole chunks of 256 columns each, which are read, and 2 bytes behind them; on 2 bytes, of Q4_K and Q5_K on 16. */
    const uint8_t *rows[KG_BLOCK_CODES_ROWS];
    const float *x;   /* n_cols */
    float sums_times; /* what the sums of x are multiplied with: 1 */
};

/* denoted[i] = the number that x[i] becomes (kernels/decode/digits.cuh); n_cols is at most KG_BLOCK_CODES_MAX_COLS. Not
 * thread-safe. */
void kg_block_codes_digits(const float *x, uint32_t n_cols, float *denoted);

/* Bytes of 256 columns; 0: not of these formats. */
uint32_t kg_block_codes_chunk_bytes(enum kg_dtype dtype);

/* products[r] = the lanes' float32 parts of sum_i x[i] W[r][i], added in double. False if the lanes did not run as a
 * warp does. Not thread-safe. */
bool kg_block_codes_multiply(const struct kg_block_codes_call *call, double products[KG_BLOCK_CODES_ROWS]);

/* Why this build has none of them, NULL if it has all. */
extern const char *const kg_block_codes_missing;

#endif
