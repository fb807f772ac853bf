#include "ops/dot_rows.h"
#include "base/clones.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

/* A multiple of every format's block and of KG_DOT_LANES: pieces then add in the order of one whole dot product. */
enum { PIECE = KG_DOT_PIECE };
_Static_assert(PIECE % 256 == 0 && PIECE % KG_DOT_LANES == 0, "a piece is whole blocks and whole lanes");

static void accumulate_rows(double lanes[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES],
                            const float weights[KG_DOT_WEIGHT_ROWS][PIECE], const float *x, size_t n) {
    double sum[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES];
    memcpy(sum, lanes, sizeof sum);
    for (size_t i = 0; i < n; i += KG_DOT_LANES) {
        double wide[KG_DOT_LANES];
        for (size_t lane = 0; lane < KG_DOT_LANES; lane++) wide[lane] = (double)x[i + lane];
        for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
            for (size_t lane = 0; lane < KG_DOT_LANES; lane++)
                sum[row][lane] += (double)weights[row][i + lane] * wide[lane];
    }
    memcpy(lanes, sum, sizeof sum);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* A register holds a row's lanes. Products of floats are exact in double, so that a fused multiply-add rounds as the
 * addition alone does: the same bits. */
__attribute__((target("avx512f"))) static void accumulate_rows_avx512(double lanes[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES],
                                                                      const float weights[KG_DOT_WEIGHT_ROWS][PIECE],
                                                                      const float *x, size_t n) {
    _Static_assert(KG_DOT_LANES == 8 && KG_DOT_WEIGHT_ROWS == 4, "registers of 8 doubles, one a row");
    __m512d sum0 = _mm512_loadu_pd(lanes[0]), sum1 = _mm512_loadu_pd(lanes[1]), sum2 = _mm512_loadu_pd(lanes[2]),
            sum3 = _mm512_loadu_pd(lanes[3]);
    for (size_t i = 0; i < n; i += KG_DOT_LANES) {
        const __m512d wide = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
        sum0 = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(weights[0] + i)), wide, sum0);
        sum1 = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(weights[1] + i)), wide, sum1);
        sum2 = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(weights[2] + i)), wide, sum2);
        sum3 = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(weights[3] + i)), wide, sum3);
    }
    _mm512_storeu_pd(lanes[0], sum0);
    _mm512_storeu_pd(lanes[1], sum1);
    _mm512_storeu_pd(lanes[2], sum2);
    _mm512_storeu_pd(lanes[3], sum3);
}

/* Two registers a row. */
__attribute__((target("avx2,fma"))) static void accumulate_rows_fma(double lanes[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES],
                                                                    const float weights[KG_DOT_WEIGHT_ROWS][PIECE],
                                                                    const float *x, size_t n) {
    enum { HALF = KG_DOT_LANES / 2 };
    __m256d sum[KG_DOT_WEIGHT_ROWS][2];
    for (int row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
        for (int half = 0; half < 2; half++) sum[row][half] = _mm256_loadu_pd(lanes[row] + half * HALF);
    for (size_t i = 0; i < n; i += KG_DOT_LANES)
        for (int half = 0; half < 2; half++) {
            const size_t at = i + (size_t)half * HALF;
            const __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(x + at));
            for (int row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
                sum[row][half] =
                    _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(weights[row] + at)), wide, sum[row][half]);
        }
    for (int row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
        for (int half = 0; half < 2; half++) _mm256_storeu_pd(lanes[row] + half * HALF, sum[row][half]);
}
#endif

kg_dot_rows_fn *kg_dot_rows_way(size_t i) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && i-- == 0) return accumulate_rows_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && i-- == 0) return accumulate_rows_fma;
#endif
    return i == 0 ? accumulate_rows : NULL;
}

KG_VECTOR_CLONES void kg_dot_rows(const struct kg_weight *w, size_t first, size_t n_weight_rows, const float *const *x,
                                  size_t n, double (*sums)[KG_DOT_WEIGHT_ROWS]) {
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const size_t row_bytes = kg_weight_row_bytes(w);
    const char *data = (const char *)w->data + first * row_bytes;
    kg_dot_rows_fn *const accumulate = kg_dot_rows_way(0);
    double lanes[KG_DOT_ROWS_MAX][KG_DOT_WEIGHT_ROWS][KG_DOT_LANES];
    float pieces[KG_DOT_WEIGHT_ROWS][PIECE];

    memset(lanes, 0, n * sizeof *lanes);
    for (size_t i = 0; i < w->n_cols; i += PIECE) {
        const size_t len = w->n_cols - i < PIECE ? w->n_cols - i : PIECE;
        for (size_t row = 0; row < n_weight_rows; row++)
            info->decode(data + row * row_bytes + i / info->block_elems * info->block_bytes, pieces[row], len);
        const size_t whole = n_weight_rows == KG_DOT_WEIGHT_ROWS ? len / KG_DOT_LANES * KG_DOT_LANES : 0;
        for (size_t r = 0; r < n && whole > 0; r++) accumulate(lanes[r], pieces, x[r] + i, whole);
        for (size_t row = 0; row < n_weight_rows && whole < len; row++)
            for (size_t r = 0; r < n; r++)
                kg_dot_accumulate(lanes[r][row], x[r] + i + whole, pieces[row] + whole, len - whole);
    }
    for (size_t r = 0; r < n; r++)
        for (size_t row = 0; row < n_weight_rows; row++) sums[r][row] = kg_dot_finish(lanes[r][row]);
}
