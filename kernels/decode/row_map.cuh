/* Where the rows of a product's pairs lie (row_of in matrix.cuh), by the same few instructions for every form: a launch
 * copies nothing before it has run them, and a new launch has its instructions in no near cache. From the start of a
 * block to its first copy, about 100 of them, it is 0.9 us of an H200. */
#ifndef KIGO_KERNELS_DECODE_ROW_MAP_CUH
#define KIGO_KERNELS_DECODE_ROW_MAP_CUH

#include "kernels/cuda_backend.h"

namespace kg_step_product {

enum { ROW_SOURCES = 3 };

/* A matrix that lends pairs their rows: those from pair `begin` on, up to the next source's. */
struct row_source {
    const uint8_t *weight;
    int64_t to_second; /* bytes from a pair's first row to its second, unless they lie apart */
    uint32_t row_bytes, begin;
};

/* Pair j of a source is pair i = j % group_pairs of group j / group_pairs: of a head, or of one. Its first row is
 * group_rows (j / group_pairs) + (i < n_apart ? i : 2 i); where i < n_apart the second lies n_apart rows behind it.
 * group_inverse = floor(2^32 / group_pairs) + 1: exact for j group_pairs < 2^32. */
struct row_map {
    uint32_t group_pairs, group_rows, group_inverse, n_apart;
    row_source sources[ROW_SOURCES]; /* of those that are not there, `begin` is the number of pairs */
};

struct row_place {
    const uint8_t *at;
    uint32_t source;
};

static __device__ __forceinline__ row_place row_place_of(const row_map &map, uint32_t pair, uint32_t which) {
    const uint32_t source = (pair >= map.sources[1].begin) + (pair >= map.sources[2].begin);
    const row_source &of = map.sources[source];
    const uint32_t j = pair - of.begin;
    const uint32_t group = map.group_pairs == 1 ? j : __umulhi(j, map.group_inverse), i = j - group * map.group_pairs;
    const bool apart = i < map.n_apart;
    const int64_t second = apart ? (int64_t)map.n_apart * of.row_bytes : of.to_second;
    const uint32_t row = group * map.group_rows + (apart ? i : 2 * i);
    return { of.weight + (size_t)row * of.row_bytes + (which ? second : 0), source };
}

/* Of neighbouring rows. */
static inline row_map map_of_neighbours(const uint8_t *weight, uint32_t row_bytes, uint32_t n_pairs) {
    const row_source none = { weight, row_bytes, row_bytes, n_pairs };
    return { 1, 2, 1, 0, { { weight, row_bytes, row_bytes, 0 }, none, none } };
}

/* Of a row of each of two matrices. */
static inline row_map map_of_two(const uint8_t *first, const uint8_t *second, uint32_t row_bytes, uint32_t n_pairs) {
    const row_source none = { first, second - first, row_bytes, n_pairs };
    return { 1, 1, 1, 0, { { first, second - first, row_bytes, 0 }, none, none } };
}

/* Of heads of q, k and v: dims i and i + n_apart of a head for i < n_apart, and neighbours behind them. */
static inline row_map map_of_heads(const uint8_t *const (&weights)[ROW_SOURCES],
                                   const uint32_t (&row_bytes)[ROW_SOURCES], uint32_t n_heads, uint32_t n_kv_heads,
                                   uint32_t head_dim, uint32_t n_apart) {
    const uint32_t pairs = head_dim / 2, k = n_heads * pairs, v = k + n_kv_heads * pairs;
    return { pairs,
             head_dim,
             (uint32_t)(((uint64_t)1 << 32) / pairs + 1),
             n_apart,
             { { weights[0], row_bytes[0], row_bytes[0], 0 },
               { weights[1], row_bytes[1], row_bytes[1], k },
               { weights[2], row_bytes[2], row_bytes[2], v } } };
}

} // namespace kg_step_product

#endif
