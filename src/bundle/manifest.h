/* The tag files of a BagIt 1.0 bag (RFC 8493). */
#ifndef KIGO_BUNDLE_MANIFEST_H
#define KIGO_BUNDLE_MANIFEST_H

#include "base/buffer.h"
#include "base/hash.h"
#include "bundle/tree.h"
#include <kigo/bundle.h>
#include <stdbool.h>
#include <stddef.h>

/* The text of bagit.txt, to the byte. */
extern const char KG_BAGIT_TXT[];

struct kg_manifest_line {
    char *path;
    char sha256[KG_SHA256_HEX_SIZE];
};
struct kg_manifest {
    struct kg_manifest_line *lines; /* sorted bytewise by path */
    size_t n_lines;
};

/* Parses "<64 hex><blanks>[*]<path>\n" lines; what is malformed, unsafe (absolute, "..") or named twice is a finding
 * against `file` and left out. */
void kg_manifest_parse(const char *file, const char *text, size_t size_bytes, struct kg_manifest *manifest,
                       struct kg_bundle_findings *findings);
void kg_manifest_free(struct kg_manifest *manifest);
const struct kg_manifest_line *kg_manifest_find(const struct kg_manifest *manifest, const char *path);

/* Waits until the files of the tree for which wanted(path) is true are on disk. */
KG_WARN_UNUSED enum kg_status kg_manifest_sync(const char *dir, const struct kg_tree *tree,
                                               bool (*wanted)(const char *path), struct kg_error *err);
/* Hashes them and appends manifest lines. KG_ERR_FORMAT if one is not a regular file or has an unsafe name. */
KG_WARN_UNUSED enum kg_status kg_manifest_make(const char *dir, const struct kg_tree *tree,
                                               bool (*wanted)(const char *path), struct kg_buffer *out,
                                               struct kg_error *err);

bool kg_manifest_is_payload(const char *path); /* below data/ */
bool kg_manifest_is_tag(const char *path);     /* what a tag manifest lists: neither payload nor tagmanifest-* */

/* Labels and values of bag-info.txt as a JSON object label -> text; malformed lines and repeated labels are findings.
 */
struct json_t *kg_bag_info_parse(const char *text, size_t size_bytes, struct kg_bundle_findings *findings);

#endif
