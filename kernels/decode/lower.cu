#include "kernels/attention/attention.cuh"
#include "kernels/decode/fusions.h"
#include "kernels/decode/persistent/step.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

enum { ALIGNMENT_BYTES = 256 };

bool kg_no(struct kg_why *why, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return false;
}

bool kg_same_frequencies(const struct kg_rope_args *a, const struct kg_rope_args *b) {
    return a->n_rot == b->n_rot && a->freq_base == b->freq_base && a->freq_scale == b->freq_scale &&
           a->magnitude == b->magnitude;
}

static uint64_t aligned(uint64_t n_bytes) {
    return (n_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static uint64_t table_bytes(const struct kg_rope_args *rope) {
    return aligned(rope->n_rot / 2 * sizeof(float2));
}

const struct kg_rotation_table *kg_rotation_table_of(struct kg_cuda_lowered *lowered, const struct kg_rope_args *rope) {
    for (uint32_t i = 0; i < lowered->n_tables; i++)
        if (kg_same_frequencies(&lowered->tables[i].rope, rope)) return &lowered->tables[i];
    if (lowered->n_tables == KG_ROTATION_TABLES) return NULL;
    struct kg_rotation_table *table = &lowered->tables[lowered->n_tables++];
    table->rope = *rope;
    return table;
}

static enum kg_status place_memory(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *lowered,
                                   struct kg_error *err) {
    const uint64_t zeroed_bytes = aligned(lowered->zeroed_bytes);
    uint64_t n_bytes = zeroed_bytes;
    for (uint32_t i = 0; i < lowered->n_tables; i++) n_bytes += table_bytes(&lowered->tables[i].rope);
    const enum kg_status status = cuda->base.ops->alloc(&cuda->base, KG_MEMORY_WORKSPACE, n_bytes,
                                                        "the decode steps of a session", &lowered->memory, err);
    if (status) return status;
    char *at = static_cast<char *>(lowered->memory.data) + zeroed_bytes;
    for (uint32_t i = 0; i < lowered->n_tables; at += table_bytes(&lowered->tables[i++].rope))
        lowered->tables[i].data = reinterpret_cast<float2 *>(at);
    if (zeroed_bytes == 0) return KG_OK;
    const cudaError_t code = cudaMemsetAsync(lowered->memory.data, 0, zeroed_bytes, cuda->stream);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "lowering", code);
}

static bool reads(const struct kg_node *node, const void *place) {
    for (const void *in : kg_node_places(node).in)
        if (in == place) return true;
    return false;
}

static bool writes(const struct kg_node *node, const void *place) {
    for (const void *out : kg_node_places(node).out)
        if (out == place) return true;
    return false;
}

bool kg_is_wired(const struct kg_node *n, const std::initializer_list<kg_wire> &wires, struct kg_why *why) {
    for (const struct kg_wire &w : wires)
        if (!writes(&n[w.writer], kg_node_places(&n[w.reader]).in[w.in]))
            return kg_no(why, "%s (%u) does not read what %s (%u) writes", kg_op_name(n[w.reader].op), w.reader,
                         kg_op_name(n[w.writer].op), w.writer);
    return true;
}

/* Whether a node from `next` on reads the place before one writes it. */
static bool is_read_later(const struct kg_plan *plan, uint32_t next, const void *place) {
    for (uint32_t i = next; i < plan->n_nodes; i++) {
        if (reads(&plan->nodes[i], place)) return true;
        if (writes(&plan->nodes[i], place)) return false;
    }
    return false;
}

/* Whether a later node of the fusion leaves the place in memory. */
static bool is_left(const struct kg_fusion *f, const struct kg_node *n, uint32_t after, const void *place) {
    for (uint32_t i = after; i < f->ops.size(); i++)
        if (f->written >> i & 1 && writes(&n[i], place)) return true;
    return false;
}

/* Whether nothing that the fused kernel leaves out is read later. */
static bool is_dead(const struct kg_fusion *f, const struct kg_plan *plan, uint32_t first, struct kg_why *why) {
    const struct kg_node *n = &plan->nodes[first];
    const uint32_t n_nodes = (uint32_t)f->ops.size();
    for (uint32_t i = 0; i < n_nodes; i++)
        for (const void *place : kg_node_places(&n[i]).out)
            if (place && !is_left(f, n, i, place) && is_read_later(plan, first + n_nodes, place))
                return kg_no(why, "a later node reads what %s (%u) writes", kg_op_name(n[i].op), i);
    return true;
}

static bool has_ops(const struct kg_fusion *f, const struct kg_plan *plan, uint32_t first) {
    uint32_t i = first;
    for (const enum kg_op op : f->ops)
        if (i == plan->n_nodes || plan->nodes[i++].op != op) return false;
    return true;
}

/* Whether the back end's table has its own entries for the nodes' operations. */
static bool is_own(const struct kg_cuda_backend *cuda, const struct kg_node *n, size_t n_nodes, struct kg_why *why) {
    for (size_t i = 0; i < n_nodes; i++)
        if (!kg_backend_same_op(cuda->base.ops, &kg_cuda_ops, n[i].op))
            return kg_no(why, "the back end's table has another %s", kg_op_name(n[i].op));
    return true;
}

/* Whether a row of a table, whose operations are there, takes the nodes from `first` on, which `at` stands at. */
static bool fits(const struct kg_fusion *f, const struct kg_site *at, const struct kg_plan *plan, uint32_t first,
                 struct kg_why *why) {
    return is_own(at->cuda, at->n, f->ops.size(), why) && is_dead(f, plan, first, why) &&
           kg_is_wired(at->n, f->wires, why) && f->fits(at, why);
}

static void refuse(struct kg_lowered *l, const char *fusion, uint32_t first, const struct kg_why *why) {
    struct kg_lowered_refusal *r = &l->refusals[l->n_refusals++];
    r->fusion = fusion;
    r->first = first;
    memcpy(r->why, why->text, sizeof r->why);
}

/* The row of a table taken at the node, NULL if none is; reasons of those before it are kept. */
static const struct kg_fusion *choose(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, uint32_t first,
                                      const struct kg_fusion *table, uint32_t n_rows) {
    const struct kg_site at = { cuda, l, &l->plan->nodes[first], NULL, {} };
    for (const struct kg_fusion *f = table; f < table + n_rows; f++) {
        struct kg_why why = {};
        if (!has_ops(f, l->plan, first)) continue;
        if (fits(f, &at, l->plan, first, &why)) return f;
        refuse(&l->base, f->name, first, &why);
    }
    return NULL;
}

/* The attention among n nodes, NULL without one. */
static const struct kg_node *attention_among(const struct kg_node *nodes, uint32_t first, uint32_t n) {
    for (uint32_t i = first; i < first + n; i++)
        if (nodes[i].op == KG_OP_attention) return &nodes[i];
    return NULL;
}

/* Its kernel; the reasons of those before it are kept. */
static const char *attention_of(const struct kg_cuda_backend *cuda, struct kg_lowered *l, const struct kg_node *nodes,
                                uint32_t first, uint32_t n) {
    const struct kg_node *attention = attention_among(nodes, first, n);
    if (!attention) return NULL;
    for (const struct kg_attention_kernel *k = kg_attention_kernels;; k++) {
        const char *reason = k->refuses(cuda, &attention->args.attention);
        struct kg_why why;
        if (!reason) return k->name;
        kg_no(&why, "%s", reason);
        refuse(l, k->name, (uint32_t)(attention - nodes), &why);
    }
}

/* The kernel of the step's attention while keys are few, where it is another. Few are as many for all of them. */
static void find_few(const struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, struct kg_lowered_step *step) {
    if (!step->attention) return;
    struct kg_attention_args args = attention_among(l->plan->nodes, step->first, step->n)->args.attention;
    const uint32_t few = l->few_keys > 0 ? l->few_keys : kg_attention_few(&args);
    args.n_ctx = std::min<uint64_t>(args.n_ctx, few);
    const struct kg_attention_kernel *k = kg_attention_kernels;
    while (k->refuses(cuda, &args)) k++;
    if (strcmp(k->name, step->attention) == 0) return;
    step->attention_of_few = k->name, step->few_keys = l->few_keys = few;
}

/* The kernel of the plan's first attention over as many keys as all kernels have: its types are those of all. */
static const char *prefill_attention_of(const struct kg_cuda_backend *cuda, const struct kg_plan *plan) {
    uint32_t i = 0;
    while (i < plan->n_nodes && plan->nodes[i].op != KG_OP_attention) i++;
    if (i == plan->n_nodes) return NULL;
    struct kg_attention_args args = plan->nodes[i].args.attention;
    args.n_keys = 1;
    const struct kg_attention_kernel *k = kg_attention_rows_kernels;
    while (k->refuses(cuda, &args)) k++;
    return k->name;
}

static void list_launches(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l) {
    l->base.path = "captured graph";
    for (uint32_t i = 0, n; i < l->plan->n_nodes; i += n) {
        const struct kg_fusion *f = choose(cuda, l, i, kg_fusions, kg_n_fusions);
        n = f ? (uint32_t)f->ops.size() : 1;
        l->launches[l->n_launches++] = { f, i };
        l->base.steps[l->base.n_steps++] = { f ? f->name : kg_op_name(l->plan->nodes[i].op),
                                             i,
                                             n,
                                             f != NULL,
                                             f ? attention_of(cuda, &l->base, l->plan->nodes, i, n) : NULL,
                                             NULL,
                                             0 };
        if (f) find_few(cuda, l, &l->base.steps[l->base.n_steps - 1]);
    }
}

/* For runs of many rows. The nodes behind the body have other rows. */
static void list_row_fusions(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l) {
    for (uint32_t i = 0, n; i < l->plan->n_body; i += n) {
        const struct kg_fusion *f = choose(cuda, l, i, kg_row_fusions, kg_n_row_fusions);
        n = f ? (uint32_t)f->ops.size() : 1;
        l->row_fusions[i] = f;
        if (f) l->base.row_steps[l->base.n_row_steps++] = { f->name, i, n, true, NULL };
    }
}

enum kg_status kg_cuda_run_rows(struct kg_backend *backend, struct kg_lowered *lowered, uint32_t first,
                                const struct kg_run *run, uint32_t *n_nodes, struct kg_error *err) {
    struct kg_cuda_lowered *l = kg_cuda_lowered_of(lowered);
    const struct kg_fusion *f = l->row_fusions[first];
    const struct kg_site at = { kg_cuda_of(backend), l, &l->plan->nodes[first], run, {} };
    *n_nodes = f && (!f->takes || f->takes(&at)) ? (uint32_t)f->ops.size() : 0;
    return *n_nodes > 0 ? f->launch(&at, err) : KG_OK;
}

enum kg_status kg_cuda_run_fused(struct kg_cuda_backend *cuda, const struct kg_plan *plan, const struct kg_run *run,
                                 struct kg_error *err) {
    const bool one = run->n_rows == 1;
    const struct kg_fusion *table = one ? kg_fusions : kg_row_fusions,
                           *end = table + (one ? kg_n_fusions : kg_n_row_fusions);
    enum kg_status status = KG_OK;
    for (uint32_t i = 0, n; i < plan->n_nodes && !status; i += n) {
        const struct kg_site at = { cuda, NULL, &plan->nodes[i], run, {} };
        struct kg_why why;
        const struct kg_fusion *f = table;
        while (f < end && !(has_ops(f, plan, i) && fits(f, &at, plan, i, &why) && (!f->takes || f->takes(&at)))) f++;
        n = f < end ? (uint32_t)f->ops.size() : 1;
        status = f < end ? f->launch(&at, err) : kg_plan_run_node(&cuda->base, at.n, run, err);
    }
    return status;
}

static enum kg_status try_persistent(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, struct kg_error *err) {
    struct kg_why why = {};
    if (!is_own(cuda, l->plan->nodes, l->plan->n_nodes, &why) ||
        !kg_cuda_persistent_fits(cuda, l->plan, &l->program, &why)) {
        refuse(&l->base, "persistent kernel", 0, &why);
        return KG_OK;
    }
    if (!l->program) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for the program of a step");
    l->base.path = "persistent kernel";
    l->base.is_one_launch = true;
    l->base.epoch = &l->program->epoch;
    for (uint32_t i = 0, n; i < l->plan->n_nodes; i += n) {
        const char *instruction = kg_cuda_persistent_instruction(l->plan, i, &n);
        l->base.steps[l->base.n_steps++] = { instruction, i, n, true, NULL };
    }
    const enum kg_status status =
        cuda->base.ops->alloc(&cuda->base, KG_MEMORY_WORKSPACE, kg_cuda_persistent_bytes(l->program),
                              "the decode steps of a session", &l->memory, err);
    return status ? status : kg_cuda_persistent_place(cuda, l->plan, l->memory.data, l->program, err);
}

void kg_cuda_free_lowered(struct kg_backend *backend, struct kg_lowered *lowered) {
    if (!lowered) return;
    struct kg_cuda_lowered *l = kg_cuda_lowered_of(lowered);
    if (l->exec) (void)cudaGraphExecDestroy(l->exec);
    backend->ops->free(backend, &l->memory);
    free(l->program);
    free(l->launches);
    free(l->row_fusions);
    free(l->base.row_steps);
    free(l->base.steps);
    free(l->base.refusals);
    free(l);
}

const char *kg_cuda_step_kind(uint32_t i, const char **path) {
    *path = "captured graph";
    if (i < kg_n_fusions) return kg_fusions[i].name;
    *path = "attention";
    if (i < kg_n_fusions + KG_ATTENTION_KERNELS) return kg_attention_kernels[i - kg_n_fusions].name;
    *path = "persistent kernel";
    return kg_cuda_persistent_name(i - kg_n_fusions - KG_ATTENTION_KERNELS);
}

enum kg_status kg_cuda_lower(struct kg_backend *backend, const struct kg_plan *plan, struct kg_lowered **lowered,
                             struct kg_error *err) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    struct kg_cuda_lowered *l = static_cast<struct kg_cuda_lowered *>(calloc(1, sizeof *l));
    if (!l) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for a lowered plan");
    const size_t n = plan->n_nodes;
    l->plan = plan;
    l->base.prefill_attention = prefill_attention_of(cuda, plan);
    l->launches = static_cast<struct kg_cuda_launch *>(calloc(n, sizeof *l->launches));
    l->base.steps = static_cast<struct kg_lowered_step *>(calloc(n, sizeof *l->base.steps));
    l->base.row_steps = static_cast<struct kg_lowered_step *>(calloc(n, sizeof *l->base.row_steps));
    l->row_fusions = static_cast<const struct kg_fusion **>(calloc(n, sizeof *l->row_fusions));
    l->base.refusals = static_cast<struct kg_lowered_refusal *>(
        calloc(n * (kg_n_fusions + kg_n_row_fusions) + 1, sizeof *l->base.refusals));
    enum kg_status status = KG_OK;
    if (!l->launches || !l->base.steps || !l->base.row_steps || !l->row_fusions || !l->base.refusals)
        status = kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for a lowered plan of %zu nodes", n);
    if (!status) status = try_persistent(cuda, l, err);
    if (!status && !l->program) {
        list_launches(cuda, l);
        status = place_memory(cuda, l, err);
    }
    if (!status) list_row_fusions(cuda, l);
    if (status) kg_cuda_free_lowered(backend, &l->base);
    else *lowered = &l->base;
    return status;
}
