/* Values of a byte, E4M3 or int8, as halves in shared memory, for products with weights in f16.
 *
 * Each of them is a half exactly. A tile of values is a right operand given by rows of dims, which products of 8-bit
 * operands do not take; as halves it needs no transposing, and weights keep f16's precision. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_NARROW_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_NARROW_CUH

#include "kernels/ptx/math.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/tma.cuh"
#include <type_traits>

namespace kg_sdpa {

/* Four numbers of a word as halves: E4M3 (In = uint8_t) or int8. */
template <typename In> __device__ __forceinline__ uint2 halves_of(unsigned word) {
    if constexpr (std::is_same_v<In, int8_t>)
        return make_uint2(kg_halves_of_s8<0x4140>(word), kg_halves_of_s8<0x4342>(word));
    else return kg_halves_of_e4m3(word);
}

/* Where 16 bytes, dims 16 c to 16 c + 15 of row r, are in a tile of ROW_BYTES a row with a swizzle of as many bytes. */
template <int ROW_BYTES> __device__ __forceinline__ unsigned narrow_offset(int r, int c) {
    return (unsigned)(r * ROW_BYTES + (ROW_BYTES == 128 ? c ^ r % 8 : c ^ r / 2 % 4) * 16);
}

/* A lane's share of values that become halves, by a warp that goes through a tile 8 rows by 4 times 16 dims at a time:
 * rows in pairs r and r ^ 5, so that eight neighbours read from, and write to, all banks. from, to: of its first 16
 * dims, in the two tiles, dims in panels of 64 for the halves. */
template <int ROW_BYTES> struct narrow_place {
    unsigned from, to;
    int c;

    __device__ __forceinline__ explicit narrow_place(int lane) : c(lane % 4) {
        const int r = lane / 8 ^ lane / 4 % 2 * 5;
        from = narrow_offset<ROW_BYTES>(r, c);
        to = (unsigned)(r * 128 + (2 * c ^ r) * 16);
    }

    /* The warp's share, among WARPS, of a tile of the shape, GROUPS times 8 rows at a time; products see it after a
     * barrier. The tiles begin at multiples of 1024. */
    template <typename Shape, int WARPS, int GROUPS>
    __device__ __forceinline__ void convert(unsigned from_tile, unsigned to_tile, int warp) const {
        using In = typename Shape::In;
        constexpr int PANELS = Shape::PANELS, STRIP = GROUPS * 8; /* rows */
        static_assert(Shape::KEYS % STRIP == 0, "whole strips");
        const bool second = Shape::DIMS % 64 == 0 || 64 + 16 * c < Shape::DIMS; /* has dims in the second panel */
#pragma unroll 1
        for (int row = warp * STRIP; row < Shape::KEYS; row += WARPS * STRIP) {
            uint4 x[GROUPS][PANELS];
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int i = 0; i < PANELS; i++)
                    if (i == 0 || second)
                        x[g][i] =
                            kg_load_shared<uint4>(((from_tile + from + row * ROW_BYTES) ^ i * 64) + g * 8 * ROW_BYTES);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int i = 0; i < PANELS; i++) {
                    if (i > 0 && !second) continue;
                    const uint2 a = halves_of<In>(x[g][i].x), b = halves_of<In>(x[g][i].y),
                                d = halves_of<In>(x[g][i].z), e = halves_of<In>(x[g][i].w);
                    const unsigned at = to_tile + to + row * 128 + i * Shape::KEYS * 128 + g * 1024;
                    kg_store_shared(at, make_uint4(a.x, a.y, b.x, b.y));
                    kg_store_shared(at ^ 16, make_uint4(d.x, d.y, e.x, e.y));
                }
        }
        kg_async_proxy_fence();
    }
};

} // namespace kg_sdpa

#endif
