/* Lowers a plan to the persistent kernel's program (program.h): whether it is one of the layers that the kernel has,
 * how products go through the ring, and where packets lie. Host code. */
#include "kernels/decode/persistent/block.cuh"
#include "kernels/decode/persistent/matrix.cuh"
#include "kernels/decode/persistent/step.h"
#include "kernels/preload.h"
#include <cstdlib>

KG_PRELOADED(decode_persistent_program, KG_NEXT_TOKENS)

using kg_persistent::MMA_ROWS;

enum { COMPUTE_CAPABILITY = 90, ALIGNMENT_BYTES = 256 };

/* Slots: the fewest, as many as are wanted, and the most; those of float16 whose copies are in flight, at most: more
 * keep memory no busier, but what else is read waits behind them, and blocks get their rows at times further apart
 * (float32: all, its slots hold less). Measured. */
enum { MIN_SLOTS = 4, WANTED_SLOTS = 6, MAX_SLOTS = 7, IN_FLIGHT_F16 = 2 };
static_assert(IN_FLIGHT_F16 <= MIN_SLOTS, "the producer waits for a slot's copies before it fills the slot again");

/* Where packets begin in their allocation. A step of Qwen2.5-0.5B with few keys, and with 8,192, us, by the offset: 0:
 * 498, 614; 128 KB: 486, 656; 512 KB: 488, 663; 1 MB: 496, 612; 2 MB: 485, 606; 4 MB: 487, 651. The kernel is the same,
 * and other allocations before it change the figures as much: presumably polling meets other slices of the L2. */
enum { PACKETS_OFFSET_BYTES = 2 << 20 };

/* Keys of a split: what a block's warps take in one iteration (float16), or a few (float32). */
enum { KEYS_PER_SPLIT_F16 = 256, KEYS_PER_SPLIT_F32 = 64 };

/* What a layer is to the kernel: nodes of the plan, an instruction each. */
enum {
    QKV,           /* rmsnorm, linear, linear, linear */
    ATTENTION = 4, /* rope, rope, kv_write, attention */
    ATTN_OUT = 8,  /* linear, add */
    GATE_UP = 10,  /* rmsnorm, linear, linear, swiglu */
    DOWN = 14,     /* linear, add */
    LAYER_NODES = 16,
    OUTPUT_NODES = 2 /* rmsnorm, linear */
};
static const enum kg_op LAYER[LAYER_NODES] = { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear,   KG_OP_linear,
                                               KG_OP_rope,    KG_OP_rope,   KG_OP_kv_write, KG_OP_attention,
                                               KG_OP_linear,  KG_OP_add,    KG_OP_rmsnorm,  KG_OP_linear,
                                               KG_OP_linear,  KG_OP_swiglu, KG_OP_linear,   KG_OP_add };

static const struct {
    const char *name;
    uint32_t first, n; /* nodes of a layer */
} INSTRUCTIONS[] = { { "rmsnorm + q, k, v", QKV, 4 },
                     { "rope + kv_write + attention", ATTENTION, 4 },
                     { "linear + add", ATTN_OUT, 2 },
                     { "rmsnorm + gate, up + swiglu", GATE_UP, 4 },
                     { "linear + add", DOWN, 2 } };
static const char *const ENDS[] = { "embedding", "rmsnorm + linear" };

const char *kg_cuda_persistent_instruction(const struct kg_plan *plan, uint32_t first, uint32_t *n) {
    *n = first == 0 ? 1 : OUTPUT_NODES;
    if (first == 0) return ENDS[0];
    for (const auto &one : INSTRUCTIONS)
        if (first < plan->n_body && (first - 1) % LAYER_NODES == one.first) {
            *n = one.n;
            return one.name;
        }
    return ENDS[1];
}

const char *kg_cuda_persistent_name(uint32_t i) {
    constexpr uint32_t N = sizeof INSTRUCTIONS / sizeof *INSTRUCTIONS, N_ENDS = sizeof ENDS / sizeof *ENDS;
    return i < N ? INSTRUCTIONS[i].name : i < N + N_ENDS ? ENDS[i - N] : NULL;
}

static uint32_t n_layers_of(const struct kg_plan *plan) {
    return (plan->n_body - 1) / LAYER_NODES;
}

static const struct kg_node *layer_of(const struct kg_plan *plan, uint32_t i) {
    return &plan->nodes[1 + i * LAYER_NODES];
}

static bool has_layers(const struct kg_plan *plan, struct kg_why *why) {
    if ((plan->n_body - 1) % LAYER_NODES != 0 || plan->n_nodes - plan->n_body != OUTPUT_NODES ||
        plan->nodes[plan->n_body].op != KG_OP_rmsnorm)
        return kg_no(why, "layers of other nodes than the kernel's %d", (int)LAYER_NODES);
    for (uint32_t i = 1; i < plan->n_body; i++)
        if (plan->nodes[i].op != LAYER[(i - 1) % LAYER_NODES])
            return kg_no(why, "%s in layer %d where the kernel has %s", kg_op_name(plan->nodes[i].op),
                         plan->nodes[i].layer, kg_op_name(LAYER[(i - 1) % LAYER_NODES]));
    return true;
}

/* Inside a layer, and from its norms to the sums before them, of which the first is the layer's last. */
static const std::initializer_list<kg_wire> WIRES = {
    { 0, 0, 9 },   { 1, 0, 0 },   { 2, 0, 0 },   { 3, 0, 0 },   { 4, 0, 1 },   { 5, 0, 2 },   { 6, 0, 5 },
    { 6, 1, 3 },   { 7, 0, 4 },   { 7, 1, 6 },   { 8, 0, 7 },   { 9, 0, 9 },   { 9, 1, 8 },   { 10, 0, 15 },
    { 11, 0, 10 }, { 12, 0, 10 }, { 13, 0, 11 }, { 13, 1, 12 }, { 14, 0, 13 }, { 15, 0, 15 }, { 15, 1, 14 }
};

/* None where it is as long as the cache. */
static uint32_t window_of(const struct kg_attention_args *a) {
    return a->window < a->n_ctx ? a->window : 0;
}

/* What the program has once for all layers is alike in them. */
static bool is_alike(const struct kg_node *n, const struct kg_node *first) {
    const struct kg_rope_args *rope = &first[ATTENTION].args.rope;
    const struct kg_attention_args *a = &n[ATTENTION + 3].args.attention, *b = &first[ATTENTION + 3].args.attention;
    bool alike = window_of(a) == window_of(b) && a->scale == b->scale && a->n_heads == b->n_heads;
    for (uint32_t i = 0; i < LAYER_NODES; i++) {
        const struct kg_weight *w = kg_node_weight(&n[i]), *like = kg_node_weight(&first[i]);
        const struct kg_rope_args *r = &n[i].args.rope;
        alike = alike && (!w || (w->n_rows == like->n_rows && w->n_cols == like->n_cols)) &&
                (LAYER[i] != KG_OP_rmsnorm || n[i].args.rmsnorm.eps == first[QKV].args.rmsnorm.eps) &&
                (LAYER[i] != KG_OP_rope || (kg_same_frequencies(r, rope) && r->pairing == rope->pairing));
    }
    return alike;
}

static bool layer_fits(const struct kg_plan *plan, const struct kg_node *n, struct kg_why *why) {
    const struct kg_swiglu_args *act = &n[GATE_UP + 3].args.swiglu;
    const enum kg_dtype dtype = plan->activations == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    const int layer = n->layer;
    if (!kg_is_wired(n, WIRES, why)) return false;
    if (!is_alike(n, layer_of(plan, 0)))
        return kg_no(why, "layer %d has other shapes, window or ropes than layer 0", layer);
    if (n[ATTENTION + 3].args.attention.sinks) return kg_no(why, "attention with sinks");
    if (act->limit != 0 || act->alpha != 1 || act->up_offset != 0 || act->cubic != 0)
        return kg_no(why, "swiglu with a limit, alpha, offset or cube");
    for (uint32_t i = 0; i < LAYER_NODES; i++) {
        const struct kg_weight *w = kg_node_weight(&n[i]);
        if (w && (w->dtype != dtype || (uintptr_t)w->data % 16 != 0))
            return kg_no(why, "%s weights (layer %d) beside %s activations", kg_dtype_info(w->dtype)->name, layer,
                         kg_dtype_info(dtype)->name);
    }
    return true;
}

static bool ends_fit(const struct kg_plan *plan, struct kg_why *why) {
    const struct kg_embedding_args *embedding = &plan->nodes[0].args.embedding;
    const struct kg_linear_args *output = &plan->nodes[plan->n_nodes - 1].args.linear;
    const enum kg_dtype dtype = plan->activations == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    if (embedding->positions.data) return kg_no(why, "learned positions");
    if (embedding->scale != 0 && embedding->scale != 1) return kg_no(why, "a scaled embedding");
    if (output->bias) return kg_no(why, "an output with a bias");
    return (embedding->weight.dtype == dtype && output->weight.dtype == dtype) ||
           kg_no(why, "embedding or output of other types than the activations");
}

static bool precisions_fit(const struct kg_plan *plan, struct kg_why *why) {
    return (plan->kv == plan->activations && plan->residual == plan->activations) ||
           kg_no(why, "activations, residual stream and KV cache are not all f16 or all f32");
}

static bool shapes_fit(const struct kg_persistent_program *p, struct kg_why *why) {
    if (p->n_layers > KG_PERSISTENT_MAX_LAYERS) return kg_no(why, "%u layers", p->n_layers);
    if (p->n_embd % 16 != 0 || p->n_ff % 16 != 0 || p->n_heads * p->head_dim % 16 != 0)
        return kg_no(why, "rows that are not of a multiple of 16 elements");
    if (p->head_dim % 8 != 0 || p->head_dim > KG_PERSISTENT_MAX_HEAD_DIM) return kg_no(why, "heads of %u", p->head_dim);
    return p->group <= KG_PERSISTENT_MAX_GROUP || kg_no(why, "%u query heads of a KV head", p->group);
}

/* Splits there may be: jobs for all blocks. */
static uint32_t max_splits(const struct kg_cuda_backend *cuda, uint32_t n_kv_heads) {
    const uint32_t n = (uint32_t)cuda->n_sms / n_kv_heads;
    return n > 0 ? n : 1;
}

/* Sets the packets' addresses in `memory`; where they end, in bytes from there. The layers lie behind them. */
static uint64_t place_packets(struct kg_persistent_program *p, uintptr_t memory) {
    const uint64_t heads = (uint64_t)p->n_heads * p->head_dim, kv_heads = (uint64_t)p->n_kv_heads * p->head_dim;
    const struct {
        uint64_t **place, n_packets;
    } regions[] = {
        { &p->packets.qkv, heads + 2 * kv_heads },
        { &p->packets.attention, heads },
        { &p->packets.x1, p->n_embd },
        { &p->packets.x2, p->n_embd },
        { &p->packets.gated, p->n_ff },
        { &p->packets.partial, p->max_splits * heads },
        { &p->packets.weight, (uint64_t)p->max_splits * p->n_heads * 2 },
    };
    uint64_t n_bytes = PACKETS_OFFSET_BYTES;
    for (const auto &r : regions) {
        *r.place = reinterpret_cast<uint64_t *>(memory + n_bytes);
        n_bytes += (r.n_packets * sizeof(uint64_t) + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    }
    return n_bytes;
}

uint64_t kg_cuda_persistent_bytes(const struct kg_persistent_program *p) {
    struct kg_persistent_program sized = *p;
    return place_packets(&sized, 0) + p->n_layers * sizeof(struct kg_persistent_layer);
}

static uint32_t most_outputs(const struct kg_persistent_matrix *m, int n_blocks) {
    const uint32_t units = m->n_rows / m->unit;
    return (units + (uint32_t)n_blocks - 1) / (uint32_t)n_blocks * m->unit;
}

/* Rows that a slot has at most: what the consumers multiply together. */
static uint32_t rows_together(const struct kg_persistent_matrix *m, uint32_t elem_bytes) {
    return elem_bytes == sizeof(__half) ? (uint32_t)MMA_ROWS >> m->block_bits : (uint32_t)kg_persistent::CONSUMER_WARPS;
}

/* Rows of a slot: as many as a block has, as far as they are multiplied together; slots about equally full. */
static uint32_t rows_of_slots(uint32_t most, uint32_t together) {
    const uint32_t n_slots = (most + together - 1) / together;
    return most > kg_persistent::BATCH_ROWS ? together : (most + n_slots - 1) / n_slots;
}

/* The blocks a row needs so that x stays in registers (matrix.cuh); none if slots would not have whole rows. */
static uint32_t block_bits_of(const struct kg_persistent_matrix *m, uint32_t most, uint32_t slot_bytes) {
    using namespace kg_persistent;
    enum { MOST_BITS = 3 }; /* columns of the second operand */
    uint32_t bits = 0;
    while (bits < MOST_BITS && (uint32_t)SHORT_COLS << bits < m->n_cols) bits++;
    const uint32_t rows = rows_of_slots(most, (uint32_t)MMA_ROWS >> bits);
    const bool fits = rows * (m->n_cols * (uint32_t)sizeof(__half) + SLOT_PAD_BYTES) <= slot_bytes;
    const bool is_short = m->n_cols <= (uint32_t)SHORT_COLS << bits;
    return is_short && fits && m->n_cols % ((uint32_t)STEP_COLS << bits) == 0 ? bits : 0;
}

/* Rows of a slot, and of them as many columns as fit; pieces of a row about equally long. */
static void lay_out(struct kg_persistent_matrix *m, int n_blocks, uint32_t slot_bytes, uint32_t elem_bytes) {
    using kg_persistent::STEP_COLS;
    const uint32_t most = most_outputs(m, n_blocks) * m->weight_rows;
    m->block_bits = elem_bytes == sizeof(__half) ? block_bits_of(m, most, slot_bytes) : 0;
    m->slot_rows = rows_of_slots(most, rows_together(m, elem_bytes));
    const uint32_t cols =
        (slot_bytes / m->slot_rows - kg_persistent::SLOT_PAD_BYTES) / elem_bytes / STEP_COLS * STEP_COLS;
    const uint32_t pieces = (m->n_cols + cols - 1) / cols;
    m->piece_cols = (m->n_cols + pieces * STEP_COLS - 1) / (pieces * STEP_COLS) * STEP_COLS;
}

/* Activations that share a word stay in one block. */
static void set_matrices(struct kg_persistent_program *p, uint32_t n_vocab) {
    const uint32_t heads = p->n_heads * p->head_dim, kv_heads = p->n_kv_heads * p->head_dim;
    const uint32_t unit = p->is_f16 ? 2 : 1;
    p->matrix[KG_PERSISTENT_QKV] = { heads + 2 * kv_heads, p->n_embd, unit, 1, 0, 0, 0 };
    p->matrix[KG_PERSISTENT_ATTN_OUT] = { p->n_embd, heads, unit, 1, 0, 0, 0 };
    p->matrix[KG_PERSISTENT_GATE_UP] = { p->n_ff, p->n_embd, unit, 2, 0, 0, 0 };
    p->matrix[KG_PERSISTENT_DOWN] = { p->n_embd, p->n_ff, unit, 1, 0, 0, 0 };
    p->matrix[KG_PERSISTENT_OUTPUT] = { n_vocab, p->n_embd, 1, 1, 0, 0, 0 };
}

static struct kg_persistent_layer layer_record(const struct kg_node *n) {
    static const uint32_t LINEAR[KG_PERSISTENT_WEIGHTS] = { QKV + 1,     QKV + 2,     QKV + 3, ATTN_OUT,
                                                            GATE_UP + 1, GATE_UP + 2, DOWN };
    const struct kg_kv_write_args *kv = &n[ATTENTION + 2].args.kv_write;
    struct kg_persistent_layer layer = {};
    for (int i = 0; i < KG_PERSISTENT_WEIGHTS; i++) {
        layer.weight[i] = n[LINEAR[i]].args.linear.weight.data;
        layer.bias[i] = n[LINEAR[i]].args.linear.bias;
    }
    layer.attn_norm = n[QKV].args.rmsnorm.weight;
    layer.ffn_norm = n[GATE_UP].args.rmsnorm.weight;
    layer.k_cache = kv->k_cache;
    layer.v_cache = kv->v_cache;
    return layer;
}

struct layer_table {
    struct kg_persistent_layer layers[KG_PERSISTENT_MAX_LAYERS];
};

/* As a parameter, the table is taken at once: no copy that the host would wait for. */
static __global__ void put_layers_kernel(const __grid_constant__ struct layer_table table,
                                         struct kg_persistent_layer *layers, uint32_t n_layers) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n_layers) layers[i] = table.layers[i];
}

enum kg_status kg_cuda_persistent_place(struct kg_cuda_backend *cuda, const struct kg_plan *plan, void *memory,
                                        struct kg_persistent_program *p, struct kg_error *err) {
    enum { BLOCK_THREADS = 32 };
    const uint64_t n_bytes = place_packets(p, reinterpret_cast<uintptr_t>(memory));
    struct layer_table table = {};
    struct kg_persistent_layer *layers =
        reinterpret_cast<struct kg_persistent_layer *>(static_cast<char *>(memory) + n_bytes);
    for (uint32_t i = 0; i < p->n_layers; i++) table.layers[i] = layer_record(layer_of(plan, i));
    p->layers = layers;
    const cudaError_t code = cudaMemsetAsync(memory, 0, n_bytes, cuda->stream);
    if (code != cudaSuccess) return kg_cuda_fail(err, "packets of a step", code);
    put_layers_kernel<<<(p->n_layers + BLOCK_THREADS - 1) / BLOCK_THREADS, BLOCK_THREADS, 0, cuda->stream>>>(
        table, layers, p->n_layers);
    return kg_cuda_launched(err, "layers of a step");
}

static void set_model(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda, const struct kg_plan *plan) {
    const struct kg_node *n = layer_of(plan, 0);
    const struct kg_attention_args *a = &n[ATTENTION + 3].args.attention;
    const struct kg_rope_args *rope = &n[ATTENTION].args.rope;
    const struct kg_linear_args *output = &plan->nodes[plan->n_nodes - 1].args.linear;
    p->n_layers = n_layers_of(plan);
    p->n_embd = n[QKV].args.rmsnorm.n_cols;
    p->n_ff = n[GATE_UP + 3].args.swiglu.n_cols;
    p->n_heads = a->n_heads;
    p->n_kv_heads = a->n_kv_heads;
    p->group = a->n_heads / a->n_kv_heads;
    p->head_dim = a->head_dim;
    p->n_ctx = a->n_ctx;
    p->rope_half = rope->pairing == KG_ROPE_HALF;
    p->window = window_of(a);
    p->norm_eps = n[QKV].args.rmsnorm.eps;
    p->attn_scale = a->scale;
    p->rope = kg_rope_angles_of(rope, NULL);
    p->embedding = plan->nodes[0].args.embedding.weight.data;
    p->output_norm = plan->nodes[plan->n_body].args.rmsnorm.weight;
    p->output = output->weight.data;
    p->logits = static_cast<float *>(output->y);
    p->id_in_place = plan->ids;
    p->is_f16 = plan->activations == KG_PRECISION_F16;
    p->max_splits = max_splits(cuda, a->n_kv_heads);
    p->min_keys_per_split = p->is_f16 ? KEYS_PER_SPLIT_F16 : KEYS_PER_SPLIT_F32;
    set_matrices(p, output->weight.n_rows);
}

/* Bytes of a layer's weights that the ring holds at a time, of the block that has most. */
static uint64_t ring_holds(const struct kg_persistent_program *p, const struct kg_cuda_backend *cuda,
                           uint32_t elem_bytes) {
    uint64_t n_bytes = 0, n_filled = 0;
    for (int i = 0; i < KG_PERSISTENT_OUTPUT; i++) {
        const struct kg_persistent_matrix *m = &p->matrix[i];
        const uint64_t rows = (uint64_t)most_outputs(m, cuda->n_sms) * m->weight_rows;
        n_bytes += rows * m->n_cols * elem_bytes;
        n_filled += (rows + m->slot_rows - 1) / m->slot_rows * ((m->n_cols + m->piece_cols - 1) / m->piece_cols);
    }
    return n_bytes * p->n_slots / n_filled;
}

/* Divides the memory that is left into slots. False if it has no room for a ring of so many. */
static bool set_slots(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda, uint32_t n_slots,
                      uint32_t elem_bytes) {
    p->n_slots = n_slots;
    p->slot_bytes = 0;
    const uint32_t fixed = kg_cuda_persistent_map(p);
    if (fixed >= cuda->shared_bytes) return false;
    p->slot_bytes = (cuda->shared_bytes - fixed) / p->n_slots / 128 * 128;
    for (struct kg_persistent_matrix &m : p->matrix) {
        if (p->slot_bytes < MMA_ROWS * (kg_persistent::STEP_COLS * elem_bytes + kg_persistent::SLOT_PAD_BYTES))
            return false;
        lay_out(&m, cuda->n_sms, p->slot_bytes, elem_bytes);
    }
    return kg_cuda_persistent_map(p) <= cuda->shared_bytes;
}

/* Products whose slots have whole rows, short enough for x to stay in registers (matrix.cuh, float16). */
static uint32_t n_short(const struct kg_persistent_program *p) {
    uint32_t n = 0;
    for (const struct kg_persistent_matrix &m : p->matrix)
        n += p->is_f16 && m.n_cols <= m.piece_cols && m.n_cols <= (uint32_t)kg_persistent::SHORT_COLS << m.block_bits;
    return n;
}

/* How many slots there are. Fewer than wanted where they then have whole rows: copies of parts of a row are short, and
 * x is read again for each. More where the ring then holds a tenth more (some room of a slot may be left). False if
 * there is no room. */
static bool choose_slots(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda, uint32_t elem_bytes) {
    if (!set_slots(p, cuda, WANTED_SLOTS, elem_bytes)) return false;
    uint32_t best = WANTED_SLOTS, most_short = n_short(p);
    for (uint32_t n = WANTED_SLOTS - 1; n >= MIN_SLOTS; n--)
        if (set_slots(p, cuda, n, elem_bytes) && n_short(p) > most_short) best = n, most_short = n_short(p);
    if (!set_slots(p, cuda, best, elem_bytes)) return false;
    uint64_t holds = ring_holds(p, cuda, elem_bytes);
    for (uint32_t n = WANTED_SLOTS + 1; best >= WANTED_SLOTS && n <= MAX_SLOTS; n++)
        if (set_slots(p, cuda, n, elem_bytes) && n_short(p) >= most_short &&
            ring_holds(p, cuda, elem_bytes) * 10 >= holds * 11)
            best = n, holds = ring_holds(p, cuda, elem_bytes);
    return set_slots(p, cuda, best, elem_bytes);
}

/* False if the block's memory has no room for a ring, or a block has more of the residual stream than
 * a batch: an element a thread. */
static bool set_ring(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda, uint32_t elem_bytes) {
    for (int i = 0; i < KG_PERSISTENT_OUTPUT; i++) {
        const uint32_t n = most_outputs(&p->matrix[i], cuda->n_sms);
        if (n > p->bias_rows) p->bias_rows = n;
    }
    if (most_outputs(&p->matrix[KG_PERSISTENT_DOWN], cuda->n_sms) > kg_persistent::BATCH_ROWS) return false;
    if (!choose_slots(p, cuda, elem_bytes)) return false;
    p->max_in_flight = p->is_f16 ? (uint32_t)IN_FLIGHT_F16 : p->n_slots;
    return true;
}

bool kg_cuda_persistent_fits(struct kg_cuda_backend *cuda, const struct kg_plan *plan,
                             struct kg_persistent_program **program, struct kg_why *why) {
    if (cuda->compute_capability < COMPUTE_CAPABILITY) return kg_no(why, "compute capability below 9.0");
    if (!has_layers(plan, why) || !precisions_fit(plan, why) || !ends_fit(plan, why)) return false;
    for (uint32_t i = 0; i < n_layers_of(plan); i++)
        if (!layer_fits(plan, layer_of(plan, i), why)) return false;
    struct kg_persistent_program *p = static_cast<struct kg_persistent_program *>(calloc(1, sizeof *p));
    if (!p) return true;
    set_model(p, cuda, plan);
    const bool fits =
        shapes_fit(p, why) && (set_ring(p, cuda, (uint32_t)kg_precision_bytes(plan->activations)) ||
                               kg_no(why, "a block's shared memory has no room for rows of %u elements", p->n_embd));
    if (fits) *program = p;
    else free(p);
    return fits;
}
