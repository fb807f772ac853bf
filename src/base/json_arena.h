/* Memory for many small JSON values that live and die together. Reading a bundle's records spends nearly half of its time in
 * malloc and free; an arena hands out the next bytes of a block and takes all back at once.
 *
 * Every jansson value made by a thread while it is inside an arena lies there: it may be read from any thread until the
 * arena is emptied, and need not be released (releasing it does nothing). Arenas are used inside a call tree that owns all
 * values made in it; outside of one, jansson uses malloc as ever. */
#ifndef KIGO_BASE_JSON_ARENA_H
#define KIGO_BASE_JSON_ARENA_H

#include <stddef.h>

struct kg_json_arena {
    char *base; /* NULL: there is none, and everything is malloc'ed */
    size_t used_bytes;
};

/* From a pool of a few; *arena.base is NULL if it is empty or the system grants no address space. */
void kg_json_arena_open(struct kg_json_arena *arena);
void kg_json_arena_close(struct kg_json_arena *arena);

/* The calling thread's values lie in the arena until leave; what was in it before is gone. */
void kg_json_arena_enter(struct kg_json_arena *arena);
void kg_json_arena_leave(void);

#endif
