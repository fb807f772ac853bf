/* Makes the program of a session's steps (program.h): whether there is one, how products go through the ring, and
 * where words lie. Host code. */
#include "kernels/decode/persistent/block.cuh"
#include "kernels/decode/persistent/matrix.cuh"
#include "kernels/decode/persistent/step.h"
#include <cstdlib>
#include <cstring>

using kg_persistent::MMA_ROWS;

enum { COMPUTE_CAPABILITY = 90, ALIGNMENT_BYTES = 256 };

/* Slots; those of float16 of which copies are under way at most: more keep memory no busier, but what else is read
 * waits behind them, and blocks get their rows at times further apart (float32: all, its slots hold less). Measured. */
enum { LEAST_SLOTS = 6, MOST_SLOTS = 7, UNDER_WAY_F16 = 2 };
static_assert(UNDER_WAY_F16 <= LEAST_SLOTS, "the producer waits for a slot's copies before it fills the slot again");

/* Keys of a split: what a block's warps take in one turn (float16), or a few (float32). */
enum { KEYS_PER_SPLIT_F16 = 256, KEYS_PER_SPLIT_F32 = 64 };

static bool precisions_are(const struct kg_session_plan *plan, enum kg_precision p) {
    return plan->activations == p && plan->kv == p;
}

/* Norms, positions, gates and attention as program.h has them. A window is the same in all layers, or as long as the
 * cache. */
static bool parts_fit(const struct kg_model_config *c, uint32_t n_ctx) {
    const bool plain_gate = c->swiglu.limit == 0 && c->swiglu.alpha == 1 && c->swiglu.up_offset == 0;
    const bool same_window = c->window == 0 || c->window >= n_ctx || c->window_period == 0;
    return c->norm == KG_NORM_RMS && c->rope_pairing != KG_ROPE_NONE && !c->has_positions && !c->has_sinks &&
           !c->wide_residual && c->ffn == KG_FFN_GATED && plain_gate && same_window;
}

static bool shapes_fit(const struct kg_model_config *c) {
    const uint32_t group = c->n_heads / c->n_kv_heads;
    return c->n_layers <= KG_PERSISTENT_MAX_LAYERS && c->n_embd % 16 == 0 && c->n_ff % 16 == 0 &&
           c->n_heads * c->head_dim % 16 == 0 && c->head_dim % 8 == 0 && c->head_dim <= KG_PERSISTENT_MAX_HEAD_DIM &&
           group <= KG_PERSISTENT_MAX_GROUP;
}

/* Splits there may be: jobs for all blocks. */
static uint32_t most_splits(const struct kg_cuda_backend *cuda, const struct kg_model_config *c) {
    const uint32_t n = (uint32_t)cuda->n_sms / c->n_kv_heads;
    return n > 0 ? n : 1;
}

struct region {
    size_t offset; /* in struct kg_persistent_words */
    uint64_t n_words;
};

enum { N_REGIONS = 7 };

static void regions_of(const struct kg_cuda_backend *cuda, const struct kg_model_config *c,
                       struct region (&regions)[N_REGIONS]) {
    const uint64_t heads = (uint64_t)c->n_heads * c->head_dim, kv_heads = (uint64_t)c->n_kv_heads * c->head_dim;
    const uint64_t splits = most_splits(cuda, c);
    const struct region all[N_REGIONS] = {
        { offsetof(struct kg_persistent_words, qkv), heads + 2 * kv_heads },
        { offsetof(struct kg_persistent_words, attention), heads },
        { offsetof(struct kg_persistent_words, x1), c->n_embd },
        { offsetof(struct kg_persistent_words, x2), c->n_embd },
        { offsetof(struct kg_persistent_words, gated), c->n_ff },
        { offsetof(struct kg_persistent_words, partial), splits * heads },
        { offsetof(struct kg_persistent_words, weight), splits * c->n_heads * 2 },
    };
    memcpy(regions, all, sizeof all);
}

static uint64_t region_bytes(const struct region *r) {
    return (r->n_words * sizeof(uint64_t) + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static uint64_t layers_bytes(const struct kg_model_config *c) {
    return (c->n_layers * sizeof(struct kg_persistent_layer) + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

/* Of the words, and of the layers behind them. */
static uint64_t words_bytes(const struct kg_cuda_backend *cuda, const struct kg_model_config *c) {
    struct region regions[N_REGIONS];
    uint64_t total = 0;
    regions_of(cuda, c, regions);
    for (const struct region &r : regions) total += region_bytes(&r);
    return total;
}

uint64_t kg_cuda_persistent_bytes(const struct kg_cuda_backend *cuda, const struct kg_session_plan *plan) {
    if (cuda->compute_capability < COMPUTE_CAPABILITY || !shapes_fit(plan->config) ||
        !parts_fit(plan->config, plan->n_ctx))
        return 0;
    if (!precisions_are(plan, KG_PRECISION_F16) && !precisions_are(plan, KG_PRECISION_F32)) return 0;
    return words_bytes(cuda, plan->config) + layers_bytes(plan->config);
}

static bool matrices_are(const struct kg_model_weights *weights, uint32_t n_layers, enum kg_dtype dtype) {
    if (weights->embedding.dtype != dtype || weights->output.dtype != dtype) return false;
    for (uint32_t i = 0; i < n_layers; i++) {
        const struct kg_layer_weights *l = &weights->layers[i];
        const struct kg_weight *all[] = { &l->q, &l->k, &l->v, &l->attn_out, &l->gate, &l->up, &l->down };
        for (const struct kg_weight *w : all)
            if (w->dtype != dtype || (uintptr_t)w->data % 16 != 0) return false;
    }
    return true;
}

static bool table_is_original(const struct kg_backend_ops *ops) {
    bool same = true;
#define COMPARE(op) same = same && ops->op == kg_cuda_ops.op;
    KG_OP_LIST(COMPARE)
#undef COMPARE
    return same;
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

static void list_layers(const struct kg_decode_step_args *args, struct kg_persistent_layer *layers) {
    for (uint32_t i = 0; i < args->config->n_layers; i++) {
        const struct kg_layer_weights *l = &args->weights->layers[i];
        layers[i] = { l->q.data,
                      l->k.data,
                      l->v.data,
                      l->attn_out.data,
                      l->gate.data,
                      l->up.data,
                      l->down.data,
                      l->attn_norm,
                      l->ffn_norm,
                      l->q_bias,
                      l->k_bias,
                      l->v_bias,
                      l->attn_out_bias,
                      l->gate_bias,
                      l->up_bias,
                      l->down_bias,
                      kg_kv_cache_keys(args->kv, i),
                      kg_kv_cache_values(args->kv, i) };
    }
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

/* Words are cleared and layers put behind them: once a session. */
static enum kg_status fill_memory(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args, void *words,
                                  struct kg_persistent_program *p, struct kg_error *err) {
    enum { BLOCK_THREADS = 32 };
    struct layer_table table = {};
    const uint32_t n_layers = args->config->n_layers;
    const uint64_t n_bytes = words_bytes(cuda, args->config);
    struct kg_persistent_layer *layers =
        reinterpret_cast<struct kg_persistent_layer *>(static_cast<char *>(words) + n_bytes);
    list_layers(args, table.layers);
    p->layers = layers;
    const cudaError_t code = cudaMemsetAsync(words, 0, n_bytes, cuda->stream);
    if (code != cudaSuccess) return kg_cuda_fail(err, "words of a step", code);
    put_layers_kernel<<<(n_layers + BLOCK_THREADS - 1) / BLOCK_THREADS, BLOCK_THREADS, 0, cuda->stream>>>(table, layers,
                                                                                                          n_layers);
    return kg_cuda_launched(err, "layers of a step");
}

static void set_words(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda,
                      const struct kg_model_config *c, void *words) {
    struct region regions[N_REGIONS];
    char *at = static_cast<char *>(words);
    regions_of(cuda, c, regions);
    for (const struct region &r : regions) {
        uint64_t *here = reinterpret_cast<uint64_t *>(at);
        memcpy(reinterpret_cast<char *>(&p->words) + r.offset, &here, sizeof here);
        at += region_bytes(&r);
    }
}

static void set_model(struct kg_persistent_program *p, const struct kg_decode_step_args *args) {
    const struct kg_model_config *c = args->config;
    p->n_layers = c->n_layers;
    p->n_embd = c->n_embd;
    p->n_ff = c->n_ff;
    p->n_heads = c->n_heads;
    p->n_kv_heads = c->n_kv_heads;
    p->group = c->n_heads / c->n_kv_heads;
    p->head_dim = c->head_dim;
    p->n_ctx = args->kv->n_ctx;
    p->rope_half = c->rope_pairing == KG_ROPE_HALF;
    p->window = c->window < args->kv->n_ctx ? c->window : 0;
    p->norm_eps = c->norm_eps;
    p->attn_scale = c->attn_scale;
    p->turns = { (double)c->rope_freq_base, (double)c->rope_freq_scale, (double)c->rope_magnitude, NULL, c->n_rot };
    p->embedding = args->weights->embedding.data;
    p->output_norm = args->weights->output_norm;
    p->output = args->weights->output.data;
    p->logits = args->buffers->logits;
    p->id_in_place = args->buffers->ids;
}

/* Bytes of a layer's weights that the ring holds at a time, of the block that has most. */
static uint64_t ring_holds(const struct kg_persistent_program *p, const struct kg_cuda_backend *cuda,
                           uint32_t elem_bytes) {
    uint64_t n_bytes = 0, n_turns = 0;
    for (int i = 0; i < KG_PERSISTENT_OUTPUT; i++) {
        const struct kg_persistent_matrix *m = &p->matrix[i];
        const uint64_t rows = (uint64_t)most_outputs(m, cuda->n_sms) * m->weight_rows;
        n_bytes += rows * m->n_cols * elem_bytes;
        n_turns += (rows + m->slot_rows - 1) / m->slot_rows * ((m->n_cols + m->piece_cols - 1) / m->piece_cols);
    }
    return n_bytes * p->n_slots / n_turns;
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

/* Few slots, more where the ring then holds a tenth more (slots have whole rows, and some room may be left): each costs
 * time of its own. False if the block's memory has no room for a ring, or a block has more of the residual stream than
 * a batch: an element a thread. */
static bool set_ring(struct kg_persistent_program *p, const struct kg_cuda_backend *cuda, uint32_t elem_bytes) {
    for (int i = 0; i < KG_PERSISTENT_OUTPUT; i++) {
        const uint32_t n = most_outputs(&p->matrix[i], cuda->n_sms);
        if (n > p->side_rows) p->side_rows = n;
    }
    if (most_outputs(&p->matrix[KG_PERSISTENT_DOWN], cuda->n_sms) > kg_persistent::BATCH_ROWS) return false;
    if (!set_slots(p, cuda, LEAST_SLOTS, elem_bytes)) return false;
    uint64_t holds = ring_holds(p, cuda, elem_bytes);
    uint32_t best = LEAST_SLOTS;
    for (uint32_t n = LEAST_SLOTS + 1; n <= MOST_SLOTS; n++)
        if (set_slots(p, cuda, n, elem_bytes) && ring_holds(p, cuda, elem_bytes) * 10 >= holds * 11)
            best = n, holds = ring_holds(p, cuda, elem_bytes);
    p->most_under_way = p->is_f16 ? (uint32_t)UNDER_WAY_F16 : best;
    return set_slots(p, cuda, best, elem_bytes);
}

enum kg_status kg_cuda_persistent_create(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                         void *words, struct kg_persistent_program **program, struct kg_error *err) {
    const struct kg_model_config *c = args->config;
    const enum kg_dtype dtype = args->activations == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    const uint32_t elem_bytes = (uint32_t)kg_precision_bytes(args->activations);
    *program = NULL;
    if (!table_is_original(cuda->base.ops) || !matrices_are(args->weights, c->n_layers, dtype)) return KG_OK;
    struct kg_persistent_program *p = static_cast<struct kg_persistent_program *>(calloc(1, sizeof *p));
    if (!p) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for the program of a step");
    set_model(p, args);
    p->is_f16 = args->activations == KG_PRECISION_F16;
    p->most_splits = most_splits(cuda, c);
    p->least_keys_per_split = p->is_f16 ? KEYS_PER_SPLIT_F16 : KEYS_PER_SPLIT_F32;
    set_matrices(p, c->n_vocab);
    set_words(p, cuda, c, words);
    if (!set_ring(p, cuda, elem_bytes)) {
        free(p);
        return KG_OK;
    }
    const enum kg_status status = fill_memory(cuda, args, words, p, err);
    if (status) free(p);
    else *program = p;
    return status;
}
