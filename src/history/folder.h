/* A bundle's folder as the index reads it. */
#ifndef KIGO_HISTORY_FOLDER_H
#define KIGO_HISTORY_FOLDER_H

#include "base/hash.h"
#include "base/json_tape.h"
#include "bundle/records.h"

struct kg_history_case {
    const struct kg_node *plan, *result;
};

struct kg_history_folder {
    struct kg_history_case *cases; /* in the plan's order, every one planned and recorded */
    size_t n_cases;
    struct kg_tape tape; /* what cases point into, and the texts that it points into */
    char *texts[2];
    size_t text_bytes[2];
    json_t *summary, *info;       /* summary.json, and the labels of bag-info.txt */
    json_t *env, *build, *source; /* NULL where a run died before it wrote them */
    char manifest_sha256[KG_SHA256_HEX_SIZE];
    bool is_signed;
    bool head_only; /* without cases: counts are those of the summary */
};

/* KG_ERR_INTEGRITY or KG_ERR_FORMAT if the folder cannot be read as a bundle. Free it in either case. */
KG_WARN_UNUSED enum kg_status kg_history_folder_read(const char *root, const char *bundle_id,
                                                     struct kg_history_folder *folder, struct kg_error *err);
/* The same without its records. */
KG_WARN_UNUSED enum kg_status kg_history_folder_read_head(const char *root, const char *bundle_id,
                                                          struct kg_history_folder *folder, struct kg_error *err);
void kg_history_folder_free(struct kg_history_folder *folder);

/* Its plan and results: *cases, tape and texts. What does not parse, match or fit is KG_ERR_INTEGRITY, naming file and
 * line. */
KG_WARN_UNUSED enum kg_status kg_history_folder_records(const char *dir, struct kg_history_folder *folder,
                                                        struct kg_error *err);

/* The most memory that its records and its documents take while it is read; they hold no more afterwards. */
struct kg_history_size {
    uint64_t records_bytes, documents_bytes;
};
struct kg_history_size kg_history_folder_size(const char *dir);

/* Reads many folders ahead on threads and hands them over in order. Those under way and those not yet handed over take
 * KG_HISTORY_READ_BYTES together at most; a folder that may take more is read alone. */
enum { KG_HISTORY_READ_BYTES = 256 << 20 };
struct kg_history_reader;

/* ids must outlive the reader. Few folders, or a system without room for threads: they are read when asked for. */
struct kg_history_reader *kg_history_reader_new(const char *root, char *const *ids, size_t n_ids);
/* The next folder; *folder is valid until the next call. As kg_history_folder_read. */
KG_WARN_UNUSED enum kg_status kg_history_reader_next(struct kg_history_reader *reader,
                                                     const struct kg_history_folder **folder, struct kg_error *err);
void kg_history_reader_free(struct kg_history_reader *reader);

#endif
