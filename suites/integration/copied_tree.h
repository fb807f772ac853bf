/* A source tree with its build, copied elsewhere: kigo, one suite program, and a separate commit where the case makes
 * one; and the shell that does it. */
#ifndef KIGO_SUITES_COPIED_TREE_H
#define KIGO_SUITES_COPIED_TREE_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"

struct kg_copied_tree {
    char *dir; /* the case's scratch folder */
    char *tree;
    char *bundles; /* <tree>/proof-bundles, which a run makes */
};

/* program: of suites/harness/selftest; it becomes <tree>/suites/<layer>/<program>. */
void kg_copied_tree_open(struct kg_copied_tree *c, const struct kg_record *rec, const char *layer, const char *program);
void kg_copied_tree_close(struct kg_copied_tree *c);

/* Makes everything in the tree but what was built a commit. False where there is no git: the case was marked as
 * skipped. */
bool kg_copied_tree_commit(const struct kg_copied_tree *c, struct kg_record *rec, const char *subject);

/* A shell's text with "$1" to "$3"; its exit code, what it wrote in *said (malloc'ed; may be NULL). */
int kg_shell(const char *text, const char *const words[3], char **said);
/* The same, which must end with 0. */
void kg_must_shell(const char *text, const char *const words[3]);

#endif
