#include "suites/fuzz/readers.h"
#include "format/safetensors.h"
#include <stdlib.h>

enum { MAX_READ_ELEMS = 1 << 16 };

static void read_tensor(const struct kg_safetensors_tensor *tensor) {
    struct kg_error err;
    if (tensor->n_elems > MAX_READ_ELEMS) return;
    float *f32 = malloc(tensor->n_elems * sizeof *f32 + 1);
    double *f64 = malloc(tensor->n_elems * sizeof *f64 + 1);
    if (kg_safetensors_to_f32(tensor, f32, &err) != KG_OK) kg_fuzz_expect_error(&err);
    if (kg_safetensors_to_f64(tensor, f64, &err) != KG_OK) kg_fuzz_expect_error(&err);
    free(f64);
    free(f32);
}

KG_FUZZ_READER(safetensors) {
    (void)target;
    struct kg_safetensors *st;
    struct kg_error err = { .status = KG_OK };
    if (kg_safetensors_parse(data, size, "fuzz", &st, &err) != KG_OK) return kg_fuzz_expect_error(&err);
    for (size_t i = 0; i < kg_safetensors_n_tensors(st); i++) {
        const struct kg_safetensors_tensor *tensor = kg_safetensors_tensor_at(st, i);
        if (kg_safetensors_find(st, tensor->name) != tensor)
            kg_fuzz_give_up("the tensor \"%s\" is not found as itself", tensor->name);
        read_tensor(tensor);
    }
    (void)kg_safetensors_metadata(st, "made_by");
    kg_safetensors_close(st);
    return KG_OK;
}
