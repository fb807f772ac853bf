/* Block formats misread by the lanes of the fused decode step: each mistake reaches them as the bytes, or the x, that a
 * right reader would have to be given to make it. Each must be outside the tolerance of unit/block_codes. */
#include "suites/support/block_codes_problem.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a block: what the mistakes change is in the second of a row's blocks. */
static const struct layout {
    enum kg_dtype dtype;
    uint32_t scale, codes, more_bits; /* more_bits: fifth bits, or upper pairs */
    float offset;                     /* a code's zero */
} LAYOUTS[] = {
    { KG_DTYPE_Q4_0, 0, 2, 0, 8 },  { KG_DTYPE_Q5_0, 0, 6, 2, 16 },  { KG_DTYPE_Q8_0, 0, 2, 0, 0 },
    { KG_DTYPE_Q4_K, 4, 16, 0, 0 }, { KG_DTYPE_Q5_K, 4, 48, 16, 0 }, { KG_DTYPE_Q6_K, 192, 0, 128, 32 },
};

static const struct layout *layout_of(enum kg_dtype dtype) {
    for (size_t i = 0; i < KG_COUNT_OF(LAYOUTS); i++)
        if (LAYOUTS[i].dtype == dtype) return &LAYOUTS[i];
    abort();
}

static uint8_t *second_block(enum kg_dtype dtype, uint8_t *row) {
    return row + kg_dtype_info(dtype)->block_bytes;
}

static void exchange(uint8_t *a, uint8_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint8_t was = a[i];
        a[i] = b[i], b[i] = was;
    }
}

/* The first byte whose nibbles differ. */
static void nibbles_exchanged(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *byte = second_block(dtype, row) + layout_of(dtype)->codes;
    while ((*byte & 0xF) == *byte >> 4) byte++;
    *byte = (uint8_t)(*byte << 4 | *byte >> 4);
}

/* The first two neighbours that differ. */
static void bytes_exchanged(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *byte = second_block(dtype, row) + layout_of(dtype)->codes;
    while (byte[0] == byte[1]) byte++;
    exchange(byte, byte + 1, 1);
}

/* Of blocks of 32 the first two's. */
static void scales_of_neighbours(enum kg_dtype dtype, uint8_t *row) {
    if (kg_dtype_info(dtype)->block_elems == 32) exchange(row, second_block(dtype, row), 2);
    else
        exchange(second_block(dtype, row) + layout_of(dtype)->scale,
                 second_block(dtype, row) + layout_of(dtype)->scale + 1, 1);
}

static void minimum_left_out(enum kg_dtype dtype, uint8_t *row) {
    memset(second_block(dtype, row) + 2, 0, 2);
}

/* Sub-blocks 4 to 7 have them in bytes of 0 to 3. */
static void upper_bits_of_scales_left_out(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *scales = second_block(dtype, row) + layout_of(dtype)->scale;
    for (int i = 0; i < 4; i++) scales[i] &= 0x3F;
}

static void upper_bits_of_minima_left_out(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *minima = second_block(dtype, row) + layout_of(dtype)->scale + 4;
    for (int i = 0; i < 4; i++) minima[i] &= 0x3F;
}

/* Q5_0: of the next element. Q5_K: of the next sub-block. */
static void fifth_bits_of_next(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *at = second_block(dtype, row) + layout_of(dtype)->more_bits;
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    bits = dtype == KG_DTYPE_Q5_0 ? bits >> 1 | bits << 31 : (bits >> 1 & 0x7F7F7F7F) | (bits << 7 & 0x80808080);
    memcpy(at, &bits, sizeof bits);
}

/* Quarters of 32 columns take two bits each of a byte: of the first byte that differs. */
static void pairs_of_next_quarter(enum kg_dtype dtype, uint8_t *row) {
    uint8_t *byte = second_block(dtype, row) + layout_of(dtype)->more_bits;
    while ((*byte & 3) == (*byte >> 2 & 3)) byte++;
    *byte = (uint8_t)((*byte & 0xF0) | (*byte << 2 & 0xC) | (*byte >> 2 & 3));
}

static void offset_one_less(struct kg_block_codes_call *call) {
    const float offset = layout_of(call->dtype)->offset;
    call->sums_times = (offset - 1) / offset;
}

/* Of each four. */
static void middle_columns_of_x_exchanged(struct kg_block_codes_call *call) {
    static float x[KG_BLOCK_CODES_MAX_COLS];
    for (uint32_t i = 0; i < call->n_cols; i++) x[i] = call->x[i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i];
    call->x = x;
}

/* The largest magnitude of the 32 columns that `first` begins, of which there are n_cols. */
static float largest_of(const float *x, uint32_t first, uint32_t n_cols) {
    float largest = 0;
    for (uint32_t i = first; i < first + 32 && i < n_cols; i++) largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

static void lower_digits_left_out(struct kg_block_codes_call *call) {
    static float x[KG_BLOCK_CODES_MAX_COLS];
    for (uint32_t i = 0; i < call->n_cols; i++) {
        const float upper_step = largest_of(call->x, i - i % 32, call->n_cols) / 127;
        x[i] = rintf(call->x[i] / upper_step) * upper_step;
    }
    call->x = x;
}

/* Of the 32 columns before. */
static void step_of_neighbours(struct kg_block_codes_call *call) {
    static float x[KG_BLOCK_CODES_MAX_COLS];
    for (uint32_t i = 0; i < call->n_cols; i++) {
        const uint32_t first = i - i % 32;
        x[i] = first == 0 ? call->x[i]
                          : call->x[i] / largest_of(call->x, first, call->n_cols) *
                                largest_of(call->x, first - 32, call->n_cols);
    }
    call->x = x;
}

static void rows_exchanged(struct kg_block_codes_call *call) {
    const uint8_t *was = call->rows[3];
    call->rows[3] = call->rows[3 + 8];
    call->rows[3 + 8] = was;
}

/* Their scales are NaN. */
static void blocks_behind_the_end_count(struct kg_block_codes_call *call) {
    call->n_blocks += 8;
}

#define OF_BLOCKS (1u << KG_DTYPE_Q4_0 | 1u << KG_DTYPE_Q5_0 | 1u << KG_DTYPE_Q8_0)
#define OF_K45 (1u << KG_DTYPE_Q4_K | 1u << KG_DTYPE_Q5_K)
#define OF_Q6_K (1u << KG_DTYPE_Q6_K)
#define OF_ALL (OF_BLOCKS | OF_K45 | OF_Q6_K)
static const struct mutant {
    const char *name;
    uint32_t dtypes; /* bits */
    struct kg_block_codes_mistake mistake;
} MUTANTS[] = {
    { "nibbles_exchanged", OF_ALL & ~(1u << KG_DTYPE_Q8_0), { .row = nibbles_exchanged } },
    { "bytes_exchanged", OF_ALL, { .row = bytes_exchanged } },
    { "scales_of_neighbours", OF_ALL, { .row = scales_of_neighbours } },
    { "minimum_left_out", OF_K45, { .row = minimum_left_out } },
    { "upper_bits_of_scales_left_out", OF_K45, { .row = upper_bits_of_scales_left_out } },
    { "upper_bits_of_minima_left_out", OF_K45, { .row = upper_bits_of_minima_left_out } },
    { "fifth_bits_of_next", 1u << KG_DTYPE_Q5_0 | 1u << KG_DTYPE_Q5_K, { .row = fifth_bits_of_next } },
    { "pairs_of_next_quarter", OF_Q6_K, { .row = pairs_of_next_quarter } },
    { "offset_one_less", (OF_BLOCKS & ~(1u << KG_DTYPE_Q8_0)) | OF_Q6_K, { .call = offset_one_less } },
    { "middle_columns_of_x_exchanged", OF_ALL, { .call = middle_columns_of_x_exchanged } },
    { "lower_digits_left_out", OF_ALL, { .call = lower_digits_left_out } },
    { "step_of_neighbours", OF_ALL, { .call = step_of_neighbours } },
    { "rows_exchanged", OF_ALL, { .call = rows_exchanged } },
    { "blocks_behind_the_end_count", OF_BLOCKS, { .call = blocks_behind_the_end_count } },
};

struct mutant_case {
    const struct mutant *mutant;
    struct kg_block_codes_problem problem;
};
static struct mutant_case mutant_cases[KG_COUNT_OF(MUTANTS) * KG_COUNT_OF(LAYOUTS)];

static double margin_of(struct kg_record *rec, const struct kg_block_codes_problem *p,
                        const struct kg_block_codes_mistake *mistake) {
    struct kg_block_codes_answer a;
    struct kg_compare compare;
    double margin;
    kg_block_codes_run(p, mistake, kg_record_seed(rec), &a);
    kg_compare_f64(a.got, a.want, KG_BLOCK_CODES_PRODUCTS, &compare);
    (void)kg_within(&compare, kg_block_codes_tolerance(p->dtype), &margin);
    (mistake ? kg_record_compare : kg_record_judged)(rec, mistake ? "mutant" : "control", &compare,
                                                     kg_block_codes_tolerance(p->dtype));
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct mutant_case *c = arg;
    if (!kg_block_codes_or_skip(rec)) return;
    const double control = margin_of(rec, &c->problem, NULL);
    ck_assert_msg(control <= 1, "the lanes themselves are outside their tolerance by a factor of %.4g", control);
    const double margin = margin_of(rec, &c->problem, &c->mutant->mistake);
    ck_assert_msg(margin > 1, "the mutant lives: at %.4g of its tolerance", margin);
    kg_record_metric(rec, "killed_by_not_finite", "count", !isfinite(margin));
    if (isfinite(margin)) kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", control);
}

static void build(struct kg_case_list *cases) {
    size_t n = 0;
    for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(LAYOUTS); i++) {
            const enum kg_dtype dtype = LAYOUTS[i].dtype;
            const uint32_t n_cols = kg_dtype_info(dtype)->block_elems == 32 ? 352 : 512;
            if (!(MUTANTS[m].dtypes >> dtype & 1)) continue;
            struct mutant_case *c = &mutant_cases[n++];
            *c = (struct mutant_case){ &MUTANTS[m], { .dtype = dtype, .n_cols = n_cols, .odd_begins = true } };
            char *shape = kg_xasprintf("rows=%d K=%u", KG_BLOCK_CODES_ROWS, n_cols);
            kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                                       .op = "block_codes",
                                                       .name = MUTANTS[m].name,
                                                       .dtype = kg_dtype_info(dtype)->name,
                                                       .shape = shape,
                                                       .run = mutant_is_rejected,
                                                       .arg = c });
            free(shape);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
