/* A place to try `kigo check` in: a folder of suite programs chosen from suites/harness/selftest, a folder for bundles
 * and a TMPDIR, all in the case's scratch folder; and what a run leaves there, read back. */
#ifndef KIGO_SUITES_CHECK_LAB_H
#define KIGO_SUITES_CHECK_LAB_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <jansson.h>
#include <sys/types.h>

struct kg_lab {
    char *dir, *suites, *bundles, *tmp;
};

void kg_lab_open(struct kg_lab *lab, const struct kg_record *rec);
void kg_lab_close(struct kg_lab *lab);

/* Puts the self-test program `program` ("test_green") in the lab's suites folder under the name `as`. */
void kg_lab_add(const struct kg_lab *lab, const char *program, const char *as);

/* Runs `kigo check --suites .. --bundles .. --jobs 1` with more arguments (NULL at the end of the list, or no list), of
 * which another --jobs takes the place of that. */
void kg_lab_check(const struct kg_lab *lab, const char *const *args, struct kg_process_result *result);

/* Starts the same without waiting; its output goes nowhere. It dies with this process. */
pid_t kg_lab_start(const struct kg_lab *lab, const char *const *args);
/* Waits for it, at most half a minute; as waitpid reports. */
int kg_lab_wait(pid_t pid);
/* Waits until the journal of the lab's unfinished bundle says that the case was started. */
void kg_lab_wait_for_start(const struct kg_lab *lab, const char *key);

/* The published bundle; the test fails unless there is exactly one. malloc'ed path. */
char *kg_lab_bundle(const struct kg_lab *lab);
/* How many folders below bundles/ begin with the prefix ("" for published ones that begin with a digit). */
size_t kg_lab_count(const struct kg_lab *lab, const char *prefix);
/* Fails the case unless `kigo verify` would find the bundle good. */
void kg_lab_expect_verified(const char *bundle);

/* The records of <bundle>/data/<file>, a line each. */
json_t *kg_lab_lines(const char *bundle, const char *file);
/* results.ndjson's record of a key, borrowed from `results`; NULL if there is none. */
const json_t *kg_lab_result(const json_t *results, const char *key);
struct kg_lab_expected {
    const char *key, *status;
    const char *reason; /* words of it, NULL for a pass */
};
/* Exactly these cases were planned and have these results. */
void kg_lab_expect_records(const char *bundle, const struct kg_lab_expected *rows, size_t n_rows);
/* last_line: of standard output, NULL for any. */
void kg_lab_expect_exit(const struct kg_process_result *r, int exit_code, const char *last_line);
void kg_lab_expect_empty(const char *dir);
void kg_lab_expect_status(const json_t *results, const char *key, const char *status);

/* The text of <bundle>/data/failures/<folder of the key>/<file>, malloc'ed; NULL if there is none. */
char *kg_lab_failure(const char *bundle, const char *key, const char *file);

/* The last line of a text without its newline, malloc'ed. */
char *kg_last_line(const char *text);

#endif
