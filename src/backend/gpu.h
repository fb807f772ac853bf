/* The GPUs of this machine, as the CUDA runtime tells them; without CUDA in the build, the reason why there are none.
 */
#ifndef KIGO_BACKEND_GPU_H
#define KIGO_BACKEND_GPU_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kg_buffer;

struct kg_gpu_info {
    char name[256];         /* "NVIDIA H200" */
    unsigned char uuid[16]; /* identifies the card; records hold only its SHA-256 */
    int compute_capability; /* 10 * major + minor: 90 */
    int n_sms;              /* streaming multiprocessors */
    int l2_bytes;
    uint64_t memory_bytes;
    int driver_version;  /* CUDA version the driver supports: 13000 is 13.0 */
    int runtime_version; /* CUDA version the program was built with */
    int ecc_enabled;
};

enum { KG_MAX_GPUS = 64 }; /* of one machine */

/* gpus[0 .. *n) = the first GPUs, at most max of them. KG_ERR_UNSUPPORTED with the reason if the build has no CUDA or
 * no device answers; *n is 0 then. */
KG_WARN_UNUSED enum kg_status kg_gpu_list(struct kg_gpu_info *gpus, size_t max, size_t *n, struct kg_error *err);

/* A line of text: "cuda  0: NVIDIA H200, 139.8 GiB, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.0".
 */
void kg_gpu_put(const struct kg_gpu_info *gpu, size_t number, struct kg_buffer *out);

#ifdef __cplusplus
}
#endif

#endif
