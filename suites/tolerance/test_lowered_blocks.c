/* The launches of a decode step with matrices of block formats (lowered_steps.h). */
#include "suites/tolerance/lowered_scenes.h"
#include "suites/tolerance/lowered_steps.h"

static void build(struct kg_case_list *cases) {
    kg_lowered_cases_add(cases, KG_LOWERED_BLOCKS, KG_LOWERED_N_PRECISIONS);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
