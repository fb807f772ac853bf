/* Whether a root's chain holds: every link, its last one, and that nobody else follows the same run. */
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/beside.h"
#include "bundle/chain_links.h"
#include "bundle/internal.h"
#include "bundle/left_out.h"
#include "bundle/records.h"
#include "bundle/standing.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A chain that is followed. */
struct following {
    const char *root;
    const struct kg_chain_links *links;
    struct kg_left_out left_out;
    struct kg_chain_report *report;
    struct kg_bundle_findings *findings;
};

/* Whether the link's run is whole and about to be published: its seal is at work, or died, and recover publishes it. A
 * folder of that name with anything else in it hides no run that is gone. */
static bool is_in_the_making(const char *root, const struct kg_chain_link *link) {
    char *folder = kg_xasprintf(".tmp-%s", link->id), *dir = kg_path_join(root, folder), sha256[KG_SHA256_HEX_SIZE];
    int fd = -1;
    bool is = kg_chain_hash_tags(root, folder, sha256, NULL) == KG_OK && strcmp(sha256, link->sha256) == 0;
    const bool at_work = is && kg_bundle_lock(dir, &fd, NULL) == KG_OK && fd < 0;
    if (is && !at_work) {
        struct kg_bundle_findings findings;
        is = kg_bundle_verify(dir, &findings, NULL) == KG_OK;
        kg_bundle_findings_free(&findings);
    }
    if (fd >= 0) close(fd);
    if (!is) /* published since the root was listed */
        is = kg_chain_hash_tags(root, link->id, sha256, NULL) == KG_OK && strcmp(sha256, link->sha256) == 0;
    free(dir);
    free(folder);
    return is;
}

/* A link's run, in the root, in the making, pruned, or left out; what is wrong with it is a finding of `from`. */
static bool check_link(struct following *f, const char *from, const struct kg_chain_link *link) {
    struct kg_bundle_findings *findings = f->findings;
    const struct kg_chain_node *node = kg_chain_links_find(f->links, link->id);
    const struct kg_chain_link *left_out = kg_left_out_find(&f->left_out, link->id);
    const size_t n_before = kg_bundle_findings_count(findings);
    if (node && !node->sha256[0]) {
        kg_finding_add(findings, "replaced", from,
                       node->pruned ? "names %s; the hash of the one pruned is not recorded"
                                    : "names %s, whose tag manifest cannot be read",
                       link->id);
    } else if (node) {
        if (strcmp(node->sha256, link->sha256) != 0)
            kg_finding_add(findings, "replaced", from, "names %s with tag manifest %s; the one %s %s", link->id,
                           link->sha256, node->pruned ? "pruned was" : "here is", node->sha256);
    } else if (left_out) {
        if (strcmp(left_out->sha256, link->sha256) != 0)
            kg_finding_add(findings, "replaced", from,
                           "names %s with tag manifest %s; the one in " KG_LEFT_OUT " had %s", link->id, link->sha256,
                           left_out->sha256);
        f->report->n_left_out += kg_bundle_findings_count(findings) == n_before;
    } else if (!is_in_the_making(f->root, link)) {
        kg_finding_add(findings, "removed", from,
                       "names %s %s, which is not here, was not pruned and is not in " KG_LEFT_OUT, link->id,
                       link->sha256);
    }
    return kg_bundle_findings_count(findings) == n_before;
}

/* What was imported is named by no chain of this root; that it came is kept, so its removal shows too. */
static void check_imports(struct following *f) {
    struct kg_dir_list list = { 0 };
    if (kg_beneath_list(f->root, KG_IMPORTS, &list, NULL) != KG_OK) list.n_names = 0;
    for (size_t i = 0; i < list.n_names; i++) {
        const size_t len = strlen(list.names[i]);
        if (len < 5 || list.names[i][0] == KG_IMPORT_UNDER_WAY[0] || strcmp(list.names[i] + len - 5, ".json") != 0)
            continue;
        list.names[i][len - 5] = '\0';
        json_t *fact = kg_beside_read(f->root, KG_IMPORTS, list.names[i]);
        struct kg_chain_link link = { "", "" };
        const char *sha256 = kg_json_text(fact, "tagmanifest_sha256");
        snprintf(link.id, sizeof link.id, "%s", list.names[i]);
        snprintf(link.sha256, sizeof link.sha256, "%s", sha256 ? sha256 : "");
        check_link(f, KG_IMPORTS, &link);
        json_decref(fact);
    }
    kg_dir_list_free(&list);
}

static int by_previous(const void *a, const void *b) {
    const struct kg_chain_node *const x = *(const struct kg_chain_node *const *)a,
                                      *const y = *(const struct kg_chain_node *const *)b;
    const int order = strcmp(x->previous.id, y->previous.id);
    return order ? order : strcmp(x->id, y->id);
}

/* A run has one successor, and one run is the first: the lock of the chain sees to that. */
static void check_forks(struct following *f) {
    const struct kg_chain_node **sorted = kg_xcalloc(f->links->n_nodes + 1, sizeof(const struct kg_chain_node *));
    size_t n = 0;
    for (size_t i = 0; i < f->links->n_nodes; i++)
        if (f->links->nodes[i].ours && f->links->nodes[i].has_label) sorted[n++] = &f->links->nodes[i];
    if (n) qsort(sorted, n, sizeof(const struct kg_chain_node *), by_previous);
    for (size_t i = 1; i < n; i++) {
        const char *previous = sorted[i]->previous.id;
        if (strcmp(sorted[i - 1]->previous.id, previous) != 0) continue;
        kg_finding_add(f->findings, "fork", sorted[i]->id,
                       *previous ? "follows %s, as %s does" : "says that it is the first%s, as %s does", previous,
                       sorted[i - 1]->id);
    }
    free(sorted);
}

/* .chain names the run that nobody follows. */
static bool check_head(struct following *f) {
    const struct kg_chain_link *head = &f->links->head;
    const struct kg_chain_node *node = kg_chain_links_find(f->links, head->id);
    f->report->has_head = head->id[0] != '\0';
    if (f->links->head_there && !head->id[0])
        kg_finding_add(f->findings, "head", KG_CHAIN_HEAD, "is not the id and the hash of a run");
    if (!head->id[0]) return false;
    if (node && node->followed)
        kg_finding_add(f->findings, "head", KG_CHAIN_HEAD, "names %s, which another run follows already", head->id);
    return check_link(f, KG_CHAIN_HEAD, head);
}

static int64_t sealed_us(const char *root, const char *id) {
    json_t *summary = NULL;
    int64_t us = 0;
    if (kg_root_read_json(root, id, "data/summary.json", &summary, NULL) == KG_OK) {
        us = kg_json_int(summary, "sealed_us", 0);
        json_decref(summary);
    }
    return us;
}

static void check_time(struct following *f, const struct kg_chain_node *node) {
    const struct kg_chain_node *previous = kg_chain_links_find(f->links, node->previous.id);
    if (!previous || previous->pruned || node->pruned) return;
    const int64_t own = sealed_us(f->root, node->id), before = sealed_us(f->root, previous->id);
    if (own && before && (double)own + KG_TIME_SLACK_S * 1e6 < (double)before)
        kg_finding_add(f->findings, "time", node->id, "says that it was sealed before %s, which it follows",
                       previous->id);
}

/* Who pruned, where somebody signed for it or the policy asks for that. */
static enum kg_status check_tombstones(struct following *f, const struct kg_policy *policy, bool require_signature,
                                       struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < f->links->n_nodes && status == KG_OK; i++) {
        const struct kg_chain_node *node = &f->links->nodes[i];
        struct kg_signature signature;
        if (!node->pruned) continue;
        char *path = kg_xasprintf("%s/" KG_TOMBSTONES "/%s.json", f->root, node->id);
        status = kg_signature_check_file(path, KG_SIGN_TOMBSTONE, policy ? &policy->trust : NULL, &signature, err);
        free(path);
        if (status != KG_OK) break;
        f->report->n_pruned++;
        f->report->n_pruned_unsigned += signature.state == KG_SIGNATURE_NONE;
        const bool taken = !policy || kg_policy_takes(policy, KG_ROLE_TOMBSTONES, false, &signature);
        if (kg_signature_is_wrong(&signature) || !taken || (require_signature && signature.state != KG_SIGNATURE_GOOD))
            kg_finding_add(f->findings, "tombstone", node->id, "its signature is %s%s%s",
                           signature.state == KG_SIGNATURE_NONE ? "missing" : kg_signature_state_name(signature.state),
                           signature.why[0] ? ": " : "", signature.why);
    }
    return status;
}

enum kg_status kg_chain_verify(const char *root, const struct kg_policy *policy, bool require_signature,
                               struct kg_chain_report *report, struct kg_bundle_findings *findings,
                               struct kg_error *err) {
    struct kg_chain_links links = { 0 };
    struct following f = { .root = root, .links = &links, .report = report, .findings = findings };
    size_t n = 0;
    *report = (struct kg_chain_report){ 0 };
    enum kg_status status = kg_left_out_read(root, &f.left_out, findings, err);
    if (status == KG_OK) status = kg_chain_links_read(root, &links, findings, err);
    for (size_t i = 0; i < links.n_nodes && status == KG_OK; i++) {
        const struct kg_chain_node *node = &links.nodes[i];
        if (!node->ours || !node->previous.id[0]) continue;
        n += check_link(&f, node->id, &node->previous);
        check_time(&f, node);
    }
    if (status == KG_OK) {
        n += check_head(&f);
        check_forks(&f);
        check_imports(&f);
        report->n_links = n - report->n_left_out;
        status = check_tombstones(&f, policy, require_signature, err);
    }
    kg_left_out_free(&f.left_out);
    kg_chain_links_free(&links);
    return status;
}
