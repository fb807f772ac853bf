#include "suites/support/block_codes_problem.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct kg_tolerance *kg_block_codes_tolerance(enum kg_dtype dtype) {
    static const struct kg_tolerance
        OF_BLOCKS = { .max_abs = 5e-7,
                      .why = "float32 sums of unsigned codes, most of which an offset cancels: 2.5e-7 of sum |x w| at "
                             "most over 400 seeds (Q8_0, 32 columns)" },
        OF_SUPER_BLOCKS = { .max_abs = 1.2e-7,
                            .why = "float32 sums of unsigned codes, most of which an offset cancels: 5.8e-8 of sum |x "
                                   "w| at most over 400 seeds (Q6_K, 512 columns)" };
    return kg_dtype_info(dtype)->block_elems == 32 ? &OF_BLOCKS : &OF_SUPER_BLOCKS;
}

bool kg_block_codes_or_skip(struct kg_record *rec) {
    if (kg_block_codes_missing) kg_record_skip(rec, "%s", kg_block_codes_missing);
    return !kg_block_codes_missing;
}

/* Scales of a format, float16 each: bytes of a block. */
static const struct {
    enum kg_dtype dtype;
    uint32_t n, at[2];
} SCALES[] = {
    { KG_DTYPE_Q4_0, 1, { 0 } },    { KG_DTYPE_Q5_0, 1, { 0 } },    { KG_DTYPE_Q8_0, 1, { 0 } },
    { KG_DTYPE_Q4_K, 2, { 0, 2 } }, { KG_DTYPE_Q5_K, 2, { 0, 2 } }, { KG_DTYPE_Q6_K, 1, { 208 } },
};

/* 2^-7 to 2^-2, of either sign. */
static uint16_t random_scale(struct kg_rng *rng) {
    const uint32_t bits = kg_rng_u32(rng);
    return (uint16_t)((bits & 0x83FF) | (8 + (bits >> 16) % 5) << 10);
}

static void fill_row(struct kg_rng *rng, enum kg_dtype dtype, uint8_t *row, size_t row_bytes) {
    const uint32_t block_bytes = kg_dtype_info(dtype)->block_bytes;
    for (size_t i = 0; i < row_bytes; i++) row[i] = (uint8_t)kg_rng_u32(rng);
    for (size_t s = 0; s < KG_COUNT_OF(SCALES); s++) {
        if (SCALES[s].dtype != dtype) continue;
        for (uint8_t *block = row; block < row + row_bytes; block += block_bytes) {
            for (uint32_t i = 0; i < SCALES[s].n; i++) {
                const uint16_t scale = random_scale(rng);
                memcpy(block + SCALES[s].at[i], &scale, sizeof scale);
            }
        }
    }
}

static void draw(const struct kg_block_codes_problem *p, const struct kg_block_codes_mistake *mistake,
                 struct kg_rng *rng, float *got, double *want) {
    const uint32_t n_chunks = (p->n_cols + 255) / 256,
                   begin_unit = p->dtype == KG_DTYPE_Q4_K || p->dtype == KG_DTYPE_Q5_K ? 16 : 2;
    const size_t read_bytes = (size_t)n_chunks * kg_block_codes_chunk_bytes(p->dtype) + 2;
    float *x = kg_xcalloc(p->n_cols, sizeof *x), *denoted = kg_xcalloc(p->n_cols, sizeof *denoted),
          *w = kg_xcalloc(p->n_cols, sizeof *w);
    uint8_t *memory[KG_BLOCK_CODES_ROWS];
    double magnitude[KG_BLOCK_CODES_ROWS] = { 0 }, products[KG_BLOCK_CODES_ROWS];
    uint64_t row_bytes;
    struct kg_error err;
    kg_must(kg_dtype_row_bytes(p->dtype, p->n_cols, &row_bytes, &err), &err);
    struct kg_block_codes_call call = {
        .dtype = p->dtype, .n_cols = p->n_cols, .n_blocks = p->n_cols / 32, .x = x, .sums_times = 1
    };
    for (uint32_t i = 0; i < p->n_cols; i++) x[i] = (float)(kg_rng_normal(rng) * (p->tiny_x ? 0x1p-15 : 1));
    kg_block_codes_digits(x, p->n_cols, denoted);
    for (uint32_t r = 0; r < KG_BLOCK_CODES_ROWS; r++) {
        const size_t begin = p->odd_begins ? begin_unit * ((5 * r + 3) % 8) : 0;
        memory[r] = kg_xcalloc(begin + read_bytes, 1);
        memset(memory[r], 0xFF, begin + read_bytes);
        uint8_t *row = memory[r] + begin;
        fill_row(rng, p->dtype, row, row_bytes);
        kg_dtype_info(p->dtype)->decode(row, w, p->n_cols);
        want[r] = 0;
        for (uint32_t i = 0; i < p->n_cols; i++) {
            want[r] += (double)denoted[i] * w[i];
            magnitude[r] += fabs((double)denoted[i] * w[i]);
        }
        if (mistake && mistake->row) mistake->row(p->dtype, row);
        call.rows[r] = row;
    }
    if (mistake && mistake->call) mistake->call(&call);
    const bool ran = kg_block_codes_multiply(&call, products);
    for (uint32_t r = 0; r < KG_BLOCK_CODES_ROWS; r++) {
        want[r] /= magnitude[r];
        got[r] = (float)(products[r] / magnitude[r]);
        free(memory[r]);
    }
    free(w);
    free(denoted);
    free(x);
    ck_assert_msg(ran, "the lanes of %s do not run as a warp", kg_dtype_info(p->dtype)->name);
}

void kg_block_codes_run(const struct kg_block_codes_problem *p, const struct kg_block_codes_mistake *mistake,
                        uint64_t seed, struct kg_block_codes_answer *answer) {
    struct kg_rng rng;
    kg_rng_init(&rng, seed, 0);
    for (int i = 0; i < KG_BLOCK_CODES_PRODUCTS; i += KG_BLOCK_CODES_ROWS)
        draw(p, mistake, &rng, answer->got + i, answer->want + i);
}
