#include "suites/support/host_draws.h"
#include "base/buffer.h"
#include <stdlib.h>

uint64_t kg_host_draws_asked, kg_host_draws_given;

static enum kg_status open_mailbox(struct kg_backend *backend, uint64_t size_bytes, void **mailbox,
                                   struct kg_error *err) {
    (void)backend, (void)err;
    *mailbox = kg_xcalloc(1, size_bytes);
    return KG_OK;
}

static void close_mailbox(struct kg_backend *backend, void *mailbox) {
    (void)backend;
    free(mailbox);
}

static enum kg_status sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err) {
    (void)backend;
    kg_host_draws_asked++;
    return kg_cpu_sample(args, err);
}

static enum kg_status wait_for(struct kg_backend *backend, const struct kg_sample_result *result, uint32_t sequence,
                               struct kg_sample_result *copy, struct kg_error *err) {
    (void)backend;
    if (result->sequence != sequence)
        return kg_fail(err, KG_ERR_INTERNAL, "draw %u was asked for, %u is in its place", sequence, result->sequence);
    kg_host_draws_given++;
    *copy = *result;
    return KG_OK;
}

const struct kg_draw_ops kg_host_draw_ops = {
    .open_mailbox = open_mailbox, .close_mailbox = close_mailbox, .sample = sample, .wait = wait_for
};
