/* Reading a bundle's records back: plan, journal and results, matched case by case. Seal, verify, recover, the derived
 * files, `kigo show` and the index all read them through here. */
#ifndef KIGO_BUNDLE_RECORDS_H
#define KIGO_BUNDLE_RECORDS_H

#include "base/hash.h"
#include <kigo/bundle.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Members of an object, NULL or the fallback where missing or of another type. Text is valid UTF-8 without NUL. */
const char *kg_json_text(const json_t *object, const char *name);
int64_t kg_json_int(const json_t *object, const char *name, int64_t fallback);
double kg_json_number(const json_t *object, const char *name, double fallback); /* integer or real */

/* Whether a line has the fields bundle.h lists, of the right types; *why says what is wrong. */
enum { KG_RECORD_WHY_SIZE = 256 };
bool kg_record_plan_ok(const json_t *line, char why[KG_RECORD_WHY_SIZE]);
bool kg_record_result_ok(const json_t *record, char why[KG_RECORD_WHY_SIZE]);
/* What a result may leave out where the journal has the hash of the plan, which has it. Where it has it, it is the
 * same. */
enum { KG_N_RECORD_PLANNED = 2 };
extern const char *const KG_RECORD_PLANNED[KG_N_RECORD_PLANNED];
bool kg_record_same_definition(const json_t *plan_line, const json_t *result, char why[KG_RECORD_WHY_SIZE]);
/* The same of lines read by base/json_tape.h. */
struct kg_node;
bool kg_node_plan_ok(const struct kg_node *line, char why[KG_RECORD_WHY_SIZE]);
bool kg_node_result_ok(const struct kg_node *record, char why[KG_RECORD_WHY_SIZE]);
bool kg_node_same_definition(const struct kg_node *plan_line, const struct kg_node *result,
                             char why[KG_RECORD_WHY_SIZE]);

/* Findings collected along the way. The formatted detail is cut at 512 bytes and made valid UTF-8. */
void kg_finding_add(struct kg_bundle_findings *findings, const char *what, const char *path, const char *fmt, ...)
    KG_PRINTF(4, 5);

struct kg_case_records {
    const char *key;   /* of plan, or of result where the case was not planned */
    json_t *plan;      /* NULL: a result of a case that was not planned */
    json_t *result;    /* NULL: none recorded */
    const char *ended; /* status the journal says it ended with, NULL if it did not */
    bool started;
};

struct kg_records {
    struct kg_case_records *cases; /* in the plan's order, then unplanned ones */
    size_t n_cases;
    json_t *index;  /* key -> integer, place in cases */
    json_t *events; /* array of the journal's lines */
    json_t *lines;  /* array holding the plan's and results' lines, for their memory */
    char plan_sha256[KG_SHA256_HEX_SIZE];
    const char *plan_said;   /* the hash in the journal's "planned" event; NULL: it has none */
    const char *left_out_by; /* the key of the first result that leaves out what the plan has; NULL: none */
    const char *left_out;    /* the member */
    int64_t n_planned_event; /* n of the journal's "planned" event, -1 if there is none */
};

/* Reads <dir>/data/{plan,journal,results}.ndjson. What does not parse or match is added to findings; the records hold
 * what does, results with what the plan has in their place. A result appears once: further ones are findings. Errors
 * other than findings: KG_ERR_IO. */
KG_WARN_UNUSED enum kg_status kg_records_load(const char *dir, struct kg_records *records,
                                              struct kg_bundle_findings *findings, struct kg_error *err);
/* The same without the journal: started, ended and events stay empty. */
KG_WARN_UNUSED enum kg_status kg_records_load_results(const char *dir, struct kg_records *records,
                                                      struct kg_bundle_findings *findings, struct kg_error *err);
void kg_records_free(struct kg_records *records);

/* The journal's "open" event, or NULL. */
const json_t *kg_records_opening(const struct kg_records *records);

/* Counts, verdict and exit code that follow from the records. */
void kg_records_summary(const struct kg_records *records, bool partial, struct kg_bundle_summary *summary);

/* The same from statuses: counts one case; then, when all are counted, verdict and exit code. */
void kg_summary_count(struct kg_bundle_summary *summary, const char *status);
void kg_summary_conclude(struct kg_bundle_summary *summary, bool partial);

/* Reads a JSON object from <dir>/<relative>; KG_ERR_FORMAT if it is none or past a cap of limits.h. */
KG_WARN_UNUSED enum kg_status kg_bundle_read_json(const char *dir, const char *relative, json_t **object,
                                                  struct kg_error *err);

/* The same from a file that the caller's user named: it may be a link. */
KG_WARN_UNUSED enum kg_status kg_json_read_named(const char *path, json_t **object, struct kg_error *err);

/* Lines of an NDJSON text: calls back for each line that ends with a newline; *torn_bytes counts what follows the last
 * newline (a write that was cut short). */
void kg_ndjson_each(const char *text, size_t size_bytes,
                    void (*line)(void *arg, size_t number, const char *text, size_t size_bytes), void *arg,
                    size_t *torn_bytes);

#endif
