#include "suites/support/golden.h"
#include "base/buffer.h"
#include "format/safetensors.h"
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct kg_golden {
    struct kg_safetensors *file;
    void **data; /* of each tensor, copied to where it is aligned */
    size_t n;
};

struct kg_golden *kg_golden_open(const char *path) {
    struct kg_golden *g = kg_xcalloc(1, sizeof *g);
    struct kg_error err;
    if (kg_safetensors_open(path, &g->file, &err) != KG_OK) ck_abort_msg("%s", err.message);
    g->n = kg_safetensors_n_tensors(g->file);
    g->data = kg_xcalloc(g->n, sizeof *g->data);
    for (size_t i = 0; i < g->n; i++) {
        const struct kg_safetensors_tensor *t = kg_safetensors_tensor_at(g->file, i);
        if (t->size_bytes == 0) ck_abort_msg("%s: tensor %s is empty", path, t->name);
        g->data[i] = kg_xmalloc(t->size_bytes);
        memcpy(g->data[i], t->data, t->size_bytes);
    }
    return g;
}

void kg_golden_close(struct kg_golden *g) {
    if (!g) return;
    for (size_t i = 0; i < g->n; i++) free(g->data[i]);
    free(g->data);
    kg_safetensors_close(g->file);
    free(g);
}

const char *kg_golden_path(const struct kg_golden *g) {
    return kg_safetensors_path(g->file);
}

size_t kg_golden_n_tensors(const struct kg_golden *g) {
    return g->n;
}

const char *kg_golden_name_at(const struct kg_golden *g, size_t index) {
    ck_assert_uint_lt(index, g->n);
    return kg_safetensors_tensor_at(g->file, index)->name;
}

bool kg_golden_has(const struct kg_golden *g, const char *name) {
    return kg_safetensors_find(g->file, name) != NULL;
}

static const void *find(const struct kg_golden *g, const char *name, enum kg_safetensors_dtype dtype, size_t *rows,
                        size_t *cols) {
    for (size_t i = 0; i < g->n; i++) {
        const struct kg_safetensors_tensor *t = kg_safetensors_tensor_at(g->file, i);
        if (strcmp(t->name, name) != 0) continue;
        if (t->dtype != dtype)
            ck_abort_msg("%s: tensor %s is %s, not %s", kg_golden_path(g), name, kg_safetensors_dtype_name(t->dtype),
                         kg_safetensors_dtype_name(dtype));
        if (t->n_dims < 1 || t->n_dims > 3)
            ck_abort_msg("%s: tensor %s has %zu dimensions, not 1 to 3", kg_golden_path(g), name, t->n_dims);
        *cols = (size_t)t->dims[t->n_dims - 1];
        *rows = (size_t)(t->n_elems / *cols);
        return g->data[i];
    }
    ck_abort_msg("%s: no tensor %s", kg_golden_path(g), name);
    return NULL;
}

const float *kg_golden_f32(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols) {
    return find(g, name, KG_SAFETENSORS_F32, rows, cols);
}

const double *kg_golden_f64(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols) {
    return find(g, name, KG_SAFETENSORS_F64, rows, cols);
}

const uint8_t *kg_golden_u8(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols) {
    return find(g, name, KG_SAFETENSORS_U8, rows, cols);
}

const int32_t *kg_golden_i32(const struct kg_golden *g, const char *name, size_t *n) {
    size_t rows;
    const int32_t *data = find(g, name, KG_SAFETENSORS_I32, &rows, n);
    if (rows != 1) ck_abort_msg("%s: tensor %s is no vector", kg_golden_path(g), name);
    return data;
}

int32_t kg_golden_int(const struct kg_golden *g, const char *name) {
    size_t n;
    const int32_t *data = kg_golden_i32(g, name, &n);
    if (n != 1) ck_abort_msg("%s: parameter %s has %zu elements, not 1", kg_golden_path(g), name, n);
    return data[0];
}

float kg_golden_float(const struct kg_golden *g, const char *name) {
    size_t rows, n;
    const float *data = find(g, name, KG_SAFETENSORS_F32, &rows, &n);
    if (rows * n != 1) ck_abort_msg("%s: parameter %s has %zu elements, not 1", kg_golden_path(g), name, rows * n);
    return data[0];
}
