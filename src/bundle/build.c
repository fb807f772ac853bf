/* build.json: how the running program was made. */
#include "bundle/internal.h"
#include "base/hash.h"
#include "src/bundle/build_info.h"
#include <pthread.h>

#if defined __clang__
static const char COMPILER[] = "clang " __clang_version__;
#else
static const char COMPILER[] = "gcc " __VERSION__;
#endif

#if defined __OPTIMIZE__
enum { OPTIMIZED = 1 };
#else
enum { OPTIMIZED = 0 };
#endif

/* What ptxas said of each kernel when it was compiled; none in a build without CUDA. */
static json_t *kernels(void) {
    static const struct kernel {
        const char *name, *arch;
        int registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes;
    } KERNELS[] = {
#define KG_KERNEL(...) { __VA_ARGS__ },
#include "kernels/resources.inc"
#undef KG_KERNEL
        { NULL, NULL, 0, 0, 0, 0, 0 },
    };
    json_t *list = json_array();
    for (const struct kernel *k = KERNELS; k->name; k++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "name", k->name, "arch", k->arch,
                                              "registers", k->registers, "spill_store_bytes", k->spill_store_bytes,
                                              "spill_load_bytes", k->spill_load_bytes, "stack_bytes", k->stack_bytes,
                                              "shared_bytes", k->shared_bytes));
    return list;
}

/* "" if it cannot be read. A program with its kernels has 50 MB: once a process. */
static char own_sha256[KG_SHA256_HEX_SIZE];
static void hash_own_program(void) {
    if (kg_sha256_file("/proc/self/exe", own_sha256, NULL) != KG_OK) own_sha256[0] = '\0';
}

json_t *kg_bundle_build(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hash_own_program);
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "version", PACKAGE_VERSION,
                     "compiler", COMPILER, "cc", KG_BUILD_CC, "optimized", OPTIMIZED, "cflags", KG_BUILD_CFLAGS,
                     "warning_flags", KG_BUILD_WARNING_FLAGS, "cppflags", KG_BUILD_CPPFLAGS, "ldflags",
                     KG_BUILD_LDFLAGS, "sanitizers", KG_BUILD_SANITIZERS, "cuda", KG_BUILD_CUDA, "configure",
                     KG_BUILD_CONFIGURE, "program_sha256", own_sha256[0] ? json_string(own_sha256) : json_null(),
                     "kernels", kernels());
}
