/* How much of a bundle, and of a folder of bundles, is read: what a stranger sends costs a reader at most 512 MB of
 * memory and time in proportion to its bytes. The scale is a check's bundle of 7,769 results: 26 files; 10 MB of
 * results, 2.7 MB of plan, 1.7 MB of journal with 570,000 JSON values, 1,458 values and 37 KB in the longest line; 83
 * KB in the largest JSON document; 24 KB of samples; compressed files expand 38 times at most. What is past a cap is an
 * error, or a finding `limit` of verify, that names it. `kigo import --max-bytes` raises one; the others are of the
 * format. docs/bundle-format.md lists them. */
#ifndef KIGO_BUNDLE_LIMITS_H
#define KIGO_BUNDLE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* Tag files, and what lies beside the bundles. */
    KG_MAX_TAG_BYTES = 16 << 20,      /* a manifest: 100,000 files of 160 bytes a line */
    KG_MAX_INFO_BYTES = 64 << 10,     /* bag-info.txt: a dozen lines */
    KG_MAX_HEAD_BYTES = 4096,         /* .chain: an id and a hash */
    KG_MAX_LEFT_OUT_BYTES = 16 << 20, /* left-out.txt: 100,000 runs */

    KG_MAX_OTHER_MANIFESTS = 4, /* of other digests than SHA-256: each is the payload read once more */

    /* Files and folders of a bundle. A failed case leaves some five. */
    KG_MAX_ENTRIES = 100000,
    KG_MAX_DEPTH = 64,        /* folders in folders: a path has at most 1,024 bytes */
    KG_MAX_PATH_BYTES = 1024, /* what a manifest's line holds */

    /* Records are held in memory whole, as text and as values: (32 + 3 x 32) MiB of text and 2,000,000 x 120 bytes. */
    KG_MAX_RECORD_BYTES = 32 << 20, /* of plan, results or journal */
    KG_MAX_LINE_BYTES = 1 << 20,
    KG_MAX_VALUES =
        2000000,           /* of the three together; an object or a list counts as three, as it takes three's memory */
    KG_MAX_MEMBERS = 1024, /* of an object in a line: each name is compared with those before it */
    KG_MAX_NESTING = 64,   /* of objects and lists: readers recurse */
    KG_MAX_DOCUMENT_BYTES = 16 << 20, /* a JSON file */
    KG_MAX_DOCUMENT_VALUES = 500000,  /* counted as above */
    KG_MAX_SAMPLE_BYTES = 4 << 20,    /* samples.bin: a million; an interval costs 2,000 draws a sample */

    /* Compressed files. */
    KG_MAX_EXPANDED_BYTES = 64 << 20,        /* one of them */
    KG_MAX_EXPANDED_TOTAL_BYTES = 256 << 20, /* all of a bundle's */
    KG_MAX_RATIO = 1000,                     /* expanded to compressed, past the first MiB */
    KG_RATIO_FREE_BYTES = 1 << 20,

    /* What verify says of a bundle. The rest is counted. */
    KG_MAX_FINDINGS = 1000,
};

/* What an archive may hold: four hundred times the largest bundle's bytes; each is written and hashed once. */
static const uint64_t KG_MAX_IMPORT_BYTES = UINT64_C(1) << 30;

/* Whether a line of a record file fits; takes what it holds off *values_left. NULL, or what is wrong (static text). */
const char *kg_limit_line(const char *text, size_t len, uint64_t *values_left);
/* The same for a whole JSON document. */
const char *kg_limit_document(const char *text, size_t len);
/* How much a compressed file of that size may hold. */
uint64_t kg_limit_expanded(uint64_t compressed_bytes);

#endif
