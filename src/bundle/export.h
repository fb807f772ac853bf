/* What seal derives from the records for people and CI servers. Each function appends a whole file. */
#ifndef KIGO_BUNDLE_EXPORT_H
#define KIGO_BUNDLE_EXPORT_H

#include "base/buffer.h"
#include "bundle/records.h"

/* Everything an export may read; all from the bundle's own files. */
struct kg_export {
    const struct kg_records *records;
    const json_t *summary, *env, *build, *source; /* NULL or empty where a run died before writing them */
};

/* "one case in 4, chosen by its key: the verdict is of these alone"; false where the run (env.json's "run") was no
 * sample. */
enum { KG_SAMPLE_TEXT_SIZE = 96 };
bool kg_sample_text(const json_t *run, char text[KG_SAMPLE_TEXT_SIZE]);

void kg_export_junit(const struct kg_export *from, struct kg_buffer *out);
void kg_export_tap(const struct kg_export *from, struct kg_buffer *out);
void kg_export_csv(const struct kg_export *from, struct kg_buffer *out);
void kg_export_csv_of_format_2(const struct kg_export *from, struct kg_buffer *out); /* with seeds */
void kg_export_report(const struct kg_export *from, struct kg_buffer *out);

/* What is known of a run when it is sealed, in the words of its first screen (report/verdict.h): how it ended; why it
 * is not held against runs before; which goals it was made for. */
void kg_export_result(const struct kg_export *from, struct kg_buffer *out);
extern const char KG_SEALED_BEFORE[];
void kg_export_goals(const struct kg_export *from, struct kg_buffer *out);

/* in-toto Statement v1 with a test-result predicate, over the text of manifest-sha256.txt; caller's reference. */
json_t *kg_export_statement(const struct kg_export *from, const char *manifest, size_t size_bytes);

/* Status of a case, "norun" without a result; its reason or "". */
const char *kg_case_status(const struct kg_case_records *c);
const char *kg_case_reason(const struct kg_case_records *c);
double kg_case_seconds(const struct kg_case_records *c);

/* The case's largest error/limit, NaN if it compared nothing; *name is the comparison's. */
double kg_case_worst_margin(const struct kg_case_records *c, const char **name);

#endif
