/* Operations over MXFP4 weights by name: every form of mxfp4_forms.c on every back end, against float64 over what the
 * blocks denote. A kernel has one implementation, so these are the engine's operations in the order of a model. */
#include "base/size.h"
#include "suites/support/mxfp4_forms.h"

static const struct {
    const char *backend, *dtype;
    enum kg_precision activations;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

struct form_case {
    const struct kg_mxfp4_form *form;
    struct kg_mxfp4_mode mode;
};

static void run_form(struct kg_record *rec, const void *arg) {
    const struct form_case *c = arg;
    (void)kg_mxfp4_form_run(rec, c->form, &c->mode);
}

static void build(struct kg_case_list *cases) {
    enum { MOST = 512 };
    static struct form_case form_cases[MOST];
    size_t n = 0;
    for (size_t f = 0; f < KG_MXFP4_N_FORMS; f++)
        for (size_t m = 0; m < KG_COUNT_OF(MODES) && n < MOST; m++) {
            char shape[96];
            kg_mxfp4_form_shape(&KG_MXFP4_FORMS[f], shape, sizeof shape);
            form_cases[n] = (struct form_case){ &KG_MXFP4_FORMS[f],
                                                { .backend = MODES[m].backend, .activations = MODES[m].activations } };
            kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                       .op = KG_MXFP4_FORMS[f].op,
                                                       .name = KG_MXFP4_FORMS[f].name,
                                                       .backend = MODES[m].backend,
                                                       .dtype = MODES[m].dtype,
                                                       .shape = shape,
                                                       .definition = "NMSE 1e-5; 1% above the noise floor",
                                                       .run = run_form,
                                                       .arg = &form_cases[n++] });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
