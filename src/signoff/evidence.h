/* The runs that a sprint is signed off by, and what keeps a run from being evidence. */
#ifndef KIGO_SIGNOFF_EVIDENCE_H
#define KIGO_SIGNOFF_EVIDENCE_H

#include "base/hash.h"
#include "bundle/records.h"
#include "bundle/policy.h"
#include "signoff/sprint.h"

struct kg_evidence_rules {
    const char *repository;         /* git repository in which the runs' commits are looked up */
    const struct kg_policy *policy; /* whose signatures count; NULL: none do */
    bool unsigned_too;              /* a run need not be signed; a bad signature still counts against it */
    bool any_source;                /* nor be of a commit */
    const char *commit;             /* that is signed; a run of another one needs its sources. NULL: any */
};

struct kg_evidence_run {
    char *dir;
    const char *id, *commit, *content_sha256; /* of the JSON below */
    json_t *summary, *env, *source;
    struct kg_records records;
    struct kg_signature signature;
    char manifest_sha256[KG_SHA256_HEX_SIZE], tagmanifest_sha256[KG_SHA256_HEX_SIZE];
    bool has_gpu;
};
struct kg_evidence {
    struct kg_evidence_run *runs;
    size_t n_runs;
};

/* Verifies and reads the runs in `dirs`. What keeps one from being evidence is a refusal, a finding with the run's id
 * or folder as its path: "integrity"  it does not verify        "partial"    it died before its end "no commit"  it was
 * not built in git   "dirty"      the sources were changed since "signature"  missing, or not of an allowed signer
 *   "source"     its content_sha256 is not the commit's, or the commit is not at hand
 *   "gpu"        the sprint needs a GPU and none of the runs had one
 *   "commit"     its sources are not those of the commit that is signed
 *   "machine"    its GPU is of another model than the other runs', or than the sprint names
 *   "mixed"      the runs are of different sources       "twice"  a run was given before
 * Free the evidence in any case; errors are of reading. */
KG_WARN_UNUSED enum kg_status kg_evidence_load(const struct kg_sprint *sprint, char *const *dirs, size_t n_dirs,
                                               const struct kg_evidence_rules *rules, struct kg_evidence *evidence,
                                               struct kg_bundle_findings *refusals, struct kg_error *err);
void kg_evidence_free(struct kg_evidence *evidence);

#endif
