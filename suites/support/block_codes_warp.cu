/* Compiled by the C++ compiler, in builds with and without CUDA. */
#include "suites/support/host_warp.cuh"
#include "kernels/decode/block_codes.cuh"

extern "C" {
#include "suites/support/block_codes_warp.h"
extern const char *const kg_block_codes_missing = nullptr;
}

using namespace kg_block_codes;

enum { MAX_CHUNKS = KG_BLOCK_CODES_MAX_COLS / CHUNK_COLS, CHUNK_GROUPS = CHUNK_COLS / GROUP_COLS };
static_assert(16 * MAX_CHUNKS <= kg_host_warp::MAX_CALLS, "a lane multiplies 16 times a chunk");

/* x as make_operand of blocks.cu leaves it in shared memory, zeros behind its end. */
struct operand {
    alignas(16) unsigned char x[MAX_CHUNKS * X_CHUNK_BYTES];
    alignas(16) float sums[MAX_CHUNKS * CHUNK_GROUPS];
};

static void make_operand(const kg_block_codes_call &call, uint32_t n_chunks, operand *to) {
    memset(to->x, 0xFF, sizeof to->x); /* what lies between the columns is not x */
    for (uint32_t i = 0; i < n_chunks * CHUNK_COLS; i += 8) {
        float x[8], sum = 0;
        for (uint32_t e = 0; e < 8; e++) x[e] = i + e < call.n_cols ? call.x[i + e] : 0;
        for (float each : x) sum += each;
        const uint4 words = x_order(x);
        memcpy(to->x + x_at(i), &words, sizeof words);
        float &group = to->sums[i / GROUP_COLS];
        group = (i % GROUP_COLS == 0 ? 0 : group) + sum * call.sums_times;
    }
}

template <enum kg_dtype D> static bool multiply(const kg_block_codes_call &call, double *products) {
    static operand shared;
    const uint32_t n_chunks = (call.n_cols + CHUNK_COLS - 1) / CHUNK_COLS;
    float parts[kg_host_warp::LANES][2];
    make_operand(call, n_chunks, &shared);
    const bool ran = kg_host_warp::run([&] {
        const uint32_t lane = threadIdx.x % kg_host_warp::LANES, g = lane / 4;
        float sum[2] = { 0, 0 };
        for (uint32_t c = 0; c < n_chunks; c++) {
            const unsigned char *const rows[2] = { call.rows[g] + c * chunk_bytes(D),
                                                   call.rows[g + 8] + c * chunk_bytes(D) };
            add_chunk<D>(sum, rows, shared.x + c * X_CHUNK_BYTES, shared.sums + c * CHUNK_GROUPS,
                         call.n_blocks - c * (CHUNK_COLS / X_SUB_COLS));
        }
        memcpy(parts[lane], sum, sizeof sum);
    });
    for (int r = 0; r < KG_BLOCK_CODES_ROWS; r++) {
        products[r] = 0;
        for (int t = 0; t < 4; t++) products[r] += parts[r % 8 * 4 + t][r / 8];
    }
    return ran;
}

extern "C" uint32_t kg_block_codes_chunk_bytes(enum kg_dtype dtype) {
    return chunk_bytes(dtype);
}

extern "C" bool kg_block_codes_multiply(const struct kg_block_codes_call *call, double products[KG_BLOCK_CODES_ROWS]) {
    switch (call->dtype) {
    case KG_DTYPE_Q4_0: return multiply<KG_DTYPE_Q4_0>(*call, products);
    case KG_DTYPE_Q5_0: return multiply<KG_DTYPE_Q5_0>(*call, products);
    case KG_DTYPE_Q8_0: return multiply<KG_DTYPE_Q8_0>(*call, products);
    case KG_DTYPE_Q4_K: return multiply<KG_DTYPE_Q4_K>(*call, products);
    case KG_DTYPE_Q5_K: return multiply<KG_DTYPE_Q5_K>(*call, products);
    case KG_DTYPE_Q6_K: return multiply<KG_DTYPE_Q6_K>(*call, products);
    default: return false;
    }
}
