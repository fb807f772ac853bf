/* build.json: how the running program was made. */
#include "bundle/internal.h"
#include "base/hash.h"
#include "src/bundle/build_info.h"

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

json_t *kg_bundle_build(void) {
    char binary[KG_SHA256_HEX_SIZE];
    const bool hashed = kg_sha256_file("/proc/self/exe", binary, NULL) == KG_OK;
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "version", PACKAGE_VERSION,
                     "compiler", COMPILER, "cc", KG_BUILD_CC, "optimized", OPTIMIZED, "cflags", KG_BUILD_CFLAGS,
                     "warning_flags", KG_BUILD_WARNING_FLAGS, "cppflags", KG_BUILD_CPPFLAGS, "ldflags",
                     KG_BUILD_LDFLAGS, "sanitizers", KG_BUILD_SANITIZERS, "cuda", KG_BUILD_CUDA, "configure",
                     KG_BUILD_CONFIGURE, "program_sha256", hashed ? json_string(binary) : json_null());
}
