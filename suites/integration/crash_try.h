/* Tries a scene (crash_scenes.h) at many moments. Each records what it counted and fails the case with the first
 * complaints. */
#ifndef KIGO_SUITES_CRASH_TRY_H
#define KIGO_SUITES_CRASH_TRY_H

#include "suites/integration/crash_scenes.h"

/* SIGKILL for all processes at each system call that changes a file: before it; before it, and another run is sealed
 * ahead of recover; and after half of it, if it is a write. At most about `most` of these, drawn by the case's seed. */
void kg_crash_kill_at_calls(struct kg_record *rec, const struct kg_crash_scene *scene, size_t most);

/* SIGKILL for the command at n moments drawn by the case's seed. */
void kg_crash_kill_at_random(struct kg_record *rec, const struct kg_crash_scene *scene, size_t n);

/* Loss of power after each call: the folders that a disk may then have (crash_disk.h). Of those with all, none or zeros
 * of what was not synced at most about most_plain, of all others most_mixed, drawn by the case's seed. */
void kg_crash_lose_power(struct kg_record *rec, const struct kg_crash_scene *scene, size_t most_plain,
                         size_t most_mixed);

#endif
