/* Proof bundles: the sealed record of a run, one BagIt 1.0 bag per run under a root folder (proof-bundles/). One run
 * writes a bundle and publishes it by rename; anyone can verify it.
 *
 * Life cycle:
 * - create makes <root>/.tmp-<id>/ and locks it.
 * - plan records every case before anything runs.
 * - start and end append to the journal and sync it.
 * - seal records planned cases that have no result as `norun`, writes the derived files and the manifests, syncs, and
 *   renames the folder to <root>/<id>/; it never replaces a folder.
 * - recover publishes a run that died as `partial`: the case in flight as `crash`, those after it as `norun`.
 *
 * Records are JSON objects (jansson). Times are integers: *_us since 1970 UTC, *_ns durations.
 *
 * plan.ndjson, a line a case: key, suite, layer, op, name, backend, dtype, shape, spec (null where none), seed (decimal
 * text), def_sha (SHA-256 over the definition), timeout_s.
 * journal.ndjson: {"event":"open","utc_us","bundle_id","seed"}, {"event":"planned","utc_us","n","plan_sha256"}, then
 *   {"event":"start","key","utc_us"} and {"event":"end","key","utc_us","status"}, and "recover" if the run died.
 * results.ndjson, a line a case: key, status (pass fail skip crash timeout norun), reason (null if pass), seed,
 * started_us, duration_ns, suite and def_sha as planned, which are not written again, and these lists, which may be
 * empty:
 *   errors:  {name, n, n_nonfinite, max_abs, max_rel, rms_rel, nmse, one_minus_cos, worst_index, worst_got, worst_want,
 *             tolerance:{max_abs|nmse|one_minus_cos|mixed_abs,mixed_rel}, why, margin, judged} (non-finite numbers are
 *             written as null; errors have 6 significant digits, the worst element's values 9)
 *   timings: {name, kind, state, n, median, mad, ci_lo, ci_hi, min, max (ns), bytes, flops, samples_offset (index of
 *             the first float32 in samples.bin), valid}
 *   metrics: {name, unit, value}
 *   memory:  {tag, peak_bytes, left_bytes} */
#ifndef KIGO_BUNDLE_H
#define KIGO_BUNDLE_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct json_t kg_json;
struct kg_bundle;

struct kg_bundle_options {
    const char *root;       /* the proof-bundles folder; made if missing */
    const char *source_dir; /* the source tree, for source.json (git and hashes); NULL if unknown */
    /* Without a tree: the folder with an installed kigo's record of what it was built from; NULL: there is none. */
    const char *source_record;
    /* Hash of the sources that the programs of the run were built from (content_sha256); NULL: the tree's, whatever
     * they are. A tree with others, or with one that cannot be read, is KG_ERR_INCOMPLETE, or with other_tree no known
     * tree. */
    const char *built_from;
    bool other_tree;
    const kg_json *run;  /* object copied into env.json as "run": argv, layers, filter, seed, require_gpu, models */
    const kg_json *gpus; /* array copied into env.json as "gpus"; NULL: gpus_why says why there is none */
    const char *gpus_why;
    uint64_t seed;
    bool compress;        /* seal stores the large records, exports and logs as <name>.zst, one Zstandard frame each */
    const char *sign_key; /* key that ssh-keygen signs with: a private key file, or a public one whose private half is
                             in ssh-agent; NULL: unsigned */
};

KG_WARN_UNUSED enum kg_status kg_bundle_create(const struct kg_bundle_options *options, struct kg_bundle **bundle,
                                               struct kg_error *err);
const char *kg_bundle_root(const struct kg_bundle *bundle);
const char *kg_bundle_id(const struct kg_bundle *bundle);
const char *kg_bundle_dir(const struct kg_bundle *bundle); /* path: <root>/.tmp-<id> until sealed, then <root>/<id> */

/* Plans one case. Every case is planned before anything runs; plan_done then syncs the plan. KG_ERR_USAGE if a key is
 * planned twice. */
KG_WARN_UNUSED enum kg_status kg_bundle_plan(struct kg_bundle *bundle, const kg_json *plan_line, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_bundle_plan_done(struct kg_bundle *bundle, struct kg_error *err);

/* Append the start or the end of a case to the journal, the end also to the results. The line is written before the
 * call returns, so a killed run loses none; it is on disk after the next kg_bundle_sync. `result` is the record
 * described above, without samples_offset: call kg_bundle_samples for the raw samples first. KG_ERR_USAGE for a key
 * that was not planned. */
KG_WARN_UNUSED enum kg_status kg_bundle_start(struct kg_bundle *bundle, const char *key, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_bundle_end(struct kg_bundle *bundle, const kg_json *result, struct kg_error *err);

/* Waits until everything appended is on disk: samples, results, journal. The runner calls it when it is idle, so that
 * disk time is not added to the cases' time. */
KG_WARN_UNUSED enum kg_status kg_bundle_sync(struct kg_bundle *bundle, struct kg_error *err);

/* Appends float32 samples (ns) to samples.bin; *offset is the index of the first. */
KG_WARN_UNUSED enum kg_status kg_bundle_samples(struct kg_bundle *bundle, const float *samples, size_t n,
                                                uint64_t *offset, struct kg_error *err);

/* Appends a line to data/transcripts/<name>.ndjson. */
KG_WARN_UNUSED enum kg_status kg_bundle_transcript(struct kg_bundle *bundle, const char *name, const kg_json *line,
                                                   struct kg_error *err);
/* Writes data/<relative> and makes its parent folders. KG_ERR_USAGE if the path leads out of data/. */
KG_WARN_UNUSED enum kg_status kg_bundle_file(struct kg_bundle *bundle, const char *relative, const void *data,
                                             size_t size_bytes, struct kg_error *err);

struct kg_bundle_summary {
    size_t n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun;
    char verdict[16];        /* "pass", "fail" or "incomplete" */
    int exit_code;           /* 0; 1: a case failed; 5: nothing ran, or a planned case has no result */
    char note[512];          /* empty, or why the published bundle could not be signed or indexed */
    bool unsigned_after_all; /* a key was given, but signing failed */
};

/* A file that the caller of seal and recover adds to the bundle, made of its records alone: the same records make the
 * same bytes. */
struct kg_export; /* bundle/export.h */
struct kg_buffer;
struct kg_bundle_document {
    const char *file; /* "data/report.html" */
    void (*make)(const struct kg_export *from, struct kg_buffer *out);
    int since; /* the first format (bundle/derived.h) whose bundles have these bytes; verify compares from there on */
    int until; /* the last; 0: they are still written so */
};
/* What verify makes again where a bundle has it, beside what every bundle has. For the start of a program; ended by one
 * without a file. */
void kg_bundle_derive_also(const struct kg_bundle_document *documents);
/* documents: ended by one without a file; NULL: none. */
KG_WARN_UNUSED enum kg_status kg_bundle_seal(struct kg_bundle *bundle, const struct kg_bundle_document *documents,
                                             struct kg_bundle_summary *summary, struct kg_error *err);
/* Sets how much of the time since create was spent inside cases, in ns. The rest is the overhead of harness and bundle;
 * bag-info.txt records it beside the run's time. */
void kg_bundle_in_cases(struct kg_bundle *bundle, uint64_t ns);
/* Leaves the unfinished folder for recover and frees the handle. After seal it only frees. */
void kg_bundle_close(struct kg_bundle *bundle);

/* What verify found wrong: one finding per file or rule. Of more than 1,000 the last stands for the rest ("more"). */
struct kg_bundle_finding {
    char *what; /* "changed", "missing", "added", "format", "unplanned", "unrecorded", ... */
    char *path; /* inside the bundle, or "" */
    char *detail;
    size_t n_more; /* of the last: how many it stands for; else 0 */
};
struct kg_bundle_findings {
    struct kg_bundle_finding *items;
    size_t n_items;
};
/* Checks that every file matches the manifests, that none is missing, added, renamed or a link, that every planned case
 * has a result, and that the summary and all that is derived follow from the records. KG_ERR_INTEGRITY if there is any
 * finding. */
KG_WARN_UNUSED enum kg_status kg_bundle_verify(const char *dir, struct kg_bundle_findings *findings,
                                               struct kg_error *err);
/* How many there were, kept or not. */
size_t kg_bundle_findings_count(const struct kg_bundle_findings *findings);
void kg_bundle_findings_free(struct kg_bundle_findings *findings);

/* Publishes every unfinished bundle whose run has died, as `partial`; *n_recovered is their number. */
KG_WARN_UNUSED enum kg_status kg_bundle_recover(const char *root, const struct kg_bundle_document *documents,
                                                size_t *n_recovered, struct kg_error *err);

#ifdef __cplusplus
}
#endif

#endif
