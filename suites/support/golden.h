/* Golden tensors (fixtures/README.md): a safetensors file whose tensors and one-element parameters are asked for by
 * name.
 *
 * Every accessor fails the running case, naming file and tensor, if it is missing, of another type or of another size,
 * so that a case never looks at fewer elements than it says. */
#ifndef KIGO_SUITES_GOLDEN_H
#define KIGO_SUITES_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_golden;

struct kg_golden *kg_golden_open(const char *path);
void kg_golden_close(struct kg_golden *g);
const char *kg_golden_path(const struct kg_golden *g);

/* Tensors of the file in the order of their data. */
size_t kg_golden_n_tensors(const struct kg_golden *g);
const char *kg_golden_name_at(const struct kg_golden *g, size_t index);
bool kg_golden_has(const struct kg_golden *g, const char *name);

/* The data, valid until closed; *rows and *cols are its shape (rows 1 for a vector). */
const float *kg_golden_f32(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols);
const double *kg_golden_f64(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols);
const int32_t *kg_golden_i32(const struct kg_golden *g, const char *name, size_t *n);
const uint8_t *kg_golden_u8(const struct kg_golden *g, const char *name, size_t *rows, size_t *cols);

/* Parameters: tensors of one element. */
int32_t kg_golden_int(const struct kg_golden *g, const char *name);
float kg_golden_float(const struct kg_golden *g, const char *name);

#endif
