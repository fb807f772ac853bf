/* Whose word counts in a store (a folder of bundles), and for what.
 *
 * kigo.policy.json in the store, or the file that $KIGO_POLICY names, is an object. Each role (below) is a list of who
 * counts in it: "@here" (what this store sealed itself), "@signed" (what any allowed signer signed), "@anyone", or a
 * pattern of signers as the list of allowed signers names them ("*@example.org"). A role that the file does not name
 * has its default. "allowed_signers", "revoked_keys" and "timestamp_ca" name files, relative to the policy's folder. */
#ifndef KIGO_BUNDLE_POLICY_H
#define KIGO_BUNDLE_POLICY_H

#include "bundle/sign.h"
#include <jansson.h>

#define KG_POLICY_FILE "kigo.policy.json"

/* X(constant, member of the file, default, what it is about) */
#define KG_ROLE_LIST(X)                                                                                                \
    X(BASELINE, "baseline", "@here @signed", "runs that others are judged against")                                    \
    X(LATEST, "latest", "@here @signed", "runs that 'latest' may mean")                                                \
    X(EVIDENCE, "evidence", "@signed", "runs that a sign-off rests on")                                                \
    X(BUNDLES, "bundles", "@anyone", "runs, when they are verified")                                                   \
    X(TOMBSTONES, "tombstones", "@anyone", "tombstones of pruned runs")                                                \
    X(ANNOTATIONS, "annotations", "@anyone", "waivers, pins and other annotations")                                    \
    X(SIGNOFFS, "signoffs", "@anyone", "sign-offs")
#define KG_ROLE_CONSTANT(constant, member, usual, about) KG_ROLE_##constant,
enum kg_role { KG_ROLE_LIST(KG_ROLE_CONSTANT) KG_ROLE_COUNT };
#undef KG_ROLE_CONSTANT

struct kg_policy {
    char *path;            /* of the file, NULL: the defaults */
    json_t *json;          /* of the file, valid */
    struct kg_trust trust; /* the files, each: as given, by $KIGO_ALLOWED_SIGNERS, $KIGO_REVOKED_KEYS or
                              $KIGO_TIMESTAMP_CA, by the policy, or <root>/allowed_signers, revoked_keys and
                              timestamp_ca.pem if there */
    char *owned[3];
};

/* allowed_signers: as an option names it, NULL: not given. KG_ERR_SCHEMA naming the member that makes no sense,
 * KG_ERR_NOT_FOUND for a file that $KIGO_POLICY names. Free it in any case. */
KG_WARN_UNUSED enum kg_status kg_policy_load(const char *root, const char *allowed_signers, struct kg_policy *policy,
                                             struct kg_error *err);
void kg_policy_free(struct kg_policy *policy);

/* Whether the file itself names the role. */
bool kg_policy_names(const struct kg_policy *policy, enum kg_role role);
/* Whether something counts. here: this store made it. signature NULL: not signed. */
bool kg_policy_takes(const struct kg_policy *policy, enum kg_role role, bool here,
                     const struct kg_signature *signature);
/* Whether only a signature makes it count, so that one has to be looked at. */
bool kg_policy_asks_signature(const struct kg_policy *policy, enum kg_role role);
/* "@here, @signed" for a message. malloc'ed. */
char *kg_policy_text(const struct kg_policy *policy, enum kg_role role);

#endif
