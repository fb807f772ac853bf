/* Small calls of `kigo op`, and what each says or writes: rows of test_op_command. */
#ifndef KIGO_SUITES_OP_COMMAND_ROWS_H
#define KIGO_SUITES_OP_COMMAND_ROWS_H

#include "format/safetensors.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_OP_ROW_TENSORS = 8 };

/* A small input made of rows; n_dims 0 ends. Values are 1, 2, 3, ... */
struct kg_op_row_tensor {
    const char *name;
    enum kg_safetensors_dtype dtype;
    size_t n_dims;
    uint64_t dims[4];
    bool begins_nan; /* the first value is NaN */
};

struct kg_op_row {
    const char *name;
    struct kg_op_row_tensor tensors[KG_OP_ROW_TENSORS];
    const char *args[8]; /* behind "op" and before --in */
    int exit_code;
    const char *says; /* on standard error, or the JSON on standard output if exit_code is 0 */
    const char *also;
    float want[8]; /* first values of the first output, if exit_code is 0; NAN ends */
};

/* For the rows. */
#define F32(name_, ...) OF(F32, name_, __VA_ARGS__)
#define OF(dtype_, name_, ...)                                                                                         \
    {                                                                                                                  \
        .name = name_, .dtype = KG_SAFETENSORS_##dtype_,                                                               \
        .n_dims = sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), .dims = {                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

extern const struct kg_op_row KG_OP_ROWS[], KG_FUSED_OP_ROWS[]; /* of the operations that are several in one */
extern const size_t KG_N_OP_ROWS, KG_N_FUSED_OP_ROWS;

#endif
