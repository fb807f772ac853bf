/* One allocation for the weights of a model, which lie in it one after another, in the order in which they are loaded:
 * products by matrices of one shape are then equally far apart and can be one (kernels/ops/linear.h), and where weights
 * lie does not depend on what else the process has allocated.
 *
 * A room is open from kg_weights_room_open to kg_weights_room_close, and lives as long as a block of it.
 *
 * Not thread-safe: the back end's lock is held. */
#ifndef KIGO_KERNELS_WEIGHTS_ROOM_H
#define KIGO_KERNELS_WEIGHTS_ROOM_H

#include "kernels/cuda_backend.h"

/* Of memory of the device, which it frees with cudaFree once it is closed and has no block. Closes the one that is
 * open. False: no host memory; none is open then, and the device's is the caller's. */
bool kg_weights_room_open(struct kg_cuda_backend *cuda, void *memory, uint64_t size_bytes);

/* Nothing more is taken from it. */
void kg_weights_room_close(struct kg_cuda_backend *cuda);

/* A block, 256-byte aligned; NULL where none is open or what is left is too small. */
void *kg_weights_room_take(struct kg_cuda_backend *cuda, uint64_t size_bytes);

/* Gives a block back. False: it is not of a room. */
bool kg_weights_room_give(struct kg_cuda_backend *cuda, const void *block);

/* After all blocks were given back, or at the end of the back end. */
void kg_weights_rooms_free(struct kg_cuda_backend *cuda);

#endif
