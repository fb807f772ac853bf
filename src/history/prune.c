#include "history/prune.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/beside.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include "bundle/signed_off.h"
#include "bundle/standing.h"
#include "bundle/tree.h"
#include "history/annotation.h"
#include "history/regress.h"
#include "history/trust.h"
#include <stdlib.h>
#include <string.h>

static const char GONE[] = ".pruned-";

struct planning {
    const char *root;
    size_t n_keep;
    struct kg_annotations annotations;
    struct kg_bundle_findings unsound; /* heads that do not verify */
    json_t *signed_off;                /* bundle id -> name of the sign-off */
    struct kg_prune_plan *plan;
    char *key; /* comparison key of the rows under way */
    struct kg_standing *standing;
    size_t n_of_key[2], n_baselines; /* [1]: of runs that count */
};

/* The bundles that sign-offs name: those that hold, and that the policy takes. */
static enum kg_status read_signoffs(const char *root, const struct kg_policy *policy, json_t *named,
                                    struct kg_error *err) {
    struct kg_dir_list list;
    enum kg_status status = kg_signed_off_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        struct kg_signed_off s;
        struct kg_bundle_findings findings = { NULL, 0 };
        const json_t *id;
        size_t k;
        status = kg_signed_off_check(root, list.names[i], policy, &s, &findings, err);
        const bool counts = status == KG_OK && findings.n_items == 0 && !kg_signature_is_wrong(&s.signature) &&
                            kg_policy_takes(policy, KG_ROLE_SIGNOFFS, false, &s.signature);
        json_array_foreach(s.runs, k, id) {
            if (counts) json_object_set_new(named, json_string_value(id), json_string(list.names[i]));
        }
        kg_bundle_findings_free(&findings);
        kg_signed_off_free(&s);
    }
    kg_dir_list_free(&list);
    return status;
}

static uint64_t folder_bytes(const char *dir) {
    struct kg_tree tree;
    uint64_t n_bytes = 0;
    if (kg_tree_list(dir, &tree, NULL) != KG_OK) return 0;
    for (size_t i = 0; i < tree.n_entries; i++) n_bytes += tree.entries[i].size_bytes;
    kg_tree_free(&tree);
    return n_bytes;
}

static char *why_not_sound(const char *dir) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_error err;
    const bool sound = kg_bundle_verify(dir, &findings, &err) == KG_OK;
    kg_bundle_findings_free(&findings);
    return sound ? NULL : kg_xasprintf("does not verify: %.200s", err.message);
}

static const char *unsound_head(const struct planning *p, const char *id) {
    for (size_t i = 0; i < p->unsound.n_items; i++)
        if (strcmp(p->unsound.items[i].path, id) == 0) return p->unsound.items[i].detail;
    return NULL;
}

/* malloc'ed; NULL: it may go. */
static char *why_kept(struct planning *p, const char *id, bool may_be_baseline) {
    const char *unsound = unsound_head(p, id); /* nobody knows how old it is: it stays, and takes no other's place */
    if (unsound) return kg_xasprintf("does not verify: %.200s", unsound);
    char why_not[256];
    /* What does not count takes no place of what does. */
    const bool counts = kg_standing_counts(p->standing, KG_ROLE_BASELINE, id, why_not);
    may_be_baseline = may_be_baseline && counts;
    p->n_of_key[counts]++;
    p->n_baselines += may_be_baseline;
    const char *signoff = json_string_value(json_object_get(p->signed_off, id));
    if (p->n_of_key[counts] <= p->n_keep) return kg_xasprintf("of the newest %zu of its comparison key", p->n_keep);
    if (may_be_baseline && p->n_baselines <= KG_BASELINE_RUNS) return kg_xstrdup("a baseline of its comparison key");
    if (kg_annotation_of_run(&p->annotations, "pin", id)) return kg_xstrdup("pinned");
    if (signoff) return kg_xasprintf("signed off in %s", signoff);
    char *dir = kg_path_join(p->root, id), *why = why_not_sound(dir);
    free(dir);
    return why;
}

static char *cell_text(const struct kg_cell *cell) {
    return kg_xstrndup(cell->text, cell->size_bytes);
}

static bool add_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct planning *p = arg;
    struct kg_prune_plan *plan = p->plan;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    char *id = cell_text(&cells[0]), *key = cell_text(&cells[1]);
    if (!p->key || strcmp(p->key, key) != 0) p->n_of_key[0] = p->n_of_key[1] = p->n_baselines = 0;
    free(p->key);
    p->key = key;
    plan->rows = kg_xrealloc(plan->rows, (plan->n_rows + 1) * sizeof *plan->rows);
    struct kg_prune_row *row = &plan->rows[plan->n_rows++];
    char *dir = kg_path_join(p->root, id);
    *row = (struct kg_prune_row){ .bundle_id = id, .size_bytes = folder_bytes(dir) };
    row->kept = why_kept(p, id, cells[2].integer != 0);
    plan->n_to_go += !row->kept;
    free(dir);
    return true;
}

enum kg_status kg_prune_plan(const char *root, size_t n_keep, struct kg_prune_plan *plan, struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_id, comparison_key, state = 'complete' AND verdict = 'pass' AND"
                              " git_commit IS NOT NULL AND git_dirty = 0 FROM bundle"
                              " ORDER BY comparison_key, started_us DESC, bundle_id DESC";
    struct planning p = { .root = root, .n_keep = n_keep, .plan = plan };
    struct kg_history *history = NULL;
    size_t n_dropped;
    *plan = (struct kg_prune_plan){ NULL, 0, 0 };
    enum kg_status status = kg_history_open(root, &history, NULL, err);
    if (status == KG_OK) status = kg_trust_heads(history, &p.unsound, err);
    if (status == KG_OK) status = kg_annotations_load(root, &p.annotations, NULL, err);
    if (status == KG_OK) status = kg_standing_open(root, kg_clock_utc_us(), &p.standing, err);
    if (status == KG_OK)
        status = kg_annotations_keep_counted(root, kg_standing_policy(p.standing), &p.annotations, &n_dropped, err);
    if (status == KG_OK) {
        p.signed_off = json_object();
        status = read_signoffs(root, kg_standing_policy(p.standing), p.signed_off, err);
    }
    if (status == KG_OK) status = kg_history_query(history, SQL, NULL, 0, add_row, &p, err);
    kg_standing_close(p.standing);
    free(p.key);
    json_decref(p.signed_off);
    kg_bundle_findings_free(&p.unsound);
    kg_annotations_free(&p.annotations);
    kg_history_close(history);
    if (status != KG_OK) kg_prune_plan_free(plan);
    return status;
}

/* What a bundle leaves: enough to follow the chain past it, and to know it again. */
static enum kg_status write_tombstone(const char *root, const char *id, const char *author, const char *key,
                                      struct kg_error *err) {
    static const struct {
        const char *file, *name;
    } HASHED[] = { { "tagmanifest-sha256.txt", "tagmanifest_sha256" }, { "manifest-sha256.txt", "manifest_sha256" } },
      COPIED[] = { { "tagmanifest-sha256.txt", "tagmanifest" }, { "bag-info.txt", "bag_info" } };
    char utc[KG_UTC_TEXT_SIZE], hex[KG_SHA256_HEX_SIZE];
    kg_clock_utc_text(kg_clock_utc_us(), utc);
    json_t *by = json_string(author);
    json_t *tombstone = json_pack("{s:s, s:s, s:o, s:s}", "bundle_id", id, "pruned_utc", utc, "author",
                                  by ? by : json_null(), "why", "past what prune keeps");
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof HASHED / sizeof *HASHED && status == KG_OK; i++) {
        char *path = kg_path_join(id, HASHED[i].file);
        status = kg_beneath_hash(root, path, hex, err);
        if (status == KG_OK) json_object_set_new(tombstone, HASHED[i].name, json_string(hex));
        free(path);
    }
    for (size_t i = 0; i < sizeof COPIED / sizeof *COPIED && status == KG_OK; i++) {
        char *path = kg_path_join(id, COPIED[i].file), *text = NULL;
        size_t size_bytes;
        status = kg_beneath_read(root, path, KG_MAX_TAG_BYTES, &text, &size_bytes, err);
        if (status == KG_OK) json_object_set_new(tombstone, COPIED[i].name, json_stringn(text, size_bytes));
        free(text);
        free(path);
    }
    if (status == KG_OK) status = kg_beside_write(root, KG_TOMBSTONES, id, tombstone, err);
    char *written = kg_xasprintf("%s/" KG_TOMBSTONES "/%s.json", root, id);
    if (status == KG_OK && key) status = kg_sign_beside(key, KG_SIGN_TOMBSTONE, written, err);
    free(written);
    json_decref(tombstone);
    return status;
}

static enum kg_status bury(const char *root, const char *id, const char *author, const char *key,
                           struct kg_error *err) {
    char *dir = kg_path_join(root, id), *gone = kg_xasprintf("%s/%s%s", root, GONE, id);
    enum kg_status status = write_tombstone(root, id, author, key, err);
    if (status == KG_OK) status = kg_path_rename_new(dir, gone, err);
    if (status == KG_OK) status = kg_dir_sync(root, err);
    if (status == KG_OK) status = kg_path_remove(gone, err);
    free(gone);
    free(dir);
    return status;
}

/* Folders whose removal was cut short. */
static enum kg_status remove_gone(const char *root, struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    enum kg_status status = kg_dir_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        if (strncmp(list.names[i], GONE, strlen(GONE)) != 0) continue;
        char *dir = kg_path_join(root, list.names[i]);
        status = kg_path_remove(dir, err);
        free(dir);
    }
    kg_dir_list_free(&list);
    return status;
}

enum kg_status kg_prune_apply(const char *root, const struct kg_prune_plan *plan, const char *author, const char *key,
                              struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = remove_gone(root, err);
    for (size_t i = 0; i < plan->n_rows && status == KG_OK; i++)
        if (!plan->rows[i].kept) status = bury(root, plan->rows[i].bundle_id, author, key, err);
    struct kg_error why;
    /* Opening makes the index equal to the folders; one that cannot be opened does so when it is opened next. */
    if (kg_history_open(root, &history, NULL, &why) == KG_OK) kg_history_close(history);
    return status;
}

void kg_prune_plan_free(struct kg_prune_plan *plan) {
    for (size_t i = 0; i < plan->n_rows; i++) {
        free(plan->rows[i].bundle_id);
        free(plan->rows[i].kept);
    }
    free(plan->rows);
    *plan = (struct kg_prune_plan){ NULL, 0, 0 };
}
