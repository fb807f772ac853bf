/* The fusion of a layer's experts for many rows: four nodes lowered by the cuda back end and run, judged against
 * float64 over what the MXFP4 blocks denote (mxfp4_values.h), which judges the same nodes one by one, too. Scenes say
 * how many rows each expert has. Then nodes that the fusion must not take, with the reason, and mutants: a node with
 * one thing wrong must be outside the same limits. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/mxfp4_values.h"
#include "suites/tolerance/lowered_mistakes.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_NODES = 4, MOST_EXPERTS = 40 };
static const double LIMIT = 1.5;
#define FUSED "experts' gate, up + swiglu; down of rows"

/* Tiles of rows have up to some multiple of 16, by the rows of an expert on average: none, one, and what lies around
 * each; then around one such width and its double, whose average chooses it. */
#define AROUND(n) (n) - 1, (n), (n) + 1
#define EDGES                                                                                                          \
    {                                                                                                                  \
        0, 1, AROUND(16), AROUND(32), AROUND(48), AROUND(64), AROUND(80), AROUND(96), AROUND(112), AROUND(128),        \
            AROUND(192), 0                                                                                             \
    }
#define WIDTH(n)                                                                                                       \
    { 0, 1, AROUND(n), 2 * (n) + 1, 0 }
#define FEW                                                                                                            \
    { 1, 33, 0, 97, 64, 5 }

struct scene {
    const char *name;
    uint32_t n_embd, n_ff, n_used, n_experts;
    uint32_t rows_of[MOST_EXPERTS]; /* the last expert has more where they are no whole tokens */
    bool is_silu, no_bias, wide;    /* is_silu: else the gate has a limit, which it reaches; wide: y is float32 */
};
#define SCENE(named, embd, ff, used, experts, ...)                                                                     \
    { .name = named, .n_embd = embd, .n_ff = ff, .n_used = used, .n_experts = experts, .rows_of = __VA_ARGS__ }
static const struct scene SCENES[] = {
    SCENE("edges_of_tiles", 128, 192, 1, 30, EDGES),
    SCENE("edges_of_tiles_four_used", 128, 192, 4, 30, EDGES, .wide = true),
    SCENE("width_16", 128, 192, 1, 9, WIDTH(16)),
    SCENE("width_32", 128, 192, 1, 9, WIDTH(32)),
    SCENE("width_48", 128, 192, 1, 8, WIDTH(48)),
    SCENE("width_64", 128, 192, 1, 8, WIDTH(64)),
    SCENE("width_80", 128, 192, 1, 7, WIDTH(80)),
    SCENE("width_128", 128, 192, 1, 7, WIDTH(128)),
    /* Of 2880 x 2880 in small: the last tile of outputs has half of gate and up, and a quarter of down. */
    SCENE("gpt_oss", 320, 320, 4, 6, FEW, .wide = true),
    SCENE("gpt_oss_narrow_y", 320, 320, 1, 6, FEW),
    SCENE("without_biases", 320, 320, 4, 6, FEW, .no_bias = true),
    SCENE("silu", 320, 320, 4, 6, FEW, .is_silu = true),
    SCENE("one_tile_of_columns", 64, 64, 1, 6, FEW),
    SCENE("fewer_outputs_than_a_block", 64, 64, 4, 2, { 131, 2 }, .wide = true),
    SCENE("all_to_the_first", 128, 192, 1, 5, { 300 }),
    SCENE("all_to_the_last", 128, 192, 4, 5, { 0, 0, 0, 0, 300 }),
    SCENE("fewest_rows", 128, 192, 1, 5, { 3, 0, 1, 1, 4 }),
    SCENE("fewest_rows_four_used", 128, 192, 4, 5, { 8, 9, 7, 7, 5 }),
};

/* What is wrong with nodes that the fusion fits. */
static void experts_of_the_next_row(const struct kg_lowered_site *s) {
    for (uint32_t i = 0; i < s->n_step; i++)
        if (s->n[i].op == KG_OP_experts_linear) s->n[i].args.experts_linear.ids++; /* there is one more */
}

static void up_by_weight_of_gate(const struct kg_lowered_site *s) {
    s->n[1].args.experts_linear.weight.data = s->n[0].args.experts_linear.weight.data;
}

static void gate_bias_left_out(const struct kg_lowered_site *s) {
    s->n[0].args.experts_linear.bias = NULL;
}

static void up_bias_left_out(const struct kg_lowered_site *s) {
    s->n[1].args.experts_linear.bias = NULL;
}

static void limit_ignored(const struct kg_lowered_site *s) {
    s->n[2].args.swiglu.limit = 0;
}

static void up_offset_left_out(const struct kg_lowered_site *s) {
    s->n[2].args.swiglu.up_offset = 0;
}

static const struct mutant {
    const char *name;
    kg_mistake *change;
} MUTANTS[] = {
    { "gate_and_up_exchanged", kg_mistake_expert_gate_and_up_swapped },
    { "up_by_weight_of_gate", up_by_weight_of_gate },
    { "experts_of_the_next_row", experts_of_the_next_row },
    { "gate_bias_left_out", gate_bias_left_out },
    { "up_bias_left_out", up_bias_left_out },
    { "down_bias_left_out", kg_mistake_down_bias_left_out },
    { "limit_ignored", limit_ignored },
    { "up_offset_left_out", up_offset_left_out },
    { "silu_half_as_steep", kg_mistake_gate_half_as_steep },
};

/* What makes nodes that the fusion does not fit. */
static void gelu_gates(const struct kg_lowered_site *s) {
    s->n[2].args.swiglu.limit = 0;
    s->n[2].args.swiglu.cubic = 0.044715f;
}

static void down_by_other_ids(const struct kg_lowered_site *s) {
    s->n[3].args.experts_linear.ids++;
}

static void up_of_another_x(const struct kg_lowered_site *s) {
    s->n[1].args.experts_linear.x = s->n[3].args.experts_linear.y;
}

static void no_workspace(const struct kg_lowered_site *s) {
    s->n[0].args.experts_linear.workspace = NULL;
}

static const struct refused {
    struct scene scene;
    const char *why; /* of the refusal; NULL: the fusion fits, but does not take such a run */
    kg_mistake *change;
    bool is_f32, as_in_file;
} REFUSED[] = {
#define SMALL(name, ...)                                                                                               \
    { SCENE(name, 64, 64, 1, 2, { 40, 3 }), __VA_ARGS__ }
    { SCENE("rows_of_half_a_tile", 288, 320, 4, 6, FEW), .why = "not repacked" },
    { SCENE("activations_of_half_a_tile", 320, 288, 4, 6, FEW), .why = "not repacked" },
    SMALL("as_in_the_file", .why = "not repacked", .as_in_file = true),
    SMALL("float32_activations", .why = "float32 activations", .is_f32 = true),
    SMALL("gelu_gates", .why = "gelu gates", .change = gelu_gates),
    SMALL("down_by_other_ids", .why = "not of the same rows' experts", .change = down_by_other_ids),
    SMALL("up_of_another_x", .why = "not of the same rows' experts", .change = up_of_another_x),
    SMALL("no_workspace", .why = "no workspace", .change = no_workspace),
    { SCENE("8_rows", 64, 64, 1, 2, { 6, 2 }), .why = NULL },
    { SCENE("8_rows_four_used", 64, 64, 4, 2, { 25, 7 }), .why = NULL },
#undef SMALL
};

/* A scene on a back end: its nodes, and what they give. */
struct rig {
    struct kg_mxfp4_run run;
    struct kg_mxfp4_value *gate, *y; /* gate: memory of h, too */
    struct kg_op_output out;         /* of the fused nodes */
    struct kg_node nodes[N_NODES];
    struct kg_plan plan;
    struct kg_lowered *lowered;
};

/* Rows go round the experts, so that an expert's are apart. */
static struct kg_mxfp4_routes routes_of(struct kg_op_device *d, const struct scene *s) {
    struct kg_mxfp4_routes routes = { .n_used = s->n_used, .n_experts = s->n_experts };
    uint32_t left[MOST_EXPERTS], n = 0, at = 0;
    for (uint32_t e = 0; e < s->n_experts; e++) n += left[e] = s->rows_of[e];
    for (; n % s->n_used != 0; n++) left[s->n_experts - 1]++;
    routes.rows = n / s->n_used;
    routes.ids = kg_op_device_own(d, kg_xcalloc(n + 1, sizeof *routes.ids)); /* one more, for a mutant */
    for (uint32_t e = 0; at < n; e = (e + 1) % s->n_experts)
        if (left[e] > 0) left[e]--, routes.ids[at++] = (int32_t)e;
    routes.device_ids = kg_op_device_put(d, routes.ids, (n + 1) * sizeof *routes.ids);
    return routes;
}

/* As a session with such a model has it. */
static void reserve_workspace(struct kg_op_device *d, const struct scene *s, enum kg_precision precision,
                              uint32_t n_rows) {
    const struct kg_model_config config = { .architecture = "gpt-oss",
                                            .n_vocab = 64,
                                            .n_ctx_train = n_rows,
                                            .n_embd = s->n_embd,
                                            .n_layers = 1,
                                            .n_heads = 1,
                                            .n_kv_heads = 1,
                                            .head_dim = 64,
                                            .n_ff = s->n_ff,
                                            .n_experts = s->n_experts,
                                            .n_experts_used = s->n_used };
    const struct kg_session_plan plan = {
        .config = &config, .activations = precision, .kv = precision, .n_ctx = n_rows, .max_rows = n_rows
    };
    uint64_t size_bytes = 0;
    struct kg_error err;
    kg_must(d->backend->ops->session_plan(d->backend, &plan, &size_bytes, &err), &err);
    kg_op_device_reserve(d, size_bytes);
}

static struct kg_node experts_node(struct rig *g, const struct scene *s, const struct kg_mxfp4_routes *routes,
                                   const struct kg_mxfp4_matrix *w, const float *bias, const void *x,
                                   uint32_t n_sharing, void *y) {
    struct kg_op_device *d = &g->run.device;
    return (struct kg_node){ .op = KG_OP_experts_linear,
                             .rows_per_id = s->n_used,
                             .args.experts_linear = {
                                 .activations = g->run.activations,
                                 .x = x,
                                 .weight = w->weight,
                                 .n_experts = s->n_experts,
                                 .bias = bias ? kg_op_device_put(d, bias, w->weight.n_rows * sizeof *bias) : NULL,
                                 .ids = routes->device_ids,
                                 .y = y,
                                 .n_sharing = n_sharing,
                                 .workspace = d->workspace } };
}

/* The scene node by node, which is judged, and its nodes for a fusion. */
static void make_nodes(struct rig *g, const struct scene *s) {
    struct kg_mxfp4_run *r = &g->run;
    const struct kg_mxfp4_routes routes = routes_of(&r->device, s);
    const size_t n_ff = (size_t)s->n_experts * s->n_ff, n_embd = (size_t)s->n_experts * s->n_embd;
    reserve_workspace(&r->device, s, r->activations, routes.rows);
    const struct kg_mxfp4_value *x = kg_mxfp4_input(r, routes.rows, s->n_embd);
    const struct kg_mxfp4_matrix gate = kg_mxfp4_matrix(r, s->n_experts, s->n_ff, s->n_embd),
                                 up = kg_mxfp4_matrix(r, s->n_experts, s->n_ff, s->n_embd),
                                 down = kg_mxfp4_matrix(r, s->n_experts, s->n_embd, s->n_ff);
    const float *gate_bias = s->no_bias ? NULL : kg_mxfp4_bias(r, n_ff),
                *up_bias = s->no_bias ? NULL : kg_mxfp4_bias(r, n_ff),
                *down_bias = s->no_bias ? NULL : kg_mxfp4_bias(r, n_embd);
    g->gate = kg_mxfp4_experts(r, x, &gate, gate_bias, &routes);
    const struct kg_mxfp4_value *u = kg_mxfp4_experts(r, x, &up, up_bias, &routes),
                                *act = kg_mxfp4_swiglu(r, g->gate, u, s->is_silu ? 0 : LIMIT);
    g->y = kg_mxfp4_experts(r, act, &down, down_bias, &routes);
    kg_op_output_init(&r->device, &g->out, (size_t)g->y->rows * g->y->cols,
                      s->wide ? KG_PRECISION_F32 : r->activations);
    void *h = g->gate->y.y;
    g->nodes[0] = experts_node(g, s, &routes, &gate, gate_bias, x->y.y, s->n_used, h);
    g->nodes[1] = experts_node(g, s, &routes, &up, up_bias, x->y.y, s->n_used, u->y.y);
    g->nodes[2] = (struct kg_node){ .op = KG_OP_swiglu,
                                    .rows_per_id = s->n_used,
                                    .args.swiglu = { .activations = r->activations,
                                                     .gate = h,
                                                     .up = u->y.y,
                                                     .y = h,
                                                     .n_cols = s->n_ff,
                                                     .limit = s->is_silu ? 0 : (float)LIMIT,
                                                     .alpha = s->is_silu ? 1 : 1.702f,
                                                     .up_offset = s->is_silu ? 0 : 1 } };
    g->nodes[3] = experts_node(g, s, &routes, &down, down_bias, h, 1, g->out.y);
    g->nodes[3].args.experts_linear.wide_output = s->wide;
    g->plan = (struct kg_plan){ .nodes = g->nodes,
                                .n_nodes = N_NODES,
                                .n_cached = N_NODES,
                                .n_body = N_NODES,
                                .activations = r->activations,
                                .residual = g->out.precision,
                                .kv = r->activations,
                                .max_rows = routes.rows,
                                .n_ctx = routes.rows,
                                .workspace = r->device.workspace };
}

/* Weights are repacked on compute capability 9.0. */
static bool repacks_or_skip(struct kg_record *rec) {
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n = 0;
    kg_must(kg_gpu_list(&gpu, 1, &n, &err), &err);
    if (n > 0 && gpu.compute_capability == 90) return true;
    kg_record_skip(rec, "no GPU of compute capability 9.0, for which weights are repacked");
    return false;
}

/* False after a skip. */
static bool rig_open(struct kg_record *rec, const struct scene *s, enum kg_precision precision, bool as_in_file,
                     kg_mistake *change, double *margin, struct rig *g) {
    struct kg_error err;
    *g = (struct rig){
        .run = { .rec = rec, .activations = precision, .seed = 7000, .as_in_file = as_in_file, .margin = margin }
    };
    if (!kg_backend_or_skip(rec, "cuda") || !repacks_or_skip(rec) ||
        !kg_op_device_open(rec, "cuda", NULL, &g->run.device))
        return false;
    make_nodes(g, s);
    const struct kg_lowered_site site = { .n = g->nodes, .nodes = g->nodes, .n_step = N_NODES, .n_nodes = N_NODES };
    if (change) change(&site);
    struct kg_backend *b = g->run.device.backend;
    kg_must(b->ops->lower(b, &g->plan, &g->lowered, &err), &err);
    return true;
}

static void rig_close(struct rig *g) {
    struct kg_backend *b = g->run.device.backend;
    b->ops->free_lowered(b, g->lowered);
    kg_op_output_free(&g->out);
    kg_mxfp4_run_close(&g->run);
}

/* How many nodes the fusion took. */
static uint32_t run_rows(struct rig *g) {
    struct kg_backend *b = g->run.device.backend;
    const struct kg_run run = { .n_rows = g->plan.max_rows };
    struct kg_error err;
    uint32_t n = 0;
    kg_must(b->ops->run_rows(b, g->lowered, 0, &run, &n, &err), &err);
    return n;
}

/* The fused result in the place of y, rounded to float16 as y is. Its sentinels and those of h are whole. */
static void take_result(struct rig *g) {
    struct kg_op_device *d = &g->run.device;
    struct kg_error err;
    const size_t n = g->out.host.n;
    kg_op_output_read_all(d, &g->out, "fused");
    kg_op_output_read_all(d, &g->gate->y, "activations");
    uint16_t *halves = kg_xcalloc(n, sizeof *halves);
    for (size_t i = 0; i < n; i++) halves[i] = kg_f32_to_f16(g->out.host.data[i]);
    kg_must(d->backend->ops->upload(d->backend, g->y->y.y, halves, n * sizeof *halves, &err), &err);
    free(halves);
}

static void run_fused(struct rig *g) {
    ck_assert_uint_eq(g->lowered->n_row_steps, 1);
    ck_assert_str_eq(g->lowered->row_steps[0].kernel, FUSED);
    ck_assert_uint_eq(run_rows(g), N_NODES);
    take_result(g);
    kg_mxfp4_judge(&g->run, "fused", g->y);
}

static void fused_as_node_by_node(struct kg_record *rec, const void *arg) {
    struct rig g;
    if (!rig_open(rec, arg, KG_PRECISION_F16, false, NULL, NULL, &g)) return;
    kg_mxfp4_judge(&g.run, "node_by_node", g.y);
    run_fused(&g);
    rig_close(&g);
}

/* Every scene that a mutant could live in has biases and a limit that gates reach. */
static const struct scene *const MUTATED = &SCENES[2];

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct mutant *m = arg;
    double margin = 0;
    struct rig g;
    if (!rig_open(rec, MUTATED, KG_PRECISION_F16, false, m->change, &margin, &g)) return;
    run_fused(&g);
    rig_close(&g);
    ck_assert_msg(margin > 1, "the mutant lives, at %.4g of the tolerance", margin);
    kg_record_metric(rec, "kill_factor", "ratio", margin);
}

static bool is_refused(const struct kg_lowered *l, const char *why) {
    for (uint32_t i = 0; i < l->n_refusals; i++)
        if (strcmp(l->refusals[i].fusion, FUSED) == 0) return why && strstr(l->refusals[i].why, why);
    return false;
}

static void is_not_taken(struct kg_record *rec, const void *arg) {
    const struct refused *c = arg;
    struct rig g;
    if (!rig_open(rec, &c->scene, c->is_f32 ? KG_PRECISION_F32 : KG_PRECISION_F16, c->as_in_file, c->change, NULL, &g))
        return;
    ck_assert_uint_eq(g.lowered->n_row_steps, c->why ? 0 : 1);
    if (c->why) ck_assert_msg(is_refused(g.lowered, c->why), "not refused because of '%s'", c->why);
    ck_assert_uint_eq(run_rows(&g), 0);
    rig_close(&g);
}

static void add(struct kg_case_list *cases, const char *layer, const char *name, const char *dtype,
                const struct scene *s, void (*run)(struct kg_record *, const void *), const void *arg) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < s->n_experts; e++) n += s->rows_of[e];
    char *shape = kg_xasprintf("%s M=%u N=%u K=%u E=%u/%u", s->name, (n + s->n_used - 1) / s->n_used, s->n_ff,
                               s->n_embd, s->n_used, s->n_experts);
    kg_case_list_add(cases, &(struct kg_case){ .layer = layer,
                                               .op = "row_experts",
                                               .name = name,
                                               .backend = "cuda",
                                               .dtype = dtype,
                                               .shape = shape,
                                               .run = run,
                                               .arg = arg });
    free(shape);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(SCENES); i++)
        add(cases, "tolerance", "fused_as_node_by_node", "f16", &SCENES[i], fused_as_node_by_node, &SCENES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        add(cases, "tolerance", "is_not_taken", REFUSED[i].is_f32 ? "f32" : "f16", &REFUSED[i].scene, is_not_taken,
            &REFUSED[i]);
    for (size_t i = 0; i < KG_COUNT_OF(MUTANTS); i++)
        add(cases, "mutation", MUTANTS[i].name, "f16", MUTATED, mutant_is_rejected, &MUTANTS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
