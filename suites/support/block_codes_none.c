#include "suites/support/block_codes_warp.h"

const char *const kg_block_codes_missing = "this build's configure found no C++17 compiler ($CXX)";

void kg_block_codes_digits(const float *x, uint32_t n_cols, float *denoted) {
    (void)x, (void)n_cols, (void)denoted;
}

uint32_t kg_block_codes_chunk_bytes(enum kg_dtype dtype) {
    (void)dtype;
    return 0;
}

bool kg_block_codes_multiply(const struct kg_block_codes_call *call, double products[KG_BLOCK_CODES_ROWS]) {
    (void)call, (void)products;
    return false;
}
