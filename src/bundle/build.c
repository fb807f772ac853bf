/* build.json: how the running program was made. */
#include "bundle/internal.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/verified.h"
#include "src/bundle/build_info.h"
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static const char OWN_PROGRAM[] = "/proc/self/exe";

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

/* Splits the path of the program that runs; false if another file, or none, is there now. */
static bool own_path(char folder[PATH_MAX], const char **name) {
    struct stat running, there;
    const ssize_t len = readlink(OWN_PROGRAM, folder, PATH_MAX - 1);
    folder[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder || stat(OWN_PROGRAM, &running) != 0 || stat(folder, &there) != 0) return false;
    *slash = '\0';
    *name = slash + 1;
    return running.st_dev == there.st_dev && running.st_ino == there.st_ino;
}

/* "" if it cannot be read. A program with its kernels has 50 MB, so the hash is kept as the notes on bundles are: as
 * long as nobody has touched the file. */
static char own_sha256[KG_SHA256_HEX_SIZE];
static void hash_own_program(void) {
    char folder[PATH_MAX];
    const char *name = NULL, *kept = NULL;
    struct kg_stamps stamps = { .settled = false };
    const bool noted = own_path(folder, &name);
    struct kg_verified *notes = noted ? kg_verified_open(folder) : NULL;
    if (noted) kg_stamps_of_files(folder, (const char *const[]){ name, NULL }, &stamps);
    if (noted) kept = kg_verified_get(notes, name, "program_sha256", &stamps);
    if (kept && strlen(kept) == KG_SHA256_HEX_SIZE - 1) memcpy(own_sha256, kept, KG_SHA256_HEX_SIZE);
    else if (kg_sha256_file(OWN_PROGRAM, own_sha256, NULL) != KG_OK) own_sha256[0] = '\0';
    else if (noted) kg_verified_put(notes, name, "program_sha256", &stamps, own_sha256);
    kg_verified_close(notes);
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
