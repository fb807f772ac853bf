/* The launches of a decode step one by one: what each leaves in memory, against the operations on the same back end;
 * and wrong lowered plans, each of which that comparison must reject at the place where it goes wrong. A mistake is in
 * the data that a plan is lowered with (a node's weight, norm, rotation, slot), or in the list of launches: the fused
 * kernels and the persistent kernel run. Every fusion, kernel of attention and instruction has a mutant. */
#ifndef KIGO_SUITES_LOWERED_STEPS_H
#define KIGO_SUITES_LOWERED_STEPS_H

#include "suites/harness/case.h"

/* The cases of the precisions begin to end - 1 (lowered_scenes.h), once a program. */
void kg_lowered_cases_add(struct kg_case_list *cases, int begin, int end);

/* The case that every kind of step has a mutant, of any precision. */
void kg_lowered_kinds_add(struct kg_case_list *cases);

#endif
