/* Commits and their ancestors, asked of git. */
#ifndef KIGO_HISTORY_ANCESTRY_H
#define KIGO_HISTORY_ANCESTRY_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

enum { KG_COMMIT_SIZE = 65 }; /* 40 or 64 hexadecimal digits and a NUL */

struct kg_commit {
    char id[KG_COMMIT_SIZE];
    size_t place; /* in git's list, newest first */
};
struct kg_commits {
    struct kg_commit *items; /* sorted by id */
    size_t n_items;
};

/* The first of the folders (NULL ends them) whose repository knows the revision; points into places. KG_ERR_NOT_FOUND
 * if none does; the message names a single place alone, which the user gave: of several, some are this machine's, and
 * the message may go into a report. */
KG_WARN_UNUSED enum kg_status kg_find_repository(const char *const *places, const char *revision, const char **dir,
                                                 struct kg_error *err);

/* The commit a revision ("HEAD~3", a tag, the beginning of a commit) names. */
KG_WARN_UNUSED enum kg_status kg_resolve_commit(const char *dir, const char *revision, char commit[KG_COMMIT_SIZE],
                                                struct kg_error *err);

/* The commits `git rev-list range` tells (a commit: itself and its ancestors; A..B: those of B that A has not), the
 * first 100000. */
KG_WARN_UNUSED enum kg_status kg_commits_list(const char *dir, const char *range, struct kg_commits *commits,
                                              struct kg_error *err);
/* A commit and its ancestors by first parents: what it was merged into, without what was merged. */
KG_WARN_UNUSED enum kg_status kg_commits_mainline(const char *dir, const char *commit, struct kg_commits *commits,
                                                  struct kg_error *err);
/* The merges among the commits of a range that its end reaches by first parents. */
KG_WARN_UNUSED enum kg_status kg_commits_merges(const char *dir, const char *range, struct kg_commits *commits,
                                                struct kg_error *err);
/* NULL if it is not among them. */
const struct kg_commit *kg_commits_find(const struct kg_commits *commits, const char *commit);
bool kg_commits_hold(const struct kg_commits *commits, const char *commit);
void kg_commits_free(struct kg_commits *commits);

#endif
