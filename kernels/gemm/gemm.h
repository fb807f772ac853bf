/* Matrix products by cuBLASLt: y[r][o] = sum_i x[r][i] * w[o][i], all row-major in device memory.
 *
 * Several products of one x are one launch where matrices of one shape lie equally far apart, and results do: small
 * ones then fill the device together.
 *
 * The library is loaded when a session is planned that will need it, not when the program starts: it is half a
 * gigabyte, and loading it costs a tenth of a second. A thread does so beside the loading of a model. cuBLASLt takes
 * workspace and stream with each call and, other than cuBLAS, allocates no device memory for its handle.
 *
 * Numerics: CUBLAS_COMPUTE_32F. Products of float32 operands are taken as they are (no TF32); those of float16 and
 * bfloat16 are exact; sums are float32, and where the sum is split its parts are added in float32 too. */
#ifndef KIGO_KERNELS_GEMM_GEMM_H
#define KIGO_KERNELS_GEMM_GEMM_H

#include "kernels/cuda_backend.h"

/* Loading these takes about as long as opening the library and both products do (0.3 s, H200). With 1 GB, a first token
 * that needs other kernels of the library came 0.07 s later. */
constexpr uint64_t KG_GEMM_WARM_BYTES = UINT64_C(4) << 30;

/* What NVIDIA advises for sm_90; at args->workspace, on 256 bytes. */
constexpr uint64_t KG_GEMM_WORKSPACE_BYTES = 32u << 20;

struct kg_gemm_args {
    cudaDataType operands;                 /* of x and w: CUDA_R_32F, CUDA_R_16F or CUDA_R_16BF */
    cudaDataType result;                   /* of y: CUDA_R_32F, or CUDA_R_16F of float16 operands */
    const void *x;                         /* (n_rows, n_in) */
    const void *w;                         /* (n_outputs, n_in) */
    void *y;                               /* (n_rows, n_outputs) in rows of ldy elements; may not overlap x and w */
    uint32_t n_rows, n_in, n_outputs, ldy; /* none 0 */
    bool adds;                             /* y += in place of y =: one rounding, of the float32 sum with y */
    const float *bias;                     /* (n_outputs), added to each row, or NULL; see kg_cuda_gemm_takes_bias */
    uint32_t n_products;                   /* 0 is 1 */
    int64_t w_stride, y_stride; /* in elements, from one product's to the next's; positive if there are more */
    void *workspace;
};

/* Loads the library ($KIGO_CUBLASLT, else the toolkit's libcublasLt.so of the version built with) and makes cuda->gemm
 * unless it is there. KG_ERR_UNSUPPORTED naming the library that is missing or the function it lacks. */
enum kg_status kg_cuda_gemm_open(struct kg_cuda_backend *cuda, struct kg_error *err);

/* For a session that may need it: the same, unless a thread is at it, for which this does not wait. That the library is
 * missing is an error here; what else fails is one of the first product. */
enum kg_status kg_cuda_gemm_announce(struct kg_cuda_backend *cuda, struct kg_error *err);

/* Begins that on a thread, unless it is done or begun. What comes of it is for kg_cuda_gemm_open to say, which waits
 * until the library is open; where that failed, or $KIGO_CUBLASLT has changed since, it opens the library itself.
 *
 * Where loading so many bytes of weights takes long enough (KG_GEMM_WARM_BYTES), the thread then warms the library up,
 * by a product of float16 and one of float32: the first of a type in a process takes the library a tenth of a second.
 * The first product that is asked for waits for that. */
void kg_cuda_gemm_begin(struct kg_cuda_backend *cuda, uint64_t weights_bytes);

/* Of which type the products will be: warming up for another has not to begin any more. */
void kg_cuda_gemm_expect(struct kg_cuda_backend *cuda, cudaDataType operands);

/* Waits for the thread, too. The library stays loaded: the process may open the back end again. */
void kg_cuda_gemm_close(struct kg_cuda_backend *cuda);

/* Whether the library adds the bias of such a product: one product with a result of float32, and it has an algorithm
 * for that. */
bool kg_cuda_gemm_takes_bias(struct kg_cuda_backend *cuda, const struct kg_gemm_args *args);

/* Enqueues the product. Allocates nothing on the device; on the host an algorithm for each new shape. */
enum kg_status kg_cuda_gemm(struct kg_cuda_backend *cuda, const struct kg_gemm_args *args, struct kg_error *err);

#endif
