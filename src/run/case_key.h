/* A case's identity: its key, its definition hash and its seed.
 *
 * key: layer/op/name[backend,dtype,shape]; a missing part in the bracket is "-", and the bracket is left out if all
 * three are missing. Parts are printable ASCII without #; layer, op and name hold none of / [ ], back end and dtype no
 * comma or bracket, so that a key reads back in one way only. definition hash: SHA-256 over "field=value\n" of layer,
 * op, name, backend, dtype, shape, spec, definition; a field that is missing is left out. seed: the first 8 bytes, most
 * significant first, of SHA-256("<run seed in decimal>\n<key>"). */
#ifndef KIGO_RUN_CASE_KEY_H
#define KIGO_RUN_CASE_KEY_H

#include "base/hash.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_CASE_KEY_MAX = 512 }; /* in bytes, with the NUL */
enum { KG_CASE_TIMEOUT_S = 60 };
#define KG_DEFAULT_RUN_SEED 1u

struct kg_record; /* of the case that runs */

/* What a suite program registers; the runner knows a case by its texts. */
struct kg_case {
    const char *layer;   /* "unit", "integration", "haiku", "tolerance", "mutation" */
    const char *op;      /* the operation or module under test */
    const char *name;    /* the edge the case holds: lower_case_words */
    const char *backend; /* "cpu", "cuda", or NULL where none is involved */
    const char *dtype;   /* NULL where none is involved */
    const char *shape;   /* "M=3 N=5 K=7"-like text or NULL */
    const char *spec;    /* tag of the requirement it proves ("FT-050"), or NULL */
    /* What else defines the workload (parameters, tolerance, fixture); enters the definition hash with the fields
     * above. NULL: the fields above say it all. */
    const char *definition;
    double timeout_s; /* 0: 60 s; past it the case is a timeout and its process is killed */
    bool timed;       /* it judges times: `kigo check` runs its program after the others, with none beside it */
    bool source_tree; /* it reads the source tree: skipped where kigo is installed */
    void (*run)(struct kg_record *rec, const void *arg);
    const void *arg;
};

/* KG_ERR_USAGE naming the part that may not stand in a key. */
KG_WARN_UNUSED enum kg_status kg_case_key(const struct kg_case *c, char key[KG_CASE_KEY_MAX], struct kg_error *err);

void kg_case_definition_sha(const struct kg_case *c, char hex[KG_SHA256_HEX_SIZE]);

uint64_t kg_case_seed(uint64_t run_seed, const char *key);

#endif
