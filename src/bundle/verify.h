/* The parts of verify: the bag (bytes) and the records (meaning). Both add to findings; errors are of reading only. */
#ifndef KIGO_BUNDLE_VERIFY_H
#define KIGO_BUNDLE_VERIFY_H

#include "bundle/tree.h"
#include <kigo/bundle.h>
#include <jansson.h>

/* *info gets the labels of bag-info.txt (the caller's reference, maybe empty). */
KG_WARN_UNUSED enum kg_status kg_verify_bag(const char *dir, const struct kg_tree *tree, json_t **info,
                                            struct kg_bundle_findings *findings, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_verify_records(const char *dir, const struct kg_tree *tree, const json_t *info,
                                                struct kg_bundle_findings *findings, struct kg_error *err);

/* Only the files that say what a run is (KG_HEAD_FILES, ended by NULL), against the manifests, and those against each
 * other. KG_ERR_INTEGRITY names what differs, or what cannot be read; KG_ERR_NO_MEMORY says nothing of them. */
extern const char *const KG_HEAD_FILES[];
KG_WARN_UNUSED enum kg_status kg_bundle_verify_head(const char *dir, struct kg_error *err);

/* Medians, deviations, intervals and ends of timings, from the samples that they name. */
struct kg_records;
void kg_verify_samples(const char *dir, const struct kg_records *records, struct kg_bundle_findings *findings);

/* What is derived from the records, made again and compared; for bundles whose bytes and records hold. */
void kg_verify_derived(const char *dir, const struct kg_tree *tree, const json_t *info, bool partial,
                       const struct kg_records *records, struct kg_bundle_findings *findings);

/* Members of the records' items, and of what a complete run says of itself. */
void kg_verify_members(const char *dir, const struct kg_records *records, bool partial,
                       struct kg_bundle_findings *findings);

#endif
