/* The persistent kernel: one token through the whole model in one launch, for models whose matrices are all F16
 * (activations and cache f16) or all F32 (f32).
 *
 * At one row a model is as fast as its weights are read. One block a multiprocessor stays for the whole token. Its
 * producer warp streams the block's share of every matrix, layer after layer, into a ring of shared memory, ahead of
 * its use and of what the consumers wait for. Its prefetch warp loads norm weights and biases. 14 consumer warps go
 * from product to product (program.h) as vectors arrive from the other blocks (exchange.cuh). So weights are read while
 * a dependency is waited for, and a dependency costs one trip through L2.
 *
 * Every block computes the norms for itself. A block has the same rows of attn_out and down, and keeps its part of the
 * residual stream in shared memory. So is other state of the consumers where registers would spill: a reload from local
 * memory queues behind weights.
 *
 * Write-after-read hazards: a packet may be overwritten in the next layer as soon as its first value is visible to all.
 * A block that writes packets of a product in layer l + 1 has waited, through the products between, for every block
 * that computes something in the product after it in layer l; each did so after reading. A block without a share in a
 * product does not read for it. Between tokens, the end of the launch is the barrier. Blocks wait for each other, so
 * all must be resident: the launch is cooperative.
 *
 * Numerics: float32 sums; rounding to the activations' precision where the operations of the table round: norm, q, k,
 * v, their rotated forms, attention, the gated product and the residual stream. Orders of addition depend on the shapes
 * and the number of multiprocessors only. */
#include "kernels/decode/persistent/attention.cuh"
#include "kernels/decode/persistent/matrix.cuh"
#include "kernels/decode/persistent/step.h"
#include "kernels/block/rotation.cuh"
#include "kernels/preload.h"
#include <algorithm>

KG_PRELOADED(decode_persistent_step, KG_NEXT_TOKENS)

using namespace kg_persistent;

/* Products [first, end) of layer i; i = n_layers: the output. */
static __device__ __forceinline__ int first_product(const kg_persistent_program &p, uint32_t i) {
    return i < p.n_layers ? KG_PERSISTENT_QKV : KG_PERSISTENT_OUTPUT;
}

static __device__ __forceinline__ int end_product(const kg_persistent_program &p, uint32_t i) {
    return i < p.n_layers ? KG_PERSISTENT_OUTPUT : KG_PERSISTENT_PRODUCTS;
}

/* The address of weight row `row` of a product of a layer. */
template <typename T>
static __device__ __forceinline__ const T *weight_row(const kg_persistent_program &p, const kg_persistent_layer &layer,
                                                      int product, uint32_t n_cols, uint32_t row) {
    const uint32_t q_rows = p.n_heads * p.head_dim, kv_rows = p.n_kv_heads * p.head_dim;
    const void *weight = product == KG_PERSISTENT_ATTN_OUT ? layer.weight[KG_PERSISTENT_O]
                         : product == KG_PERSISTENT_DOWN   ? layer.weight[KG_PERSISTENT_FFN_OUT]
                         : product == KG_PERSISTENT_OUTPUT ? p.output
                                                           : layer.weight[KG_PERSISTENT_Q];
    if (product == KG_PERSISTENT_GATE_UP)
        weight = row % 2 ? layer.weight[KG_PERSISTENT_UP] : layer.weight[KG_PERSISTENT_GATE], row /= 2;
    if (product == KG_PERSISTENT_QKV && row >= q_rows) {
        row -= q_rows;
        weight = row < kv_rows ? layer.weight[KG_PERSISTENT_K] : layer.weight[KG_PERSISTENT_V];
        if (row >= kv_rows) row -= kv_rows;
    }
    return static_cast<const T *>(weight) + (size_t)row * n_cols;
}

template <typename T>
static __device__ void run_producer(const kg_persistent_program &p, const part (&parts)[KG_PERSISTENT_PRODUCTS],
                                    const kg_persistent_layer *layers, ring slots) {
    const uint64_t policy = kg_policy_evict_first();
    ring arriving = slots;
    uint32_t n_in_flight = 0; /* slots whose copies are in flight */
#pragma unroll 1
    for (uint32_t i = 0; i <= p.n_layers; i++)
#pragma unroll 1
        for (int product = first_product(p, i); product < end_product(p, i); product++) {
            const part m = parts[product];
            const uint32_t first = m.begin * (product == KG_PERSISTENT_GATE_UP ? 2 : 1);
            produce<T>(slots, arriving, n_in_flight, m, policy,
                       [&](uint32_t row) { return weight_row<T>(p, layers[i], product, m.n_cols, first + row); });
        }
}

static __device__ __forceinline__ float bias_at(const float *bias, uint32_t row) {
    return bias ? bias[row] : 0.0f;
}

/* Biases of output `row` of a product (gated: the gate's, then up's). */
static __device__ __forceinline__ float2 biases_of(const kg_persistent_program &p, const kg_persistent_layer &layer,
                                                   int product, uint32_t row) {
    const uint32_t q_rows = p.n_heads * p.head_dim, kv_rows = p.n_kv_heads * p.head_dim;
    const float *bias = NULL;
    float second = 0;
    if (product == KG_PERSISTENT_QKV) {
        bias = layer.bias[KG_PERSISTENT_Q];
        if (row >= q_rows) bias = layer.bias[KG_PERSISTENT_K], row -= q_rows;
        if (bias == layer.bias[KG_PERSISTENT_K] && row >= kv_rows) bias = layer.bias[KG_PERSISTENT_V], row -= kv_rows;
    } else if (product == KG_PERSISTENT_ATTN_OUT) {
        bias = layer.bias[KG_PERSISTENT_O];
    } else if (product == KG_PERSISTENT_DOWN) {
        bias = layer.bias[KG_PERSISTENT_FFN_OUT];
    } else if (product == KG_PERSISTENT_GATE_UP) {
        bias = layer.bias[KG_PERSISTENT_GATE];
        second = bias_at(layer.bias[KG_PERSISTENT_UP], row);
    }
    return make_float2(bias_at(bias, row), second);
}

/* The prefetch warp: norm weights and biases of product after product to shared memory, two products ahead at most,
 * norm weights once those before are read. After the first product's: cosines and sines of the position. */
template <typename T, int D>
static __device__ void run_prefetch(const kg_persistent_program &p, block_shared<T, D> &s, unsigned char *memory,
                                    const kg_persistent_layer *layers) {
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t n_params = 0;
    bool had_norm = false; /* whether the product before has a norm */
    const auto wait_empty = [&](uint32_t side) {
        kg_mbarrier_poll(kg_shared_address(&s.params_empty[side % 2]), side / 2 % 2);
    };
#pragma unroll 1
    for (uint32_t i = 0; i <= p.n_layers; i++)
#pragma unroll 1
        for (int product = first_product(p, i); product < end_product(p, i); product++) {
            const part &m = s.parts[product];
            if (m.n > 0) {
                float *biases =
                    reinterpret_cast<float *>(memory + p.shared.biases + n_params % 2 * p.shared.bias_bytes);
                const float *norm = product == KG_PERSISTENT_QKV       ? layers[i].attn_norm
                                    : product == KG_PERSISTENT_GATE_UP ? layers[i].ffn_norm
                                    : product == KG_PERSISTENT_OUTPUT  ? p.output_norm
                                                                       : NULL;
                if (n_params > 1) wait_empty(n_params - 2);
                if (norm && had_norm) wait_empty(n_params - 1);
                had_norm = norm;
                if (norm) {
                    float *to = reinterpret_cast<float *>(memory + p.shared.norm);
#pragma unroll 8
                    for (uint32_t at = lane * 4; at < p.n_embd; at += WARP * 4)
                        *reinterpret_cast<float4 *>(to + at) = *reinterpret_cast<const float4 *>(norm + at);
                }
                if (product != KG_PERSISTENT_OUTPUT)
                    for (uint32_t at = lane; at < m.n; at += WARP)
                        reinterpret_cast<float2 *>(biases)[at] = biases_of(p, layers[i], product, m.begin + at);
                kg_mbarrier_arrive(kg_shared_address(&s.params_full[n_params % 2]));
                n_params++;
            }
            if (i > 0 || product != KG_PERSISTENT_QKV) continue;
            for (uint32_t at = lane; at < p.rope.n_rot / 2; at += WARP)
                s.cos_sin[at] = kg_cos_sin(p.rope, p.position, at);
            kg_mbarrier_arrive(kg_shared_address(&s.cos_sin_full));
        }
}

/* Receives a product's vector in c.x. `row`: the token's embedding in the first layer, else NULL. */
template <typename T, int D>
static __device__ __forceinline__ void stage(const consumer<T, D> &c, int product, const T *row, uint32_t epoch) {
    const kg_persistent_program &p = c.p;
    if (product == KG_PERSISTENT_DOWN) {
        stage_packets(c, p.packets.gated, p.n_ff, epoch);
    } else if (product != KG_PERSISTENT_ATTN_OUT) {
        const bool is_gate = product == KG_PERSISTENT_GATE_UP;
        stage_norm(c, row, is_gate ? p.packets.x1 : p.packets.x2, is_gate ? epoch : epoch - 1);
    } else if (p.n_splits > 1 && p.n_splits <= KG_PERSISTENT_MAX_DIRECT) {
        stage_splits(c, epoch);
    } else {
        stage_packets(c, p.packets.attention, p.n_heads * p.head_dim, epoch);
    }
}

/* Publishes the activations of a warp's threads, each thread its element `at`. Float16: neighbours share a packet; a
 * warp's elements begin at an even one and are even in number. */
template <typename T>
static __device__ __forceinline__ void publish_elements(uint64_t *packets, uint32_t at, float value, bool active,
                                                        uint32_t epoch) {
    if constexpr (sizeof(T) == sizeof(__half)) {
        const float next = __shfl_down_sync(0xFFFFFFFFu, value, 1);
        if (active && at % 2 == 0) publish(packets + at / 2, kg_pack_halves(value, next), epoch);
    } else if (active) {
        publish(packets + at, value, epoch);
    }
}

/* The epilogue of the n sums of a batch, from weight row `first` on. */
template <typename T, int D>
static __device__ __forceinline__ void epilogue(const consumer<T, D> &c, int product, const part &m, uint32_t first,
                                                uint32_t n, uint32_t epoch) {
    const kg_persistent_packets &packets = c.p.packets;
    const bool is_gated = product == KG_PERSISTENT_GATE_UP;
    const uint32_t outputs = is_gated ? n / 2 : n, index = (is_gated ? first / 2 : first) + c.thread;
    const uint32_t at = m.begin + index;
    if (c.warp * WARP >= outputs) return; /* whole warps: they shuffle */
    const bool active = c.thread < outputs;
    if (product == KG_PERSISTENT_OUTPUT) {
        if (active) c.p.logits[at] = sum_of(c, m, c.thread);
        return;
    }
    const float2 bias = active ? get_pair(c.biases(), index) : make_float2(0, 0);
    if (is_gated) {
        const uint32_t pair = active ? 2 * c.thread : 0;
        const float gate = sum_of(c, m, pair) + bias.x, up = sum_of(c, m, pair + 1) + bias.y;
        publish_elements<T>(packets.gated, at, gate / (1.0f + expf(-gate)) * up, active, epoch);
        return;
    }
    const float sum = sum_of(c, m, active ? c.thread : 0) + bias.x;
    if (product == KG_PERSISTENT_QKV) {
        publish_elements<T>(packets.qkv, at, sum, active, epoch);
    } else {
        const float x = active ? rounded<T>(c.s.residual[c.thread] + sum) : 0;
        if (active) c.s.residual[c.thread] = x;
        publish_elements<T>(product == KG_PERSISTENT_ATTN_OUT ? packets.x1 : packets.x2, at, x, active, epoch);
    }
}

/* The token's row of the embedding. */
template <typename T> static __device__ __forceinline__ const T *embedding_row(const kg_persistent_program &p) {
    return static_cast<const T *>(p.embedding) + (size_t)(p.id == KG_ID_IN_PLACE ? *p.id_in_place : p.id) * p.n_embd;
}

template <typename T, int D> static __device__ void run_consumer(consumer<T, D> &c, const unsigned char *memory) {
    const kg_persistent_program &p = c.p;
    const kg_persistent_layer *layers = reinterpret_cast<const kg_persistent_layer *>(memory + p.shared.layers);
    if (c.thread < c.s.parts[KG_PERSISTENT_DOWN].n)
        c.s.residual[c.thread] = kg_load(embedding_row<T>(p) + c.s.parts[KG_PERSISTENT_DOWN].begin + c.thread);
#pragma unroll 1
    for (c.layer = 0; c.layer <= p.n_layers; c.layer++) {
#pragma unroll 1
        for (int product = first_product(p, c.layer); product < end_product(p, c.layer); product++) {
            c.make_opaque();
            if (product == KG_PERSISTENT_ATTN_OUT) {
                const uint32_t epoch = p.epoch + c.layer;
                c.save_counters();
                attend(c, layers[c.layer], epoch);
                if (p.n_splits > KG_PERSISTENT_MAX_DIRECT) merge_splits(c, epoch);
                c.restore_counters();
                product = KG_PERSISTENT_ATTN_OUT; /* the same value, known to the compiler again */
            }
            c.make_opaque();
            const uint32_t epoch = p.epoch + c.layer;
            const part m = c.s.parts[product];
            if (m.n == 0) continue;
            kg_mbarrier_poll(kg_shared_address(&c.s.params_full[c.n_params % 2]), c.n_params / 2 % 2);
            stage(c, product, c.layer == 0 && product == KG_PERSISTENT_QKV ? embedding_row<T>(p) : NULL, epoch);
            c.make_opaque();
            multiply(c, m, [&](uint32_t first, uint32_t n) { epilogue(c, product, m, first, n, epoch); });
            __syncwarp();
            if (c.lane == 0) kg_mbarrier_arrive(kg_shared_address(&c.s.params_empty[c.n_params % 2]));
            c.n_params++;
        }
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(THREADS, 1)
    persistent_step_kernel(const __grid_constant__ kg_persistent_program p) {
    extern __shared__ __align__(128) unsigned char memory[];
    block_shared<T, D> &s = *reinterpret_cast<block_shared<T, D> *>(memory);
    kg_persistent_layer *layers = reinterpret_cast<kg_persistent_layer *>(memory + p.shared.layers);
    const uint32_t warp = threadIdx.x / WARP;
    ring slots = { p, kg_shared_address(memory), 0, 0 };
    const uint32_t n_uint64 = p.n_layers * (uint32_t)(sizeof *layers / sizeof(uint64_t));
    for (uint32_t i = threadIdx.x; i < n_uint64; i += THREADS)
        reinterpret_cast<uint64_t *>(layers)[i] = reinterpret_cast<const uint64_t *>(p.layers)[i];
    for (uint32_t i = threadIdx.x; i < MAX_GROUP * D; i += THREADS) kg_store(&s.q[0][0] + i, 0.0f);
    for (uint32_t i = threadIdx.x; i < D; i += THREADS) kg_store(s.k_new + i, 0.0f), kg_store(s.v_new + i, 0.0f);
    if (threadIdx.x < KG_PERSISTENT_PRODUCTS) s.parts[threadIdx.x] = part_of(p.matrix[threadIdx.x]);
    if (threadIdx.x == KG_PERSISTENT_PRODUCTS) {
        const uint32_t n_pairs = p.n_heads * p.head_dim / 2;
        s.merge_begin = begin_of(blockIdx.x, n_pairs, 1);
        s.merge_n = begin_of(blockIdx.x + 1, n_pairs, 1) - s.merge_begin;
    }
    if (threadIdx.x == 0) {
        for (; slots.slot < p.n_slots; slots.slot++) {
            kg_mbarrier_init(slots.full(), 1);
            kg_mbarrier_init(slots.empty(), CONSUMER_WARPS);
        }
        slots.slot = 0;
        for (int i = 0; i < 2; i++) {
            kg_mbarrier_init(kg_shared_address(&s.params_full[i]), WARP);
            kg_mbarrier_init(kg_shared_address(&s.params_empty[i]), CONSUMER_WARPS);
        }
        kg_mbarrier_init(kg_shared_address(&s.cos_sin_full), WARP);
        kg_mbarrier_init_fence();
    }
    __syncthreads(); /* mbarriers, layers, parts and zeros are visible */
    if (warp == PRODUCER_WARP) {
        run_producer<T>(p, s.parts, layers, slots);
    } else if (warp == PREFETCH_WARP) {
        run_prefetch(p, s, memory, layers);
    } else {
        consumer<T, D> c = { p, s, 0, slots, threadIdx.x, warp, threadIdx.x % WARP, 0 };
        run_consumer(c, memory);
    }
}

template <typename T, int D> struct instance {
    static const void *kernel() {
        return reinterpret_cast<const void *>(persistent_step_kernel<T, D>);
    }
    static uint32_t block_bytes() {
        return (uint32_t)(sizeof(block_shared<T, D>) + PARTIAL_SUMS * sizeof(float));
    }
    /* Of attention, where products have their vector. */
    static uint32_t values_bytes(uint32_t group) {
        return partial_values(group, D) * (uint32_t)sizeof(float);
    }
};

/* f(instance) for the program's precision and head size. */
template <typename F> static auto with_instance(const kg_persistent_program &p, F f) {
    if (p.head_dim <= 64) return p.is_f16 ? f(instance<__half, 64>()) : f(instance<float, 64>());
    if (p.head_dim <= 96 && p.is_f16) return f(instance<__half, 96>());
    return p.is_f16 ? f(instance<__half, 128>()) : f(instance<float, 128>());
}

static uint32_t round_up(uint32_t n, uint32_t to) {
    return (n + to - 1) / to * to;
}

uint32_t kg_cuda_persistent_map(struct kg_persistent_program *p) {
    const uint32_t elem_bytes = p->is_f16 ? (uint32_t)sizeof(__half) : (uint32_t)sizeof(float);
    const uint32_t heads = p->n_heads * p->head_dim, wider = heads > p->n_ff ? heads : p->n_ff;
    const uint32_t group = p->group, widest = wider > p->n_embd ? wider : p->n_embd;
    const uint32_t values_bytes = with_instance(*p, [group](auto of) { return of.values_bytes(group); });
    struct kg_persistent_shared_map *map = &p->shared;
    map->x = round_up(with_instance(*p, [](auto of) { return of.block_bytes(); }), 16);
    map->layers = map->x + round_up(std::max(widest * elem_bytes, values_bytes), 64);
    map->norm = map->layers + round_up((p->n_layers + 1) * (uint32_t)sizeof(struct kg_persistent_layer), 16);
    map->biases = map->norm + round_up(p->n_embd * (uint32_t)sizeof(float), 16);
    map->bias_bytes = round_up(2 * p->bias_rows * (uint32_t)sizeof(float), 16);
    map->barriers = map->biases + 2 * map->bias_bytes;
    map->slots = round_up(map->barriers + p->n_slots * 16, 128);
    map->n_bytes = map->slots + p->n_slots * p->slot_bytes;
    return map->n_bytes;
}

/* Splits the keys that the position sees: by min_keys_per_split, or, where a merge of many splits comes anyway, by what
 * a block's warps score in one iteration, into max_splits at most; then the query heads, where there are blocks left.
 */
static void split_keys(struct kg_persistent_program *p, uint32_t position) {
    const uint32_t least = p->min_keys_per_split, n_past = position + 1;
    const uint32_t at_once = p->is_f16 ? CONSUMER_WARPS * TILE_KEYS : least;
    p->first_key = p->window > 0 && n_past > p->window ? n_past - p->window : 0;
    const uint32_t n_keys = n_past - p->first_key;
    p->n_splits = (n_keys + least - 1) / least;
    if (p->n_splits > KG_PERSISTENT_MAX_DIRECT) p->n_splits = (n_keys + at_once - 1) / at_once;
    if (p->n_splits > p->max_splits) p->n_splits = p->max_splits;
    p->keys_per_split = (n_keys + p->n_splits - 1) / p->n_splits;
    p->n_splits = (n_keys + p->keys_per_split - 1) / p->keys_per_split;
    const uint32_t most_parts = std::clamp(p->max_splits / p->n_splits, 1u, p->group);
    p->part_heads = (p->group + most_parts - 1) / most_parts;
    p->n_parts = (p->group + p->part_heads - 1) / p->part_heads;
}

/* Epochs start over: no packet may hold one of them from the first time. The layers lie behind the packets. */
static cudaError_t start_over(const struct kg_cuda_backend *cuda, struct kg_persistent_program *p) {
    const size_t n_bytes = reinterpret_cast<uintptr_t>(p->layers) - reinterpret_cast<uintptr_t>(p->packets.qkv);
    p->epoch = 1;
    return cudaMemsetAsync(p->packets.qkv, 0, n_bytes, cuda->stream);
}

enum kg_status kg_cuda_persistent_step(struct kg_cuda_backend *cuda, struct kg_persistent_program *program, int32_t id,
                                       uint32_t position, const float *rope_factors, struct kg_error *err) {
    const void *kernel = with_instance(*program, [](auto of) { return of.kernel(); });
    const uint32_t shared_bytes = program->shared.n_bytes;
    cudaError_t code = cudaSuccess;
    if (program->epoch == 0) {
        program->epoch = 1;
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)cuda->shared_bytes);
        if (code != cudaSuccess) return kg_cuda_fail(err, "decode step: shared memory", code);
    }
    program->id = id;
    program->position = position;
    program->rope.factors = rope_factors;
    split_keys(program, position);
    void *params[] = { program };
    code = cudaLaunchCooperativeKernel(kernel, dim3((unsigned)cuda->n_sms), dim3(THREADS), params, shared_bytes,
                                       cuda->stream);
    program->epoch += program->n_layers;
    if (code == cudaSuccess && program->epoch > UINT32_MAX - 2 * KG_PERSISTENT_MAX_LAYERS)
        code = start_over(cuda, program);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "decode step", code);
}
