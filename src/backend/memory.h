/* Memory accounting of a back end: exact current and peak bytes by tag, in one place for all back ends. */
#ifndef KIGO_BACKEND_MEMORY_H
#define KIGO_BACKEND_MEMORY_H

#include <kigo/backend.h>
#include <pthread.h>
#include <stdbool.h>

/* Sessions on several threads may allocate at once, so figures change under the lock. */
struct kg_memory {
    pthread_mutex_t lock;
    struct kg_memory_use use;
};

/* A piece of a back end's memory. Zero-initialised it is empty, and freeing it is good. */
struct kg_block {
    void *data;
    uint64_t size_bytes;
    enum kg_memory_tag tag;
    bool borrowed; /* the host's memory used in place (weights in a mapped file): counted, but not freed */
};

void kg_memory_init(struct kg_memory *memory);
void kg_memory_destroy(struct kg_memory *memory);
void kg_memory_add(struct kg_memory *memory, const struct kg_block *block);
void kg_memory_remove(struct kg_memory *memory, const struct kg_block *block);
void kg_memory_read(struct kg_memory *memory, struct kg_memory_use *use);

#endif
