#include "cli/allocators.h"
#include "base/buffer.h"
#include <jansson.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <stdlib.h>

static sqlite3_mem_methods usual;

static void *take(int n_bytes) {
    void *p = usual.xMalloc(n_bytes);
    if (!p) kg_memory_exhausted((size_t)n_bytes);
    return p;
}

static void *resize(void *old, int n_bytes) {
    void *p = usual.xRealloc(old, n_bytes);
    if (!p) kg_memory_exhausted((size_t)n_bytes);
    return p;
}

static void *take_for_openssl(size_t n_bytes, const char *file, int line) {
    (void)file;
    (void)line;
    return kg_xmalloc(n_bytes);
}

static void *resize_for_openssl(void *old, size_t n_bytes, const char *file, int line) {
    (void)file;
    (void)line;
    if (n_bytes > 0) return kg_xrealloc(old, n_bytes);
    free(old);
    return NULL;
}

static void release_for_openssl(void *p, const char *file, int line) {
    (void)file;
    (void)line;
    free(p);
}

void kg_cli_take_allocators(void) {
    (void)!CRYPTO_set_mem_functions(take_for_openssl, resize_for_openssl, release_for_openssl);
    json_set_alloc_funcs(kg_xmalloc, free);
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual) != SQLITE_OK) return;
    sqlite3_mem_methods ours = usual;
    ours.xMalloc = take;
    ours.xRealloc = resize;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
}
