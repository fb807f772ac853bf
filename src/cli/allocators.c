#include "cli/allocators.h"
#include "base/buffer.h"
#include <jansson.h>
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

void kg_cli_take_allocators(void) {
    json_set_alloc_funcs(kg_xmalloc, free);
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual) != SQLITE_OK) return;
    sqlite3_mem_methods ours = usual;
    ours.xMalloc = take;
    ours.xRealloc = resize;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
}
