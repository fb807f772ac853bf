/* Random blocks of the quantised formats have the deviation that was asked for. MXFP4 is not among them: its scales are
 * powers of two, so that it comes near a deviation only. */
#include "convert/synth_blocks.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/record.h"
#include <check.h>
#include <math.h>

/* Mean 0 and deviation 1. */
static void normal_quantiles(double normal[KG_SYNTH_QUANTILES]) {
    double square = 0;
    for (int i = 0; i < KG_SYNTH_QUANTILES; i++) {
        const double wanted = (i + 0.5) / KG_SYNTH_QUANTILES;
        double low = -6, high = 6;
        for (int step = 0; step < 50; step++) {
            const double middle = (low + high) / 2;
            if (erfc(-middle / sqrt(2)) / 2 < wanted) low = middle;
            else high = middle;
        }
        normal[i] = low;
        square += low * low;
    }
    for (int i = 0; i < KG_SYNTH_QUANTILES; i++) normal[i] /= sqrt(square / KG_SYNTH_QUANTILES);
}

/* Of 4 million elements. With 16 scales from 0.75 to 1.25 over 16,384 blocks of 256 the deviation's own error is 0.11
 * %, float16's rounding of a scale 0.05 %: the limit is five of the first. */
static void blocks_deviate_as_asked(struct kg_record *rec, const void *arg) {
    enum { N = 1 << 22 };
    const double wanted = 0.02;
    const enum kg_dtype dtype = *(const enum kg_dtype *)arg;
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    double normal[KG_SYNTH_QUANTILES], sum = 0, square = 0;
    struct kg_synth_blocks tables;
    uint8_t block[256];
    float values[256];
    normal_quantiles(normal);
    kg_synth_blocks_make(&tables, dtype, wanted, normal);
    for (uint64_t at = 0; at < N / info->block_elems; at++) {
        tables.make(&tables, (struct kg_synth_source){ 3, 5, at }, block);
        info->decode(block, values, info->block_elems);
        for (uint32_t i = 0; i < info->block_elems; i++) sum += values[i], square += (double)values[i] * values[i];
    }
    const double error = sqrt(square / N) / wanted - 1;
    kg_record_metric(rec, "deviation_error", "ratio", fabs(error));
    ck_assert_msg(fabs(error) < 0.0057, "the deviation is %.4f of what was asked", 1 + error);
    ck_assert_msg(fabs(sum / N) < 5 * wanted / sqrt(N), "the mean is %g", sum / N);
}

static const enum kg_dtype DTYPES[] = { KG_DTYPE_Q4_0, KG_DTYPE_Q5_0, KG_DTYPE_Q8_0,
                                        KG_DTYPE_Q4_K, KG_DTYPE_Q5_K, KG_DTYPE_Q6_K };

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(DTYPES); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "synth_blocks",
                                                   .name = "blocks_deviate_as_asked",
                                                   .dtype = kg_dtype_info(DTYPES[i])->name,
                                                   .run = blocks_deviate_as_asked,
                                                   .arg = &DTYPES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
