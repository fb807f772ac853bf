/* Files below a folder to which others may write: a bundle, or a folder of bundles.
 *
 * `dir` is the caller's choice and may be reached by links. `relative` is opened part by part from dir's descriptor: no
 * link is followed, neither the file itself nor a folder on the way, and nothing but a regular file is opened. A pipe,
 * a socket, a device, a folder or a link is KG_ERR_FORMAT, which names it; nothing there is KG_ERR_NOT_FOUND. */
#ifndef KIGO_BASE_BENEATH_H
#define KIGO_BASE_BENEATH_H

#include "base/file.h"
#include "base/hash.h"
#include <stdbool.h>

/* A regular file for reading; the caller closes *fd. size_bytes may be NULL. Never blocks. */
KG_WARN_UNUSED enum kg_status kg_beneath_open(const char *dir, const char *relative, int *fd, uint64_t *size_bytes,
                                              struct kg_error *err);
/* The whole file, malloc'ed, with one NUL behind it. KG_ERR_FORMAT: it is longer than max_bytes. KG_ERR_NO_MEMORY. */
KG_WARN_UNUSED enum kg_status kg_beneath_read(const char *dir, const char *relative, uint64_t max_bytes, char **data,
                                              size_t *size_bytes, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_beneath_hash(const char *dir, const char *relative, char hex[KG_SHA256_HEX_SIZE],
                                              struct kg_error *err);

/* For a file that another program is to open by its name. KG_OK if it is a regular file. */
KG_WARN_UNUSED enum kg_status kg_beneath_check(const char *dir, const char *relative, struct kg_error *err);
/* Whether a folder is there, and no link to one. */
bool kg_beneath_is_folder(const char *dir, const char *relative);

/* The names in a folder, sorted bytewise (kg_dir_list). */
KG_WARN_UNUSED enum kg_status kg_beneath_list(const char *dir, const char *relative, struct kg_dir_list *list,
                                              struct kg_error *err);
/* Opens a folder; the caller closes *fd. */
KG_WARN_UNUSED enum kg_status kg_beneath_open_folder(const char *dir, const char *relative, int *fd,
                                                     struct kg_error *err);

/* Opens a regular file for writing, made if missing, and so are the folders on the way. flags: of O_APPEND, O_TRUNC and
 * O_EXCL. */
KG_WARN_UNUSED enum kg_status kg_beneath_create(const char *dir, const char *relative, int flags, int *fd,
                                                struct kg_error *err);
/* Makes a folder, and those on the way; KG_OK if it is there. The names of those it made are on the disk. */
KG_WARN_UNUSED enum kg_status kg_beneath_make_folder(const char *dir, const char *relative, struct kg_error *err);
/* Replaces a file as kg_file_write does; the folders on the way are made, and on the disk as well. */
KG_WARN_UNUSED enum kg_status kg_beneath_write(const char *dir, const char *relative, const void *data,
                                               size_t size_bytes, struct kg_error *err);

#endif
