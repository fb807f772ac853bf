#include "history/annotation.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/size.h"
#include "bundle/policy.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char FOLDER[] = "annotations", ENDING[] = ".json";
enum { MAX_ANNOTATIONS = 100000, TAIL_DIGITS = 8 };

static const struct {
    const char *kind;
    bool of_run, of_case, until; /* what it must say */
} KINDS[] = {
    { "break", true, false, false },      { "exclude", true, false, false }, { "note", false, false, false },
    { "waive", false, true, true },       { "pin", true, false, false },     { "confirm", true, false, false },
    { "selfcheck", false, false, false }, { "accept", true, true, false },
};

enum kg_status kg_annotation_check(const struct kg_annotation *a, struct kg_error *err) {
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        if (strcmp(KINDS[i].kind, a->kind) != 0) continue;
        if (KINDS[i].of_run && !a->bundle_id) return kg_fail(err, KG_ERR_USAGE, "a %s names a run", a->kind);
        if (KINDS[i].of_case && !a->case_key) return kg_fail(err, KG_ERR_USAGE, "a %s names a case", a->kind);
        if (KINDS[i].until && a->until_us <= 0) return kg_fail(err, KG_ERR_USAGE, "a %s names its last day", a->kind);
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "'%s' is no kind of annotation", a->kind);
}

static void annotation_free(struct kg_annotation *a) {
    free(a->id);
    free(a->kind);
    free(a->bundle_id);
    free(a->case_key);
    free(a->author);
    free(a->text);
    free(a->signer);
}

void kg_annotations_free(struct kg_annotations *list) {
    for (size_t i = 0; i < list->n_items; i++) annotation_free(&list->items[i]);
    free(list->items);
    *list = (struct kg_annotations){ NULL, 0 };
}

static char *copy_of(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? kg_xstrdup(text) : NULL;
}

static enum kg_status read_one(const char *dir, const char *name, struct kg_annotation *a, struct kg_error *err) {
    json_t *json = NULL;
    const enum kg_status status = kg_bundle_read_json(dir, name, &json, err);
    if (status != KG_OK) return status;
    *a = (struct kg_annotation){ .id = kg_xstrndup(name, strlen(name) - strlen(ENDING)),
                                 .kind = copy_of(json, "kind"),
                                 .bundle_id = copy_of(json, "bundle_id"),
                                 .case_key = copy_of(json, "case_key"),
                                 .until_us = kg_json_int(json, "until_us", 0),
                                 .utc_us = kg_json_int(json, "utc_us", 0),
                                 .author = copy_of(json, "author"),
                                 .text = copy_of(json, "text") };
    json_decref(json);
    if (!a->kind) a->kind = kg_xstrdup("");
    if (!a->author) a->author = kg_xstrdup("");
    if (!a->text) a->text = kg_xstrdup("");
    return kg_annotation_check(a, err);
}

static bool is_annotation(const char *name) {
    const size_t len = strlen(name);
    return name[0] != '.' && len > strlen(ENDING) && strcmp(name + len - strlen(ENDING), ENDING) == 0;
}

enum kg_status kg_annotations_load(const char *root, struct kg_annotations *list, struct kg_bundle_findings *problems,
                                   struct kg_error *err) {
    char *dir = kg_path_join(root, FOLDER);
    struct kg_dir_list names = { 0 };
    *list = (struct kg_annotations){ NULL, 0 };
    enum kg_status status = kg_beneath_list(root, FOLDER, &names, err);
    if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    if (status == KG_OK && names.n_names > MAX_ANNOTATIONS)
        status = kg_fail(err, KG_ERR_FORMAT, "%s holds %zu files, more than %d", dir, names.n_names, MAX_ANNOTATIONS);
    if (status == KG_OK) list->items = kg_xcalloc(names.n_names, sizeof *list->items);
    for (size_t i = 0; i < names.n_names && status == KG_OK; i++) {
        struct kg_annotation *a = &list->items[list->n_items];
        struct kg_error why;
        if (!is_annotation(names.names[i])) continue;
        const enum kg_status got = read_one(dir, names.names[i], a, &why);
        list->n_items += got == KG_OK;
        if (got == KG_OK) continue;
        if (got == KG_ERR_IO) status = kg_fail(err, got, "%s", why.message); /* an existing waiver decides */
        else if (problems) kg_finding_add(problems, "annotation", names.names[i], "%s", why.message);
        annotation_free(a);
        *a = (struct kg_annotation){ 0 };
    }
    kg_dir_list_free(&names);
    free(dir);
    return status;
}

static json_t *text_or_null(const char *text) {
    return text ? json_string(text) : json_null();
}

/* The signature first: an annotation without the one that the policy asks for would not count. */
static enum kg_status write_new(const char *root, const char *id, const char *text, const char *key,
                                struct kg_error *err) {
    char *dir = kg_path_join(root, FOLDER), *inside = kg_xasprintf("%s/.%s", FOLDER, id);
    char *draft = kg_path_join(root, inside), *path = kg_xasprintf("%s/%s%s", dir, id, ENDING);
    char *draft_sig = kg_xasprintf("%s.sig", draft), *sig = kg_xasprintf("%s.sig", path);
    enum kg_status status = kg_beneath_write(root, inside, text, strlen(text), err);
    if (status == KG_OK && key) status = kg_sign_beside(key, KG_SIGN_ANNOTATION, draft, err);
    if (status == KG_OK && key) status = kg_path_rename_new(draft_sig, sig, err);
    if (status == KG_OK) status = kg_path_rename_new(draft, path, err);
    if (status == KG_OK) status = kg_dir_sync(dir, err);
    else if (kg_path_remove(draft, NULL) != KG_OK) status = kg_status_pass(status); /* the first error is reported */
    free(sig);
    free(draft_sig);
    free(path);
    free(draft);
    free(inside);
    free(dir);
    return status;
}

enum kg_status kg_annotation_make(const struct kg_annotation *a, char **id, char **text, struct kg_error *err) {
    const enum kg_status status = kg_annotation_check(a, err);
    if (status != KG_OK) return status;
    json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "kind", a->kind, "bundle_id",
                             text_or_null(a->bundle_id), "case_key", text_or_null(a->case_key), "until_us",
                             a->until_us > 0 ? json_integer((json_int_t)a->until_us) : json_null(), "utc_us",
                             (json_int_t)a->utc_us, "author", text_or_null(a->author), "text", text_or_null(a->text));
    char *document = json ? json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(json);
    if (!document) return kg_fail(err, KG_ERR_USAGE, "a %s: the words are not UTF-8", a->kind);
    unsigned char noise[TAIL_DIGITS / 2];
    char utc[KG_UTC_TEXT_SIZE], tail[TAIL_DIGITS + 1];
    if (getentropy(noise, sizeof noise) != 0) memset(noise, 0, sizeof noise); /* then a clash of names shows */
    for (size_t i = 0; i < sizeof noise; i++) snprintf(tail + 2 * i, 3, "%02x", noise[i]);
    kg_clock_utc_compact(a->utc_us, utc);
    *id = kg_xasprintf("%s-%s-%s", utc, a->kind, tail);
    *text = kg_xasprintf("%s\n", document);
    free(document);
    return KG_OK;
}

enum kg_status kg_annotation_add(const char *root, const struct kg_annotation *a, const char *key, char **id,
                                 struct kg_error *err) {
    char *name = NULL, *text = NULL;
    enum kg_status status = kg_annotation_make(a, &name, &text, err);
    if (status == KG_OK) status = write_new(root, name, text, key, err);
    free(text);
    if (status == KG_OK && id) *id = name;
    else free(name);
    return status;
}

enum kg_status kg_annotation_remove(const char *root, const char *id, struct kg_error *err) {
    char *path = kg_xasprintf("%s/%s/%s%s", root, FOLDER, id, ENDING), *sig = kg_xasprintf("%s.sig", path);
    enum kg_status status = KG_OK;
    if (strchr(id, '/') || id[0] == '.' || !kg_path_exists(path))
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no annotation '%s' in %s", id, root);
    if (status == KG_OK) status = kg_path_remove(path, err);
    if (status == KG_OK) status = kg_path_remove(sig, err);
    free(sig);
    free(path);
    return status;
}

enum kg_status kg_annotations_keep_counted(const char *root, const struct kg_policy *policy,
                                           struct kg_annotations *list, size_t *n_dropped, struct kg_error *err) {
    enum kg_status status = KG_OK;
    size_t kept = 0;
    for (size_t i = 0; i < list->n_items; i++) {
        struct kg_annotation *a = &list->items[i];
        char *path = kg_xasprintf("%s/%s/%s%s", root, FOLDER, a->id, ENDING);
        struct kg_signature signature;
        if (status == KG_OK)
            status = kg_signature_check_file(path, KG_SIGN_ANNOTATION, &policy->trust, &signature, err);
        free(path);
        const bool counts = status == KG_OK && !kg_signature_is_wrong(&signature) &&
                            kg_policy_takes(policy, KG_ROLE_ANNOTATIONS, false, &signature);
        if (counts && signature.state == KG_SIGNATURE_GOOD) a->signer = kg_xstrdup(signature.signer);
        if (counts) list->items[kept++] = *a;
        else annotation_free(a);
    }
    *n_dropped = list->n_items - kept;
    list->n_items = kept;
    return status;
}

bool kg_annotation_of_run(const struct kg_annotations *list, const char *kind, const char *bundle_id) {
    for (size_t i = 0; i < list->n_items; i++) {
        const struct kg_annotation *a = &list->items[i];
        if (strcmp(a->kind, kind) != 0) continue;
        if (!bundle_id || (a->bundle_id && strcmp(a->bundle_id, bundle_id) == 0)) return true;
    }
    return false;
}

/* Keys hold brackets, which fnmatch would take for a choice of characters: only * and ? mean something here. */
bool kg_case_matches(const char *pattern, const char *key) {
    if (!pattern) return true;
    const char *star = NULL, *resume = NULL;
    while (*key) {
        if (*pattern == '*') {
            star = pattern++;
            resume = key;
        } else if (*pattern == '?' || *pattern == *key) {
            pattern++;
            key++;
        } else if (star) {
            pattern = star + 1;
            key = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}
