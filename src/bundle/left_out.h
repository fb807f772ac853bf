/* Runs of a root that were left out on purpose, as a repository commits only those bundles that a claim rests on.
 *
 * <root>/left-out.txt, a line a run: "<id> <SHA-256 of its tagmanifest-sha256.txt> <why>", as the Previous-Bundle of
 * the bag that names it has the first two; empty lines and those that begin with '#' do not count. left-out.txt.sig may
 * be an SSH signature over it, for the purpose KG_SIGN_LEFT_OUT. */
#ifndef KIGO_BUNDLE_LEFT_OUT_H
#define KIGO_BUNDLE_LEFT_OUT_H

#include "bundle/chain.h"

#define KG_LEFT_OUT "left-out.txt"

struct kg_left_out {
    struct kg_chain_link *links;
    size_t n_links;
};

/* No file: no runs. Finding "format": a line that is none, or gives no reason. */
KG_WARN_UNUSED enum kg_status kg_left_out_read(const char *root, struct kg_left_out *list,
                                               struct kg_bundle_findings *findings, struct kg_error *err);
/* NULL if it is not listed. */
const struct kg_chain_link *kg_left_out_find(const struct kg_left_out *list, const char *id);
void kg_left_out_free(struct kg_left_out *list);

#endif
