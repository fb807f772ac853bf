/* What is in a back end's memory after a model was loaded, tensor by tensor against the file, read by another way than
 * the one that loads: matrices byte by byte, or, where the GPU has repacked MXFP4 or has BF16 as float16, value by
 * value; vectors as the float32 of the file's values. The same with a byte changed on its way must name that tensor. */
#include "backend/backend.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "format/gguf.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <kigo/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct device_model {
    const char *name, *fixture; /* below fixtures/, or NULL: */
    struct kg_tiny_model made;
} MODELS[] = {
    { "qwen2_f16", "haiku-qwen2/haiku-qwen2-f16.gguf", { 0 } },
    { "llama_f32", "tiny-llama/llama-f32.gguf", { 0 } },
    { "llama_blocks_of_32", "tiny-llama/llama-blocks.gguf", { 0 } },
    { "llama_k_blocks", "tiny-llama/llama-k.gguf", { 0 } },
    { "phi3_fused_q8_0", "haiku-phi3/haiku-phi3-q8_0.gguf", { 0 } },
    { "gpt2_mxfp4", "haiku-gpt2/haiku-gpt2-mxfp4.gguf", { 0 } },
    { "gpt_oss_mxfp4", "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf", { 0 } },
    { "gemma3", "tiny-gemma3/gemma3-window.gguf", { 0 } },
    { "bf16",
      NULL,
      { .architecture = "llama",
        .n_vocab = 261,
        .n_ctx = 64,
        .n_embd = 64,
        .n_layers = 2,
        .n_heads = 4,
        .n_kv_heads = 2,
        .n_ff = 96,
        .qkv_bias = true,
        .other_bias = true,
        .untied = true,
        .matrices = KG_DTYPE_BF16,
        .seed = 31 } },
    /* As the GPU repacks matrices, by 16 rows and 64 columns. */
    { "experts_in_tiles",
      NULL,
      { .architecture = "gpt-oss",
        .n_vocab = 261,
        .n_ctx = 64,
        .n_embd = 128,
        .n_layers = 2,
        .n_heads = 4,
        .n_kv_heads = 1,
        .head_dim = 64,
        .n_ff = 192,
        .untied = true,
        .window = 9,
        .n_experts = 6,
        .n_experts_used = 2,
        .mxfp4_experts = true,
        .matrices = KG_DTYPE_F16,
        .seed = 17 } },
};

/* What the loader gave the back end, by tensor. */
enum { MAX_TENSORS = 256 };
static struct given {
    char name[64];
    const void *data;
    uint64_t size_bytes;
    bool is_vector;
    void *changed; /* the host's copy with another byte, which a back end may use in place */
} given[MAX_TENSORS];
static size_t n_given;
static const struct kg_backend_ops *original;
static const char *to_change; /* a tensor of which a byte changes on its way; NULL: none */

static struct given *add_given(const char *name, bool is_vector) {
    ck_assert_uint_lt(n_given, MAX_TENSORS);
    struct given *g = &given[n_given++];
    *g = (struct given){ .is_vector = is_vector };
    snprintf(g->name, sizeof g->name, "%s", name);
    return g;
}

static enum kg_status seen_import(struct kg_backend *backend, const void *host, uint64_t size_bytes, const char *what,
                                  struct kg_block *block, struct kg_error *err) {
    struct given *g = add_given(what, false);
    if (to_change && strcmp(what, to_change) == 0) {
        g->changed = kg_xmalloc(size_bytes);
        memcpy(g->changed, host, size_bytes);
        ((uint8_t *)g->changed)[size_bytes / 2] ^= 0x10;
        host = g->changed;
    }
    const enum kg_status status = original->import_weights(backend, host, size_bytes, what, block, err);
    g->data = block->data;
    g->size_bytes = size_bytes;
    return status;
}

static enum kg_status seen_alloc(struct kg_backend *backend, enum kg_memory_tag tag, uint64_t size_bytes,
                                 const char *what, struct kg_block *block, struct kg_error *err) {
    const enum kg_status status = original->alloc(backend, tag, size_bytes, what, block, err);
    if (status || tag != KG_MEMORY_WEIGHTS) return status;
    struct given *g = add_given(what, true);
    g->data = block->data;
    g->size_bytes = size_bytes;
    return status;
}

static const struct given *given_of(const struct kg_gguf_tensor *t) {
    for (size_t i = 0; i < n_given; i++)
        if (kg_str_eq(t->name, given[i].name)) return &given[i];
    ck_abort_msg("%.*s was not given to the back end", (int)t->name.len, t->name.data);
}

/* A group of 16 rows as kernels/mxfp4/layout.cuh describes it, decoded: (16, n_cols). */
enum { GROUP_ROWS = 16, TILE_COLS = 64, CODES_BYTES = 512, SCALES_BYTES = 32 };
static void decode_repacked(const uint8_t *group, size_t n_cols, float *values) {
    const size_t n_tiles = n_cols / TILE_COLS;
    for (size_t tile = 0; tile < n_tiles; tile++)
        for (size_t lane = 0; lane < 32; lane++)
            for (size_t word = 0; word < 4; word++) {
                const size_t row = lane / 4 + word % 2 * 8, first = tile * TILE_COLS + word / 2 * 32 + lane % 4 * 2;
                uint32_t w;
                memcpy(&w, group + tile * CODES_BYTES + lane * 16 + word * 4, sizeof w);
                const uint32_t pairs[] = { w << 6, w << 9, w ^ w << 2, w ^ w >> 3 };
                const uint8_t e = group[n_tiles * CODES_BYTES + tile * SCALES_BYTES + lane / 4 * 4 + word];
                for (size_t i = 0; i < KG_COUNT_OF(pairs); i++)
                    for (size_t j = 0; j < 2; j++) {
                        const uint16_t half = (uint16_t)((pairs[i] >> 16 * j) & 0x8E00);
                        values[row * n_cols + first + 8 * i + j] =
                            kg_f16_to_f32(half) * 0x1p14F * exp2f((float)e - 127);
                    }
            }
}

/* Whether float16 rounds no more than kernels/as_float16.h says. */
static bool is_as_float16(const uint8_t *held, const float *want, size_t n) {
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, held + i * sizeof half, sizeof half);
        const float got = kg_f16_to_f32(half);
        same = same && (got == want[i] || (fabsf(want[i]) < 0x1p-17F && fabsf(got - want[i]) <= 0x1p-25F));
    }
    return same;
}

/* Whether memory has the matrix: 16 rows at a time as in the file, or repacked. */
static bool same_matrix(const struct kg_gguf_tensor *t, const uint8_t *held, size_t *n_repacked) {
    const size_t n_cols = t->dims[0], n_rows = t->n_elems / n_cols, row_bytes = t->size_bytes / n_rows;
    float *want = kg_xcalloc(GROUP_ROWS * n_cols, sizeof *want), *got = kg_xcalloc(GROUP_ROWS * n_cols, sizeof *got);
    bool same = true;
    for (size_t row = 0; row < n_rows && same; row += GROUP_ROWS) {
        const size_t n = n_rows - row < GROUP_ROWS ? n_rows - row : GROUP_ROWS;
        const uint8_t *there = held + row * row_bytes, *file = (const uint8_t *)t->data + row * row_bytes;
        if (memcmp(there, file, n * row_bytes) == 0) continue;
        kg_dtype_info(t->dtype)->decode(file, want, n * n_cols);
        ++*n_repacked;
        if (t->dtype == KG_DTYPE_BF16) {
            same = is_as_float16(there, want, n * n_cols);
            continue;
        }
        same = t->dtype == KG_DTYPE_MXFP4 && n == GROUP_ROWS && n_cols % TILE_COLS == 0;
        if (!same) break;
        decode_repacked(there, n_cols, got);
        for (size_t i = 0; i < n * n_cols; i++) same = same && got[i] == want[i];
    }
    free(got);
    free(want);
    return same;
}

static bool same_vector(const struct kg_gguf_tensor *t, const void *held) {
    float *want = kg_xcalloc(t->n_elems, sizeof *want);
    kg_dtype_info(t->dtype)->decode(t->data, want, t->n_elems);
    const bool same = memcmp(want, held, t->n_elems * sizeof *want) == 0;
    free(want);
    return same;
}

/* How many tensors do not lie behind the one before them, in lines of 256 bytes. */
static size_t count_strays(void) {
    enum { LINE_BYTES = 256 };
    size_t n = 0;
    for (size_t i = 1; i < n_given; i++) {
        const uint64_t lines = (given[i - 1].size_bytes + LINE_BYTES - 1) / LINE_BYTES;
        n += (const char *)given[i].data != (const char *)given[i - 1].data + lines * LINE_BYTES;
    }
    return n;
}

/* Loads the model and looks at every tensor: how many differ, and the last of them. */
struct seen {
    size_t n_tensors, n_other, n_repacked, n_strays;
    char other[64];
};
static struct seen look(const char *path, const char *backend_name, const char *changed) {
    struct kg_backend_ops ops;
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_gguf *gguf;
    struct kg_error err;
    struct seen seen = { 0 };
    kg_must(kg_backend_find_ops(backend_name, &original, &err), &err);
    ops = *original, n_given = 0, to_change = changed;
    ops.import_weights = seen_import;
    ops.alloc = seen_alloc;
    kg_must(kg_backend_open_ops(&ops, 0, &backend, &err), &err);
    kg_must(kg_model_load(path, backend, NULL, &model, &err), &err);
    kg_must(kg_gguf_open(path, &gguf, &err), &err);
    seen.n_tensors = kg_gguf_n_tensors(gguf);
    seen.n_strays = ops.reserve_weights ? count_strays() : 0;
    for (size_t i = 0; i < seen.n_tensors; i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(gguf, i);
        const struct given *g = given_of(t);
        const uint64_t n_bytes = g->is_vector ? t->n_elems * sizeof(float) : t->size_bytes;
        uint8_t *held = kg_xmalloc(n_bytes);
        kg_must(ops.download(backend, held, g->data, n_bytes, &err), &err);
        if (!(g->is_vector ? same_vector(t, held) : same_matrix(t, held, &seen.n_repacked))) {
            memcpy(seen.other, g->name, sizeof seen.other);
            seen.n_other++;
        }
        free(held);
    }
    kg_gguf_close(gguf);
    kg_model_free(model);
    kg_backend_close(backend);
    for (size_t i = 0; i < n_given; i++) free(given[i].changed);
    return seen;
}

struct device_case {
    const struct device_model *model;
    const char *backend;
};

static void memory_is_the_file(struct kg_record *rec, const void *arg) {
    const struct device_case *c = arg;
    if (!kg_backend_or_skip(rec, c->backend)) return;
    char *made = kg_path_join(kg_scratch_dir(rec), "made.gguf");
    if (!c->model->fixture) kg_tiny_model_write(made, &c->model->made, NULL, 0);
    const char *path = c->model->fixture ? kg_fixture_path(c->model->fixture) : made;
    const struct seen right = look(path, c->backend, NULL);
    ck_assert_msg(right.n_other == 0, "%zu of %zu tensors are not as in the file, the last %s", right.n_other,
                  right.n_tensors, right.other);
    ck_assert_msg(right.n_strays == 0, "%zu of %zu tensors do not lie behind the one before", right.n_strays,
                  right.n_tensors);
    const struct seen wrong = look(path, c->backend, "token_embd.weight");
    ck_assert_msg(wrong.n_other == 1 && strcmp(wrong.other, "token_embd.weight") == 0,
                  "a changed token_embd.weight: %zu tensors differ, %s", wrong.n_other, wrong.other);
    kg_record_metric(rec, "tensors", "count", (double)right.n_tensors);
    kg_record_metric(rec, "repacked_groups", "count", (double)right.n_repacked);
    free(made);
}

/* ---- What is imported may be on its way still. ---- */

enum { N_ROWS = 300, N_COLS = 256, WEIGHT_BYTES = N_ROWS * N_COLS * 4 };

static void fill(float *values, float first) {
    for (int i = 0; i < N_ROWS * N_COLS; i++) values[i] = first + (float)i;
}

static struct kg_block imported(struct kg_op_device *d, const float *values) {
    struct kg_block block;
    struct kg_error err;
    kg_must(d->backend->ops->import_weights(d->backend, values, WEIGHT_BYTES, "a weight", &block, &err), &err);
    return block;
}

/* An operation that reads it, an upload over a part of it, and freeing it, each the next call. */
static void next_call_finds_it(struct kg_record *rec, const void *arg) {
    static float host[N_ROWS * N_COLS], other[N_COLS], back[N_ROWS * N_COLS];
    static const int32_t LAST[] = { N_ROWS - 1 };
    struct kg_op_device d;
    struct kg_error err = { 0 };
    struct kg_op_output y;
    (void)arg;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const struct kg_backend_ops *ops = d.backend->ops;
    kg_must(ops->reserve_weights(d.backend, (uint64_t)3 * WEIGHT_BYTES, NULL, &err), &err);
    fill(host, 1);
    struct kg_block read = imported(&d, host);
    kg_op_output_init(&d, &y, N_COLS, KG_PRECISION_F32);
    const struct kg_embedding_args args = { .weight = { read.data, KG_DTYPE_F32, N_ROWS, N_COLS },
                                            .ids = kg_op_device_put(&d, LAST, sizeof LAST),
                                            .n_rows = 1,
                                            .y = y.y };
    kg_op_expect_ok(ops->embedding(d.backend, &args, &err), &err);
    kg_op_output_read_all(&d, &y, "y");
    ck_assert_mem_eq(y.host.data, host + (N_ROWS - 1) * N_COLS, sizeof other);

    struct kg_block written = imported(&d, host), freed = imported(&d, host);
    ops->free(d.backend, &freed);
    kg_must(ops->upload(d.backend, (float *)written.data + N_COLS, other, sizeof other, &err), &err);
    kg_must(ops->download(d.backend, back, written.data, WEIGHT_BYTES, &err), &err);
    memcpy(host + N_COLS, other, sizeof other);
    ck_assert_mem_eq(back, host, sizeof host);

    ops->free(d.backend, &read);
    ops->free(d.backend, &written);
    kg_must(ops->reserve_weights(d.backend, 0, NULL, &err), &err);
    kg_op_output_free(&y);
    kg_op_device_close(&d);
}

/* A mapped file that has become shorter since: touching its pages would end the process. */
static void file_that_became_shorter(struct kg_record *rec, const void *arg) {
    static float host[N_ROWS * N_COLS];
    struct kg_op_device d;
    struct kg_error err = { 0 };
    struct kg_file_map map;
    (void)arg;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const struct kg_backend_ops *ops = d.backend->ops;
    char *path = kg_path_join(kg_scratch_dir(rec), "weights");
    fill(host, 1);
    kg_must(kg_file_write(path, host, sizeof host, &err), &err);
    kg_must(kg_file_map_open(path, &map, &err), &err);
    ck_assert_int_eq(truncate(path, WEIGHT_BYTES / 2), 0);
    kg_must(ops->reserve_weights(d.backend, WEIGHT_BYTES, &map, &err), &err);
    struct kg_block block = imported(&d, (const float *)(const void *)map.data);
    kg_must_fail(ops->synchronize(d.backend, &err), KG_ERR_IO, &err, "shorter", NULL);
    ops->free(d.backend, &block);
    kg_must(ops->reserve_weights(d.backend, 0, NULL, &err), &err);
    kg_file_map_close(&map);
    kg_op_device_close(&d);
    free(path);
}

/* No type of weights that can be read is left out above. */
static void every_format_is_there(struct kg_record *rec, const void *arg) {
    bool there[KG_DTYPE_COUNT] = { false };
    struct kg_error err;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(MODELS); i++) {
        struct kg_gguf *gguf;
        if (!MODELS[i].fixture) there[MODELS[i].made.matrices] = true;
        if (!MODELS[i].fixture) continue;
        kg_must(kg_gguf_open(kg_fixture_path(MODELS[i].fixture), &gguf, &err), &err);
        for (size_t t = 0; t < kg_gguf_n_tensors(gguf); t++) there[kg_gguf_tensor_at(gguf, t)->dtype] = true;
        kg_gguf_close(gguf);
    }
    for (int i = 0; i < KG_DTYPE_COUNT; i++)
        ck_assert_msg(there[i], "no model has %s weights", kg_dtype_info((enum kg_dtype)i)->name);
}

static void build(struct kg_case_list *cases) {
    static const char *const BACKENDS[] = { "cpu", "cuda" };
    static struct device_case kept[KG_COUNT_OF(MODELS) * KG_COUNT_OF(BACKENDS)];
    for (size_t i = 0; i < KG_COUNT_OF(kept); i++) {
        kept[i] = (struct device_case){ &MODELS[i / 2], BACKENDS[i % 2] };
        kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                   .op = "weights_in_memory",
                                                   .name = kept[i].model->name,
                                                   .backend = kept[i].backend,
                                                   .run = memory_is_the_file,
                                                   .arg = &kept[i] });
    }
    static const struct kg_case OTHERS[] = {
        { .name = "every_format_is_there", .run = every_format_is_there },
        { .name = "next_call_finds_it", .backend = "cuda", .run = next_call_finds_it },
        { .name = "file_that_became_shorter", .backend = "cuda", .run = file_that_became_shorter },
    };
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) {
        struct kg_case c = OTHERS[i];
        c.layer = "tolerance";
        c.op = "weights_in_memory";
        kg_case_list_add(cases, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
