/* The chain of a root's bundles: each names the one sealed before it, so that a removed run shows.
 *
 * bag-info.txt's "Previous-Bundle: <id> <SHA-256 of its tagmanifest-sha256.txt>", or "none" for the first. The last
 * link is kept beside the bundles, in <root>/.chain ("<id> <sha256>\n"), so that the removal of the newest shows as
 * well; without that file the bundle sealed last is taken. Sealing runs wait for each other from reading the last link
 * to publishing.
 *
 * What explains a gap: a tombstone (prune), a line of left-out.txt (left_out.h), that the bundle lies whole in
 * .tmp-<id>, about to be published, or that it was imported from another root, whose chain it belongs to; one that a
 * bundle of this root names belongs to this chain all the same. */
#ifndef KIGO_BUNDLE_CHAIN_H
#define KIGO_BUNDLE_CHAIN_H

#include "base/hash.h"
#include <kigo/bundle.h>
#include <stdbool.h>

#define KG_CHAIN_LABEL "Previous-Bundle"

struct kg_chain_link {
    char id[256]; /* "" where there is none */
    char sha256[KG_SHA256_HEX_SIZE];
};

/* "none" or "<id> <sha256>"; false if the text is neither. */
bool kg_chain_parse(const char *text, struct kg_chain_link *link);
/* The text of a link. malloc'ed. */
char *kg_chain_text(const struct kg_chain_link *link);

/* Waits for the lock of the chain: *fd is held until kg_chain_leave. A holder that stands still is waited for 10 s and
 * then passed by (the chain forks, nothing is lost): *fd = -1. */
void kg_chain_enter(const char *root, int *fd);
void kg_chain_leave(int fd);
/* The link that a bundle `id` of the root gets. */
KG_WARN_UNUSED enum kg_status kg_chain_previous(const char *root, const char *id, struct kg_chain_link *previous,
                                                struct kg_error *err);
/* Makes the bundle the last link: before it is published, so that a death in between leaves an unfinished bundle, which
 * recover publishes, and no unnamed one. */
KG_WARN_UNUSED enum kg_status kg_chain_advance(const char *root, const struct kg_chain_link *last,
                                               struct kg_error *err);
/* Makes a whole bundle whose run died before it was published a link, under the lock. *joined is false where another
 * run became the last link after this one read it: the bundle needs another predecessor, or the chain would fork. */
KG_WARN_UNUSED enum kg_status kg_chain_join(const char *root, const char *id, bool *joined, struct kg_error *err);

/* The link that a bundle of the root names; false if it cannot be read. */
bool kg_chain_read_link(const char *root, const char *id, struct kg_chain_link *link);
/* The root's bundles that belong to other roots' chains: imported, and named by none of this one. Sorted. */
struct kg_dir_list;
KG_WARN_UNUSED enum kg_status kg_chain_foreign(const char *root, struct kg_dir_list *ids, struct kg_error *err);

struct kg_chain_report {
    size_t n_links;                     /* that hold */
    size_t n_left_out;                  /* that lead to a run which was left out on purpose */
    size_t n_pruned, n_pruned_unsigned; /* tombstones; those that nobody signed */
    bool has_head;                      /* .chain is here: without it the newest run may be gone */
};

/* Follows every link of a root. Findings: "removed" (a bundle that another names is not there, and neither a tombstone
 * nor left_out.h says why), "replaced" (it is there, was pruned or left out, with another tag manifest), "fork" (two
 * runs follow the same one, or two are the first), "head" (.chain names no run, or one that another follows), "time"
 * (sealed before the run that it follows), "tombstone" (its signature does not count, as policy or require_signature
 * ask; its copies are of another run), "format". policy NULL: nobody is trusted or distrusted. */
struct kg_policy;
KG_WARN_UNUSED enum kg_status kg_chain_verify(const char *root, const struct kg_policy *policy, bool require_signature,
                                              struct kg_chain_report *report, struct kg_bundle_findings *findings,
                                              struct kg_error *err);

#endif
