/* What the files of `kigo op` share. */
#ifndef KIGO_CLI_OP_CALL_H
#define KIGO_CLI_OP_CALL_H

#include "cli/op_spec.h"

/* op_params.c */
/* Whether a tensor of the file is a weight's rows in a block format: "weight_bytes" for "weight". */
bool kg_op_is_bytes_of(const struct kg_op_tensor *spec, const char *name);
size_t kg_op_count_tensors(const struct kg_op_spec *spec);
/* rank[0 .. n) = places of a shape's lengths, added to the call's where they are new; returns n. */
size_t kg_op_parse_shape(struct kg_op_call *call, const char *shape, size_t rank[KG_OP_MAX_RANK]);
/* Takes a tensor's lengths for known, or checks them. */
KG_WARN_UNUSED enum kg_status kg_op_bind_shape(struct kg_op_call *call, const struct kg_op_tensor *spec,
                                               const struct kg_safetensors_tensor *tensor, struct kg_error *err);
/* Parameters that came as tensors of one element, then those of the request; any other tensor of the file must be one
 * the operation takes. */
KG_WARN_UNUSED enum kg_status kg_op_take_params(struct kg_op_call *call, const struct kg_safetensors *st,
                                                const struct kg_op_request *request, struct kg_error *err);

/* op_run.c */
bool kg_op_is_output(const struct kg_op_tensor *t);

/* op_inputs.c: shapes first, before a back end is opened, then data. */
KG_WARN_UNUSED enum kg_status kg_op_bind_inputs(struct kg_op_call *call, const struct kg_safetensors *st,
                                                struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_put_inputs(struct kg_op_call *call, const struct kg_safetensors *st,
                                               struct kg_error *err);
/* Host bytes to memory of the back end that lasts as long as the call. */
KG_WARN_UNUSED enum kg_status kg_op_put(struct kg_op_call *call, const void *host, uint64_t size_bytes, void **data,
                                        struct kg_error *err);
/* malloc'ed; KG_ERR_NO_MEMORY names the bytes. */
KG_WARN_UNUSED enum kg_status kg_op_host_alloc(uint64_t size_bytes, void **host, struct kg_error *err);

#endif
