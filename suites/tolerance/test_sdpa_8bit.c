/* Attention of E4M3 and int8 against float64 (sdpa_cases.h). */
#include "suites/tolerance/sdpa_cases.h"

static void build(struct kg_case_list *cases) {
    kg_sdpa_cases(cases, true);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
