#include "suites/support/row_map_host.h"

const char *const kg_row_map_missing = "this build's configure found no C++17 compiler ($CXX)";

struct kg_row_place kg_row_map_place(const struct kg_rows_problem *problem, uint32_t pair, uint32_t which) {
    (void)problem, (void)pair, (void)which;
    return (struct kg_row_place){ 0, 0 };
}
