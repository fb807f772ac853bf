/* The launches of a decode step with float16 and float32 matrices (lowered_steps.h), and its kinds of steps. */
#include "suites/tolerance/lowered_scenes.h"
#include "suites/tolerance/lowered_steps.h"

static void build(struct kg_case_list *cases) {
    kg_lowered_cases_add(cases, 0, KG_LOWERED_BLOCKS);
    kg_lowered_kinds_add(cases);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
