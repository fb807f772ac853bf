/* A folder that programs change, and that is put back into the state it had: only what they changed is copied again. */
#ifndef KIGO_SUITES_FAULT_WORLD_H
#define KIGO_SUITES_FAULT_WORLD_H

#include "base/hash.h"
#include <stdbool.h>

struct kg_fault_world;

/* Remembers the folder `dir`; its copy is made at `copy`, which is not below it. Fails the case on any error. */
struct kg_fault_world *kg_fault_world_keep(const char *dir, const char *copy);
/* Whether every file is the one that it was, not written since, and no name is new or gone. */
bool kg_fault_world_is_same(const struct kg_fault_world *world);
/* Of names and bytes of the files that are other or new and of names that are gone: what two worlds share that differ
 * from the kept one alike. */
void kg_fault_world_digest(const struct kg_fault_world *world, char hex[KG_SHA256_HEX_SIZE]);
/* Makes the folder as it was. What is written after it returns is seen by its time. */
void kg_fault_world_put_back(struct kg_fault_world *world);
void kg_fault_world_free(struct kg_fault_world *world);

#endif
