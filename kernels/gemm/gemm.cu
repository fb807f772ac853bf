/* Matrix products by cuBLASLt (contract in gemm.h).
 *
 * cuBLASLt is column-major: to it a row-major (rows, cols) matrix is its transpose, so y^T = w x^T is asked for as
 * (n_outputs x n_rows) = op(w) x, op = transpose, with leading dimensions n_in, n_in and ldy.
 *
 * Choosing an algorithm takes the host longer than enqueuing it, and a forward pass asks for few shapes again and
 * again: the last PLANS are kept. */
#include "kernels/gemm/gemm.h"
#include <atomic>
#include <cublasLt.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <semaphore.h>

#define STRING_OF(x) #x
#define LIBRARY_OF(major) "libcublasLt.so." STRING_OF(major)
static const char LIBRARY[] = LIBRARY_OF(CUBLAS_VER_MAJOR);

/* What is used of the library; the types are its header's. */
#define FUNCTIONS(X)                                                                                                   \
    X(Create)                                                                                                          \
    X(Destroy)                                                                                                         \
    X(GetStatusString)                                                                                                 \
    X(Matmul)                                                                                                          \
    X(MatmulAlgoGetHeuristic)                                                                                          \
    X(MatmulDescCreate)                                                                                                \
    X(MatmulDescDestroy)                                                                                               \
    X(MatmulDescSetAttribute)                                                                                          \
    X(MatmulPreferenceCreate)                                                                                          \
    X(MatmulPreferenceDestroy)                                                                                         \
    X(MatmulPreferenceSetAttribute)                                                                                    \
    X(MatrixLayoutCreate)                                                                                              \
    X(MatrixLayoutDestroy)                                                                                             \
    X(MatrixLayoutSetAttribute)

/* All that an algorithm depends on; 32-bit members only, so that equal shapes are equal bytes. */
struct shape {
    uint32_t n_rows, n_in, n_outputs, ldy, n_products;
    uint32_t operands, result, has_bias;
    uint32_t x_alignment, w_alignment, y_alignment; /* in bytes */
};

struct plan {
    struct shape shape;
    cublasLtMatmulDesc_t operation; /* NULL: an empty place */
    cublasLtMatrixLayout_t x, w, y;
    cublasLtMatmulAlgo_t algorithm;
};

/* The library does not ask how a bias is aligned. */
enum { PLANS = 64, MAX_ALIGNMENT_BYTES = 256, BIAS_ALIGNMENT_BYTES = 16 };

struct kg_gemm {
#define MEMBER(name) decltype(&cublasLt##name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    cublasLtHandle_t handle;
    struct plan plans[PLANS];
    uint32_t next; /* the plan that goes when a new one comes */
};

/* A library that is being opened, and warmed up. */
struct kg_gemm_opening {
    pthread_t thread;
    int device;
    bool warms;
    char *path;
    sem_t opened;
    struct kg_gemm *gemm;      /* after `opened`; NULL: it failed, or the back end has it */
    std::atomic<int> expected; /* the operands' type, of a session that is planned; 0 before: any */
    std::atomic<bool> awaited; /* a product waits */
};

static const char *library_path(void) {
    const char *asked = getenv("KIGO_CUBLASLT");
    return asked && *asked ? asked : LIBRARY;
}

static enum kg_status find_functions(const char *path, struct kg_gemm *gemm, struct kg_error *err) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return kg_fail(err, KG_ERR_UNSUPPORTED, "no cuBLASLt: %s", dlerror());
#define FIND(name)                                                                                                     \
    gemm->name = reinterpret_cast<decltype(gemm->name)>(dlsym(library, "cublasLt" #name));                             \
    if (!gemm->name) {                                                                                                 \
        (void)dlclose(library);                                                                                        \
        return kg_fail(err, KG_ERR_UNSUPPORTED, "no cuBLASLt: %s has no cublasLt" #name, path);                        \
    }
    FUNCTIONS(FIND)
#undef FIND
    (void)dlclose(library);
    return KG_OK;
}

static enum kg_status fail(const struct kg_gemm *gemm, const struct shape *s, const char *what, cublasStatus_t code,
                           struct kg_error *err) {
    return kg_fail(err, code == CUBLAS_STATUS_ALLOC_FAILED ? KG_ERR_NO_MEMORY : KG_ERR_INTERNAL,
                   "cuda: product of %u x %u by %u rows: %s: %s", s->n_outputs, s->n_in, s->n_rows, what,
                   gemm->GetStatusString(code));
}

static enum kg_status open_library(const char *path, struct kg_gemm **out, struct kg_error *err) {
    struct kg_gemm *gemm = static_cast<struct kg_gemm *>(calloc(1, sizeof *gemm));
    if (!gemm) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for cuBLASLt");
    const enum kg_status status = find_functions(path, gemm, err);
    const cublasStatus_t code = status ? CUBLAS_STATUS_SUCCESS : gemm->Create(&gemm->handle);
    if (!status && code == CUBLAS_STATUS_SUCCESS) {
        *out = gemm;
        return KG_OK;
    }
    if (!status) (void)kg_fail(err, KG_ERR_INTERNAL, "cuda: cublasLtCreate: %s", gemm->GetStatusString(code));
    free(gemm);
    return status ? status : KG_ERR_INTERNAL;
}

static void empty(struct kg_gemm *gemm, struct plan *p) {
    if (p->y) (void)gemm->MatrixLayoutDestroy(p->y);
    if (p->w) (void)gemm->MatrixLayoutDestroy(p->w);
    if (p->x) (void)gemm->MatrixLayoutDestroy(p->x);
    if (p->operation) (void)gemm->MatmulDescDestroy(p->operation);
    memset(p, 0, sizeof *p);
}

static void destroy(struct kg_gemm *gemm) {
    if (!gemm) return;
    for (struct plan &p : gemm->plans) empty(gemm, &p);
    (void)gemm->Destroy(gemm->handle);
    free(gemm);
}

static uint32_t bytes_of(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : 2;
}

/* The largest power of two that divides an address and a stride of so many bytes, as far as algorithms ask. */
static uint32_t alignment_of(const void *p, int64_t stride_bytes) {
    const uint64_t bits = reinterpret_cast<uintptr_t>(p) | (uint64_t)stride_bytes | MAX_ALIGNMENT_BYTES;
    return (uint32_t)(bits & -bits);
}

static uint32_t products_of(const struct kg_gemm_args *args) {
    return args->n_products > 0 ? args->n_products : 1;
}

static struct shape shape_of(const struct kg_gemm_args *args) {
    return { args->n_rows,
             args->n_in,
             args->n_outputs,
             args->ldy,
             products_of(args),
             (uint32_t)args->operands,
             (uint32_t)args->result,
             args->bias != NULL,
             alignment_of(args->x, 0),
             alignment_of(args->w, args->w_stride * bytes_of(args->operands)),
             alignment_of(args->y, args->y_stride * bytes_of(args->result)) };
}

static cublasStatus_t describe(const struct kg_gemm *gemm, const struct shape *s, struct plan *p) {
    const cublasOperation_t transpose = CUBLAS_OP_T;
    const cudaDataType operands = (cudaDataType)s->operands;
    cublasStatus_t code = gemm->MatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!code)
        code = gemm->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    if (!code && s->has_bias)
        code = gemm->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!code) code = gemm->MatrixLayoutCreate(&p->w, operands, s->n_in, s->n_outputs, s->n_in);
    if (!code) code = gemm->MatrixLayoutCreate(&p->x, operands, s->n_in, s->n_rows, s->n_in);
    if (!code) code = gemm->MatrixLayoutCreate(&p->y, (cudaDataType)s->result, s->n_outputs, s->n_rows, s->ldy);
    const int32_t n_products = (int32_t)s->n_products;
    for (const cublasLtMatrixLayout_t layout : { p->w, p->x, p->y })
        if (!code && n_products > 1)
            code = gemm->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n_products,
                                                  sizeof n_products);
    return code;
}

/* Where the bias is, and how far apart the products lie. An algorithm does not depend on it beyond its alignment:
 * layers share one. x is one. */
static cublasStatus_t place(const struct kg_gemm *gemm, const struct plan *p, const struct kg_gemm_args *args) {
    const int64_t strides[] = { args->w_stride, 0, args->y_stride };
    const cublasLtMatrixLayout_t layouts[] = { p->w, p->x, p->y };
    cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
    if (args->bias)
        code = gemm->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args->bias,
                                            sizeof args->bias);
    for (int i = 0; i < 3; i++)
        if (!code && p->shape.n_products > 1)
            code = gemm->MatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &strides[i],
                                                  sizeof strides[i]);
    return code;
}

/* A split sum may be put together in float32 only, not in the result's float16. */
static cublasStatus_t choose(const struct kg_gemm *gemm, const struct shape *s, uint64_t workspace_bytes,
                             struct plan *p) {
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size_bytes;
    } preferences[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &s->w_alignment, sizeof s->w_alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &s->x_alignment, sizeof s->x_alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &s->y_alignment, sizeof s->y_alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &s->y_alignment, sizeof s->y_alignment },
    };
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t best;
    int n_found = 0;
    cublasStatus_t code = gemm->MatmulPreferenceCreate(&preference);
    if (code) return code;
    for (const auto &wish : preferences)
        if (!code) code = gemm->MatmulPreferenceSetAttribute(preference, wish.attribute, wish.value, wish.size_bytes);
    if (!code)
        code = gemm->MatmulAlgoGetHeuristic(gemm->handle, p->operation, p->w, p->x, p->y, p->y, preference, 1, &best,
                                            &n_found);
    if (!code) code = n_found > 0 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (!code) p->algorithm = best.algo;
    (void)gemm->MatmulPreferenceDestroy(preference);
    return code;
}

/* Enqueues the product of a plan that is in place. */
static cublasStatus_t enqueue(const struct kg_gemm *gemm, const struct plan *p, const struct kg_gemm_args *args,
                              uint64_t workspace_bytes, cudaStream_t stream) {
    const float one = 1, of_y = args->adds ? 1 : 0;
    return gemm->Matmul(gemm->handle, p->operation, &one, args->w, p->w, args->x, p->x, &of_y, args->y, p->y, args->y,
                        p->y, &p->algorithm, args->workspace, workspace_bytes, stream);
}

/* The first product of a type loads what the library has for it, a tenth of a second: a small one of zeros does so on
 * another stream. What fails is left for the first product that is asked for. */
static void warm_up(struct kg_gemm *gemm, cudaDataType type) {
    enum { ROWS = 128, COLS = 512, BYTES = (2 * ROWS + COLS) * COLS * sizeof(float) };
    cudaStream_t stream;
    void *memory = NULL;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
    if (cudaMallocAsync(&memory, BYTES, stream) == cudaSuccess) {
        float *const x = static_cast<float *>(memory), *const w = x + ROWS * COLS, *const y = w + COLS * COLS;
        const struct kg_gemm_args args = { .operands = type,
                                           .result = type,
                                           .x = x,
                                           .w = w,
                                           .y = y,
                                           .n_rows = ROWS,
                                           .n_in = COLS,
                                           .n_outputs = COLS,
                                           .ldy = COLS };
        struct plan p = { .shape = shape_of(&args) };
        if (cudaMemsetAsync(memory, 0, BYTES, stream) == cudaSuccess && describe(gemm, &p.shape, &p) == 0 &&
            choose(gemm, &p.shape, 0, &p) == 0)
            (void)enqueue(gemm, &p, &args, 0, stream);
        empty(gemm, &p);
        (void)cudaFreeAsync(memory, stream);
    }
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
    (void)cudaGetLastError();
}

/* Types that the library has been warmed up for in this process, on a device. */
enum { MAX_DEVICES = 64 };
static struct {
    cudaDataType type;
    std::atomic<bool> devices[MAX_DEVICES];
} WARM[] = { { CUDA_R_16F, {} }, { CUDA_R_32F, {} } };

static void *run_opening(void *arg) {
    struct kg_gemm_opening *opening = static_cast<struct kg_gemm_opening *>(arg);
    struct kg_gemm *gemm = NULL;
    struct kg_error err;
    if (cudaSetDevice(opening->device) != cudaSuccess || open_library(opening->path, &gemm, &err) != KG_OK) gemm = NULL;
    opening->gemm = gemm;
    (void)sem_post(&opening->opened);
    for (auto &warm : WARM) {
        const int expected = opening->expected;
        if (!gemm || !opening->warms || opening->awaited) break;
        if ((expected == 0 || expected == warm.type) && !warm.devices[opening->device].exchange(true))
            warm_up(gemm, warm.type);
    }
    return NULL;
}

static void free_opening(struct kg_gemm_opening *opening) {
    (void)sem_destroy(&opening->opened);
    free(opening->path);
    delete opening;
}

void kg_cuda_gemm_begin(struct kg_cuda_backend *cuda, uint64_t weights_bytes) {
    if (cuda->gemm || cuda->gemm_opening) return;
    struct kg_gemm_opening *opening = new (std::nothrow) kg_gemm_opening();
    if (!opening) return;
    opening->device = cuda->device;
    opening->warms = weights_bytes >= KG_GEMM_WARM_BYTES && cuda->device < MAX_DEVICES;
    opening->path = strdup(library_path()); /* the environment is for this thread to read */
    (void)sem_init(&opening->opened, 0, 0);
    if (opening->path && pthread_create(&opening->thread, NULL, run_opening, opening) == 0)
        cuda->gemm_opening = opening;
    else free_opening(opening);
}

/* What the thread has opened, if it is what is asked for; NULL, too, if there was no thread. */
static struct kg_gemm *wait_for_opening(struct kg_gemm_opening *opening) {
    if (!opening) return NULL;
    while (sem_wait(&opening->opened) != 0) {} /* a signal came */
    (void)sem_post(&opening->opened);
    if (strcmp(opening->path, library_path()) != 0) return NULL;
    struct kg_gemm *gemm = opening->gemm;
    opening->gemm = NULL;
    return gemm;
}

/* The thread has ended, and uses no library any more. */
static void end_opening(struct kg_cuda_backend *cuda) {
    struct kg_gemm_opening *opening = cuda->gemm_opening;
    if (!opening) return;
    cuda->gemm_opening = NULL;
    opening->awaited = true;
    (void)pthread_join(opening->thread, NULL);
    destroy(opening->gemm);
    free_opening(opening);
}

enum kg_status kg_cuda_gemm_open(struct kg_cuda_backend *cuda, struct kg_error *err) {
    if (!cuda->gemm) cuda->gemm = wait_for_opening(cuda->gemm_opening);
    return cuda->gemm ? KG_OK : open_library(library_path(), &cuda->gemm, err);
}

enum kg_status kg_cuda_gemm_announce(struct kg_cuda_backend *cuda, struct kg_error *err) {
    int opened = 1;
    if (cuda->gemm_opening && strcmp(cuda->gemm_opening->path, library_path()) == 0)
        (void)sem_getvalue(&cuda->gemm_opening->opened, &opened);
    return opened ? kg_cuda_gemm_open(cuda, err) : KG_OK;
}

void kg_cuda_gemm_expect(struct kg_cuda_backend *cuda, cudaDataType operands) {
    if (cuda->gemm_opening) cuda->gemm_opening->expected = operands;
}

void kg_cuda_gemm_close(struct kg_cuda_backend *cuda) {
    end_opening(cuda);
    destroy(cuda->gemm);
    cuda->gemm = NULL;
}

static enum kg_status find_plan(struct kg_gemm *gemm, const struct kg_gemm_args *args, const struct shape *shape,
                                const struct plan **plan, struct kg_error *err) {
    for (const struct plan &p : gemm->plans)
        if (p.operation && memcmp(&p.shape, shape, sizeof *shape) == 0) {
            *plan = &p;
            return KG_OK;
        }
    struct plan *p = &gemm->plans[gemm->next];
    gemm->next = (gemm->next + 1) % PLANS;
    empty(gemm, p);
    p->shape = *shape;
    cublasStatus_t code = describe(gemm, shape, p);
    if (!code) code = place(gemm, p, args);
    if (!code) code = choose(gemm, shape, KG_GEMM_WORKSPACE_BYTES, p);
    if (code) {
        empty(gemm, p);
        return fail(gemm, shape, "no algorithm", code, err);
    }
    *plan = p;
    return KG_OK;
}

bool kg_cuda_gemm_takes_bias(struct kg_cuda_backend *cuda, const struct kg_gemm_args *args) {
    const struct shape shape = shape_of(args);
    const struct plan *p;
    struct kg_error err;
    return args->result == CUDA_R_32F && shape.n_products == 1 && alignment_of(args->bias, 0) >= BIAS_ALIGNMENT_BYTES &&
           !kg_cuda_gemm_open(cuda, &err) && !find_plan(cuda->gemm, args, &shape, &p, &err);
}

enum kg_status kg_cuda_gemm(struct kg_cuda_backend *cuda, const struct kg_gemm_args *args, struct kg_error *err) {
    const struct shape shape = shape_of(args);
    const struct plan *p;
    enum kg_status status = kg_cuda_gemm_open(cuda, err);
    end_opening(cuda); /* a product beside the one that warms up would wait for it, and be none the sooner */
    if (!status) status = find_plan(cuda->gemm, args, &shape, &p, err);
    if (status) return status;
    cublasStatus_t code = place(cuda->gemm, p, args);
    if (!code) code = enqueue(cuda->gemm, p, args, KG_GEMM_WORKSPACE_BYTES, cuda->stream);
    return code == CUBLAS_STATUS_SUCCESS ? KG_OK : fail(cuda->gemm, &shape, "enqueuing it", code, err);
}
