/* What follows from a bundle's records and is kept for people and other programs: made when the bundle is sealed, made
 * again by the same functions and compared when it is verified. */
#ifndef KIGO_BUNDLE_DERIVED_H
#define KIGO_BUNDLE_DERIVED_H

#include "bundle/export.h"

/* What the writers make of the same records, as bag-info.txt says it; 1 where it says nothing. Whoever changes what a
 * writer makes raises it, and sets the document's `since` to it; the writer before stays, as a row with `until`. */
enum { KG_FORMAT = 3 };
#define KG_FORMAT_LABEL "Kigo-Format"

/* Of the labels of bag-info.txt; 0 if the label is no number from 1. */
int kg_format_of(const json_t *info);

/* Whether a bundle of the format has the document as this row makes it. */
bool kg_derived_is_of(const struct kg_bundle_document *document, int format);

/* junit.xml, results.tap, results.csv, report.md: every complete bundle has them. Ended by one without a file. */
extern const struct kg_bundle_document KG_DERIVED[];

/* What kg_bundle_derive_also named, or NULL. */
const struct kg_bundle_document *kg_derived_others(void);

/* The statement as a file's text, over the text of manifest-sha256.txt. */
KG_WARN_UNUSED enum kg_status kg_derived_statement(const struct kg_export *from, const char *manifest,
                                                   size_t size_bytes, struct kg_buffer *out, struct kg_error *err);

/* Reads what describes a run, from a folder. What is not there, or is no JSON in a run that died, is NULL; what cannot
 * be read is an error that names it. */
KG_WARN_UNUSED enum kg_status kg_derived_open(const char *dir, bool partial, const struct kg_records *records,
                                              struct kg_export *from, struct kg_error *err);
void kg_derived_close(struct kg_export *from);

/* Which derived files of a bundle were made by writers of another format, and are therefore not compared: a list in
 * words, nothing if there is none. */
void kg_derived_not_compared(const char *dir, struct kg_buffer *out);

#endif
