/* The end of a run that lived: its bag is finished and published. */
#include "bundle/internal.h"
#include "base/buffer.h"
#include "bundle/chain.h"
#include "bundle/sign.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void close_records(struct kg_bundle *bundle) {
    int *const fds[] = { &bundle->plan_fd, &bundle->journal_fd, &bundle->results_fd, &bundle->samples_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
}

static enum kg_status seal(struct kg_bundle *bundle, const struct kg_bundle_document *documents,
                           struct kg_bundle_summary *summary, struct kg_error *err) {
    const struct kg_bag_job job = { bundle->root, bundle->dir, bundle->id, false, documents, bundle };
    int chain_fd;
    if (!bundle->plan_done) return kg_fail(err, KG_ERR_USAGE, "bundle %s: sealed before plan_done", bundle->id);
    close_records(bundle);
    enum kg_status status = kg_bag_finish(&job, summary, &chain_fd, err);
    /* A key that was lost meanwhile costs the signature, not the run. */
    struct kg_error sign_err;
    if (status == KG_OK && bundle->sign_key &&
        kg_bundle_put_signature(bundle->dir, bundle->sign_key, &sign_err) != KG_OK)
        snprintf(summary->note, sizeof summary->note, "not signed: %.240s", sign_err.message);
    summary->unsigned_after_all = summary->note[0] != '\0';
    if (status == KG_OK) status = kg_bag_publish(bundle->root, bundle->id, err);
    kg_chain_leave(chain_fd);
    if (status != KG_OK) return kg_error_context(err, status, "sealing %s", bundle->id);
    bundle->sealed = true;
    free(bundle->dir);
    bundle->dir = kg_xasprintf("%s/%s", bundle->root, bundle->id);
    close(bundle->lock_fd);
    bundle->lock_fd = -1;
    return KG_OK;
}

enum kg_status kg_bundle_seal(struct kg_bundle *bundle, const struct kg_bundle_document *documents,
                              struct kg_bundle_summary *summary, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = seal(bundle, documents, summary, err);
    return kg_bundle_leave(bundle, status, err);
}
