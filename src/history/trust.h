/* The index is a cache that anyone who may write beside the bundles can edit: verbs that decide hold it against the
 * bundles first, and the bundles against their manifests.
 *
 * A run's *head* (machine, build, commit, verdict, times) decides whether it is a baseline at all: of every run in the
 * index the few files that say so are verified, and its row in the index compared with what they say. Of a run that is
 * decided on, all of the bundle is verified, and all its rows are compared with what the index would hold of it if it
 * were rebuilt. What was verified is kept by stamps (bundle/verified.h), and that rows were compared by the stamps of
 * the index file: as long as nobody writes either, a look at the stamps is all it costs. */
#ifndef KIGO_HISTORY_TRUST_H
#define KIGO_HISTORY_TRUST_H

#include <kigo/history.h>

/* The heads of all runs in the index; without `unsound`, KG_ERR_INTEGRITY if an existing run is not in it. Rows that
 * differ are made again from the bundle. A bundle whose head does not verify is KG_ERR_INTEGRITY, naming what differs;
 * with `unsound` a finding there, its id as path. */
KG_WARN_UNUSED enum kg_status kg_trust_heads(struct kg_history *history, struct kg_bundle_findings *unsound,
                                             struct kg_error *err);

/* These runs whole. KG_ERR_INTEGRITY as above; KG_ERR_NOT_FOUND for a run that is not there. */
KG_WARN_UNUSED enum kg_status kg_trust_runs(struct kg_history *history, const char *const *ids, size_t n_ids,
                                            struct kg_error *err);
/* Those of loaded heads. */
struct kg_run_heads;
KG_WARN_UNUSED enum kg_status kg_trust_loaded(struct kg_history *history, const struct kg_run_heads *heads,
                                              struct kg_error *err);

/* Runs whose rows were made again since the index was opened, their ids as paths. */
const struct kg_bundle_findings *kg_trust_repaired(const struct kg_history *history);
/* How many of the folder's runs and annotations could not be read, and so are not in the index. */
size_t kg_trust_n_unread(const struct kg_history *history);

#endif
