/* Copies between host and device through pinned memory: the host fills a buffer while the device copies another.
 *
 * A small upload takes the caller's thread. A large one is cut into pieces that several threads take one after another,
 * each with two buffers: one thread reads the page cache at a fraction of what the bus takes. The tensors of a model
 * are noted first, and taken together: threads that begin and end with each tensor wait for each other at each. Of a
 * mapped file they are read, not touched, which would map their pages.
 * Buffers and threads are made when the first large upload needs them; the threads end with kg_staging_rest. All copies
 * are enqueued on the back end's stream, so that what follows on it finds them done.
 *
 * Not thread-safe: the back end's lock is held. */
#ifndef KIGO_KERNELS_STAGING_H
#define KIGO_KERNELS_STAGING_H

#include "kernels/cuda_backend.h"

/* Sets cuda->staging, with the buffers that a small copy needs. */
enum kg_status kg_staging_open(struct kg_cuda_backend *cuda, struct kg_error *err);

/* After all work on the stream; without kg_staging_open too. */
void kg_staging_close(struct kg_cuda_backend *cuda);

/* Returns when the host's bytes are taken, which is before they are on the device. The pages that follow them in memory
 * are asked for ahead of time: the next tensor, where they are a file's. */
enum kg_status kg_staging_upload(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                                 struct kg_error *err);

/* Notes such a copy, for which the host's bytes stay where they are until kg_staging_flush. Flushes what is noted, and
 * this, once that is much. */
enum kg_status kg_staging_note(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                               struct kg_error *err);

/* Bytes that lie in this mapping are read from its file (KG_ERR_IO if it has become shorter), until it is called again;
 * NULL: none are. The mapping stays until then, too. */
void kg_staging_read_from(struct kg_cuda_backend *cuda, const struct kg_file_map *file);

/* Uploads what is noted. After a failure nothing is noted. */
enum kg_status kg_staging_flush(struct kg_cuda_backend *cuda, struct kg_error *err);

/* Nothing of what is noted goes to this memory, which is freed. */
void kg_staging_drop(struct kg_cuda_backend *cuda, const void *memory, uint64_t size_bytes);

/* Returns when the host has the bytes. */
enum kg_status kg_staging_download(struct kg_cuda_backend *cuda, void *host, const void *from, uint64_t size_bytes,
                                   struct kg_error *err);

/* Ends the threads of large uploads; the next one starts them again. Their buffers stay. */
void kg_staging_rest(struct kg_cuda_backend *cuda);

#endif
