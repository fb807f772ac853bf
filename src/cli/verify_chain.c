/* kigo verify --chain: whether runs are missing. */
#include "base/clock.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "bundle/chain.h"
#include "bundle/checkpoint.h"
#include "bundle/left_out.h"
#include "cli/bundles.h"
#include "cli/trust.h"
#include "cli/verify_report.h"
#include <stdlib.h>

static const char *plural(size_t n) {
    return n == 1 ? "" : "s";
}

struct found {
    struct kg_chain_report chain;
    struct kg_signature left_out; /* of the list */
    const char *since;            /* NULL: no checkpoint */
    struct kg_signature checkpoint;
    int64_t n_since;
    struct kg_bundle_findings findings;
};

static void put_text(const char *root, const struct found *f, struct kg_buffer *text) {
    const struct kg_chain_report *chain = &f->chain;
    kg_verify_word(&f->findings, text);
    kg_text_printf(text, "chain of %s: %zu link%s hold%s\n", root, chain->n_links, plural(chain->n_links),
                   chain->n_links == 1 ? "s" : "");
    if (chain->n_left_out > 0) {
        kg_text_printf(text, "     %zu more lead%s to what was left out on purpose: %s/" KG_LEFT_OUT ", ",
                       chain->n_left_out, chain->n_left_out == 1 ? "s" : "", root);
        kg_cli_signature_text(&f->left_out, text);
        kg_buffer_puts(text, "\n");
    }
    if (chain->n_pruned > 0)
        kg_text_printf(text, "     %zu run%s pruned; %zu tombstone%s not signed\n", chain->n_pruned,
                       plural(chain->n_pruned), chain->n_pruned_unsigned, plural(chain->n_pruned_unsigned));
    if (f->since) {
        kg_text_printf(text, "     %lld run%s since the checkpoint %s, ", (long long)f->n_since,
                       plural((size_t)f->n_since), f->since);
        kg_cli_signature_text(&f->checkpoint, text);
        kg_buffer_puts(text, "\n");
    } else {
        kg_text_printf(text, "     that the newest runs are here is %s\n",
                       chain->has_head ? ".chain's word; a checkpoint elsewhere proves it (--since)"
                                       : "not shown: there is no .chain, and no checkpoint was named (--since)");
    }
    kg_verify_print(&f->findings, text);
}

static json_t *found_json(const struct found *f) {
    const struct kg_chain_report *chain = &f->chain;
    json_t *object = json_pack("{s:b, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "ok", f->findings.n_items == 0, "n_links",
                               (json_int_t)chain->n_links, "n_left_out", (json_int_t)chain->n_left_out, "n_pruned",
                               (json_int_t)chain->n_pruned, "n_pruned_unsigned", (json_int_t)chain->n_pruned_unsigned,
                               "has_head", chain->has_head, "left_out_signature", kg_cli_signature_json(&f->left_out),
                               "findings", kg_cli_findings_json(&f->findings));
    if (f->since)
        json_object_set_new(object, "since",
                            json_pack("{s:o, s:I, s:o}", "checkpoint", kg_json_utf8(f->since), "n_runs",
                                      (json_int_t)f->n_since, "signature", kg_cli_signature_json(&f->checkpoint)));
    return object;
}

static enum kg_status compare(const char *root, struct kg_verify_report *report, struct found *f,
                              struct kg_error *err) {
    enum kg_status status = kg_checkpoint_compare(root, f->since, kg_clock_utc_us(), &f->n_since, &f->findings, err);
    if (status == KG_OK)
        status = kg_signature_check_file(f->since, KG_SIGN_CHECKPOINT, &report->policy.trust, &f->checkpoint, err);
    if (status == KG_OK) kg_verify_signature(f->since, report, KG_ROLE_COUNT, &f->checkpoint, &f->findings);
    return status;
}

enum kg_status kg_verify_chain(const char *root, const char *since, struct kg_verify_report *report,
                               struct kg_error *err) {
    struct found f = { .since = since };
    char *list = kg_path_join(root, KG_LEFT_OUT);
    enum kg_status status =
        kg_chain_verify(root, &report->policy, report->require_signature, &f.chain, &f.findings, err);
    if (status == KG_OK && kg_path_exists(list)) {
        status = kg_signature_check_file(list, KG_SIGN_LEFT_OUT, &report->policy.trust, &f.left_out, err);
        if (status == KG_OK) kg_verify_signature(KG_LEFT_OUT ".sig", report, KG_ROLE_COUNT, &f.left_out, &f.findings);
    }
    if (status == KG_OK && since) status = compare(root, report, &f, err);
    if (status == KG_OK) {
        report->n_findings += kg_bundle_findings_count(&f.findings);
        report->chain = found_json(&f);
        put_text(root, &f, &report->text);
    }
    kg_bundle_findings_free(&f.findings);
    free(list);
    return status;
}
