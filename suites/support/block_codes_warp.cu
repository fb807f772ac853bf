/* Compiled by the C++ compiler, in builds with and without CUDA. */
#include "suites/support/host_warp.cuh"
#include "kernels/decode/block_codes.cuh"

extern "C" {
#include "suites/support/block_codes_warp.h"
extern const char *const kg_block_codes_missing = nullptr;
}

using namespace kg_block_codes;

enum { MAX_CHUNKS = KG_BLOCK_CODES_MAX_COLS / CHUNK_COLS };
static_assert(8 * MAX_CHUNKS <= kg_host_warp::MAX_CALLS, "a lane multiplies 8 times a chunk");

/* x as make_operand of blocks.cu leaves it in shared memory, zeros behind its end. Sums that it does not make, as a
 * format's codes have no offset, are NaN. */
struct operand_room {
    alignas(16) unsigned char digits[MAX_CHUNKS * X_CHUNK_BYTES];
    alignas(16) float steps[MAX_CHUNKS * CHUNK_STEPS], sums[MAX_CHUNKS * CHUNK_GROUPS];
};

static void make_operand(const float *from, uint32_t n_cols, float sums_times, operand_room *to) {
    float x[STEP_COLS / VECTOR][VECTOR];
    for (uint32_t first = 0; first < (n_cols + CHUNK_COLS - 1) / CHUNK_COLS * CHUNK_COLS; first += STEP_COLS) {
        unsigned largest = 0;
        int sums[STEP_COLS / GROUP_COLS] = { 0 };
        for (uint32_t i = 0; i < STEP_COLS; i++) x[i / VECTOR][i % VECTOR] = first + i < n_cols ? from[first + i] : 0;
        for (const auto &each : x) largest = max(largest, largest_of(each));
        const step by = step_of(largest);
        for (uint32_t i = 0; i < STEP_COLS; i += VECTOR) {
            const digits d = digits_of(x[i / VECTOR], by.inverse);
            memcpy(to->digits + digit_at(first + i), &d.upper, sizeof d.upper);
            memcpy(to->digits + digit_at(first + i) + LOWER_AT, &d.lower, sizeof d.lower);
            sums[i / GROUP_COLS] += d.sum;
        }
        to->steps[first / STEP_COLS] = by.step;
        for (uint32_t i = 0; i < STEP_COLS / GROUP_COLS; i++)
            to->sums[first / GROUP_COLS + i] = by.step * (float)sums[i] * sums_times;
    }
}

template <enum kg_dtype D> static bool multiply(const kg_block_codes_call &call, double *products) {
    static operand_room shared;
    const uint32_t n_chunks = (call.n_cols + CHUNK_COLS - 1) / CHUNK_COLS;
    float parts[kg_host_warp::LANES][2];
    make_operand(call.x, call.n_cols, HAS_OFFSETS<D> ? call.sums_times : NAN, &shared);
    const bool ran = kg_host_warp::run([&] {
        const uint32_t lane = threadIdx.x % kg_host_warp::LANES, g = lane / 4;
        float sum[2] = { 0, 0 };
        for (uint32_t c = 0; c < n_chunks; c++) {
            const unsigned char *const rows[2] = { call.rows[g] + c * chunk_bytes(D),
                                                   call.rows[g + 8] + c * chunk_bytes(D) };
            const operand x = { shared.digits, shared.steps, shared.sums };
            add_chunk<D>(sum, rows, x.from(c), call.n_blocks - c * CHUNK_STEPS);
        }
        memcpy(parts[lane], sum, sizeof sum);
    });
    for (int r = 0; r < KG_BLOCK_CODES_ROWS; r++) {
        products[r] = 0;
        for (int t = 0; t < 4; t++) products[r] += parts[r % 8 * 4 + t][r / 8];
    }
    return ran;
}

extern "C" void kg_block_codes_digits(const float *x, uint32_t n_cols, float *denoted) {
    static operand_room shared;
    make_operand(x, n_cols, 1, &shared);
    for (uint32_t i = 0; i < n_cols; i++) {
        const unsigned char *upper = shared.digits + digit_at(i);
        denoted[i] = shared.steps[i / STEP_COLS] * value_of((int8_t)upper[0], (int8_t)upper[LOWER_AT]);
    }
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
