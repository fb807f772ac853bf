/* Matrices of block formats in the persistent kernel: Q4_0, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K as they lie in a file, each
 * matrix of its own format; activations and cache are float16.
 *
 * A slot is up to 16 rows of one matrix, of each a segment of whole chunks (256 columns, block_codes.cuh). A warp decodes
 * a chunk of all rows in registers and multiplies it by tensor cores; its sums of a row are added to the other warps' in
 * order.
 *
 * A row's segment begins at any even byte: its copy begins at the 16 bytes before. Where, stands behind the slot's
 * rows. x lies in the order of codes, with the sums that minima need, and zeros up to a whole chunk. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_BLOCKS_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_BLOCKS_CUH

#include "kernels/decode/block_codes.cuh"
#include "kernels/decode/persistent/matrix.cuh"

namespace kg_persistent {

using kg_block_codes::CHUNK_COLS;

enum { COPY_BYTES = 16, SLOT_ROWS = MMA_ROWS, QUAD = 4 };

template <int D> struct blocks_consumer : consumer<__half, D> {
    static constexpr bool HAS_BLOCKS = true;
    /* shared: the vector of a product (block_codes.cuh: x_at), and the sums of its groups */
    __device__ __forceinline__ unsigned char *codes_x() const {
        return this->template at<unsigned char>(this->p.shared.x);
    }
    __device__ __forceinline__ float *x_sums() const {
        return this->template at<float>(this->p.shared.x_sums);
    }
};

__host__ __device__ __forceinline__ uint32_t chunks_of(uint32_t n_cols) {
    return (n_cols + CHUNK_COLS - 1) / CHUNK_COLS;
}

/* A row of such a matrix in bytes. */
__host__ __device__ __forceinline__ uint32_t blocks_row_bytes(uint32_t n_cols, uint32_t chunk_bytes) {
    enum { SUBS = CHUNK_COLS / kg_block_codes::X_SUB_COLS };
    return n_cols / kg_block_codes::X_SUB_COLS * chunk_bytes / SUBS;
}

/* ---- x ---- */

/* Elements 4i to 4i + 3, and what they add to their group's sum. All lanes of a group of four call it together. */
template <int D>
__device__ __forceinline__ void store_quad(const blocks_consumer<D> &c, uint32_t i, uint32_t low, uint32_t high) {
    const float2 a = __half22float2(reinterpret_cast<const __half2 &>(low)),
                 b = __half22float2(reinterpret_cast<const __half2 &>(high));
    const unsigned together = 0xFu << (c.lane & ~3u);
    float sum = (a.x + a.y) + (b.x + b.y);
    sum += __shfl_xor_sync(together, sum, 1);
    sum += __shfl_xor_sync(together, sum, 2);
    *reinterpret_cast<uint2 *>(c.codes_x() + kg_block_codes::x_at(QUAD * i)) =
        make_uint2(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
    if (i % QUAD == 0) c.x_sums()[i / QUAD] = sum;
}

/* Elements 2i and 2i + 1. All lanes of a group of eight call it together. */
template <int D>
__device__ __forceinline__ void store_pair(const blocks_consumer<D> &c, uint32_t i, float low, float high) {
    const uint32_t own = kg_pack_halves(low, high);
    const unsigned together = 0xFFu << (c.lane & ~7u);
    const float2 rounded = __half22float2(reinterpret_cast<const __half2 &>(own));
    float sum = rounded.x + rounded.y;
#pragma unroll
    for (int mask = 1; mask < 8; mask *= 2) sum += __shfl_xor_sync(together, sum, mask);
    __half *quad = reinterpret_cast<__half *>(c.codes_x() + kg_block_codes::x_at(2 * i / QUAD * QUAD));
    quad[i % 2] = __ushort_as_half((unsigned short)own);
    quad[i % 2 + 2] = __ushort_as_half((unsigned short)(own >> 16));
    if (i % 8 == 0) c.x_sums()[i / 8] = sum;
}

/* Zeros behind a vector of n_elems, up to a whole chunk. */
template <int D> __device__ __forceinline__ void end_vector(const blocks_consumer<D> &c, uint32_t n_elems) {
    const uint32_t i = n_elems / QUAD + c.thread;
    if (i < chunks_of(n_elems) * (CHUNK_COLS / QUAD)) store_quad(c, i, 0, 0);
}

/* c.x = v * weight / rms(v), rounded. v is in x meanwhile: a thread reads again what it wrote. */
template <int D>
__device__ __forceinline__ void stage_norm(const blocks_consumer<D> &c, const __half *row, const uint64_t *packets,
                                           uint32_t epoch) {
    constexpr int QUADS = 2; /* in flight together */
    const uint32_t n_quads = c.p.n_embd / QUAD;
    float squares = 0;
#pragma unroll 1
    for (uint32_t at = c.thread; at < n_quads; at += QUADS * CONSUMERS) {
        packet_pair got[QUADS];
        if (!row) wait_packet_pairs(got, packets, at, CONSUMERS, n_quads, epoch);
#pragma unroll
        for (int k = 0; k < QUADS; k++) {
            const uint32_t i = at + k * CONSUMERS;
            if (i >= n_quads) break;
            const uint2 bits = row ? reinterpret_cast<const uint2 *>(row)[i] : got[k].bits();
            *reinterpret_cast<uint2 *>(c.codes_x() + kg_block_codes::x_at(QUAD * i)) = bits;
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                const float low = element<__half>(bits.x, e), high = element<__half>(bits.y, e);
                squares = fmaf(low, low, fmaf(high, high, squares));
            }
        }
    }
    const float inverse = inverse_rms(c, squares);
    const float *weight = c.norm_weight();
#pragma unroll 1
    for (uint32_t i = c.thread; i < n_quads; i += CONSUMERS) {
        const uint2 bits = *reinterpret_cast<const uint2 *>(c.codes_x() + kg_block_codes::x_at(QUAD * i));
        const float4 w = *reinterpret_cast<const float4 *>(weight + QUAD * i);
        const float2 a = __half22float2(reinterpret_cast<const __half2 &>(bits.x)),
                     b = __half22float2(reinterpret_cast<const __half2 &>(bits.y));
        store_quad(c, i, kg_pack_halves(a.x * inverse * w.x, a.y * inverse * w.y),
                   kg_pack_halves(b.x * inverse * w.z, b.y * inverse * w.w));
    }
    end_vector(c, c.p.n_embd);
    c.sync(); /* x is visible to all */
}

/* c.x = n_elems (a multiple of 32) activations of the epoch. */
template <int D>
__device__ __forceinline__ void stage_packets(const blocks_consumer<D> &c, const uint64_t *packets, uint32_t n_elems,
                                              uint32_t epoch) {
    constexpr int QUADS = 3;
    const uint32_t n_quads = n_elems / QUAD;
    for (uint32_t at = c.thread; at < n_quads; at += QUADS * CONSUMERS) {
        packet_pair got[QUADS];
        wait_packet_pairs(got, packets, at, CONSUMERS, n_quads, epoch);
#pragma unroll
        for (int k = 0; k < QUADS; k++)
            if (at + k * CONSUMERS < n_quads)
                store_quad(c, at + k * CONSUMERS, (uint32_t)got[k].low, (uint32_t)got[k].high);
    }
    end_vector(c, n_elems);
    c.sync(); /* x is visible to all */
}

/* ---- matrices ---- */

/* Where weight row `row` of a product lies: which of a layer's matrices (KG_PERSISTENT_WEIGHTS: the output), its row
 * there, and how many rows from it on are that matrix's (gate and up: of both, which are of one format). */
struct weight_place {
    uint32_t weight, row, n_more;
};

__device__ __forceinline__ weight_place place_of(const kg_persistent_program &p, const part &m, uint32_t row) {
    const uint32_t more = m.n_rows - row;
    if (m.product == KG_PERSISTENT_GATE_UP) {
        const uint32_t of_both = 2 * m.begin + row;
        return { of_both % 2 ? (uint32_t)KG_PERSISTENT_UP : (uint32_t)KG_PERSISTENT_GATE, of_both / 2, more };
    }
    const uint32_t at = m.begin + row;
    if (m.product != KG_PERSISTENT_QKV)
        return { m.product == KG_PERSISTENT_ATTN_OUT ? (uint32_t)KG_PERSISTENT_O
                 : m.product == KG_PERSISTENT_DOWN   ? (uint32_t)KG_PERSISTENT_FFN_OUT
                                                     : (uint32_t)KG_PERSISTENT_WEIGHTS,
                 at, more };
    const uint32_t q = p.n_heads * p.head_dim, k = q + p.n_kv_heads * p.head_dim;
    return at < q   ? weight_place{ KG_PERSISTENT_Q, at, min(more, q - at) }
           : at < k ? weight_place{ KG_PERSISTENT_K, at - q, min(more, k - at) }
                    : weight_place{ KG_PERSISTENT_V, at - k, more };
}

/* Two tiles, each the rows of a slot, of one matrix and one batch, are multiplied together: their segments come in
 * turn. The last of an odd number is alone. rows: of each, from weight row `first` on. */
enum { TILES = 2 };

struct tile_rows {
    uint32_t rows[TILES];
};

__device__ __forceinline__ tile_rows tiles_from(const part &m, const weight_place &at, uint32_t first) {
    const uint32_t rows = min(rows_of_slot(m, first), at.n_more), next = first + rows;
    const bool alone = rows == at.n_more || next % BATCH_ROWS == 0;
    return { { rows, alone ? 0 : min(rows_of_slot(m, next), at.n_more - rows) } };
}

/* The producer warp: lane r copies row r of each slot. */
__device__ __forceinline__ void produce_blocks(ring &slots, ring &arriving, uint32_t &n_in_flight, const part &m,
                                               const kg_persistent_layer &layer, unsigned char *memory,
                                               uint64_t policy) {
    const uint32_t lane = threadIdx.x % WARP;
    const kg_persistent_program &p = slots.p;
    tile_rows tiles;
    for (uint32_t first = 0; first < m.n_rows; first += tiles.rows[0] + tiles.rows[1]) {
        const weight_place place = place_of(p, m, first);
        const kg_persistent_format format = layer.format[place.weight];
        const uint32_t chunk_bytes = kg_block_codes::chunk_bytes((enum kg_dtype)format.dtype),
                       row_bytes = blocks_row_bytes(m.n_cols, chunk_bytes),
                       segment_bytes = format.segment_chunks * chunk_bytes;
        const uint8_t *row[TILES];
        tiles = tiles_from(m, place, first);
#pragma unroll
        for (uint32_t tile = 0; tile < TILES; tile++) {
            const uint32_t last = max(tiles.rows[tile], 1u) - 1;
            const weight_place at = place_of(p, m, first + tile * tiles.rows[0] + min(lane, last));
            const void *matrix = at.weight == KG_PERSISTENT_WEIGHTS ? p.output : layer.weight[at.weight];
            row[tile] = static_cast<const uint8_t *>(matrix) + (size_t)at.row * row_bytes;
        }
        for (uint32_t done = 0; done < row_bytes; done += segment_bytes)
#pragma unroll
            for (uint32_t tile = 0; tile < TILES; tile++) {
                const uint32_t rows = tiles.rows[tile];
                if (rows == 0) break;
                const uint8_t *start = row[tile] + done;
                const uint32_t before = reinterpret_cast<uintptr_t>(start) % COPY_BYTES;
                const uint32_t wanted = before + min(segment_bytes, row_bytes - done);
                const uint32_t n_bytes = lane < rows ? (wanted + COPY_BYTES - 1) / COPY_BYTES * COPY_BYTES : 0;
                const uint32_t all_bytes = __reduce_add_sync(0xFFFFFFFFu, n_bytes);
                if (n_in_flight == p.max_in_flight) {
                    kg_mbarrier_poll(arriving.full(), arriving.parity);
                    arriving.advance();
                } else {
                    n_in_flight++;
                }
                kg_mbarrier_poll(slots.empty(), slots.parity ^ 1);
                if (lane < SLOT_ROWS)
                    memory[p.shared.slots + slots.slot * p.slot_bytes + SLOT_ROWS * p.row_stride + lane] =
                        (unsigned char)before;
                __syncwarp(); /* the slot is empty, and where rows begin is written, before the arrival below */
                if (lane == 0) kg_mbarrier_expect(slots.full(), all_bytes);
                __syncwarp(); /* bytes are expected before they come */
                if (n_bytes > 0)
                    kg_bulk_copy(slots.data() + lane * p.row_stride, start - before, n_bytes, slots.full(), policy);
                slots.advance();
            }
    }
}

/* sum += a chunk of rows of one tile or two. Two together share x and hide each other's latency; one after the other
 * where that would take more registers than there are. */
template <enum kg_dtype F, int N>
__device__ __forceinline__ void add_chunks(float (&sum)[N], const unsigned char *const (&rows)[N],
                                           const unsigned char *x, const float *x_sums, uint32_t n_blocks,
                                           uint32_t lane) {
    constexpr bool together = F == KG_DTYPE_Q4_K || F == KG_DTYPE_Q8_0;
    if constexpr (N == 2 || together) {
        kg_block_codes::add_chunk<F>(sum, rows, x, x_sums, n_blocks, lane);
    } else {
#pragma unroll
        for (int tile = 0; tile < N / 2; tile++) {
            float own[2] = { sum[2 * tile], sum[2 * tile + 1] };
            const unsigned char *const of_tile[2] = { rows[2 * tile], rows[2 * tile + 1] };
            kg_block_codes::add_chunk<F>(own, of_tile, x, x_sums, n_blocks, lane);
            sum[2 * tile] = own[0], sum[2 * tile + 1] = own[1];
        }
    }
}

/* sum += the warp's chunks of rows g and g + 8 of N tiles, all segments. Chunks go round the consumer warps, on from
 * tile to tile; skip: those until the warp's next. */
template <enum kg_dtype F, int N, int D>
__device__ __forceinline__ void add_segments(float (&sum)[2 * N], blocks_consumer<D> &c, uint32_t n_cols,
                                             uint32_t segment_chunks, uint32_t &skip) {
    constexpr uint32_t BYTES = kg_block_codes::chunk_bytes(F);
    const uint32_t n_chunks = chunks_of(n_cols), g = c.lane / 4, stride = c.p.row_stride;
#pragma unroll 1
    for (uint32_t first = 0; first < n_chunks; first += segment_chunks) {
        const uint32_t n = min(segment_chunks, n_chunks - first);
        const unsigned char *rows[2 * N];
        unsigned empty[N];
#pragma unroll
        for (int tile = 0; tile < N; tile++, c.slots.advance()) {
            const unsigned char *slot =
                c.template at<unsigned char>(c.p.shared.slots + c.slots.slot * c.p.slot_bytes);
            const unsigned char *begins = slot + SLOT_ROWS * stride;
            empty[tile] = c.slots.empty();
            kg_mbarrier_poll(c.slots.full(), c.slots.parity);
            rows[2 * tile] = slot + g * stride + begins[g] + skip * BYTES;
            rows[2 * tile + 1] = slot + (g + 8) * stride + begins[g + 8] + skip * BYTES;
        }
        const unsigned char *x = c.codes_x() + (first + skip) * kg_block_codes::X_CHUNK_BYTES;
        const float *x_sums = c.x_sums() + (first + skip) * (CHUNK_COLS / kg_block_codes::GROUP_COLS);
        uint32_t n_blocks = (n_cols - (first + skip) * CHUNK_COLS) / kg_block_codes::X_SUB_COLS;
#pragma unroll 1
        for (; skip < n; skip += CONSUMER_WARPS) {
            add_chunks<F>(sum, rows, x, x_sums, n_blocks, c.lane);
#pragma unroll
            for (const unsigned char *&row : rows) row += CONSUMER_WARPS * BYTES;
            x += CONSUMER_WARPS * kg_block_codes::X_CHUNK_BYTES;
            x_sums += CONSUMER_WARPS * (CHUNK_COLS / kg_block_codes::GROUP_COLS);
            n_blocks -= CONSUMER_WARPS * (CHUNK_COLS / kg_block_codes::X_SUB_COLS);
        }
        skip -= n;
        __syncwarp(); /* the warp has read the slots */
        if (c.lane == 0)
#pragma unroll
            for (const unsigned at : empty) kg_mbarrier_arrive(at);
    }
}

/* Sums of the warp's chunks of N tiles, to the warp's sums from `first` on. */
template <enum kg_dtype F, int N, int D>
__device__ __forceinline__ void multiply_tiles(blocks_consumer<D> &c, const part &m, uint32_t segment_chunks,
                                               uint32_t first, const tile_rows &tiles, uint32_t &skip) {
    float sum[2 * N] = {};
    add_segments<F, N>(sum, c, m.n_cols, segment_chunks, skip);
    const uint32_t row = c.lane / 4;
    float *sums = c.sums(c.warp) + first + row;
#pragma unroll
    for (int tile = 0; tile < N; tile++, sums += tiles.rows[0])
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            float all = sum[2 * tile + half];
            all += __shfl_xor_sync(0xFFFFFFFFu, all, 1);
            all += __shfl_xor_sync(0xFFFFFFFFu, all, 2);
            if (c.lane % 4 == 0 && row + 8 * half < tiles.rows[tile]) sums[8 * half] = all;
        }
}

/* The same of n_rows rows of one matrix and one batch. */
template <enum kg_dtype F, int D>
__device__ __forceinline__ void multiply_rows(blocks_consumer<D> &c, const part &m, weight_place at,
                                              uint32_t segment_chunks, uint32_t begin, uint32_t end, uint32_t &skip) {
#pragma unroll 1
    for (tile_rows tiles; begin < end; begin += tiles.rows[0] + tiles.rows[1]) {
        tiles = tiles_from(m, at, begin);
        at.n_more -= tiles.rows[0] + tiles.rows[1];
        const uint32_t first = begin % BATCH_ROWS;
        if (tiles.rows[1] > 0) multiply_tiles<F, TILES>(c, m, segment_chunks, first, tiles, skip);
        else multiply_tiles<F, 1>(c, m, segment_chunks, first, tiles, skip);
    }
}

/* As for other matrices (matrix.cuh). */
template <int D, typename Epilogue>
__device__ __forceinline__ void multiply(blocks_consumer<D> &c, const part &m, Epilogue epilogue) {
    uint32_t skip = c.warp;
#pragma unroll 1
    for (uint32_t batch = 0; batch < m.n_rows; batch += BATCH_ROWS) {
        const uint32_t batch_end = min(batch + BATCH_ROWS, m.n_rows);
#pragma unroll 1
        for (uint32_t begin = batch, end; begin < batch_end; begin = end) {
            const weight_place at = place_of(c.p, m, begin);
            const kg_persistent_format format =
                c.template at<const kg_persistent_layer>(c.p.shared.layers)[c.layer].format[at.weight];
            const uint32_t n = format.segment_chunks;
            end = min(batch_end, begin + at.n_more);
            switch (format.dtype) {
            case KG_DTYPE_Q4_0: multiply_rows<KG_DTYPE_Q4_0>(c, m, at, n, begin, end, skip); break;
            case KG_DTYPE_Q5_0: multiply_rows<KG_DTYPE_Q5_0>(c, m, at, n, begin, end, skip); break;
            case KG_DTYPE_Q8_0: multiply_rows<KG_DTYPE_Q8_0>(c, m, at, n, begin, end, skip); break;
            case KG_DTYPE_Q4_K: multiply_rows<KG_DTYPE_Q4_K>(c, m, at, n, begin, end, skip); break;
            case KG_DTYPE_Q5_K: multiply_rows<KG_DTYPE_Q5_K>(c, m, at, n, begin, end, skip); break;
            default: multiply_rows<KG_DTYPE_Q6_K>(c, m, at, n, begin, end, skip); break;
            }
        }
        c.sync(); /* the batch's sums are visible; write-after-read: x, and the sums of two batches ago */
        epilogue(batch, batch_end - batch);
        c.buffer ^= 1;
    }
}

} // namespace kg_persistent

#endif
