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

kg_preloaded_file::kg_preloaded_file(const void *of_file) : kernel(of_file), next(files) {
    files = this;
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

static void load_file(const struct driver &driver, const struct kg_preloaded_file *file) {
    cudaFunction_t kernel;
    CUmodule module;
    unsigned n = 0;
    if (cudaGetFuncBySymbol(&kernel, file->kernel) != cudaSuccess || driver.module_of(&module, kernel) ||
        driver.count(&n, module))
        return;
    CUfunction *functions = static_cast<CUfunction *>(calloc(n, sizeof *functions));
    if (functions && driver.enumerate(functions, n, module) == CUDA_SUCCESS)
        for (unsigned i = 0; i < n; i++) (void)driver.load(functions[i]);
    free(functions);
}

static void *run(void *arg) {
    const struct kg_preloading *p = static_cast<struct kg_preloading *>(arg);
    struct driver driver;
    const bool there = cudaSetDevice(p->device) == cudaSuccess && find("cuFuncGetModule", 11000, &driver.module_of) &&
                       find("cuModuleGetFunctionCount", 12040, &driver.count) &&
                       find("cuModuleEnumerateFunctions", 12040, &driver.enumerate) &&
                       find("cuFuncLoad", 12040, &driver.load);
    for (const struct kg_preloaded_file *file = files; file && there; file = file->next) load_file(driver, file);
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
