/* A bundle's folder as the index reads it. */
#ifndef KIGO_HISTORY_FOLDER_H
#define KIGO_HISTORY_FOLDER_H

#include "base/hash.h"
#include "bundle/records.h"

struct kg_history_folder {
    struct kg_records records;    /* every case planned and recorded; without the journal */
    json_t *summary, *info;       /* summary.json, and the labels of bag-info.txt */
    json_t *env, *build, *source; /* NULL where a run died before it wrote them */
    char manifest_sha256[KG_SHA256_HEX_SIZE];
    bool is_signed;
};

/* KG_ERR_INTEGRITY or KG_ERR_FORMAT if the folder cannot be read as a bundle. Free it in either case. */
KG_WARN_UNUSED enum kg_status kg_history_folder_read(const char *root, const char *bundle_id,
                                                     struct kg_history_folder *folder, struct kg_error *err);
void kg_history_folder_free(struct kg_history_folder *folder);
/* The same for one whose JSON values lie in an arena (json_arena.h), which takes them all back at once. */
void kg_history_folder_forget(struct kg_history_folder *folder);

/* Reads many folders ahead on threads and hands them over in order. */
struct kg_history_reader;

/* ids must outlive the reader. Few folders, or a system without room for threads: they are read when asked for. */
struct kg_history_reader *kg_history_reader_new(const char *root, char *const *ids, size_t n_ids);
/* The next folder; *folder is valid until the next call. As kg_history_folder_read. */
KG_WARN_UNUSED enum kg_status kg_history_reader_next(struct kg_history_reader *reader,
                                                     const struct kg_history_folder **folder, struct kg_error *err);
void kg_history_reader_free(struct kg_history_reader *reader);

#endif
