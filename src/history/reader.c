/* Parsing a bundle's records takes about twice as long as inserting them: while one thread inserts, the others parse.
 * Each folder reserves the memory that its files' sizes let it take before it is read, and keeps what it holds until
 * the next is handed over. Threads take folders in order, so what a large one waits for is on its way to the caller. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/threads.h"
#include "history/folder.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

enum { WINDOW = 16, MAX_THREADS = 8, FEW_FOLDERS = 3 };
enum {
    LARGE_BYTES = 8 << 20, /* a folder that holds more is freed when it is given back, not when its slot is needed */
    HUGE_BYTES = 64 << 20, /* what it held goes back to the system: each thread keeps what it freed in its heap */
};

struct slot {
    struct kg_history_folder folder;
    enum kg_status status;
    struct kg_error err;
    bool ready;
    uint64_t reserved_bytes;
};

struct kg_history_reader {
    const char *root;
    char *const *ids;
    size_t n_ids;
    pthread_mutex_t mutex; /* guards what follows, and `ready` of the slots; a slot not ready is its thread's own */
    pthread_cond_t became_ready, became_free;
    size_t next_read;        /* folder that the next free thread takes */
    size_t next_give;        /* folder that the next call hands over; slots are used round */
    bool given;              /* the slot of next_give is in the caller's hands */
    uint64_t reserved_bytes; /* of all slots */
    bool next_is_sized;      /* next_size is of next_read */
    struct kg_history_size next_size;
    bool stopping;
    struct slot slots[WINDOW];
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

/* Whether there is room for next_read. With the mutex held. */
static bool may_read_next(struct kg_history_reader *reader) {
    if (reader->next_read >= reader->next_give + WINDOW) return false;
    if (!reader->next_is_sized) {
        char *dir = kg_path_join(reader->root, reader->ids[reader->next_read]);
        reader->next_size = kg_history_folder_size(dir);
        reader->next_is_sized = true;
        free(dir);
    }
    const uint64_t bytes = reader->next_size.records_bytes + reader->next_size.documents_bytes;
    return reader->reserved_bytes == 0 || reader->reserved_bytes + bytes <= KG_HISTORY_READ_BYTES;
}

/* With the mutex held. */
static void reserve(struct kg_history_reader *reader, struct slot *slot, uint64_t bytes) {
    reader->reserved_bytes += bytes - slot->reserved_bytes;
    slot->reserved_bytes = bytes;
}

static uint64_t held_bytes(const struct kg_history_folder *folder, const struct kg_history_size *size) {
    return size->documents_bytes + folder->text_bytes[0] + folder->text_bytes[1] +
           folder->tape.room * sizeof *folder->tape.nodes + folder->n_cases * sizeof *folder->cases;
}

static void read_slot(struct kg_history_reader *reader, size_t i) {
    struct slot *slot = &reader->slots[i % WINDOW];
    kg_history_folder_free(&slot->folder); /* of the round before: here, so that threads free what threads made */
    slot->status = kg_history_folder_read(reader->root, reader->ids[i], &slot->folder, &slot->err);
}

static void *read_ahead(void *arg) {
    struct kg_history_reader *reader = arg;
    pthread_mutex_lock(&reader->mutex);
    while (!reader->stopping && reader->next_read < reader->n_ids) {
        if (!may_read_next(reader)) {
            pthread_cond_wait(&reader->became_free, &reader->mutex);
            continue;
        }
        const size_t i = reader->next_read++;
        const struct kg_history_size size = reader->next_size;
        struct slot *slot = &reader->slots[i % WINDOW];
        reader->next_is_sized = false;
        reserve(reader, slot, size.records_bytes + size.documents_bytes);
        pthread_mutex_unlock(&reader->mutex);
        read_slot(reader, i);
        if (slot->status != KG_OK && slot->reserved_bytes > HUGE_BYTES) malloc_trim(0);
        pthread_mutex_lock(&reader->mutex);
        reserve(reader, slot, held_bytes(&slot->folder, &size));
        slot->ready = true;
        pthread_cond_signal(&reader->became_ready);
        pthread_cond_broadcast(&reader->became_free);
    }
    pthread_mutex_unlock(&reader->mutex);
    return NULL;
}

struct kg_history_reader *kg_history_reader_new(const char *root, char *const *ids, size_t n_ids) {
    struct kg_history_reader *reader = kg_xcalloc(1, sizeof *reader);
    reader->root = root;
    reader->ids = ids;
    reader->n_ids = n_ids;
    pthread_mutex_init(&reader->mutex, NULL);
    pthread_cond_init(&reader->became_ready, NULL);
    pthread_cond_init(&reader->became_free, NULL);
    const int n_processors = kg_processors_allowed();
    const int n_useful = n_processors < MAX_THREADS ? n_processors : MAX_THREADS;
    const int n_wanted = n_ids <= FEW_FOLDERS ? 0 : n_useful;
    while (reader->n_threads < n_wanted &&
           pthread_create(&reader->threads[reader->n_threads], NULL, read_ahead, reader) == 0)
        reader->n_threads++;
    return reader;
}

/* Takes the slot handed over by the last call back. With the mutex held. */
static void take_back(struct kg_history_reader *reader) {
    if (!reader->given) return;
    struct slot *slot = &reader->slots[reader->next_give % WINDOW];
    slot->ready = false;
    if (reader->n_threads == 0 || slot->reserved_bytes > LARGE_BYTES) kg_history_folder_free(&slot->folder);
    if (slot->reserved_bytes > HUGE_BYTES) malloc_trim(0);
    reserve(reader, slot, 0);
    reader->given = false;
    reader->next_give++;
    pthread_cond_broadcast(&reader->became_free);
}

enum kg_status kg_history_reader_next(struct kg_history_reader *reader, const struct kg_history_folder **folder,
                                      struct kg_error *err) {
    pthread_mutex_lock(&reader->mutex);
    take_back(reader);
    struct slot *slot = &reader->slots[reader->next_give % WINDOW];
    if (reader->next_give >= reader->n_ids) {
        pthread_mutex_unlock(&reader->mutex);
        return kg_fail(err, KG_ERR_RANGE, "only %zu folders were to be read", reader->n_ids);
    }
    if (reader->n_threads == 0) read_slot(reader, reader->next_give);
    else
        while (!slot->ready) pthread_cond_wait(&reader->became_ready, &reader->mutex);
    reader->given = true;
    pthread_mutex_unlock(&reader->mutex);
    *folder = &slot->folder;
    if (err) *err = slot->err;
    return slot->status;
}

void kg_history_reader_free(struct kg_history_reader *reader) {
    if (!reader) return;
    pthread_mutex_lock(&reader->mutex);
    reader->stopping = true;
    take_back(reader);
    pthread_cond_broadcast(&reader->became_free);
    pthread_mutex_unlock(&reader->mutex);
    for (int i = 0; i < reader->n_threads; i++) pthread_join(reader->threads[i], NULL);
    for (size_t i = 0; i < WINDOW; i++) {
        kg_history_folder_free(&reader->slots[i].folder);
    }
    pthread_cond_destroy(&reader->became_free);
    pthread_cond_destroy(&reader->became_ready);
    pthread_mutex_destroy(&reader->mutex);
    free(reader);
}
