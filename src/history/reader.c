/* Parsing a bundle's records takes about twice as long as inserting them: while one thread inserts, the others parse.
 */
#include "base/buffer.h"
#include "base/threads.h"
#include "history/folder.h"
#include <pthread.h>
#include <stdlib.h>

enum { WINDOW = 16, MAX_THREADS = 8, FEW_FOLDERS = 3 };

struct slot {
    struct kg_history_folder folder;
    enum kg_status status;
    struct kg_error err;
    bool ready;
};

struct kg_history_reader {
    const char *root;
    char *const *ids;
    size_t n_ids;
    pthread_mutex_t mutex; /* guards what follows, and `ready` of the slots; a slot not ready is its thread's own */
    pthread_cond_t became_ready, became_free;
    size_t next_read; /* folder that the next free thread takes */
    size_t next_give; /* folder that the next call hands over; slots are used round */
    bool given;       /* the slot of next_give is in the caller's hands */
    bool stopping;
    struct slot slots[WINDOW];
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

static void read_slot(struct kg_history_reader *reader, size_t i) {
    struct slot *slot = &reader->slots[i % WINDOW];
    kg_history_folder_free(&slot->folder); /* of the round before: here, so that threads free what threads made */
    slot->status = kg_history_folder_read(reader->root, reader->ids[i], &slot->folder, &slot->err);
}

static void *read_ahead(void *arg) {
    struct kg_history_reader *reader = arg;
    pthread_mutex_lock(&reader->mutex);
    while (!reader->stopping && reader->next_read < reader->n_ids) {
        if (reader->next_read >= reader->next_give + WINDOW) {
            pthread_cond_wait(&reader->became_free, &reader->mutex);
            continue;
        }
        const size_t i = reader->next_read++;
        pthread_mutex_unlock(&reader->mutex);
        read_slot(reader, i);
        pthread_mutex_lock(&reader->mutex);
        reader->slots[i % WINDOW].ready = true;
        pthread_cond_signal(&reader->became_ready);
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
    reader->slots[reader->next_give % WINDOW].ready = false;
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
