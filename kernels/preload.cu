/* Loading kernels ahead (contract in preload.h). The driver's functions for it are of CUDA 12.4; where it lacks them,
 * kernels are loaded when they are launched.
 *
 * A file of 10 kernels takes 2 ms, of which loading them one by one is a fifth: the rest is its module. All 41 files
 * with 469 kernels take 85 ms beside the load (H200), and a first token 1 to 5 ms in place of 18 to 25. */
#include "kernels/preload.h"
#include <atomic>
#include <cstdlib>
#include <cuda.h>

static const struct kg_preloaded_file *files;

kg_preloaded_file::kg_preloaded_file(const void *of_file, enum kg_preload_stage at_stage)
    : kernel(of_file), stage(at_stage) {
    const struct kg_preloaded_file **at = &files;
    while (*at && (*at)->stage < stage) at = const_cast<const struct kg_preloaded_file **>(&(*at)->next);
    next = *at;
    *at = this;
}

/* On a device, in this process. */
enum { MAX_DEVICES = 64 };
static std::atomic<bool> begun[MAX_DEVICES];

struct kg_preloading {
    pthread_t thread;
    int device;
};

/* What is used of the driver; the types are its header's. */
struct driver {
    decltype(&cuFuncGetModule) module_of;
    decltype(&cuModuleGetFunctionCount) count;
    decltype(&cuModuleEnumerateFunctions) enumerate;
    decltype(&cuFuncLoad) load;
    decltype(&cuFuncIsLoaded) is_loaded;
};

template <typename F> static bool find(const char *name, unsigned version, F *function) {
    cudaDriverEntryPointQueryResult result;
    void *found = NULL;
    if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) != cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
        return false;
    *function = reinterpret_cast<F>(found);
    return true;
}

static bool find_driver(struct driver *d) {
    return find("cuFuncGetModule", 11000, &d->module_of) && find("cuModuleGetFunctionCount", 12040, &d->count) &&
           find("cuModuleEnumerateFunctions", 12040, &d->enumerate) && find("cuFuncLoad", 12040, &d->load) &&
           find("cuFuncIsLoaded", 12040, &d->is_loaded);
}

/* Each kernel of the file, whose module is loaded by this. */
template <typename F> static void for_each(const struct driver &d, const struct kg_preloaded_file *file, const F &f) {
    cudaFunction_t kernel;
    CUmodule module;
    unsigned n = 0;
    if (cudaGetFuncBySymbol(&kernel, file->kernel) != cudaSuccess || d.module_of(&module, kernel) ||
        d.count(&n, module))
        return;
    CUfunction *functions = static_cast<CUfunction *>(calloc(n, sizeof *functions));
    if (functions && d.enumerate(functions, n, module) == CUDA_SUCCESS)
        for (unsigned i = 0; i < n; i++) f(functions[i]);
    free(functions);
}

static void *run(void *arg) {
    const struct kg_preloading *p = static_cast<struct kg_preloading *>(arg);
    struct driver driver;
    const bool there = cudaSetDevice(p->device) == cudaSuccess && find_driver(&driver);
    for (const struct kg_preloaded_file *file = files; file && there; file = file->next)
        for_each(driver, file, [&](CUfunction kernel) { (void)driver.load(kernel); });
    (void)cudaGetLastError();
    return NULL;
}

void kg_preload_begin(struct kg_cuda_backend *cuda) {
    if (cuda->preloading || cuda->device >= MAX_DEVICES || begun[cuda->device].exchange(true)) return;
    struct kg_preloading *p = static_cast<struct kg_preloading *>(calloc(1, sizeof *p));
    if (!p) return;
    p->device = cuda->device;
    if (pthread_create(&p->thread, NULL, run, p) == 0) cuda->preloading = p;
    else free(p);
}

void kg_preload_end(struct kg_cuda_backend *cuda) {
    if (!cuda->preloading) return;
    (void)pthread_join(cuda->preloading->thread, NULL);
    free(cuda->preloading);
    cuda->preloading = NULL;
}

enum kg_status kg_preload_count(struct kg_cuda_backend *cuda, struct kg_kernels_ahead *kernels, struct kg_error *err) {
    struct driver driver;
    kg_preload_end(cuda);
    *kernels = (struct kg_kernels_ahead){};
    if (!find_driver(&driver))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the driver does not tell which kernels are loaded: CUDA 12.4 does");
    for (const struct kg_preloaded_file *file = files; file; file = file->next)
        for_each(driver, file, [&](CUfunction kernel) {
            CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
            kernels->n++;
            kernels->n_loaded +=
                driver.is_loaded(&state, kernel) == CUDA_SUCCESS && state == CU_FUNCTION_LOADING_STATE_LOADED;
        });
    return kg_cuda_status(err, "kernels", cudaGetLastError());
}
