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
#include "suites/harness/case.h"

enum { KG_CASE_KEY_MAX = 512 }; /* in bytes, with the NUL */
enum { KG_CASE_TIMEOUT_S = 60 };
#define KG_DEFAULT_RUN_SEED 1u

/* KG_ERR_USAGE naming the part that may not stand in a key. */
KG_WARN_UNUSED enum kg_status kg_case_key(const struct kg_case *c, char key[KG_CASE_KEY_MAX], struct kg_error *err);

void kg_case_definition_sha(const struct kg_case *c, char hex[KG_SHA256_HEX_SIZE]);

uint64_t kg_case_seed(uint64_t run_seed, const char *key);

#endif
