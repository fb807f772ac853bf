/* Writes safetensors files; safetensors.h describes the format. */
#ifndef KIGO_FORMAT_SAFETENSORS_WRITE_H
#define KIGO_FORMAT_SAFETENSORS_WRITE_H

#include "format/safetensors.h"

struct kg_safetensors_output {
    const char *name; /* UTF-8 */
    enum kg_safetensors_dtype dtype;
    size_t n_dims;
    uint64_t dims[KG_SAFETENSORS_MAX_DIMS]; /* in elements, slowest first */
    const void *data;                       /* borrowed for the call */
};

/* Writes n tensors in the given order and replaces path atomically; on failure path is unchanged and nothing is left
 * behind. Spaces pad the header so that the data starts at a multiple of 8 bytes. KG_ERR_USAGE for a name that is not
 * UTF-8, occurs twice, or is "__metadata__". */
KG_WARN_UNUSED enum kg_status kg_safetensors_write(const char *path, const struct kg_safetensors_output *tensors,
                                                   size_t n, struct kg_error *err);

#endif
