#include "kernels/weights_room.h"
#include <stdlib.h>

struct kg_weights_room {
    char *begin;
    uint64_t size_bytes, taken_bytes;
    size_t n_blocks;
    bool is_open;
    struct kg_weights_room *next;
};

enum { ALIGNMENT_BYTES = 256 };

/* The room that *at is, if nothing can come from it any more. */
static void free_unused(struct kg_weights_room **at) {
    struct kg_weights_room *room = *at;
    if (room->is_open || room->n_blocks > 0) return;
    *at = room->next;
    (void)cudaFree(room->begin);
    (void)cudaGetLastError();
    free(room);
}

bool kg_weights_room_open(struct kg_cuda_backend *cuda, void *memory, uint64_t size_bytes) {
    kg_weights_room_close(cuda);
    struct kg_weights_room *room = static_cast<struct kg_weights_room *>(calloc(1, sizeof *room));
    if (!room) return false;
    room->begin = static_cast<char *>(memory);
    room->size_bytes = size_bytes;
    room->is_open = true;
    room->next = cuda->weights_rooms;
    cuda->weights_rooms = room;
    return true;
}

/* The newest is the only one that can be open. */
void kg_weights_room_close(struct kg_cuda_backend *cuda) {
    if (!cuda->weights_rooms) return;
    cuda->weights_rooms->is_open = false;
    free_unused(&cuda->weights_rooms);
}

void *kg_weights_room_take(struct kg_cuda_backend *cuda, uint64_t size_bytes) {
    struct kg_weights_room *room = cuda->weights_rooms;
    if (!room || !room->is_open || size_bytes > room->size_bytes - room->taken_bytes) return NULL;
    void *block = room->begin + room->taken_bytes;
    const uint64_t left = room->size_bytes - room->taken_bytes;
    const uint64_t lines = (size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    room->taken_bytes += lines < left ? lines : left;
    room->n_blocks++;
    return block;
}

bool kg_weights_room_give(struct kg_cuda_backend *cuda, const void *block) {
    for (struct kg_weights_room **at = &cuda->weights_rooms; *at; at = &(*at)->next) {
        struct kg_weights_room *room = *at;
        if (block < room->begin || block >= room->begin + room->size_bytes) continue;
        room->n_blocks--;
        free_unused(at);
        return true;
    }
    return false;
}

void kg_weights_rooms_free(struct kg_cuda_backend *cuda) {
    while (cuda->weights_rooms) {
        cuda->weights_rooms->is_open = false;
        cuda->weights_rooms->n_blocks = 0;
        free_unused(&cuda->weights_rooms);
    }
}
