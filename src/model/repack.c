#include "model/repack.h"
#include "base/buffer.h"
#include <stdlib.h>

struct kg_to_repack {
    struct kg_weight *weight;
    uint32_t n_matrices;
};

void kg_repack_later(struct kg_repacking *list, struct kg_weight *weight, uint32_t n_matrices) {
    if (list->n == list->n_allocated) {
        list->n_allocated = 2 * list->n_allocated + 64;
        list->items = kg_xrealloc(list->items, list->n_allocated * sizeof *list->items);
    }
    list->items[list->n++] = (struct kg_to_repack){ weight, n_matrices };
}

enum kg_status kg_repack_all(struct kg_repacking *list, struct kg_backend *backend, enum kg_status status,
                             struct kg_error *err) {
    const struct kg_backend_ops *ops = backend->ops;
    for (size_t i = 0; i < list->n && !status && ops->repack_weight; i++)
        status = ops->repack_weight(backend, list->items[i].weight, list->items[i].n_matrices, err);
    free(list->items);
    *list = (struct kg_repacking){ 0 };
    return status;
}
