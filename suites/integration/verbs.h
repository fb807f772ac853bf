/* The verbs over bundles as a user calls them: `kigo ARGS --bundles <root>`. */
#ifndef KIGO_SUITES_VERBS_H
#define KIGO_SUITES_VERBS_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <jansson.h>
#include <stdbool.h>

/* At most 16 arguments; the result is the caller's to free. */
void kg_verb_run(const char *root, const char *const *args, bool json, struct kg_process_result *result);
/* Exit code as wanted, and what failed says so on standard error. The output is *out if that is not NULL (the caller
 * frees), else dropped. */
void kg_verb_expect(const char *root, const char *const *args, int exit_code, char **out);
/* What it prints with --json; the caller's reference. */
json_t *kg_verb_json(const char *root, const char *const *args, int exit_code);
/* The exit code, and that the message holds `says`. */
void kg_verb_refuses(const char *root, const char *const *args, int exit_code, const char *says);

/* An integer member, which must be there. */
int64_t kg_verb_integer(const json_t *object, const char *name);

/* A sealed bundle of one passing case, the last link of the root's chain; its folder malloc'ed. */
char *kg_verb_seal(const char *root);

/* A fresh SSH key without a passphrase, <dir>/<name> and <dir>/<name>.pub; its path malloc'ed. NULL where there is no
 * ssh-keygen: the case was marked as skipped. */
char *kg_verb_key(struct kg_record *rec, const char *dir, const char *name);
/* <dir>/<name>: "<options and principal> <public key>"; malloc'ed path. */
char *kg_verb_allowed(const char *dir, const char *name, const char *signer, const char *key);

#endif
