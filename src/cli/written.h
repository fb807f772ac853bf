/* What verbs that round weights say of each tensor: its types and what the rounding lost. */
#ifndef KIGO_CLI_WRITTEN_H
#define KIGO_CLI_WRITTEN_H

#include "convert/rounding.h"
#include <stddef.h>

/* A table of the tensors that were rounded to blocks, and a line for each other one whose rows are no whole blocks of
 * what the file's type names. */
void kg_cli_print_written(const struct kg_written_tensor *tensors, size_t n);

/* An array of all. */
struct json_t *kg_cli_written_json(const struct kg_written_tensor *tensors, size_t n);

#endif
