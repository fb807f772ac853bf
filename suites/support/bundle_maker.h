/* Small bundles for the suites: made whole, left unfinished, or spoilt on purpose. */
#ifndef KIGO_SUITES_BUNDLE_MAKER_H
#define KIGO_SUITES_BUNDLE_MAKER_H

#include <kigo/bundle.h>
#include <jansson.h>

/* Fails the running case with the error's message. */
#define EXPECT_OK(call, err) ck_assert_msg((call) == KG_OK, "%s", (err).message)

json_t *kg_maker_plan_line(size_t i); /* of unit/sample/case_<i>; the caller's reference */
/* A result of that case: a reason unless it is "pass", one error figure, one timing and two metrics whose values follow
 * from i. The caller's reference. */
json_t *kg_maker_result(size_t i, const char *status);
/* Stores the samples that the timing of that result was computed from, and their offset in the timing: verify asks
 * for both. */
KG_WARN_UNUSED enum kg_status kg_maker_samples(struct kg_bundle *bundle, size_t i, json_t *result,
                                               struct kg_error *err);
char *kg_maker_key(size_t i); /* malloc'ed */

/* These return statuses, so that they serve in children of a case as well. source_dir is NULL. */
KG_WARN_UNUSED enum kg_status kg_maker_open(const char *root, size_t n_cases, struct kg_bundle **bundle,
                                            struct kg_error *err); /* made and planned */
KG_WARN_UNUSED enum kg_status kg_maker_run(struct kg_bundle *bundle, size_t i, const char *status,
                                           struct kg_error *err); /* start and end of one case */
/* A whole bundle; statuses[i] of case i, "norun": no result, "started": a start only. */
KG_WARN_UNUSED enum kg_status kg_maker_write(const char *root, const char *const *statuses, size_t n_cases,
                                             struct kg_bundle_summary *summary, struct kg_error *err);

/* A sealed bundle of n passing cases; its folder, malloc'ed. Fails the case on any error. */
char *kg_maker_sealed(const char *root, size_t n_cases);

/* A sealed bundle of a passing, a failing and a skipped case, made once per program; only to be read or copied. */
const char *kg_maker_template(void);
/* A copy of a bundle's folder, made fresh each time; its path malloc'ed. */
char *kg_maker_copy(const char *dir, const char *to);

/* Puts `to` in the place of the first `from` in a file; fails the case if it is not there. */
void kg_maker_replace(const char *dir, const char *relative, const char *from, const char *to);
void kg_maker_append(const char *dir, const char *relative, const char *text);
/* Makes all that is derived, the statement, manifests and Payload-Oxum again, so that only the records give a change
 * away. */
void kg_maker_rehash(const char *dir);
/* The journal speaks of the plan as it is, if it has a hash of it. */
void kg_maker_plan_again(const char *dir);
/* The same but for what is derived: only comparing it with the records gives a change away. */
void kg_maker_reseal(const char *dir);
/* The tag manifest alone, after a change of a tag file. */
void kg_maker_retag(const char *dir);

/* Whether there is a finding of that kind whose path is `path` (NULL: any). */
bool kg_maker_found(const struct kg_bundle_findings *findings, const char *what, const char *path);
/* All findings in a line each, for messages; static storage. */
const char *kg_maker_list(const struct kg_bundle_findings *findings);

/* Fails the case with the findings unless the bundle verifies. */
void kg_maker_expect_sound(const char *dir);

/* Names of the folder's bundles, and of its unfinished ones. */
size_t kg_maker_count(const char *root, const char *prefix);

/* Whether a bundle is being written that has begun its plan: from there on a kill leaves something to recover. */
bool kg_maker_has_plan(const char *root);
/* The only bundle of a root, its folder malloc'ed; fails the case if there is not exactly one. */
char *kg_maker_only(const char *root);

/* Status of a case in a bundle's records, malloc'ed; fails the case if it has none. */
char *kg_maker_status_of(const char *dir, size_t i);

/* Every table, row and index of the root's index as text (malloc'ed), in the order `.dump` of the sqlite3 shell has. */
char *kg_maker_dump(const char *root);
/* The index goes, the bundles stay. */
void kg_maker_remove_index(const char *root);
/* Fails the case with the first line in which two dumps differ. */
void kg_maker_expect_same(const char *got, const char *want);

#endif
