/* What kigo verify found: of bundles, of the chain, of sign-offs. */
#ifndef KIGO_CLI_VERIFY_REPORT_H
#define KIGO_CLI_VERIFY_REPORT_H

#include "base/buffer.h"
#include "bundle/policy.h"
#include <kigo/bundle.h>
#include <jansson.h>

struct kg_verify_report {
    bool json, require_signature;
    struct kg_policy policy;
    struct kg_buffer text;
    json_t *bundles, *chain, *signoffs; /* chain and signoffs NULL: not asked for */
    size_t n_bad, n_findings;
};

/* A signature that says nothing is reported; one that says the wrong thing is a finding, and so is one that is missing
 * where the policy asks for it in that role (KG_ROLE_COUNT: it does not). */
void kg_verify_signature(const char *file, const struct kg_verify_report *report, enum kg_role role,
                         const struct kg_signature *signature, struct kg_bundle_findings *findings);
/* "ok   " or "BAD  ", in its colour. */
void kg_verify_word(const struct kg_bundle_findings *findings, struct kg_buffer *text);
void kg_verify_print(const struct kg_bundle_findings *findings, struct kg_buffer *text);

/* Whether every bundle that another names is there, or was left out by who may say so; since: the path of a
 * checkpoint, or NULL. */
KG_WARN_UNUSED enum kg_status kg_verify_chain(const char *root, const char *since, struct kg_verify_report *report,
                                              struct kg_error *err);
/* Whether each sign-off's documents, criteria and runs are those it was made of. */
KG_WARN_UNUSED enum kg_status kg_verify_signoffs(const char *root, struct kg_verify_report *report,
                                                 struct kg_error *err);

#endif
