/* Files: mapping, whole reads and writes, durable publishing. Paths are UTF-8 and NUL-terminated. */
#ifndef KIGO_BASE_FILE_H
#define KIGO_BASE_FILE_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A read-only private mapping of a whole file; data is NULL for an empty file. The file stays open: pread(fd) of many
 * bytes takes half the time of touching them first in the mapping, whose pages have to be mapped, and unmapped again.
 */
struct kg_file_map {
    const uint8_t *data;
    size_t size_bytes;
    int fd; /* for reading; -1 for an empty file, or without one */
};
static const struct kg_file_map KG_NO_FILE_MAP = { NULL, 0, -1 };

KG_WARN_UNUSED enum kg_status kg_file_map_open(const char *path, struct kg_file_map *map, struct kg_error *err);
void kg_file_map_close(struct kg_file_map *map);
/* Closes the file alone: of hundreds that are mapped, each would be one of the descriptors that a process may have. */
void kg_file_map_close_file(struct kg_file_map *map);

/* Reads a whole file, or standard input if path is "-"; *data is malloc'ed and ends with an extra NUL. */
KG_WARN_UNUSED enum kg_status kg_file_read(const char *path, char **data, size_t *size_bytes, struct kg_error *err);

/* The same for regular files only. KG_ERR_USAGE, without blocking, for a pipe, a device or a folder. */
KG_WARN_UNUSED enum kg_status kg_file_read_regular(const char *path, char **data, size_t *size_bytes,
                                                   struct kg_error *err);

/* KG_ERR_FORMAT if the bytes are a Git LFS pointer, which a repository holds in place of a large file until it is
 * fetched. */
KG_WARN_UNUSED enum kg_status kg_check_fetched(const void *bytes, size_t size_bytes, struct kg_error *err);

/* Writes a file atomically: after a crash it holds the old content or all of the new one (temporary, fsync, rename). */
KG_WARN_UNUSED enum kg_status kg_file_write(const char *path, const void *data, size_t size_bytes,
                                            struct kg_error *err);

/* Writes all bytes to a descriptor, resuming after short writes and EINTR. */
KG_WARN_UNUSED enum kg_status kg_fd_write(int fd, const void *data, size_t size_bytes, struct kg_error *err);

/* Reserves disk space for a file of size_bytes, so that a full disk is detected before writing. KG_ERR_IO with the
 * bytes needed and free if there is too little; KG_OK where the file system cannot reserve. */
KG_WARN_UNUSED enum kg_status kg_fd_reserve(int fd, uint64_t size_bytes, struct kg_error *err);

/* Makes a directory and its missing parents; KG_OK if it exists. */
KG_WARN_UNUSED enum kg_status kg_dir_make(const char *path, struct kg_error *err);
/* The same; the names of those it made are on the disk. */
KG_WARN_UNUSED enum kg_status kg_dir_make_synced(const char *path, struct kg_error *err);

/* Flushes a directory's entries to disk. */
KG_WARN_UNUSED enum kg_status kg_dir_sync(const char *path, struct kg_error *err);

/* Removes a file or a directory tree; links are removed, never followed. KG_OK if the path does not exist. */
KG_WARN_UNUSED enum kg_status kg_path_remove(const char *path, struct kg_error *err);

/* Renames; KG_ERR_EXISTS if `to` exists. */
KG_WARN_UNUSED enum kg_status kg_path_rename_new(const char *from, const char *to, struct kg_error *err);

/* The names of a directory's entries without "." and "..", sorted bytewise. */
struct kg_dir_list {
    char **names;
    size_t n_names;
};
KG_WARN_UNUSED enum kg_status kg_dir_list(const char *path, struct kg_dir_list *list, struct kg_error *err);
/* The same of a descriptor's folder; path is for the message. */
KG_WARN_UNUSED enum kg_status kg_fd_list(int fd, const char *path, struct kg_dir_list *list, struct kg_error *err);
void kg_dir_list_free(struct kg_dir_list *list);

/* What cannot be looked at (EACCES, EIO) counts as there: who then opens it gets the reason, and nobody takes it for
 * absent. */
bool kg_path_exists(const char *path);
bool kg_path_is_dir(const char *path);

/* malloc'ed "a/b". */
char *kg_path_join(const char *a, const char *b);

#endif
