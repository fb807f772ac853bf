/* Writing safetensors files (bytes: safetensors.h). */
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

/* Writes n tensors in this order through a temporary beside path, replacing what is there; nothing is left behind on
 * failure. The header is padded with spaces so that data begins at a multiple of 8. KG_ERR_USAGE for a name that is no
 * UTF-8, given twice or "__metadata__". */
KG_WARN_UNUSED enum kg_status kg_safetensors_write(const char *path, const struct kg_safetensors_output *tensors,
                                                   size_t n, struct kg_error *err);

#endif
