#include "bundle/standing.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/beside.h"
#include "bundle/chain.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kg_standing {
    char *root;
    int64_t now_us;
    struct kg_policy policy;
    struct kg_dir_list foreign; /* ids, sorted: what came from elsewhere */
};

bool kg_times_wrong(const char *id, int64_t started_us, int64_t sealed_us, int64_t now_us, char why[256]) {
    const int64_t slack_us = (int64_t)KG_TIME_SLACK_S * 1000000;
    int64_t named_us = started_us;
    why[0] = '\0';
    const bool is_named = kg_bundle_id_parse(id, &named_us);
    if (!is_named) named_us = started_us;
    const int64_t latest_us = sealed_us > started_us ? sealed_us : started_us;
    if (sealed_us < started_us) snprintf(why, 256, "it was sealed before it started");
    else if ((latest_us > named_us ? latest_us : named_us) > now_us + slack_us)
        snprintf(why, 256, "its time is after the present one");
    else if (is_named && (started_us < named_us - slack_us || started_us > named_us + slack_us))
        snprintf(why, 256, "its id names another time than its start");
    return why[0] != '\0';
}

enum kg_status kg_standing_open(const char *root, int64_t now_us, struct kg_standing **out, struct kg_error *err) {
    return kg_standing_open_by(root, root, now_us, out, err);
}

enum kg_status kg_standing_open_by(const char *root, const char *policy_root, int64_t now_us, struct kg_standing **out,
                                   struct kg_error *err) {
    struct kg_standing *standing = kg_xcalloc(1, sizeof *standing);
    *standing = (struct kg_standing){ .root = kg_xstrdup(root), .now_us = now_us };
    enum kg_status status = kg_policy_load(policy_root, NULL, &standing->policy, err);
    if (status == KG_OK) status = kg_chain_foreign(root, &standing->foreign, err);
    if (status == KG_OK) *out = standing;
    else kg_standing_close(standing);
    return status;
}

void kg_standing_close(struct kg_standing *standing) {
    if (!standing) return;
    kg_dir_list_free(&standing->foreign);
    kg_policy_free(&standing->policy);
    free(standing->root);
    free(standing);
}

const struct kg_policy *kg_standing_policy(const struct kg_standing *standing) {
    return &standing->policy;
}

static bool read_times(const char *root, const char *id, int64_t *started_us, int64_t *sealed_us) {
    json_t *summary = NULL;
    const bool there = kg_root_read_json(root, id, "data/summary.json", &summary, NULL) == KG_OK;
    *started_us = there ? kg_json_int(summary, "started_us", 0) : 0;
    *sealed_us = there ? kg_json_int(summary, "sealed_us", 0) : 0;
    if (there) json_decref(summary);
    return there;
}

static bool times_wrong(const struct kg_standing *standing, const char *id, char why[256]) {
    struct kg_chain_link parent;
    int64_t started_us, sealed_us, parent_started_us, parent_sealed_us;
    if (!read_times(standing->root, id, &started_us, &sealed_us)) {
        snprintf(why, 256, "it has no readable summary");
        return true;
    }
    if (kg_times_wrong(id, started_us, sealed_us, standing->now_us, why)) return true;
    if (!kg_chain_read_link(standing->root, id, &parent) || !parent.id[0]) return false;
    if (!read_times(standing->root, parent.id, &parent_started_us, &parent_sealed_us)) return false;
    if (sealed_us + (int64_t)KG_TIME_SLACK_S * 1000000 >= parent_sealed_us)
        return false; /* its own time is a sane one */
    snprintf(why, 256, "it says that it was sealed before its predecessor");
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool kg_standing_counts(struct kg_standing *standing, enum kg_role role, const char *id, char why[256]) {
    const struct kg_policy *policy = &standing->policy;
    struct kg_signature signature = { .state = KG_SIGNATURE_NONE };
    if (times_wrong(standing, id, why)) return false;
    const bool here = !standing->foreign.n_names || !bsearch(&id, standing->foreign.names, standing->foreign.n_names,
                                                             sizeof *standing->foreign.names, by_name);
    if (kg_policy_takes(policy, role, here, NULL)) return true;
    char *dir = kg_path_join(standing->root, id);
    const enum kg_status status = kg_signature_check(dir, &policy->trust, &signature, NULL);
    free(dir);
    if (status == KG_OK && kg_policy_takes(policy, role, here, &signature)) return true;
    snprintf(why, 256, "%s, and %s", here ? "it was sealed here" : "it came from elsewhere",
             status != KG_OK                          ? "its signature cannot be checked"
             : signature.state == KG_SIGNATURE_NONE   ? "nobody signed it"
             : signature.state == KG_SIGNATURE_GOOD   ? "its signer does not count"
             : signature.state == KG_SIGNATURE_INTACT ? "no list of allowed signers says who signed it"
                                                      : "its signature does not count");
    return false;
}
