/* MXFP4 blocks misread, and experts and gates confused: each must be outside the tolerance of the form it aims at.
 * Misread blocks reach the operation as the float32 numbers that a wrong reader makes of them. */
#include "base/size.h"
#include "suites/support/mutant_ops.h"
#include "suites/support/mxfp4_forms.h"
#include <check.h>
#include <math.h>
#include <string.h>

static double scale_of(int byte) {
    return ldexp(1, byte - 127);
}

static void swapped_nibbles(const uint8_t *block, double *elems) {
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) {
        const uint8_t byte = block[1 + i % 16];
        elems[i] = scale_of(block[0]) * kg_mxfp4_element(i < 16 ? byte >> 4 : byte & 15);
    }
}

/* Elements 2i and 2i + 1 from byte i. */
static void interleaved_nibbles(const uint8_t *block, double *elems) {
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) {
        const uint8_t byte = block[1 + i / 2];
        elems[i] = scale_of(block[0]) * kg_mxfp4_element(i % 2 ? byte >> 4 : byte & 15);
    }
}

/* 0, 0.5, 1 ... 3.5 in place of 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
static void equal_steps(const uint8_t *block, double *elems) {
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) {
        const uint8_t byte = block[1 + i % 16], code = i < 16 ? byte & 15 : byte >> 4;
        elems[i] = scale_of(block[0]) * 0.5 * (code & 7) * (code & 8 ? -1 : 1);
    }
}

/* The scale behind the nibbles. A byte of two codes is any scale: it is kept to 2^-4 to 2^4, so that results are finite
 * in float16. */
static void scale_from_last_byte(const uint8_t *block, double *elems) {
    const int byte = block[16] < 123 ? 123 : block[16] > 131 ? 131 : block[16];
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) {
        const uint8_t nibbles = block[i % 16];
        elems[i] = scale_of(byte) * kg_mxfp4_element(i < 16 ? nibbles & 15 : nibbles >> 4);
    }
}

/* 2^(e - 128): the bias of another format. */
static void scale_off_by_one(const uint8_t *block, double *elems) {
    kg_mxfp4_read(block, elems);
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) elems[i] /= 2;
}

static const struct mutant {
    const char *name, *op, *form;
    kg_mxfp4_read_fn read; /* or */
    void (*change)(struct kg_backend_ops *mutant);
} MUTANTS[] = {
    { "mxfp4_swapped_nibbles", "mxfp4_gemm", "batch", .read = swapped_nibbles },
    { "mxfp4_interleaved_nibbles", "mxfp4_gemm", "batch", .read = interleaved_nibbles },
    { "mxfp4_equal_steps", "mxfp4_gemm", "batch", .read = equal_steps },
    { "mxfp4_scale_from_last_byte", "mxfp4_gemm", "batch", .read = scale_from_last_byte },
    { "mxfp4_scale_off_by_one", "mxfp4_gemm", "batch", .read = scale_off_by_one },
    { "mxfp4_swapped_nibbles_looked_up", "mxfp4_embedding", "lookup", .read = swapped_nibbles },
    { "mxfp4_equal_steps_looked_up", "mxfp4_embedding", "batch", .read = equal_steps },
    { "mxfp4_swapped_nibbles_of_experts", "mxfp4_moe", "decode", .read = swapped_nibbles },
    { "mxfp4_bias_dropped", "mxfp4_gemm", "bias", .change = kg_mutant_unwired_bias },
    { "mxfp4_gate_and_up_exchanged", "mxfp4_ffn", "swiglu", .change = kg_mutant_gate_and_up_exchanged },
    { "mxfp4_experts_gate_and_up_exchanged", "mxfp4_moe", "prefill", .change = kg_mutant_gate_and_up_exchanged },
    { "mxfp4_expert_bias_dropped", "mxfp4_moe", "decode", .change = kg_mutant_expert_bias_ignored },
    { "mxfp4_next_rows_experts", "mxfp4_moe", "prefill", .change = kg_mutant_next_rows_experts },
    { "mxfp4_residual_dropped", "mxfp4_ffn", "swiglu_residual", .change = kg_mutant_residual_dropped },
    { "mxfp4_positions_from_zero", "mxfp4_embedding", "positions", .change = kg_mutant_positions_from_zero },
};

static const struct {
    const char *backend, *dtype;
    enum kg_precision activations;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

struct mutant_case {
    const struct mutant *mutant;
    const char *backend;
    enum kg_precision activations;
};

/* The margin of the form: with the mutant, or as it is, its blocks read rightly in the mutant's way. Negative after a
 * skip. */
static double margin_of(struct kg_record *rec, const struct mutant_case *c, bool changed) {
    struct kg_error err;
    struct kg_backend_ops ops;
    const struct kg_backend_ops *original;
    double margin = 0;
    kg_op_expect_ok(kg_backend_find_ops(c->backend, &original, &err), &err);
    kg_mutant_ops_make(&ops, original, changed ? c->mutant->change : NULL);
    const struct kg_mxfp4_mode mode = { .backend = c->backend,
                                        .activations = c->activations,
                                        .ops = &ops,
                                        .read = changed || !c->mutant->read ? c->mutant->read : kg_mxfp4_read,
                                        .margin = &margin,
                                        .is_control = !changed };
    if (!kg_mxfp4_form_run(rec, kg_mxfp4_form_find(c->mutant->op, c->mutant->form), &mode)) return -1;
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct mutant_case *c = arg;
    const double control = margin_of(rec, c, false);
    if (control < 0) return;
    if (!(control <= 1)) ck_abort_msg("the operation itself is outside its tolerance by a factor of %.4g", control);
    const double margin = margin_of(rec, c, true);
    if (!(margin > 1)) ck_abort_msg("the mutant lives: at %.4g of its tolerance", margin);
    kg_record_metric(rec, "killed_by_not_finite", "count", !isfinite(margin));
    if (isfinite(margin)) kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", control);
}

static void build(struct kg_case_list *cases) {
    static struct mutant_case mutant_cases[KG_COUNT_OF(MUTANTS) * KG_COUNT_OF(MODES)];
    for (size_t i = 0, n = 0; i < KG_COUNT_OF(MUTANTS); i++)
        for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
            mutant_cases[n] = (struct mutant_case){ &MUTANTS[i], MODES[m].backend, MODES[m].activations };
            kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                                       .op = "op",
                                                       .name = MUTANTS[i].name,
                                                       .backend = MODES[m].backend,
                                                       .dtype = MODES[m].dtype,
                                                       .definition = MUTANTS[i].form,
                                                       .run = mutant_is_rejected,
                                                       .arg = &mutant_cases[n++] });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
