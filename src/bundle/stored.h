/* How a payload file lies in the folder: plain as <name>, or compressed as <name>.zst, one Zstandard frame. Files are
 * written plain; seal may compress the large ones. Whoever reads a payload file reads it through here. */
#ifndef KIGO_BUNDLE_STORED_H
#define KIGO_BUNDLE_STORED_H

#include "bundle/tree.h"
#include <kigo/bundle.h>
#include <stdbool.h>

/* Reads <dir>/<relative> in either form; *text is malloc'ed with one NUL behind it. It may hold max_bytes, a
 * compressed one also no more than kg_limit_expanded. KG_ERR_NOT_FOUND: neither is there; KG_ERR_FORMAT: not a regular
 * file, too large, or a frame that does not expand. */
KG_WARN_UNUSED enum kg_status kg_stored_read(const char *dir, const char *relative, uint64_t max_bytes, char **text,
                                             size_t *size_bytes, struct kg_error *err);

/* How much memory kg_stored_read takes at most, from the file's size and, compressed, what its frame claims; 0 if it
 * would not be read. */
uint64_t kg_stored_most_bytes(const char *dir, const char *relative, uint64_t max_bytes);

/* The entry of either form, or NULL. */
const struct kg_tree_entry *kg_stored_find(const struct kg_tree *tree, const char *relative);

/* A name that only this module gives. */
bool kg_stored_is_compressed(const char *relative);

/* Compresses the large records, exports and logs below data/: each <name>.zst is on disk before its <name> goes, so a
 * death at any moment leaves one of them whole. */
KG_WARN_UNUSED enum kg_status kg_stored_compress(const char *dir, struct kg_error *err);

/* The way back, for recover: every payload file plain again, on disk. A <name>.zst beside its <name>, or one that does
 * not expand, goes to data/recovery/. */
KG_WARN_UNUSED enum kg_status kg_stored_expand(const char *dir, struct kg_error *err);

/* Adds a finding for each compressed file that does not expand or lies beside its plain form. */
void kg_stored_verify(const char *dir, const struct kg_tree *tree, struct kg_bundle_findings *findings);

#endif
