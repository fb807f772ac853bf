/* A folder that programs change, and that is put back into the state it had: only what they changed is copied again. */
#ifndef KIGO_SUITES_FAULT_WORLD_H
#define KIGO_SUITES_FAULT_WORLD_H

struct kg_fault_world;

/* Remembers the folder `dir`; its copy is made at `copy`, which is not below it. Fails the case on any error. */
struct kg_fault_world *kg_fault_world_keep(const char *dir, const char *copy);
/* Makes the folder as it was. */
void kg_fault_world_put_back(struct kg_fault_world *world);
void kg_fault_world_free(struct kg_fault_world *world);

#endif
