/* A block's part of a product: weight rows stream through the ring; every consumer warp multiplies a part of every
 * slot.
 *
 * Float16: a slot is up to 16 rows. Warp w multiplies steps w, w + 14, ... of 32 columns of all of them by tensor cores
 * (m16n8k16, x in all 8 columns of the second operand, float32 sums). The warps' sums of a row are added in order.
 *
 * Float32: a warp (several, where a slot has 7 rows or less) has a row. Lanes have 4 columns each, sums by fused
 * multiply-add in order of the columns, then a butterfly over the lanes. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_MATRIX_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_MATRIX_CUH

#include "kernels/decode/persistent/block.cuh"
#include "kernels/ptx/mma.cuh"

namespace kg_persistent {

enum {
    MMA_ROWS = 16,
    MMA_COLS = 16,
    STEP_COLS = 2 * MMA_COLS,
    SLOT_PAD_BYTES = 16,
    MAX_STEPS = 2, /* of a warp whose x stays in registers */
    SHORT_COLS = MAX_STEPS * CONSUMER_WARPS * STEP_COLS
};

/* Padded by 16 bytes to an odd multiple of 16: 8 rows at one column have no bank conflicts. */
template <typename T> __host__ __device__ __forceinline__ uint32_t slot_stride(const part &m) {
    return m.piece_cols * (uint32_t)sizeof(T) + SLOT_PAD_BYTES;
}

/* The producer warp: row_at(i) is the address of weight row i of the block. At most p.max_in_flight slots' copies are
 * in flight, the oldest at `arriving`. */
template <typename T, typename Row>
__device__ __forceinline__ void produce(ring &slots, ring &arriving, uint32_t &n_in_flight, const part &m,
                                        uint64_t policy, Row row_at) {
    const uint32_t lane = threadIdx.x % WARP;
    for (uint32_t first = 0, rows; first < m.n_rows; first += rows) {
        rows = rows_of_slot(m, first);
        const T *row = row_at(first + min(lane, rows - 1));
        for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, slots.advance()) {
            const uint32_t n_bytes = min(m.piece_cols, m.n_cols - col) * (uint32_t)sizeof(T);
            if (n_in_flight == slots.p.max_in_flight) {
                kg_mbarrier_poll(arriving.full(), arriving.parity);
                arriving.advance();
            } else {
                n_in_flight++;
            }
            kg_mbarrier_poll(slots.empty(), slots.parity ^ 1);
            if (lane == 0) kg_mbarrier_expect(slots.full(), rows * n_bytes);
            __syncwarp();
            if (lane < rows)
                kg_bulk_copy(slots.data() + lane * slot_stride<T>(m), row + col, n_bytes, slots.full(), policy);
        }
    }
}

/* sum[h] += rows of a slot times x at half h of a step, 16 columns (of each block) `apart` bytes from the other;
 * columns may end between them. Both operands are always loaded: the compiler would keep a register that is written
 * sometimes. */
__device__ __forceinline__ void multiply_step(float (&sum)[2][4], unsigned rows_at, unsigned apart, const uint4 &x,
                                              bool is_whole) {
    unsigned a[2][4];
    kg_load_matrices_at(a[0], rows_at);
    kg_load_matrices_at(a[1], rows_at + (is_whole ? apart : 0));
    kg_mma_16x8x16(sum[0], a[0], x.x, x.y);
    if (is_whole) kg_mma_16x8x16(sum[1], a[1], x.z, x.w);
}

/* Sums of the warp's columns of a slot's rows, all pieces; to the warp's sums from `first` on. */
template <int D>
__device__ __forceinline__ void multiply_group(consumer<__half, D> &c, const part &m, uint32_t first, uint32_t rows) {
    constexpr uint32_t BYTES = (uint32_t)sizeof(__half), STRIDE = CONSUMER_WARPS * STEP_COLS * BYTES;
    float sum[2][4] = {};
    const unsigned offset = min(c.lane % MMA_ROWS, m.slot_rows - 1) * slot_stride<__half>(m) + c.lane / MMA_ROWS * 16 +
                            c.warp * STEP_COLS * BYTES;
    unsigned x_at = c.slots.shared + c.p.shared.x + c.lane % 4 * (uint32_t)sizeof(uint4) + c.warp * STEP_COLS * BYTES;
    for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, c.slots.advance()) {
        const uint32_t end = min(m.piece_cols, m.n_cols - col);
        unsigned rows_at = c.slots.data() + offset, at = x_at;
        kg_mbarrier_poll(c.slots.full(), c.slots.parity);
#pragma unroll 1
        for (uint32_t step = c.warp * STEP_COLS; step < end; step += CONSUMER_WARPS * STEP_COLS) {
            multiply_step(sum, rows_at, MMA_COLS * BYTES, kg_load_shared<uint4>(at), step + MMA_COLS < end);
            rows_at += STRIDE, at += STRIDE;
        }
        __syncwarp();
        if (c.lane == 0) kg_mbarrier_arrive(c.slots.empty());
        x_at += m.piece_cols * BYTES;
    }
    if (c.lane % 4 != 0) return;
    const uint32_t row = c.lane / 4;
    float *sums = c.sums(c.warp) + first;
    if (row < rows) sums[row] = sum[0][0] + sum[1][0];
    if (row + 8 < rows) sums[row + 8] = sum[0][2] + sum[1][2];
}

__device__ __forceinline__ uint32_t warps_of_a_row(const part &m) {
    return CONSUMER_WARPS / m.slot_rows;
}

template <int D>
__device__ __forceinline__ void multiply_group(consumer<float, D> &c, const part &m, uint32_t first, uint32_t rows) {
    const uint32_t parts = warps_of_a_row(m), row = c.warp / parts, part = c.warp % parts;
    const bool active = row < rows;
    const float *vector = c.x();
    float sum = 0;
    for (uint32_t col = 0; col < m.n_cols; col += m.piece_cols, c.slots.advance()) {
        const uint32_t n_cols = min(m.piece_cols, m.n_cols - col);
        kg_mbarrier_poll(c.slots.full(), c.slots.parity);
        const unsigned row_at = c.slots.data() + row * slot_stride<float>(m);
        if (active) {
#pragma unroll 4
            for (uint32_t i = (part * WARP + c.lane) * 4; i < n_cols; i += parts * WARP * 4) {
                const float4 w = kg_load_shared<float4>(row_at + i * sizeof(float));
                const float4 x = *reinterpret_cast<const float4 *>(vector + col + i);
                sum = fmaf(w.w, x.w, fmaf(w.z, x.z, fmaf(w.y, x.y, fmaf(w.x, x.x, sum))));
            }
        }
        __syncwarp();
        if (c.lane == 0) kg_mbarrier_arrive(c.slots.empty());
    }
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
    if (active && c.lane == 0) c.sums(part)[first + row] = sum;
}

/* The sum of weight row `row` of a batch: its partial sums, in order. */
template <int D> __device__ __forceinline__ float sum_of(const consumer<__half, D> &c, const part &, uint32_t row) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < CONSUMER_WARPS; w++) sum += c.sums(w)[row];
    return sum;
}

template <int D> __device__ __forceinline__ float sum_of(const consumer<float, D> &c, const part &m, uint32_t row) {
    float sum = 0;
    for (uint32_t part = 0; part < warps_of_a_row(m); part++) sum += c.sums(part)[row];
    return sum;
}

/* Whether slots hold whole rows that are short enough for multiply_short. */
__device__ __forceinline__ bool is_short(const part &m) {
    return m.n_cols <= m.piece_cols && m.n_cols <= (uint32_t)SHORT_COLS << m.block_bits;
}

/* A weight row's sum over its blocks, to the lane of the first block's first columns. Block q is row r blocks + q of
 * the product, and there column q: `even` or `odd` of the row's lane q / 2. */
__device__ __forceinline__ float add_blocks(float even, float odd, uint32_t bits) {
    float sum = even;
    if (bits >= 1) sum += __shfl_xor_sync(0xFFFFFFFFu, odd, 4);
    if (bits >= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 8 | 1);
    if (bits >= 3) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 16 | 2);
    return sum;
}

/* All n rows of a batch of a short product: x stays in registers.
 *
 * Rows with more columns than the warps have registers for take several rows of an operand (2^block_bits, and as many
 * times fewer rows a slot): row i of the first operand is weight row i / blocks at column block i % blocks of a half
 * step, column j of the second is x at block j % blocks. Elements of their product count where the blocks are equal. */
template <int D> __device__ __forceinline__ void multiply_short(consumer<__half, D> &c, const part &m, uint32_t n) {
    constexpr uint32_t BYTES = (uint32_t)sizeof(__half);
    const uint32_t bits = m.block_bits, last = (1u << bits) - 1, i = c.lane % MMA_ROWS;
    const uint32_t apart = MMA_COLS * BYTES << bits, stride = CONSUMER_WARPS * 2 * apart;
    const uint32_t first = c.warp * STEP_COLS << bits, warps_cols = CONSUMER_WARPS * STEP_COLS << bits;
    const unsigned offset = min(i >> bits, m.slot_rows - 1) * slot_stride<__half>(m) + c.lane / MMA_ROWS * 16 +
                            (i & last) * MMA_COLS * BYTES + first * BYTES;
    float *sums = c.sums(c.warp) + (c.lane / 4 >> bits);
    uint4 x[MAX_STEPS];
#pragma unroll
    for (int k = 0; k < MAX_STEPS; k++) { /* blocks b and b + blocks: place_of_pair */
        const uint32_t col = first + k * warps_cols,
                       b = (col < m.n_cols ? col : first) / MMA_COLS + (c.lane / 4 & last);
        const unsigned at = c.slots.shared + c.p.shared.x + c.lane % 4 * (uint32_t)sizeof(uint4);
        const uint32_t other = b + (1u << bits);
        const uint2 low = kg_load_shared<uint2>(at + b / 2 * STEP_COLS * BYTES + b % 2 * (uint32_t)sizeof(uint2));
        const uint2 high =
            kg_load_shared<uint2>(at + other / 2 * STEP_COLS * BYTES + other % 2 * (uint32_t)sizeof(uint2));
        x[k] = make_uint4(low.x, low.y, high.x, high.y);
    }
#pragma unroll 1
    for (uint32_t row = 0; row < n; row += m.slot_rows, sums += m.slot_rows, c.slots.advance()) {
        const unsigned rows_at = c.slots.data() + offset;
        float sum[2][4] = {};
        kg_mbarrier_poll(c.slots.full(), c.slots.parity);
#pragma unroll
        for (int k = 0; k < MAX_STEPS; k++) {
            const uint32_t col = first + k * warps_cols;
            if (col < m.n_cols) multiply_step(sum, rows_at + k * stride, apart, x[k], col + MMA_COLS < m.n_cols);
        }
        __syncwarp();
        if (c.lane == 0) kg_mbarrier_arrive(c.slots.empty());
        const float low = add_blocks(sum[0][0] + sum[1][0], sum[0][1] + sum[1][1], bits);
        const float high = add_blocks(sum[0][2] + sum[1][2], sum[0][3] + sum[1][3], bits);
        if ((c.lane & (4 << bits) - 1) != 0) continue;
        sums[0] = low, sums[8 >> bits] = high; /* rows past the slot's are overwritten by the next slot, or not read */
    }
}

template <int D> __device__ __forceinline__ void multiply_short(consumer<float, D> &, const part &, uint32_t) {
}

/* For each batch of the block's weight rows: epilogue(first, n) by all consumers, once sum_of may be called for its n
 * rows. */
template <typename T, int D, typename Epilogue>
__device__ __forceinline__ void multiply(consumer<T, D> &c, const part &m, Epilogue epilogue) {
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
        c.sync(); /* the batch's sums are visible; write-after-read: x */
        epilogue(batch, n);
        if (batch + BATCH_ROWS < m.n_rows) c.sync(); /* write-after-read: sums; the next product's come behind its x */
    }
}

} // namespace kg_persistent

#endif
