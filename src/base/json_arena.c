#include "base/json_arena.h"
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Address space is reserved once for all arenas, so that one comparison tells their memory from malloc's; pages exist from
 * their first use on. What does not fit any more is malloc'ed. */
enum { N_ARENAS = 16, ALIGNMENT = 16 };
static const size_t ARENA_BYTES = (size_t)256 << 20, KEEP_BYTES = (size_t)32 << 20;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards taken */
static bool taken[N_ARENAS];
static char *region; /* NULL: none was granted; set once */
static _Thread_local struct kg_json_arena *current;

static void *take(size_t size) {
    struct kg_json_arena *arena = current;
    const size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!arena || rounded < size || rounded > ARENA_BYTES - arena->used_bytes) return malloc(size);
    void *p = arena->base + arena->used_bytes;
    arena->used_bytes += rounded;
    return p;
}

static void give_back(void *p) {
    if (!region || (uintptr_t)p - (uintptr_t)region >= N_ARENAS * ARENA_BYTES) free(p);
}

static void reserve(void) {
    void *p =
        mmap(NULL, N_ARENAS * ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    region = p;
    json_set_alloc_funcs(take, give_back);
}

void kg_json_arena_open(struct kg_json_arena *arena) {
    *arena = (struct kg_json_arena){ NULL, 0 };
    pthread_once(&once, reserve);
    if (!region) return;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < N_ARENAS && !arena->base; i++) {
        if (taken[i]) continue;
        taken[i] = true;
        arena->base = region + i * ARENA_BYTES;
    }
    pthread_mutex_unlock(&mutex);
}

/* Pages beyond what a usual bundle needs go back to the system. */
static void empty(struct kg_json_arena *arena) {
    if (arena->used_bytes > KEEP_BYTES)
        madvise(arena->base + KEEP_BYTES, arena->used_bytes - KEEP_BYTES, MADV_DONTNEED);
    arena->used_bytes = 0;
}

void kg_json_arena_close(struct kg_json_arena *arena) {
    if (!arena->base) return;
    madvise(arena->base, arena->used_bytes < KEEP_BYTES ? KEEP_BYTES : arena->used_bytes, MADV_DONTNEED);
    pthread_mutex_lock(&mutex);
    taken[(size_t)(arena->base - region) / ARENA_BYTES] = false;
    pthread_mutex_unlock(&mutex);
    *arena = (struct kg_json_arena){ NULL, 0 };
}

void kg_json_arena_enter(struct kg_json_arena *arena) {
    if (!arena->base) return;
    empty(arena);
    current = arena;
}

void kg_json_arena_leave(void) {
    current = NULL;
}
