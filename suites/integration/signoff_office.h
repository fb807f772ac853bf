/* What a sign-off needs: a repository with a source file in a commit, a folder for bundles outside of it, a sprint of
 * two criteria, a key that is allowed. */
#ifndef KIGO_SUITES_SIGNOFF_OFFICE_H
#define KIGO_SUITES_SIGNOFF_OFFICE_H

#include "suites/harness/case.h"

struct kg_office {
    char *repository, *source, *root, *sprint, *keys, *key, *allowed;
};

/* limit: of the sprint's figure; more: JSON of further figures. False where the case is skipped; close it in any case.
 */
bool kg_office_open(struct kg_office *o, struct kg_record *rec, const char *limit, const char *more);
void kg_office_close(struct kg_office *o);
/* A sealed run of two cases from the repository's sources, signed or not. malloc'ed folder. */
char *kg_office_run(const struct kg_office *o, const char *status, bool has_gpu, bool is_signed);

/* The arguments of kigo signoff over the office's sprint (ARGS of verbs.h). */
#define SIGNOFF(o, ...)                                                                                                \
    ARGS("signoff", (o)->sprint, "--repository", (o)->repository, "--allowed-signers", (o)->allowed, __VA_ARGS__)

void kg_office_write(const char *path, const char *text);
void kg_office_git(const char *dir, const char *const *args);
void kg_office_commit(const char *repository);

#endif
