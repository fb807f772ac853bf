/* A root's chain in memory: its bundles and its pruned ones, and which names which. */
#ifndef KIGO_BUNDLE_CHAIN_LINKS_H
#define KIGO_BUNDLE_CHAIN_LINKS_H

#include "base/file.h"
#include "bundle/chain.h"

#define KG_CHAIN_HEAD ".chain"

/* A run of the root: its folder is here, or its tombstone. */
struct kg_chain_node {
    char *id;
    char sha256[KG_SHA256_HEX_SIZE]; /* of its tag manifest; "" where it cannot be read */
    struct kg_chain_link previous;   /* id "" where it names none */
    bool has_label;                  /* it says which one it follows, if only "none" */
    bool pruned, ours;               /* ours: all but imported ones that no run of ours names */
    bool followed;                   /* a run of ours names it */
};
struct kg_chain_links {
    struct kg_chain_node *nodes; /* sorted by id */
    size_t n_nodes;
    struct kg_chain_link head; /* of .chain; id "" where there is none */
    bool head_there;           /* the file */
};

/* Findings (may be NULL): "format" of a link, "tombstone" of one whose copies do not belong to the run it names. */
KG_WARN_UNUSED enum kg_status kg_chain_links_read(const char *root, struct kg_chain_links *links,
                                                  struct kg_bundle_findings *findings, struct kg_error *err);
void kg_chain_links_free(struct kg_chain_links *links);
struct kg_chain_node *kg_chain_links_find(const struct kg_chain_links *links, const char *id); /* NULL: not here */
/* The runs from this one back to the first that is known of: those named by the last one are counted, here or not. */
size_t kg_chain_links_count(const struct kg_chain_links *links, const struct kg_chain_node *node);

/* The parts. The last link as .chain has it; false where there is none or it makes no sense. */
bool kg_chain_read_head(const char *root, struct kg_chain_link *link);
bool kg_chain_is_imported(const char *root, const char *id);
KG_WARN_UNUSED enum kg_status kg_chain_hash_tags(const char *root, const char *id, char sha256[KG_SHA256_HEX_SIZE],
                                                 struct kg_error *err);

#endif
