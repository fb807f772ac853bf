/* The lanes' arithmetic of the fused decode step's block formats (kernels/decode/block_codes.cuh), on the host:
 * products of 16 rows against float64 over the numbers that src/format decodes. */
#include "suites/support/block_codes_problem.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdlib.h>

static const struct product {
    const char *name;
    struct kg_block_codes_problem problem;
} PRODUCTS[] = {
#define WHOLE(of)                                                                                                      \
    { "whole_chunks", { .dtype = of, .n_cols = 768 } },                                                                \
        { "odd_begins", { .dtype = of, .n_cols = 512, .odd_begins = true } }, {                                        \
        "tiny_x", {                                                                                                    \
            .dtype = of, .n_cols = 256, .tiny_x = true                                                                 \
        }                                                                                                              \
    }
#define PARTIAL(of)                                                                                                    \
    { "one_block", { .dtype = of, .n_cols = 32 } }, { "even_blocks", { .dtype = of, .n_cols = 192 } },                 \
        { "odd_blocks_behind_a_chunk", { .dtype = of, .n_cols = 352 } }, {                                             \
        "odd_begins_of_a_partial_chunk", {                                                                             \
            .dtype = of, .n_cols = 480, .odd_begins = true                                                             \
        }                                                                                                              \
    }
    WHOLE(KG_DTYPE_Q4_0), WHOLE(KG_DTYPE_Q5_0),   WHOLE(KG_DTYPE_Q8_0),   WHOLE(KG_DTYPE_Q4_K),   WHOLE(KG_DTYPE_Q5_K),
    WHOLE(KG_DTYPE_Q6_K), PARTIAL(KG_DTYPE_Q4_0), PARTIAL(KG_DTYPE_Q5_0), PARTIAL(KG_DTYPE_Q8_0),
};

static void as_the_decoder(struct kg_record *rec, const void *arg) {
    const struct product *c = arg;
    struct kg_block_codes_answer a;
    if (!kg_block_codes_or_skip(rec)) return;
    kg_block_codes_run(&c->problem, NULL, kg_record_seed(rec), &a);
    kg_expect_close_f64(rec, "products", a.got, a.want, KG_BLOCK_CODES_PRODUCTS,
                        kg_block_codes_tolerance(c->problem.dtype));
}

/* Rows of 256 columns of the formats that are taken; 0 says that the others are not. */
static void bytes_of_a_chunk(struct kg_record *rec, const void *arg) {
    uint32_t n_taken = 0;
    (void)arg;
    if (!kg_block_codes_or_skip(rec)) return;
    for (int dtype = 0; dtype < KG_DTYPE_COUNT; dtype++) {
        const uint32_t got = kg_block_codes_chunk_bytes((enum kg_dtype)dtype);
        bool taken = false;
        uint64_t want;
        struct kg_error err;
        kg_must(kg_dtype_row_bytes((enum kg_dtype)dtype, 256, &want, &err), &err);
        for (size_t i = 0; i < KG_COUNT_OF(PRODUCTS); i++) taken = taken || (int)PRODUCTS[i].problem.dtype == dtype;
        ck_assert_uint_eq(got, taken ? want : 0);
        n_taken += taken;
    }
    ck_assert_uint_eq(n_taken, 6);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(PRODUCTS); i++) {
        const struct product *c = &PRODUCTS[i];
        char *shape = kg_xasprintf("rows=%d K=%u", KG_BLOCK_CODES_ROWS, c->problem.n_cols);
        char *definition = kg_xasprintf("draws=%d max_abs=%g", KG_BLOCK_CODES_DRAWS,
                                        kg_block_codes_tolerance(c->problem.dtype)->max_abs);
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "block_codes",
                                                   .name = c->name,
                                                   .dtype = kg_dtype_info(c->problem.dtype)->name,
                                                   .shape = shape,
                                                   .definition = definition,
                                                   .run = as_the_decoder,
                                                   .arg = c });
        free(definition);
        free(shape);
    }
    kg_case_list_add(
        cases,
        &(struct kg_case){ .layer = "unit", .op = "block_codes", .name = "bytes_of_a_chunk", .run = bytes_of_a_chunk });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
