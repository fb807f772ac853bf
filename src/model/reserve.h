/* Room for a model's weights in one allocation of the back end, if it has that (reserve_weights of backend.h). */
#ifndef KIGO_MODEL_RESERVE_H
#define KIGO_MODEL_RESERVE_H

#include "backend/backend.h"
#include "format/gguf.h"

/* For all tensors of the file, as kg_weights_load holds them (vectors as float32), and so many bytes more. */
enum kg_status kg_weights_reserve(const struct kg_gguf *gguf, uint64_t more_bytes, struct kg_backend *backend,
                                  struct kg_error *err);

/* What is allocated from here on lies elsewhere. Returns `status`, the load's so far, unless that is KG_OK and this
 * fails. */
enum kg_status kg_weights_end_reservation(struct kg_backend *backend, enum kg_status status, struct kg_error *err);

#endif
