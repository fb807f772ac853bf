/* The inside of a bundle that is being written, and the steps that seal and recover share. */
#ifndef KIGO_BUNDLE_INTERNAL_H
#define KIGO_BUNDLE_INTERNAL_H

#include <kigo/bundle.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kg_bundle {
    char *root;
    char *id;
    char *dir;   /* <root>/.tmp-<id>, then <root>/<id> */
    int lock_fd; /* the folder itself, flock'ed; closed on exec, so that a suite left behind never holds it */
    int plan_fd, journal_fd, results_fd, samples_fd; /* in data/, append only; -1 once sealed */
    json_t *plan;                                    /* key -> plan line */
    json_t *state;                                   /* key -> integer of enum kg_case_state */
    uint64_t n_samples;                              /* float32 in samples.bin */
    bool compress;                                   /* at seal */
    bool plan_done;
    bool sealed;
    struct kg_error
        broken;          /* the first write that failed; nothing is written after it, so that no line is torn inside */
    uint64_t begun_ns;   /* monotonic, when create was called */
    uint64_t entered_ns; /* monotonic, when the call under way was entered */
    bool journal_unsynced, results_unsynced, samples_unsynced; /* appended since kg_bundle_sync */
    uint64_t in_cases_ns;                                      /* what the runner reported; 0: nothing */
    uint64_t spent_ns;                                         /* inside kg_bundle_* calls */
    char *sign_key;                                            /* NULL: the bundle is not signed */
};

enum kg_case_state { KG_CASE_PLANNED, KG_CASE_STARTED, KG_CASE_ENDED };

/* Every public call that writes runs between enter and leave: the time between counts as the bundle's cost, and a
 * failed write makes every later call fail with its message. */
KG_WARN_UNUSED enum kg_status kg_bundle_enter(struct kg_bundle *bundle, struct kg_error *err);
enum kg_status kg_bundle_leave(struct kg_bundle *bundle, enum kg_status status, const struct kg_error *err);

/* Appends one line to an NDJSON file by a single write; sync waits until it is on disk. Numbers have at most 15
 * significant digits: every count below 10^15 exactly, and no digit that a measurement does not have. */
KG_WARN_UNUSED enum kg_status kg_ndjson_append(int fd, const json_t *line, bool sync, const char *what,
                                               struct kg_error *err);

KG_WARN_UNUSED enum kg_status kg_fd_sync(int fd, const char *what, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_file_sync(const char *dir, const char *relative, struct kg_error *err);

/* Opens <dir>/<relative> for appending, made if missing. */
KG_WARN_UNUSED enum kg_status kg_bundle_open_append(const char *dir, const char *relative, int *fd,
                                                    struct kg_error *err);
/* Writes <dir>/<relative>, parents made. Not synced: seal syncs every file once. */
KG_WARN_UNUSED enum kg_status kg_bundle_put(const char *dir, const char *relative, const void *data, size_t size_bytes,
                                            struct kg_error *err);
/* The same with a JSON object, indented, with a newline at the end. */
KG_WARN_UNUSED enum kg_status kg_bundle_put_json(const char *dir, const char *relative, const json_t *json,
                                                 struct kg_error *err);
/* A path inside a bag: relative, UTF-8, no empty, "." or ".." part, no control character, backslash or '%' (the
 * characters that manifests would have to escape). */
bool kg_bundle_path_ok(const char *relative);

/* True for a folder name of the form <utc>-<commit>[-dirty]-<8 hexadecimal digits>; *started_us from its UTC part. */
bool kg_bundle_id_parse(const char *name, int64_t *started_us);

/* Locks the folder; *fd = -1 and KG_OK if another process holds the lock or the folder went away meanwhile. */
KG_WARN_UNUSED enum kg_status kg_bundle_lock(const char *dir, int *fd, struct kg_error *err);
/* The same for a folder this process has just made: waits while another looks whether its owner lives, which is a
 * moment; *fd = -1 if it was taken away. */
KG_WARN_UNUSED enum kg_status kg_bundle_lock_new(const char *dir, int *fd, struct kg_error *err);
/* How many unfinished bundles of the root recover would publish: no process holds them, and there is a file in them
 * (before its first file a run may not yet have come to its lock). */
size_t kg_bundle_count_dead(const char *root);

/* What describes a run; each made new, the caller's reference. */
json_t *kg_bundle_environment(const struct kg_bundle_options *options);
json_t *kg_bundle_build(void);
/* source.json, and the text of dirty.diff ("" if clean). *commit (malloc'ed) is the full commit or NULL. */
struct kg_bundle_source {
    json_t *json;
    char *commit; /* NULL without git */
    bool dirty;
    char *diff;
    size_t diff_bytes;
};
/* KG_ERR_INCOMPLETE, naming the file, if a source cannot be read: such a run would be of an unknown source. KG_ERR_IO
 * if there is a git that could not be asked: what it does not say is not that there is no commit, or no change. */
KG_WARN_UNUSED enum kg_status kg_bundle_source(const char *source_dir, struct kg_bundle_source *source,
                                               struct kg_error *err);
void kg_bundle_source_free(struct kg_bundle_source *source);
/* Whether the tree's sources are those that a program was built from. */
bool kg_bundle_source_is(const struct kg_bundle_source *source, const char *built_from);
/* In its place: no commit, for that reason, and the hash of the sources that the program was built from. */
void kg_bundle_source_unknown(struct kg_bundle_source *source, const char *built_from, const char *why);

/* From the records on disk to a whole bag in <dir>: missing results, summary, derived files, manifests, all synced. */
struct kg_bag_job {
    const char *root; /* whose chain the bundle becomes a link of */
    const char *dir;
    const char *id;
    bool partial; /* the run died: what was in flight is a crash */
    const struct kg_bundle_document *documents;
    struct kg_bundle *run; /* for its cost; NULL when recovering */
};
/* *chain_fd is the lock of the root's chain, taken before the bag names its predecessor; the caller ends it with
 * kg_chain_leave once the bag is published, or failed (-1: never taken). */
KG_WARN_UNUSED enum kg_status kg_bag_finish(const struct kg_bag_job *job, struct kg_bundle_summary *summary,
                                            int *chain_fd, struct kg_error *err);
/* Waits until every file and folder of the bag is on disk. */
KG_WARN_UNUSED enum kg_status kg_bag_sync(const char *dir, struct kg_error *err);
/* Renames <root>/.tmp-<id> to <root>/<id> without replacing, and syncs the root. */
KG_WARN_UNUSED enum kg_status kg_bag_publish(const char *root, const char *id, struct kg_error *err);

#endif
