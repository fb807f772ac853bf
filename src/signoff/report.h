/* A sign-off's documents, all from the judgement and the runs' own files. Each function appends a whole file. */
#ifndef KIGO_SIGNOFF_REPORT_H
#define KIGO_SIGNOFF_REPORT_H

#include "base/buffer.h"
#include "signoff/evidence.h"

struct kg_bundle_findings;

/* The judgement (kg_signoff_judge) with "runs" (id, commit, content_sha256, gpu, signature, manifest_sha256,
 * tagmanifest_sha256) and "signed_off_utc": what the documents are rendered from. */
json_t *kg_signoff_document(json_t *judgement, const struct kg_evidence *evidence, const char *utc);

/* A row a criterion, with the record that decides a figure: a table of Markdown for other pages. */
void kg_signoff_table(const json_t *document, struct kg_buffer *out);
void kg_signoff_markdown(const json_t *document, struct kg_buffer *out);
/* One page without scripts or outside requests; light and dark. */
void kg_signoff_html(const json_t *document, struct kg_buffer *out);
/* {"criteria": [...]}, an array of records for each criterion: what KG_SIGNOFF_RECORDS holds. */
void kg_signoff_records(const json_t *document, struct kg_buffer *out);
/* The document of a statement with the records in their places again: those of the object, which may be NULL where the
 * statement has them itself. Caller's reference; "format" if they are not those of so many criteria. */
json_t *kg_signoff_whole(const json_t *statement, const json_t *records, struct kg_bundle_findings *findings);

/* in-toto Statement v1, predicate https://in-toto.io/attestation/test-result/v0.1: subjects are the runs' manifests,
 * and the documents (an object of file names and their SHA-256), passedTests the criteria met, warnedTests the
 * unproven, failedTests the missed, `kigo` the document, without the criteria's records if its "records" names a file
 * that has them. Caller's reference. */
json_t *kg_signoff_statement(const json_t *document, const json_t *documents);

/* Findings "derived" of a statement that somebody may have written: its documents, result and lists of tests must be
 * what the functions above make of its document, which is whole. */
void kg_signoff_compare(const json_t *statement, const json_t *document, struct kg_bundle_findings *findings);

#endif
