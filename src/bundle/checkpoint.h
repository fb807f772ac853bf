/* What a store held at a time, so that what goes missing from its end shows as well: the heads of its chain, each with
 * its hash and the number of runs that lead to it. A head's tag manifest names its predecessor's hash, and so on: who
 * has the head has a hash of all that came before (a hash chain; compare RFC 9162's signed tree head). It is kept, or
 * published, where the store's writers cannot change it.
 *
 * {"kigo_checkpoint": 1, "utc", "n_runs", "heads": [{"bundle_id", "tagmanifest_sha256", "n_runs"}]}; <file>.sig may be
 * an SSH signature over it, for the purpose KG_SIGN_CHECKPOINT. */
#ifndef KIGO_BUNDLE_CHECKPOINT_H
#define KIGO_BUNDLE_CHECKPOINT_H

#include <kigo/bundle.h>
#include <jansson.h>

/* The checkpoint of a root whose chain holds. *checkpoint is the caller's reference. */
KG_WARN_UNUSED enum kg_status kg_checkpoint_make(const char *root, int64_t now_us, json_t **checkpoint,
                                                 struct kg_error *err);

/* Whether the root is what it was at the checkpoint in a file, with or without runs since then; *n_runs: how many came.
 * Findings: "removed" (a head is gone, or fewer runs lead to it), "replaced" (it is another), "added" (more lead to
 * it), "time" (the checkpoint is of the future). That every link holds is kg_chain_verify's to say. KG_ERR_FORMAT if
 * the file is no checkpoint. */
KG_WARN_UNUSED enum kg_status kg_checkpoint_compare(const char *root, const char *path, int64_t now_us, int64_t *n_runs,
                                                    struct kg_bundle_findings *findings, struct kg_error *err);

#endif
