#include "signoff/evidence.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/source_commit.h"
#include <stdlib.h>
#include <string.h>

static enum kg_status hash_of(const char *dir, const char *file, char sha256[KG_SHA256_HEX_SIZE],
                              struct kg_error *err) {
    return kg_beneath_hash(dir, file, sha256, err);
}

/* NULL where there is none: a run that died may lack it. A file that cannot be read is an error: without env.json
 * no GPU would be asked for its model. */
static enum kg_status read_json(const char *dir, const char *file, json_t **object, struct kg_error *err) {
    struct kg_error why;
    const enum kg_status status = kg_bundle_read_json(dir, file, object, &why);
    if (status == KG_OK) return KG_OK;
    *object = NULL;
    return status == KG_ERR_NOT_FOUND ? KG_OK : kg_fail(err, status, "%s", why.message);
}

/* What verifies can be read. */
static enum kg_status read_run(struct kg_evidence_run *run, struct kg_error *err) {
    struct kg_bundle_findings unheard = { NULL, 0 };
    enum kg_status status = kg_bundle_read_json(run->dir, "data/summary.json", &run->summary, err);
    if (status == KG_OK) status = read_json(run->dir, "data/env.json", &run->env, err);
    if (status == KG_OK) status = read_json(run->dir, "data/source.json", &run->source, err);
    if (status == KG_OK) status = kg_records_load_results(run->dir, &run->records, &unheard, err);
    if (status == KG_OK) status = hash_of(run->dir, "manifest-sha256.txt", run->manifest_sha256, err);
    if (status == KG_OK) status = hash_of(run->dir, "tagmanifest-sha256.txt", run->tagmanifest_sha256, err);
    kg_bundle_findings_free(&unheard);
    if (status != KG_OK) return status;
    run->id = kg_json_text(run->summary, "bundle_id");
    run->commit = kg_json_text(json_object_get(run->source, "git"), "commit");
    run->content_sha256 = kg_json_text(run->source, "content_sha256");
    run->has_gpu = json_array_size(json_object_get(run->env, "gpus")) > 0;
    return KG_OK;
}

static enum kg_status check_signature(struct kg_evidence_run *run, const struct kg_evidence_rules *rules,
                                      struct kg_bundle_findings *refusals, struct kg_error *err) {
    struct kg_signature *s = &run->signature;
    const struct kg_policy *policy = rules->policy;
    const enum kg_status status = kg_signature_check(run->dir, policy ? &policy->trust : NULL, s, err);
    if (status != KG_OK) return status;
    /* Nobody takes without a signature what the store's policy asks one for; figures alone (any_source) bind nobody. */
    const bool may_lack =
        rules->unsigned_too && (rules->any_source || !policy || !kg_policy_names(policy, KG_ROLE_EVIDENCE));
    if (policy && kg_policy_takes(policy, KG_ROLE_EVIDENCE, false, s)) return KG_OK;
    if (may_lack && !kg_signature_is_wrong(s)) return KG_OK;
    kg_finding_add(refusals, "signature", run->id, "%s%s%s",
                   s->state == KG_SIGNATURE_NONE     ? "not signed ('kigo sign', or --unsigned)"
                   : s->state == KG_SIGNATURE_INTACT ? "signed, but no list of allowed signers says by whom"
                   : s->state == KG_SIGNATURE_GOOD   ? "its signer does not count as evidence (kigo.policy.json)"
                                                     : kg_signature_state_name(s->state),
                   s->why[0] ? ": " : "", s->why);
    return KG_OK;
}

static void check_source(const struct kg_evidence_run *run, const struct kg_evidence_rules *rules,
                         struct kg_bundle_findings *refusals) {
    const json_t *git = json_object_get(run->source, "git");
    char sha256[KG_SHA256_HEX_SIZE];
    struct kg_error why;
    if (!run->commit) {
        kg_finding_add(refusals, "no commit", run->id, "its sources were not in git");
    } else if (!json_is_false(json_object_get(git, "dirty"))) { /* unknown is refused as well */
        kg_finding_add(refusals, "dirty", run->id, "the sources were changed since commit %s", run->commit);
    } else if (kg_source_of_commit(rules->repository, run->commit, sha256, &why) != KG_OK) {
        kg_finding_add(refusals, "source", run->id, "%s", why.message);
    } else if (!run->content_sha256 || strcmp(run->content_sha256, sha256) != 0) {
        kg_finding_add(refusals, "source", run->id, "its sources hash to %s, those of commit %s to %s",
                       run->content_sha256 ? run->content_sha256 : "nothing", run->commit, sha256);
    }
}

/* A later commit may have changed documents and bundles; what was run is the same as long as the sources are. */
static void check_commit(const struct kg_evidence_run *run, const struct kg_evidence_rules *rules,
                         struct kg_bundle_findings *refusals) {
    char sha256[KG_SHA256_HEX_SIZE];
    struct kg_error why;
    if (!rules->commit || !run->commit || strcmp(run->commit, rules->commit) == 0) return;
    if (kg_source_of_commit(rules->repository, rules->commit, sha256, &why) != KG_OK)
        kg_finding_add(refusals, "commit", run->id, "%s", why.message);
    else if (!run->content_sha256 || strcmp(run->content_sha256, sha256) != 0)
        kg_finding_add(refusals, "commit", run->id,
                       "is of commit %s, whose sources are not those of %s, which is signed; run that commit, or name "
                       "the run's with --commit",
                       run->commit, rules->commit);
}

/* Whether the run is sound enough to be asked further. */
static enum kg_status check_bundle(struct kg_evidence_run *run, struct kg_bundle_findings *refusals, bool *sound,
                                   struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_bundle_verify(run->dir, &findings, err);
    *sound = status == KG_OK;
    if (status == KG_ERR_INTEGRITY || status == KG_ERR_FORMAT) {
        kg_finding_add(refusals, "integrity", run->dir, "%s", err->message);
        status = KG_OK;
    }
    kg_bundle_findings_free(&findings);
    return status;
}

static enum kg_status check_run(struct kg_evidence *evidence, size_t i, const struct kg_evidence_rules *rules,
                                struct kg_bundle_findings *refusals, struct kg_error *err) {
    struct kg_evidence_run *run = &evidence->runs[i];
    bool sound = false;
    enum kg_status status = check_bundle(run, refusals, &sound, err);
    if (status != KG_OK || !sound) return status;
    status = read_run(run, err);
    if (status != KG_OK) return status;
    for (size_t k = 0; k < i; k++)
        if (evidence->runs[k].id && strcmp(evidence->runs[k].id, run->id) == 0)
            return kg_finding_add(refusals, "twice", run->id, "was given before"), KG_OK;
    if (strcmp(kg_json_text(run->summary, "state"), "complete") != 0)
        kg_finding_add(refusals, "partial", run->id, "the run died before its end");
    if (!rules->any_source) check_source(run, rules, refusals);
    if (!rules->any_source) check_commit(run, rules, refusals);
    return check_signature(run, rules, refusals, err);
}

/* All GPUs of all runs are of one model: the one that the sprint names, or else the first run's. */
static void check_machines(const struct kg_sprint *sprint, const struct kg_evidence *evidence,
                           struct kg_bundle_findings *refusals) {
    const char *model = kg_json_text(sprint->root, "gpu");
    for (size_t i = 0; i < evidence->n_runs; i++) {
        const struct kg_evidence_run *run = &evidence->runs[i];
        const json_t *gpu, *gpus = json_object_get(run->env, "gpus");
        size_t k;
        json_array_foreach(gpus, k, gpu) {
            const char *name = kg_json_text(gpu, "name");
            if (!model) model = name ? name : "";
            if (strcmp(name ? name : "", model) == 0) continue;
            kg_finding_add(refusals, "machine", run->id, "its GPU is '%s', not '%s'", name ? name : "of no name",
                           model);
            break;
        }
    }
}

static void check_together(const struct kg_sprint *sprint, const struct kg_evidence *evidence,
                           struct kg_bundle_findings *refusals) {
    const char *content = NULL, *first = NULL;
    bool has_gpu = false;
    for (size_t i = 0; i < evidence->n_runs; i++) {
        const struct kg_evidence_run *run = &evidence->runs[i];
        has_gpu = has_gpu || run->has_gpu;
        if (!run->content_sha256) continue;
        if (content && strcmp(content, run->content_sha256) != 0)
            kg_finding_add(refusals, "mixed", run->id, "is of other sources than %s", first);
        else if (!content) content = run->content_sha256, first = run->id;
    }
    check_machines(sprint, evidence, refusals);
    if (sprint->needs_gpu && !has_gpu)
        kg_finding_add(refusals, "gpu", evidence->n_runs == 1 && evidence->runs[0].id ? evidence->runs[0].id : "",
                       "sprint %s has criteria for a GPU, and no run had one", sprint->name);
}

enum kg_status kg_evidence_load(const struct kg_sprint *sprint, char *const *dirs, size_t n_dirs,
                                const struct kg_evidence_rules *rules, struct kg_evidence *evidence,
                                struct kg_bundle_findings *refusals, struct kg_error *err) {
    *evidence = (struct kg_evidence){ kg_xcalloc(n_dirs, sizeof *evidence->runs), n_dirs };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n_dirs; i++) evidence->runs[i].dir = kg_xstrdup(dirs[i]);
    for (size_t i = 0; i < n_dirs && status == KG_OK; i++) status = check_run(evidence, i, rules, refusals, err);
    if (status == KG_OK) check_together(sprint, evidence, refusals);
    return status;
}

void kg_evidence_free(struct kg_evidence *evidence) {
    for (size_t i = 0; i < evidence->n_runs; i++) {
        struct kg_evidence_run *run = &evidence->runs[i];
        kg_records_free(&run->records);
        json_decref(run->summary);
        json_decref(run->env);
        json_decref(run->source);
        free(run->dir);
    }
    free(evidence->runs);
    *evidence = (struct kg_evidence){ NULL, 0 };
}
