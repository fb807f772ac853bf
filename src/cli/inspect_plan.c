/* kigo inspect --plan: the nodes of a model's plan, what each was lowered to, and why a fusion was not taken. */
#include "cli/inspect_plan.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "engine/session.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A decode step in the back end, seen from a node. */
struct view {
    const struct kg_session *session;
    const struct kg_plan *plan;
    const struct kg_lowered *lowered; /* NULL: node by node */
};

static const struct kg_lowered_step *step_of(const struct view *v, uint32_t node) {
    for (uint32_t i = 0; v->lowered && i < v->lowered->n_steps; i++) {
        const struct kg_lowered_step *s = &v->lowered->steps[i];
        if (node >= s->first && node < s->first + s->n) return s;
    }
    return NULL;
}

static const char *launch_of(const struct view *v, uint32_t node) {
    const struct kg_lowered_step *s = step_of(v, node);
    if (!s) return kg_op_name(v->plan->nodes[node].op);
    return s->first == node ? s->kernel : "|";
}

/* Attention names its kernel too: "attention in one launch: split; up to 384 keys: few_keys". */
static void put_launch(struct kg_buffer *out, const struct view *v, uint32_t node) {
    const struct kg_lowered_step *s = step_of(v, node);
    kg_buffer_puts(out, launch_of(v, node));
    if (!s || !s->attention || v->plan->nodes[node].op != KG_OP_attention) return;
    kg_text_printf(out, ": %s", s->attention);
    if (s->attention_of_few) kg_text_printf(out, "; up to %" PRIu32 " keys: %s", s->few_keys, s->attention_of_few);
}

static void put_places(struct kg_buffer *out, const struct kg_plan *plan, const void *const *places, size_t n) {
    for (size_t i = 0; i < n && places[i]; i++)
        kg_text_printf(out, i ? ", %s" : "%s", kg_plan_buffer_name(plan, places[i]));
}

static void put_weight(struct kg_buffer *out, const struct kg_node *node) {
    const struct kg_weight *w = kg_node_weight(node);
    if (node->op == KG_OP_attention && node->args.attention.window > 0)
        kg_text_printf(out, "window %" PRIu32, node->args.attention.window);
    if (w) kg_text_printf(out, "%s %" PRIu32 " x %" PRIu32, kg_dtype_info(w->dtype)->name, w->n_rows, w->n_cols);
}

static void add_node(struct kg_table *table, const struct view *v, uint32_t i) {
    const struct kg_node *node = &v->plan->nodes[i];
    const struct kg_node_places places = kg_node_places(node);
    struct kg_buffer reads = KG_BUFFER_INIT, writes = KG_BUFFER_INIT, weight = KG_BUFFER_INIT, launch = KG_BUFFER_INIT;
    put_places(&reads, v->plan, places.in, KG_COUNT_OF(places.in));
    put_places(&writes, v->plan, places.out, KG_COUNT_OF(places.out));
    put_weight(&weight, node);
    put_launch(&launch, v, i);
    kg_table_addf(table, "%" PRIu32, i);
    kg_table_addf(table, node->layer == KG_NO_LAYER ? "" : "%d", node->layer);
    kg_table_add(table, kg_op_name(node->op));
    kg_table_add(table, reads.data ? reads.data : "");
    kg_table_add(table, weight.data ? weight.data : "");
    kg_table_add(table, writes.data ? writes.data : "");
    kg_table_add(table, launch.data ? launch.data : "");
    kg_buffer_free(&reads);
    kg_buffer_free(&writes);
    kg_buffer_free(&weight);
    kg_buffer_free(&launch);
}

static uint32_t end_of_layer(const struct kg_plan *plan, uint32_t first) {
    uint32_t end = first;
    while (end < plan->n_nodes && plan->nodes[end].layer == plan->nodes[first].layer) end++;
    return end;
}

static bool same_node(const struct view *v, uint32_t a, uint32_t b) {
    const struct kg_node *one = &v->plan->nodes[a], *other = &v->plan->nodes[b];
    const struct kg_weight *w = kg_node_weight(one), *o = kg_node_weight(other);
    const bool same_weight = w && o ? w->dtype == o->dtype && w->n_rows == o->n_rows && w->n_cols == o->n_cols : w == o;
    const bool same_window = one->op != KG_OP_attention || one->args.attention.window == other->args.attention.window;
    return one->op == other->op && same_weight && same_window && strcmp(launch_of(v, a), launch_of(v, b)) == 0;
}

/* Whether two layers look the same in the table but for their numbers. */
static bool same_layer(const struct view *v, uint32_t a, uint32_t b) {
    const uint32_t n = end_of_layer(v->plan, a) - a;
    if (end_of_layer(v->plan, b) - b != n) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!same_node(v, a + i, b + i)) return false;
    return true;
}

/* Layers from the one at node `next` on that look as the one `period` layers before them. */
static uint32_t count_repeated(const struct view *v, const uint32_t *starts, uint32_t layer, uint32_t period) {
    uint32_t n = 0;
    while (layer + n < v->session->config->n_layers && same_layer(v, starts[layer + n - period], starts[layer + n]))
        n++;
    return n;
}

/* How many layers from `layer` on repeat those shown before them, and of which period; 0 if fewer than two do. */
static uint32_t find_period(const struct view *v, const uint32_t *starts, uint32_t layer, uint32_t *period) {
    enum { LONGEST_PERIOD = 8 };
    for (*period = 1; *period <= LONGEST_PERIOD && *period <= layer; (*period)++) {
        const uint32_t n = count_repeated(v, starts, layer, *period);
        if (n >= 2 && (n >= *period || layer + n == v->session->config->n_layers)) return n;
    }
    return 0;
}

static uint32_t *layer_starts(const struct kg_plan *plan, uint32_t n_layers) {
    uint32_t *starts = kg_xcalloc(n_layers + 1, sizeof *starts);
    for (uint32_t i = plan->n_nodes; i-- > 0;)
        if (plan->nodes[i].layer != KG_NO_LAYER) starts[plan->nodes[i].layer] = i;
    return starts;
}

static void begin_table(struct kg_table *table) {
    static const char *const HEADS[] = { "node", "layer", "operation", "reads", "weight", "writes", "launch" };
    *table = (struct kg_table){ .n_columns = KG_COUNT_OF(HEADS) };
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) kg_table_add(table, HEADS[i]);
}

static void end_table(struct kg_table *table, struct kg_buffer *out) {
    kg_table_print(table, out);
    kg_table_free(table);
}

static void put_repeated(struct kg_buffer *out, uint32_t layer, uint32_t n, uint32_t period) {
    kg_text_printf(out, "layers %" PRIu32 " to %" PRIu32 ": as layer", layer, layer + n - 1);
    if (period == 1) kg_text_printf(out, " %" PRIu32 "\n", layer - 1);
    else kg_text_printf(out, "s %" PRIu32 " to %" PRIu32 ", repeated\n", layer - period, layer - 1);
}

static void put_nodes(struct kg_buffer *out, const struct view *v, bool full) {
    const struct kg_plan *plan = v->plan;
    uint32_t *starts = layer_starts(plan, v->session->config->n_layers), period = 0;
    struct kg_table table;
    begin_table(&table);
    for (uint32_t next = 0; next < plan->n_nodes;) {
        const int layer = plan->nodes[next].layer;
        const uint32_t n = full || layer <= 0 ? 0 : find_period(v, starts, (uint32_t)layer, &period);
        if (n == 0) {
            const uint32_t end = end_of_layer(plan, next);
            while (next < end) add_node(&table, v, next++);
            continue;
        }
        end_table(&table, out);
        put_repeated(out, (uint32_t)layer, n, period);
        begin_table(&table);
        next = end_of_layer(plan, starts[(uint32_t)layer + n - 1]);
    }
    end_table(&table, out);
    free(starts);
}

/* What prefill fuses, each with the number of times. */
static void put_row_steps(struct kg_buffer *out, const struct kg_lowered *l) {
    for (uint32_t i = 0, n_kinds = 0; i < l->n_row_steps; i++) {
        uint32_t n = 0;
        bool seen = false;
        for (uint32_t j = 0; j < l->n_row_steps; j++) {
            if (strcmp(l->row_steps[j].kernel, l->row_steps[i].kernel) != 0) continue;
            seen = seen || j < i;
            n++;
        }
        if (!seen) kg_text_printf(out, " %s %" PRIu32 " %s", n_kinds++ ? "and" : "but for", n, l->row_steps[i].kernel);
    }
}

static void put_text(struct kg_buffer *out, const struct view *v, bool full) {
    const struct kg_model_config *c = v->session->config;
    const char *precision = kg_precision_name(v->plan->activations);
    kg_text_printf(
        out, "%s: %" PRIu32 " layers, %" PRIu32 " nodes; %s activations, %s KV cache of %" PRIu32 " positions\n",
        c->architecture, c->n_layers, v->plan->n_nodes, precision, kg_precision_name(v->plan->kv), v->plan->n_ctx);
    kg_text_printf(out, "%s back end: ", v->session->backend->ops->name);
    if (v->lowered) {
        kg_text_printf(out, "a decode step is a %s of %" PRIu32 " %s; prefill is node by node", v->lowered->path,
                       v->lowered->n_steps, v->lowered->is_one_launch ? "instructions" : "steps");
        put_row_steps(out, v->lowered);
        if (v->lowered->prefill_attention) kg_text_printf(out, ", its attention by %s", v->lowered->prefill_attention);
        kg_buffer_puts(out, "\n\n");
    } else {
        kg_buffer_puts(out, "prefill and decode are node by node\n\n");
    }
    put_nodes(out, v, full);
    if (v->lowered && v->lowered->n_refusals > 0) {
        kg_buffer_puts(out, "\n");
        kg_lowered_put_refusals(v->lowered, out);
    }
}

static json_t *places_json(const struct kg_plan *plan, const void *const *places, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n && places[i]; i++)
        json_array_append_new(list, json_string(kg_plan_buffer_name(plan, places[i])));
    return list;
}

static json_t *node_json(const struct kg_plan *plan, const struct kg_node *node) {
    const struct kg_node_places places = kg_node_places(node);
    const struct kg_weight *w = kg_node_weight(node);
    json_t *taps = json_array();
    for (int i = 0; i < KG_NODE_TAPS && node->taps[i].name; i++)
        json_array_append_new(taps, json_string(node->taps[i].name));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "operation", kg_op_name(node->op), "layer",
                     node->layer == KG_NO_LAYER ? json_null() : json_integer(node->layer), "reads",
                     places_json(plan, places.in, KG_COUNT_OF(places.in)), "writes",
                     places_json(plan, places.out, KG_COUNT_OF(places.out)), "weight",
                     w ? json_pack("{s:s, s:I, s:I}", "type", kg_dtype_info(w->dtype)->name, "rows",
                                   (json_int_t)w->n_rows, "columns", (json_int_t)w->n_cols)
                       : json_null(),
                     "taps", taps);
}

static json_t *steps_json(const struct kg_lowered_step *steps, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:b, s:s?, s:s?, s:I}", "kernel", steps[i].kernel,
                                        "first_node", (json_int_t)steps[i].first, "nodes", (json_int_t)steps[i].n,
                                        "fused", steps[i].is_fused, "attention", steps[i].attention, "attention_of_few",
                                        steps[i].attention_of_few, "few_keys", (json_int_t)steps[i].few_keys));
    return list;
}

static json_t *refusals_json(const struct kg_lowered *l) {
    json_t *list = json_array();
    for (uint32_t i = 0; l && i < l->n_refusals; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "fusion", l->refusals[i].fusion, "first_node",
                                              (json_int_t)l->refusals[i].first, "why", l->refusals[i].why));
    return list;
}

static void put_json(struct kg_buffer *out, const struct view *v) {
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < v->plan->n_nodes; i++)
        json_array_append_new(nodes, node_json(v->plan, &v->plan->nodes[i]));
    const struct kg_lowered *l = v->lowered;
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s?, s:o, s:o, s:o, s:o}", "architecture",
                            v->session->config->architecture, "backend", v->session->backend->ops->name, "activations",
                            kg_precision_name(v->plan->activations), "kv", kg_precision_name(v->plan->kv), "n_ctx",
                            (json_int_t)v->plan->n_ctx, "decode", v->lowered ? v->lowered->path : "node by node",
                            "prefill_attention", v->lowered ? v->lowered->prefill_attention : NULL, "nodes", nodes,
                            "steps", steps_json(l ? l->steps : NULL, l ? l->n_steps : 0), "prefill_steps",
                            steps_json(l ? l->row_steps : NULL, l ? l->n_row_steps : 0), "refused", refusals_json(l));
    char *text = kg_json_dump(all, JSON_INDENT(2));
    kg_buffer_puts(out, text ? text : "");
    kg_buffer_puts(out, "\n");
    free(text);
    json_decref(all);
}

void kg_inspect_plan(struct kg_buffer *out, const struct kg_session *session, bool json, bool full) {
    const struct view v = { session, session->plan, session->lowered };
    if (json) put_json(out, &v);
    else put_text(out, &v, full);
}
