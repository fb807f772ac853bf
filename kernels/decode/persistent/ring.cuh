/* A ring of shared memory between a producer warp and the consumer warps of a block: bulk copies (ptx/tma.cuh), which
 * count at mbarriers, fill slots ahead of their use.
 *
 * A slot has two mbarriers. `full` completes when the slot's bytes have arrived, `empty` when every consumer warp has
 * read it. Both sides count alike: iteration i uses slot i % n_slots for the (i / n_slots)th time.
 *
 * A parity tells a phase from the next, not from the one after that. So a warp may wait for a use of a slot only if it
 * knows that the use before is complete: the same warps read a slot in all of its uses. A block may exit when all of
 * its copies have been waited for. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_RING_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_RING_CUH

#include "kernels/decode/persistent/program.h"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"

namespace kg_persistent {

struct ring {
    const kg_persistent_program &p;
    unsigned shared;       /* address of the block's memory */
    uint32_t slot, parity; /* of this iteration */

    __device__ __forceinline__ void advance() {
        if (++slot == p.n_slots) slot = 0, parity ^= 1;
    }
    __device__ __forceinline__ unsigned full() const {
        return shared + p.shared.barriers + slot * 8;
    }
    __device__ __forceinline__ unsigned empty() const {
        return full() + p.n_slots * 8;
    }
    __device__ __forceinline__ unsigned data() const {
        return shared + p.shared.slots + slot * p.slot_bytes;
    }
};

} // namespace kg_persistent

#endif
