/* Which runs' figures may be held against each other. */
#ifndef KIGO_HISTORY_COMPARISON_KEY_H
#define KIGO_HISTORY_COMPARISON_KEY_H

#include <jansson.h>
#include <stdbool.h>

/* The comparison key as JSON text with sorted members (malloc'ed): two runs compare exactly if theirs are equal.
 *   gpu, n_gpus, driver, cuda_runtime, power_limit_w, ecc, max_sm_mhz, max_memory_mhz   of the first GPU
 *   cpu, n_cpus, governor                              the host's model, how many may be used, how their clock is set
 *   compiler, cflags, cppflags, sanitizers, optimized, cuda   how the program was built
 *   verb, layers, filter, cases, models, quick, report, jobs  what was asked of the run: another choice of cases is
 *                                                             another history
 * env and build may be NULL (a run that died early). Models count by their files' names, not their folders. */
char *kg_comparison_key(const json_t *env, const json_t *build);

/* The names of the members in which two keys differ, "gpu, driver" (malloc'ed, "" for equal keys). */
char *kg_comparison_difference(const char *a, const char *b);

/* Whether two keys name the same machine and build, whatever cases their runs chose. */
bool kg_comparison_same_machine(const char *a, const char *b);

#endif
