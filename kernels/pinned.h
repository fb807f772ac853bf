/* Pinned host memory in large pages, where the system has them. */
#ifndef KIGO_KERNELS_PINNED_H
#define KIGO_KERNELS_PINNED_H

#include <cuda_runtime.h>
#include <cstddef>

/* Zero-initialised it is empty. */
struct kg_pinned {
    char *data;
    void *mapped; /* data lies in it, and is registered; NULL: data is allocated by the driver */
    size_t mapped_bytes;
};

/* The driver holds its lock while it pins, and takes ten times as long for pages of 4 KB, where who else needs it
 * waits: pages are touched first, without it. */
cudaError_t kg_pin(size_t size_bytes, struct kg_pinned *pinned);

/* Nothing uses it any more. Empty is good. */
void kg_unpin(struct kg_pinned *pinned);

#endif
