#include "backend/memory.h"

void kg_memory_init(struct kg_memory *memory) {
    *memory = (struct kg_memory){ 0 };
    pthread_mutex_init(&memory->lock, NULL);
}

void kg_memory_destroy(struct kg_memory *memory) {
    pthread_mutex_destroy(&memory->lock);
}

static void raise_to(uint64_t *peak, uint64_t current) {
    if (*peak < current) *peak = current;
}

void kg_memory_add(struct kg_memory *memory, const struct kg_block *block) {
    pthread_mutex_lock(&memory->lock);
    struct kg_memory_use *use = &memory->use;
    use->current_bytes[block->tag] += block->size_bytes;
    use->total_current_bytes += block->size_bytes;
    raise_to(&use->peak_bytes[block->tag], use->current_bytes[block->tag]);
    raise_to(&use->total_peak_bytes, use->total_current_bytes);
    use->n_allocations++;
    pthread_mutex_unlock(&memory->lock);
}

void kg_memory_remove(struct kg_memory *memory, const struct kg_block *block) {
    pthread_mutex_lock(&memory->lock);
    memory->use.current_bytes[block->tag] -= block->size_bytes;
    memory->use.total_current_bytes -= block->size_bytes;
    pthread_mutex_unlock(&memory->lock);
}

void kg_memory_read(struct kg_memory *memory, struct kg_memory_use *use) {
    pthread_mutex_lock(&memory->lock);
    *use = memory->use;
    pthread_mutex_unlock(&memory->lock);
}

const char *kg_memory_tag_name(enum kg_memory_tag tag) {
    static const char *const NAMES[KG_MEMORY_TAG_COUNT] = {
#define KG_MEMORY_TAG_TEXT(name, text) [KG_MEMORY_##name] = text,
        KG_MEMORY_TAG_LIST(KG_MEMORY_TAG_TEXT)
#undef KG_MEMORY_TAG_TEXT
    };
    return (unsigned)tag < KG_MEMORY_TAG_COUNT ? NAMES[tag] : "unknown";
}
