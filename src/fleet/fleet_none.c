/* In the place of fleets in a build without libpq. */
#include "fleet/fleet.h"

const char *kg_fleet_missing(void) {
    return "this kigo was built without libpq: install it (Debian: libpq-dev), configure and build again";
}

static enum kg_status missing(struct kg_error *err) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_fleet_missing());
}

enum kg_status kg_fleet_open(const char *url, enum kg_fleet_use use, double wait_s, struct kg_fleet **fleet,
                             struct kg_error *err) {
    (void)url, (void)use, (void)wait_s, (void)fleet;
    return missing(err);
}

void kg_fleet_close(struct kg_fleet *fleet) {
    (void)fleet;
}

const char *kg_fleet_where(const struct kg_fleet *fleet) {
    (void)fleet;
    return "";
}

enum kg_status kg_fleet_init(struct kg_fleet *fleet, int *version, struct kg_error *err) {
    (void)fleet, (void)version;
    return missing(err);
}

enum kg_status kg_fleet_migrate(struct kg_fleet *fleet, int *version, struct kg_error *err) {
    (void)fleet, (void)version;
    return missing(err);
}

enum kg_status kg_fleet_check(struct kg_fleet *fleet, struct kg_error *err) {
    (void)fleet;
    return missing(err);
}

int kg_fleet_version(void) {
    return 0;
}

enum kg_status kg_fleet_status(struct kg_fleet *fleet, struct kg_fleet_status *status, struct kg_error *err) {
    (void)fleet, (void)status;
    return missing(err);
}

void kg_fleet_status_free(struct kg_fleet_status *status) {
    (void)status;
}

enum kg_status kg_fleet_push(struct kg_fleet *fleet, const char *dir, const struct kg_policy *policy, bool pruned_too,
                             const struct kg_fleet_watch *watch, struct kg_pushed *pushed, struct kg_error *err) {
    (void)fleet, (void)dir, (void)policy, (void)pruned_too, (void)watch, (void)pushed;
    return missing(err);
}

enum kg_status kg_fleet_find(struct kg_fleet *fleet, const char *run, char id[256], struct kg_error *err) {
    (void)fleet, (void)run, (void)id;
    return missing(err);
}

enum kg_status kg_fleet_archived(struct kg_fleet *fleet, const char *id, char tagmanifest_sha256[KG_SHA256_HEX_SIZE],
                                 bool *is_signed, struct kg_error *err) {
    (void)fleet, (void)id, (void)tagmanifest_sha256, (void)is_signed;
    return missing(err);
}

enum kg_status kg_fleet_fetch(struct kg_fleet *fleet, const char *id, const char *path,
                              const struct kg_fleet_watch *watch, struct kg_error *err) {
    (void)fleet, (void)id, (void)path, (void)watch;
    return missing(err);
}

enum kg_status kg_fleet_reindex(struct kg_fleet *fleet, const struct kg_fleet_watch *watch, size_t *n_indexed,
                                struct kg_bundle_findings *problems, struct kg_error *err) {
    (void)fleet, (void)watch, (void)n_indexed, (void)problems;
    return missing(err);
}

enum kg_status kg_fleet_prune(struct kg_fleet *fleet, size_t n_keep, const char *author, struct kg_prune_plan *plan,
                              struct kg_error *err) {
    (void)fleet, (void)n_keep, (void)author, (void)plan;
    return missing(err);
}

enum kg_status kg_fleet_history(struct kg_fleet *fleet, struct kg_history **history, struct kg_error *err) {
    (void)fleet, (void)history;
    return missing(err);
}
