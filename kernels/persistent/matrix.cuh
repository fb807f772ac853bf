/* A block's share of a product: weight rows stream through the ring, every consumer warp takes a part of every slot.
 *
 * Float16: a slot is 16 rows; warp w multiplies the columns 16 (w + 16 i) of all of them by tensor cores (m16n8k16, x in all 8
 * columns of the second operand, sums in float32), and the warps' sums of a row are added in order.
 * Float32: a warp (or several, where a slot has 8 rows or less) has a row; lanes take 4 columns each, sums by fused
 * multiply-add in order of the columns, then a butterfly over the lanes. */
#ifndef KIGO_KERNELS_PERSISTENT_MATRIX_CUH
#define KIGO_KERNELS_PERSISTENT_MATRIX_CUH

#include "kernels/persistent/block.cuh"

namespace kg_persistent {

enum { MMA_ROWS = 16, MMA_COLS = 16, SLOT_PAD_BYTES = 16 };

/* Rows lie 16 bytes more than their length apart, an odd multiple of 16: 8 rows at one column are in 8 different banks. */
template <typename T> __host__ __device__ __forceinline__ uint32_t slot_stride(const part &m) {
    return m.piece_cols * (uint32_t)sizeof(T) + SLOT_PAD_BYTES;
}

/* The producer's side of multiply(): row_at(i) is where weight row i of the block's lies. */
template <typename T, typename Row>
__device__ __forceinline__ void produce(ring &slots, const part &m, uint64_t policy, Row row_at) {
    const uint32_t lane = threadIdx.x % WARP;
    for (uint32_t first = 0, rows; first < m.n_rows; first += rows) {
        rows = rows_of_slot(m, first);
        const T *row = row_at(first + min(lane, rows - 1));
        for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, slots.advance()) {
            const uint32_t n_bytes = min(m.piece_cols, m.n_cols - col) * (uint32_t)sizeof(T);
            barrier_wait(slots.empty(), slots.parity ^ 1);
            if (lane == 0) barrier_expect(slots.full(), rows * n_bytes);
            __syncwarp();
            if (lane < rows)
                copy_bulk(slots.data() + lane * slot_stride<T>(m), row + col, n_bytes, slots.full(), policy);
        }
    }
}

/* sum += rows of a slot at k-step `step` times x there. */
__device__ __forceinline__ void multiply_step(float (&sum)[4], unsigned rows_at, const uint32_t *x, uint32_t step) {
    unsigned a[4];
    kg_load_matrices_at(a, rows_at + step * (MMA_COLS * (uint32_t)sizeof(__half)));
    kg_mma_16x8x16(sum, a, x[step * 8], x[step * 8 + 4]);
}

/* Sums of the warp's columns of the rows of a slot group, all pieces; to s.partial[buffer][warp][first ...]. */
template <int D>
__device__ __forceinline__ void multiply_group(consumer<__half, D> &c, const part &m, uint32_t first, uint32_t rows) {
    float even[4] = {}, odd[4] = {};
    const unsigned offset = min(c.lane % MMA_ROWS, m.slot_rows - 1) * slot_stride<__half>(m) + c.lane / MMA_ROWS * 16;
    const uint32_t t = c.lane % 4;
    for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, c.slots.advance()) {
        const uint32_t n_steps = min(m.piece_cols, m.n_cols - col) / MMA_COLS;
        const uint32_t *x = reinterpret_cast<const uint32_t *>(c.x + col) + t;
        const unsigned rows_at = c.slots.data() + offset;
        uint32_t step = c.warp;
        barrier_wait(c.slots.full(), c.slots.parity);
        for (; step + 3 * CONSUMER_WARPS < n_steps; step += 4 * CONSUMER_WARPS) {
            multiply_step(even, rows_at, x, step);
            multiply_step(odd, rows_at, x, step + CONSUMER_WARPS);
            multiply_step(even, rows_at, x, step + 2 * CONSUMER_WARPS);
            multiply_step(odd, rows_at, x, step + 3 * CONSUMER_WARPS);
        }
        for (; step < n_steps; step += CONSUMER_WARPS) multiply_step(even, rows_at, x, step);
        __syncwarp();
        if (c.lane == 0) barrier_arrive(c.slots.empty());
    }
    if (t != 0) return;
    const uint32_t row = c.lane / 4;
    float *sums = c.s.partial[c.buffer][c.warp] + first;
    if (row < rows) sums[row] = even[0] + odd[0];
    if (row + 8 < rows) sums[row + 8] = even[2] + odd[2];
}

__device__ __forceinline__ uint32_t warps_of_a_row(const part &m) {
    return CONSUMER_WARPS / m.slot_rows;
}

template <int D>
__device__ __forceinline__ void multiply_group(consumer<float, D> &c, const part &m, uint32_t first, uint32_t rows) {
    const uint32_t parts = warps_of_a_row(m), row = c.warp / parts, part = c.warp % parts;
    const bool active = row < rows;
    float sum = 0;
    for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, c.slots.advance()) {
        const uint32_t n_cols = min(m.piece_cols, m.n_cols - col);
        barrier_wait(c.slots.full(), c.slots.parity);
        const unsigned row_at = c.slots.data() + row * slot_stride<float>(m);
        if (active) {
#pragma unroll 4
            for (uint32_t i = (part * WARP + c.lane) * 4; i < n_cols; i += parts * WARP * 4) {
                const float4 w = load_shared_4(row_at + i * sizeof(float));
                const float4 x = *reinterpret_cast<const float4 *>(c.x + col + i);
                sum = fmaf(w.w, x.w, fmaf(w.z, x.z, fmaf(w.y, x.y, fmaf(w.x, x.x, sum))));
            }
        }
        __syncwarp();
        if (c.lane == 0) barrier_arrive(c.slots.empty());
    }
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
    if (active && c.lane == 0) c.s.partial[c.buffer][part][first + row] = sum;
}

/* The sum of weight row `row` of a batch: its partial sums in order. */
template <int D> __device__ __forceinline__ float sum_of(const consumer<__half, D> &c, const part &, uint32_t row) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < CONSUMER_WARPS; w++) sum += c.s.partial[c.buffer][w][row];
    return sum;
}

template <int D> __device__ __forceinline__ float sum_of(const consumer<float, D> &c, const part &m, uint32_t row) {
    float sum = 0;
    for (uint32_t part = 0; part < warps_of_a_row(m); part++) sum += c.s.partial[c.buffer][part][row];
    return sum;
}

enum { MOST_STEPS = 4 }; /* k-steps of a warp whose x stays in registers */

/* Whether slots have whole rows, short enough for multiply_short. */
__device__ __forceinline__ bool is_short(const part &m) {
    return m.n_cols <= m.piece_cols && m.n_cols <= MOST_STEPS * CONSUMER_WARPS * MMA_COLS;
}

/* All n rows of a batch, as multiply_group has them, of a product that is short: x is read once. */
template <int D> __device__ __forceinline__ void multiply_short(consumer<__half, D> &c, const part &m, uint32_t n) {
    const uint32_t t = c.lane % 4, n_steps = m.n_cols / MMA_COLS;
    const uint32_t n_slots = m.slot_rows == MMA_ROWS ? (n + MMA_ROWS - 1) / MMA_ROWS : 1;
    const unsigned offset = min(c.lane % MMA_ROWS, m.slot_rows - 1) * slot_stride<__half>(m) + c.lane / MMA_ROWS * 16 +
                            c.warp * (MMA_COLS * (uint32_t)sizeof(__half));
    const uint32_t *x = reinterpret_cast<const uint32_t *>(c.x) + t + c.warp * (MMA_COLS / 2);
    float *sums = &c.s.partial[c.buffer][c.warp][c.lane / 4];
    uint32_t low[MOST_STEPS], high[MOST_STEPS];
#pragma unroll
    for (int k = 0; k < MOST_STEPS; k++)
        if (c.warp + k * CONSUMER_WARPS < n_steps) {
            low[k] = x[k * CONSUMER_WARPS * (MMA_COLS / 2)];
            high[k] = x[k * CONSUMER_WARPS * (MMA_COLS / 2) + 4];
        }
#pragma unroll 1
    for (uint32_t i = 0; i < n_slots; i++, sums += MMA_ROWS, c.slots.advance()) {
        const unsigned rows_at = c.slots.data() + offset;
        float sum[2][4] = {};
        barrier_wait(c.slots.full(), c.slots.parity);
#pragma unroll
        for (int k = 0; k < MOST_STEPS; k++)
            if (c.warp + k * CONSUMER_WARPS < n_steps) {
                unsigned a[4];
                kg_load_matrices_at(a, rows_at + k * (CONSUMER_WARPS * MMA_COLS * (uint32_t)sizeof(__half)));
                kg_mma_16x8x16(sum[k % 2], a, low[k], high[k]);
            }
        __syncwarp();
        if (c.lane == 0) barrier_arrive(c.slots.empty());
        if (t == 0) sums[0] = sum[0][0] + sum[1][0], sums[8] = sum[0][2] + sum[1][2]; /* rows past n: not looked at */
    }
}

template <int D> __device__ __forceinline__ void multiply_short(consumer<float, D> &, const part &, uint32_t) {
}

/* For each batch of the block's weight rows: finish(first, n) by all consumers, when sum_of may be asked for its n rows. */
template <typename T, int D, typename Finish>
__device__ __forceinline__ void multiply(consumer<T, D> &c, const part &m, Finish finish) {
    const bool short_rows = sizeof(T) == sizeof(__half) && is_short(m);
#pragma unroll 1
    for (uint32_t batch = 0; batch < m.n_rows; batch += BATCH_ROWS) {
        const uint32_t n = min((uint32_t)BATCH_ROWS, m.n_rows - batch);
        if (short_rows) {
            multiply_short(c, m, n);
        } else {
#pragma unroll 1
            for (uint32_t first = 0, rows; first < n; first += rows) {
                rows = rows_of_slot(m, batch + first);
                multiply_group(c, m, first, rows);
            }
        }
        c.together(); /* the batch's sums are there; x is read, and so is what was finished two batches ago */
        finish(batch, n);
        c.buffer ^= 1;
    }
}

} // namespace kg_persistent

#endif
