/* Files beside the bundles of a store, which anyone may have written, each by the reader it is for. */
#include "suites/fuzz/readers.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/checkpoint.h"
#include "bundle/left_out.h"
#include "bundle/records.h"
#include "bundle/signed_off.h"
#include "bundle/standing.h"
#include "history/annotation.h"
#include "signoff/judge.h"
#include "signoff/report.h"
#include "suites/fuzz/folder.h"
#include <stdlib.h>
#include <string.h>

typedef enum kg_status read_fn(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                               struct kg_error *err);

static enum kg_status read_chain(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                 struct kg_error *err) {
    struct kg_chain_report report;
    return kg_chain_verify(own->root, NULL, false, &report, findings, err);
}

static enum kg_status read_left_out(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                    struct kg_error *err) {
    struct kg_left_out list;
    const enum kg_status status = kg_left_out_read(own->root, &list, findings, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < list.n_links; i++)
        if (!kg_left_out_find(&list, list.links[i].id)) kg_fuzz_give_up("'%s' is not found", list.links[i].id);
    kg_left_out_free(&list);
    return KG_OK;
}

static enum kg_status read_policy(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                  struct kg_error *err) {
    (void)findings;
    struct kg_policy policy;
    struct kg_standing *standing = NULL;
    char why[256];
    enum kg_status status = kg_policy_load(own->root, NULL, &policy, err);
    for (int role = 0; role < KG_ROLE_COUNT && status == KG_OK; role++) {
        free(kg_policy_text(&policy, (enum kg_role)role));
        (void)kg_policy_asks_signature(&policy, (enum kg_role)role);
    }
    kg_policy_free(&policy);
    if (status == KG_OK) status = kg_standing_open(own->root, kg_clock_utc_us(), &standing, err);
    if (status != KG_OK) return status;
    for (int role = 0; role < KG_ROLE_COUNT; role++)
        (void)kg_standing_counts(standing, (enum kg_role)role, own->id, why);
    kg_standing_close(standing);
    return KG_OK;
}

static enum kg_status read_annotation(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                      struct kg_error *err) {
    struct kg_annotations list;
    const enum kg_status status = kg_annotations_load(own->root, &list, findings, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < list.n_items; i++) {
        (void)kg_case_matches(list.items[i].case_key, "unit/sample/case_0[cpu,f32,M=1]");
        (void)kg_annotation_of_run(&list, list.items[i].kind, own->id);
    }
    kg_annotations_free(&list);
    return KG_OK;
}

static enum kg_status read_signoff(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                   struct kg_error *err) {
    struct kg_policy policy;
    struct kg_signed_off signed_off;
    enum kg_status status = kg_policy_load(own->root, NULL, &policy, err);
    if (status == KG_OK) status = kg_signed_off_check(own->root, "s", &policy, &signed_off, findings, err);
    if (status == KG_OK && signed_off.statement) {
        struct kg_bundle_findings derived = { NULL, 0 }; /* the pages are no subjects of the seed */
        json_t *document = kg_signoff_whole(signed_off.statement, NULL, &derived);
        kg_signoff_compare(signed_off.statement, document, &derived);
        json_decref(document);
        kg_fuzz_expect_findings(&derived);
        kg_bundle_findings_free(&derived);
    }
    if (status == KG_OK) kg_signed_off_free(&signed_off);
    kg_policy_free(&policy);
    return status;
}

static enum kg_status read_tombstone(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                     struct kg_error *err) {
    const enum kg_status status = read_chain(own, findings, err);
    return status == KG_OK ? read_signoff(own, findings, err) : status;
}

static enum kg_status read_checkpoint(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                      struct kg_error *err) {
    int64_t n_runs;
    char *path = kg_path_join(own->root, "checkpoint.json");
    const enum kg_status status = kg_checkpoint_compare(own->root, path, kg_clock_utc_us(), &n_runs, findings, err);
    free(path);
    return status;
}

/* The bundle as evidence, read once. */
static const struct kg_evidence *evidence(const struct kg_fuzz_folder *own) {
    static struct kg_evidence_run run = { .has_gpu = true, .id = "", .commit = "", .content_sha256 = "" };
    static const struct kg_evidence all = { &run, 1 };
    struct kg_bundle_findings findings = { NULL, 0 };
    if (!run.dir && kg_records_load(own->dir, &run.records, &findings, NULL) != KG_OK)
        kg_fuzz_give_up("the bundle has no records");
    run.dir = own->dir;
    kg_bundle_findings_free(&findings);
    return &all;
}

static enum kg_status read_sprint(const struct kg_fuzz_folder *own, struct kg_bundle_findings *findings,
                                  struct kg_error *err) {
    (void)findings;
    struct kg_sprint sprint;
    struct kg_buffer page = KG_BUFFER_INIT;
    char *path = kg_path_join(own->root, "sprint.json");
    const enum kg_status status = kg_sprint_load(path, &sprint, err);
    free(path);
    if (status != KG_OK) return status;
    json_t *judged = kg_signoff_judge(&sprint, evidence(own));
    if (!judged) kg_fuzz_give_up("a sprint that is accepted is not judged");
    json_t *document = kg_signoff_document(judged, evidence(own), "2026-01-01T00:00:00Z");
    kg_signoff_markdown(document, &page);
    kg_signoff_html(document, &page);
    json_decref(document);
    json_decref(judged);
    kg_buffer_free(&page);
    kg_sprint_free(&sprint);
    return KG_OK;
}

KG_FUZZ_READER(store) {
    static const struct {
        const char *begins;
        read_fn *read;
    } READERS[] = {
        { ".chain", read_chain },          { "tombstones", read_tombstone },   { "left-out", read_left_out },
        { "kigo.policy", read_policy },    { "annotations", read_annotation }, { "sign", read_signoff },
        { "checkpoint", read_checkpoint }, { "sprint", read_sprint },
    };
    const struct kg_fuzz_folder *own = kg_fuzz_folder();
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_error err = { .status = KG_OK };
    enum kg_status status = KG_OK;
    kg_fuzz_put(own->root, target->file, data, size);
    for (size_t i = 0; i < sizeof READERS / sizeof *READERS; i++)
        if (strncmp(target->file, READERS[i].begins, strlen(READERS[i].begins)) == 0)
            status = READERS[i].read(own, &findings, &err);
    kg_fuzz_restore(own->root, kg_fuzz_folder_template()->root, target->file);
    if (status != KG_OK) kg_fuzz_expect_error(&err);
    else if (findings.n_items > 0) status = KG_ERR_INTEGRITY;
    kg_fuzz_expect_findings(&findings);
    kg_bundle_findings_free(&findings);
    return status;
}
