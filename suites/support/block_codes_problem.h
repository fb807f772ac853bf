/* Rows of block formats times x: by a warp's lanes on the host (block_codes_warp.h), and in double from the numbers
 * that src/format decodes and those that x's digits denote. */
#ifndef KIGO_SUITES_BLOCK_CODES_PROBLEM_H
#define KIGO_SUITES_BLOCK_CODES_PROBLEM_H

#include "suites/harness/compare.h"
#include "suites/support/block_codes_warp.h"

/* What the lanes get wrong: bytes of a row as they read them, or the call. NULL: nothing. */
struct kg_block_codes_mistake {
    void (*row)(enum kg_dtype dtype, uint8_t *row);
    void (*call)(struct kg_block_codes_call *call);
};

struct kg_block_codes_problem {
    enum kg_dtype dtype;
    uint32_t n_cols;
    bool odd_begins; /* rows begin at several multiples of 2 bytes, of Q4_K and Q5_K of 16; else all on 16 */
    bool tiny_x;     /* subnormal in float16, most of it */
};

enum { KG_BLOCK_CODES_DRAWS = 3, KG_BLOCK_CODES_PRODUCTS = KG_BLOCK_CODES_DRAWS * KG_BLOCK_CODES_ROWS };

/* Products over sum_i |x[i] W[r][i]|. */
struct kg_block_codes_answer {
    float got[KG_BLOCK_CODES_PRODUCTS];
    double want[KG_BLOCK_CODES_PRODUCTS];
};

/* Of super-blocks of 256 columns it is tighter: their sums are longer. */
const struct kg_tolerance *kg_block_codes_tolerance(enum kg_dtype dtype);

/* False after a skip: this build has no lanes. */
bool kg_block_codes_or_skip(struct kg_record *rec);

/* Rows of random bytes, whose scales are finite, and random x. All bytes of whole chunks behind a row's end are 0xFF:
 * as scales they are NaN. The case fails if the lanes do not run as a warp does. */
void kg_block_codes_run(const struct kg_block_codes_problem *p, const struct kg_block_codes_mistake *mistake,
                        uint64_t seed, struct kg_block_codes_answer *answer);

#endif
