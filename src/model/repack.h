/* Weights that the back end may repack (repack_weight of backend.h), once all of them are there: repacking one before
 * the next is imported would wait for the one. */
#ifndef KIGO_MODEL_REPACK_H
#define KIGO_MODEL_REPACK_H

#include "backend/backend.h"

/* Zero-initialised it is empty. */
struct kg_repacking {
    struct kg_to_repack *items;
    size_t n, n_allocated;
};

/* n_matrices, one below the other. The weight stays where it is until the list is empty. */
void kg_repack_later(struct kg_repacking *list, struct kg_weight *weight, uint32_t n_matrices);

/* Repacks all, if the status so far is KG_OK and the back end does repack, and empties the list. */
enum kg_status kg_repack_all(struct kg_repacking *list, struct kg_backend *backend, enum kg_status status,
                             struct kg_error *err);

#endif
