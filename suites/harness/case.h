/* Cases: what a suite program registers, and what a running case may say about itself.
 *
 * A suite program is one subject: it registers its cases and hands over to kg_suite_main. Run by hand it prints TAP;
 * `kigo check` runs it as a child, gives it a descriptor for events, and seals what it reports.
 *
 *     static void partial_vector(struct kg_record *rec, const void *arg) { ... ck_assert_int_eq(...); }
 *     static const struct kg_case CASES[] = { { .layer = "unit", .op = "rmsnorm", .name = "partial_vector",
 *                                               .run = partial_vector }, ... };
 *     int main(int argc, char **argv) { return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES)); }
 *
 * A case fails by Check's ck_assert macros (or a comparison of compare.h), passes by returning, and skips by
 * kg_record_skip. Cases of a program run one after another in one process, without fork; a crash ends the process, is
 * recorded against the case in flight, and the runner starts the program again with the cases left. */
#ifndef KIGO_SUITES_CASE_H
#define KIGO_SUITES_CASE_H

#include "run/case_key.h"
#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

/* Runs the program; returns its exit code (enum kg_exit; no case selected is KG_EXIT_INCOMPLETE). */
int kg_suite_main(int argc, char **argv, const struct kg_case *cases, size_t n_cases);

/* The same for cases made at run time (from a folder or a table): build appends by kg_case_list_add. It runs for --list
 * too, so it must be quick and may not fail. Strings of the case are copied, arg is not. */
struct kg_case_list;
void kg_case_list_add(struct kg_case_list *list, const struct kg_case *c);
int kg_suite_main_built(int argc, char **argv, void (*build)(struct kg_case_list *list));

/* The case's own seed: from the run's seed and the case's key, the same for the same pair. */
uint64_t kg_record_seed(const struct kg_record *rec);
const char *kg_record_key(const struct kg_record *rec); /* layer/op/name[backend,dtype,shape] */

/* Marks the case as skipped with a reason; return right after. */
void kg_record_skip(struct kg_record *rec, const char *fmt, ...) KG_PRINTF(2, 3);

/* A figure of the case, exact unless it is a time: units are "bytes", "count", "ratio", "tokens/s", "ns", ... */
void kg_record_metric(struct kg_record *rec, const char *name, const char *unit, double value);

/* Timing samples in ns; statistics are computed by src/measure and raw samples kept. kind: "graph", "kernel" or "host";
 * state: "cold" or "warm". bytes and flops of one sample's work, 0 if not counted. */
void kg_record_timing(struct kg_record *rec, const char *name, const char *kind, const char *state,
                      const uint64_t *samples_ns, size_t n, double bytes, double flops);

/* The last timing is no figure, though its samples are kept: regressions and reports leave it out. */
void kg_record_timing_invalid(struct kg_record *rec);

/* Peak and left-over memory of a back end by tag. */
struct kg_memory_use;
void kg_record_memory(struct kg_record *rec, const struct kg_memory_use *use);

/* A line of transcripts/<layer>.ndjson; takes over the reference (json_t of jansson). */
typedef struct json_t kg_json;
void kg_record_transcript(struct kg_record *rec, kg_json *line);

/* A small file for failures/<case>/, kept only if the case fails. */
void kg_record_attach(struct kg_record *rec, const char *file_name, const void *data, size_t size_bytes);

/* Paths for cases. */
const char *kg_fixture_path(const char *relative);       /* below fixtures/; static storage of a few recent calls */
const char *kg_built_fixture_path(const char *relative); /* below fixtures/ of the build tree: made by make */
const char *kg_scratch_dir(const struct kg_record *rec); /* an empty folder of this case's own, removed afterwards */
const char *kg_program_path(void);                       /* the kigo program of these suites */
const char *kg_suites_path(const char *relative); /* below the folder of the suite programs; as kg_fixture_path */
const char *const *kg_extra_models(size_t *n);    /* the files of `kigo check --model FILE`; static storage */

/* What fixtures/ keeps compressed, as make unpacked it. kg_fixture_path gives its files by the names they have below
 * fixtures/; this is for who lists a folder. */
const char *kg_unpacked_fixture_path(const char *relative);

/* Whether any of these was asked for, but for a scratch folder: a list of cases that was made without follows from the
 * program alone. */
bool kg_paths_asked(void);

#endif
