#include "ops/rope.h"
#include "ops/check.h"
#include <math.h>
#include <string.h>

enum { MIN_ELEMS_PER_RANGE = 8192 };

enum kg_status kg_rope_check(const struct kg_rope_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->y, "rope: x or y is missing");
    KG_OP_REQUIRE(args->n_heads && args->head_dim, "rope: %u heads of %u", args->n_heads, args->head_dim);
    KG_OP_REQUIRE(args->n_rot % 2 == 0 && args->n_rot <= args->head_dim && args->n_rot <= KG_ROPE_MAX_ROT,
                  "rope: n_rot %u is odd, or more than the head size %u or %d", args->n_rot, args->head_dim,
                  KG_ROPE_MAX_ROT);
    KG_OP_REQUIRE(args->pairing == KG_ROPE_HALF || args->pairing == KG_ROPE_INTERLEAVED, "rope: pairing %d",
                  (int)args->pairing);
    KG_OP_REQUIRE(args->freq_base > 0 && args->freq_scale > 0, "rope: freq_base %g, freq_scale %g",
                  (double)args->freq_base, (double)args->freq_scale);
    KG_OP_REQUIRE(args->magnitude > 0 && isfinite(args->magnitude), "rope: the magnitude is %g",
                  (double)args->magnitude);
    return KG_OK;
}

static void rotate_head(const struct kg_rope_args *args, const double *cosine, const double *sine, const float *x,
                        float *y) {
    const size_t n_pairs = args->n_rot / 2;
    const size_t step = args->pairing == KG_ROPE_HALF ? 1 : 2;
    const size_t apart = args->pairing == KG_ROPE_HALF ? n_pairs : 1;
    for (size_t i = 0; i < n_pairs; i++) {
        const double a = x[i * step], b = x[i * step + apart];
        y[i * step] = (float)(a * cosine[i] - b * sine[i]);
        y[i * step + apart] = (float)(a * sine[i] + b * cosine[i]);
    }
    if (x != y) memcpy(y + args->n_rot, x + args->n_rot, (args->head_dim - args->n_rot) * sizeof *y);
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_rope_args *args = arg;
    const size_t n_pairs = args->n_rot / 2;
    double cosine[KG_ROPE_MAX_ROT / 2], sine[KG_ROPE_MAX_ROT / 2];
    for (size_t r = begin; r < end; r++) {
        for (size_t i = 0; i < n_pairs; i++) {
            const double frequency = pow((double)args->freq_base, -2.0 * (double)i / args->n_rot);
            const double factor = args->freq_factors ? (double)args->freq_factors[i] : 1;
            const double angle = ((double)args->position + (double)r) * (double)args->freq_scale * frequency / factor;
            cosine[i] = cos(angle) * (double)args->magnitude;
            sine[i] = sin(angle) * (double)args->magnitude;
        }
        for (size_t h = 0; h < args->n_heads; h++) {
            const size_t at = (r * args->n_heads + h) * args->head_dim;
            rotate_head(args, cosine, sine, (const float *)args->x + at, (float *)args->y + at);
        }
    }
}

enum kg_status kg_cpu_rope(struct kg_thread_pool *pool, const struct kg_rope_args *args, struct kg_error *err) {
    enum kg_status status = kg_rope_check(args, err);
    if (!status) status = kg_cpu_require_f32("rope", "activations", args->activations, err);
    if (status) return status;
    const size_t row_elems = (size_t)args->n_heads * args->head_dim;
    kg_parallel_for(pool, args->n_rows, MIN_ELEMS_PER_RANGE / row_elems + 1, rows, (void *)args);
    return KG_OK;
}
