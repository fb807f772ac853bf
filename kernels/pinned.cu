/* Pinned memory by mmap, madvise and cudaHostRegister, else by cudaMallocHost (contract in pinned.h). */
#include "kernels/pinned.h"
#include <cstdint>
#include <sys/mman.h>

static const size_t PAGE_BYTES = 4096, LARGE_PAGE_BYTES = 2u << 20;

cudaError_t kg_pin(size_t size_bytes, struct kg_pinned *pinned) {
    const size_t mapped_bytes = size_bytes + LARGE_PAGE_BYTES;
    void *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *pinned = {};
    if (mapped == MAP_FAILED) return cudaMallocHost(reinterpret_cast<void **>(&pinned->data), size_bytes);
    const uintptr_t first = (reinterpret_cast<uintptr_t>(mapped) + LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
    char *const data = reinterpret_cast<char *>(first);
    (void)madvise(data, size_bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < size_bytes; at += PAGE_BYTES) static_cast<volatile char *>(data)[at] = 0;
    if (cudaHostRegister(data, size_bytes, cudaHostRegisterDefault) == cudaSuccess) {
        *pinned = { data, mapped, mapped_bytes };
        return cudaSuccess;
    }
    (void)cudaGetLastError();
    (void)munmap(mapped, mapped_bytes);
    return cudaMallocHost(reinterpret_cast<void **>(&pinned->data), size_bytes);
}

void kg_unpin(struct kg_pinned *pinned) {
    if (pinned->mapped) {
        (void)cudaHostUnregister(pinned->data);
        (void)munmap(pinned->mapped, pinned->mapped_bytes);
    } else if (pinned->data) {
        (void)cudaFreeHost(pinned->data);
    }
    *pinned = {};
}
