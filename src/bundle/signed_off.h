/* A sign-off's files and what binds them to each other and to its runs: <root>/signoffs/<name>.json names the folder of
 * its documents; statement.intoto.json there has the SHA-256 of the other documents and of each run's manifest as its
 * subjects; statement.intoto.json.sig may sign it. What the records of the runs prove is judged elsewhere
 * (signoff/judge.h). */
#ifndef KIGO_BUNDLE_SIGNED_OFF_H
#define KIGO_BUNDLE_SIGNED_OFF_H

#include "bundle/policy.h"
#include <kigo/bundle.h>
#include <jansson.h>

#define KG_SIGNOFF_STATEMENT "statement.intoto.json"
#define KG_SIGNOFF_CRITERIA "criteria.json" /* the sprint's file, as it was */
#define KG_SIGNOFF_RECORDS "records.json"   /* what was read for each criterion; on disk as .zst */

struct kg_signed_off {
    char *dir;          /* of the documents; NULL where the note names none */
    json_t *statement;  /* NULL where there is none */
    json_t *runs;       /* ids of its runs */
    bool documents_too; /* the statement has the documents' hashes */
    struct kg_signature signature;
};

/* Findings: "format", "missing" (a document or a run), "changed" (it is not the one signed off). A wrong signature, or
 * one that the policy does not take, is the caller's to judge. Free it in any case. */
KG_WARN_UNUSED enum kg_status kg_signed_off_check(const char *root, const char *name, const struct kg_policy *policy,
                                                  struct kg_signed_off *signed_off, struct kg_bundle_findings *findings,
                                                  struct kg_error *err);
void kg_signed_off_free(struct kg_signed_off *signed_off);

/* The names of a root's sign-offs, sorted. */
struct kg_dir_list;
KG_WARN_UNUSED enum kg_status kg_signed_off_list(const char *root, struct kg_dir_list *names, struct kg_error *err);

#endif
