#include "bundle/signed_off.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

static const char MANIFEST[] = "manifest-sha256.txt";

enum kg_status kg_signed_off_list(const char *root, struct kg_dir_list *names, struct kg_error *err) {
    *names = (struct kg_dir_list){ NULL, 0 };
    enum kg_status status = kg_beneath_list(root, KG_SIGNOFFS, names, err);
    if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    size_t kept = 0;
    for (size_t i = 0; i < names->n_names; i++) {
        char *end = strrchr(names->names[i], '.');
        const bool is_note = end && end != names->names[i] && strcmp(end, ".json") == 0;
        if (is_note) *end = '\0';
        if (is_note) names->names[kept++] = names->names[i];
        else free(names->names[i]);
    }
    names->n_names = kept;
    return status;
}

static void expect_hash(const char *dir, const char *relative, const char *name, const char *want,
                        struct kg_bundle_findings *findings) {
    char hex[KG_SHA256_HEX_SIZE];
    struct kg_error why;
    if (kg_beneath_hash(dir, relative, hex, &why) != KG_OK)
        kg_finding_add(findings, "missing", name, "was signed off, and cannot be read here: %s", why.message);
    else if (strcmp(hex, want) != 0)
        kg_finding_add(findings, "changed", name, "has SHA-256 %s; the one signed off had %s", hex, want);
}

/* <id>/manifest-sha256.txt: the run's, or what its tombstone says of it. */
static void check_run(const char *root, const char *id, const char *want, struct kg_signed_off *s,
                      struct kg_bundle_findings *findings) {
    char *path = kg_path_join(id, MANIFEST);
    json_t *tombstone =
        kg_beneath_check(root, path, NULL) == KG_ERR_NOT_FOUND ? kg_beside_read(root, KG_TOMBSTONES, id) : NULL;
    const char *buried = kg_json_text(tombstone, "manifest_sha256");
    json_array_append_new(s->runs, json_string(id));
    if (!buried) expect_hash(root, path, id, want, findings);
    else if (strcmp(buried, want) != 0)
        kg_finding_add(findings, "changed", id, "was pruned with manifest %s; the one signed off had %s", buried, want);
    json_decref(tombstone);
    free(path);
}

static void check_subject(const char *root, const json_t *subject, struct kg_signed_off *s,
                          struct kg_bundle_findings *findings) {
    const char *name = kg_json_text(subject, "name"),
               *want = kg_json_text(json_object_get(subject, "digest"), "sha256"),
               *slash = name ? strchr(name, '/') : NULL;
    char *id = slash ? kg_xstrndup(name, (size_t)(slash - name)) : NULL;
    int64_t unused;
    if (id && want && kg_bundle_id_parse(id, &unused) && strcmp(slash + 1, MANIFEST) == 0) {
        check_run(root, id, want, s, findings);
    } else if (name && want && !slash && kg_bundle_path_ok(name)) {
        s->documents_too = true;
        expect_hash(s->dir, name, name, want, findings);
    } else {
        kg_finding_add(findings, "format", KG_SIGNOFF_STATEMENT,
                       "a subject is neither a run's manifest nor a document");
    }
    free(id);
}

/* The documents' folder: below the root, or as `kigo signoff -o` gave it. */
static char *find_documents(const char *root, const char *documents) {
    char *below = kg_path_join(root, documents);
    if (documents[0] != '/' && kg_beneath_is_folder(root, documents)) return below;
    free(below);
    return kg_xstrdup(documents);
}

static void check_statement(const char *root, const json_t *note, struct kg_signed_off *s,
                            struct kg_bundle_findings *findings) {
    const json_t *subjects = json_object_get(s->statement, "subject"), *subject;
    const char *want = kg_json_text(note, "statement_sha256");
    size_t i;
    if (!json_equal(json_object_get(note, "subject"), subjects))
        kg_finding_add(findings, "changed", KG_SIGNOFF_STATEMENT, "its subjects are not those of the note beside it");
    if (want) expect_hash(s->dir, KG_SIGNOFF_STATEMENT, KG_SIGNOFF_STATEMENT, want, findings);
    json_array_foreach(subjects, i, subject) check_subject(root, subject, s, findings);
    if (json_array_size(s->runs) == 0) kg_finding_add(findings, "format", KG_SIGNOFF_STATEMENT, "names no run");
}

enum kg_status kg_signed_off_check(const char *root, const char *name, const struct kg_policy *policy,
                                   struct kg_signed_off *s, struct kg_bundle_findings *findings, struct kg_error *err) {
    *s = (struct kg_signed_off){ .runs = json_array() };
    json_t *note = kg_beside_read(root, KG_SIGNOFFS, name);
    const char *documents = kg_json_text(note, "documents");
    enum kg_status status = KG_OK;
    if (documents) {
        struct kg_error why;
        s->dir = find_documents(root, documents);
        if (kg_bundle_read_json(s->dir, KG_SIGNOFF_STATEMENT, &s->statement, &why) == KG_OK) {
            check_statement(root, note, s, findings);
        } else {
            s->statement = NULL;
            kg_finding_add(findings, "missing", KG_SIGNOFF_STATEMENT, "%s", why.message);
        }
        char *path = kg_path_join(s->dir, KG_SIGNOFF_STATEMENT);
        status = kg_signature_check_file(path, KG_SIGN_SIGNOFF, &policy->trust, &s->signature, err);
        free(path);
    } else {
        kg_finding_add(findings, "format", name, "names no folder of documents");
    }
    json_decref(note);
    return status;
}

void kg_signed_off_free(struct kg_signed_off *s) {
    free(s->dir);
    json_decref(s->statement);
    json_decref(s->runs);
    *s = (struct kg_signed_off){ 0 };
}
