#include "suites/tolerance/lowered_steps.h"
#include "base/buffer.h"
#include "base/file.h"
#include "suites/harness/must.h"
#include "suites/support/launch_compare.h"
#include "suites/support/op_device.h"
#include "suites/tolerance/lowered_scenes.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether rows of all matrices are whole blocks, and the scene is for such. */
static bool suits(const struct kg_lowered_scene *scene, int precision) {
    const struct kg_tiny_model *m = &scene->model;
    const uint32_t block = kg_dtype_info(KG_LOWERED_FORMS[precision].matrices)->block_elems;
    const bool whole = m->n_embd % block == 0 && m->n_ff % block == 0 && m->n_heads * m->head_dim % block == 0;
    const bool mxfp4 = precision == KG_LOWERED_MXFP4, blocks = precision >= KG_LOWERED_BLOCKS && !mxfp4;
    return whole && (scene->formats == KG_LOWERED_OF_ALL || (scene->formats == KG_LOWERED_OF_MXFP4 ? mxfp4 : blocks));
}

/* The persistent kernel has no block formats. */
static const char *attention_of(const struct kg_lowered_scene *scene, int precision) {
    const char *attention = scene->attention[precision < KG_LOWERED_BLOCKS ? precision : KG_LOWERED_F16];
    return attention || precision < KG_LOWERED_BLOCKS ? attention : "split";
}

struct lowered_case {
    const struct kg_lowered_scene *scene;
    const struct kg_lowered_mutant *mutant;
    int precision;
};
static struct lowered_case *lowered_cases; /* as long as the program runs */
static size_t n_lowered_cases;

static const struct kg_lowered_scene *scene_of(const char *name) {
    for (size_t i = 0; i < KG_LOWERED_N_SCENES; i++)
        if (strcmp(KG_LOWERED_SCENES[i].name, name) == 0) return &KG_LOWERED_SCENES[i];
    fprintf(stderr, "no scene is called %s\n", name);
    abort();
}

/* A scene's model with positions behind it, and its step. */
struct opened {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    struct kg_block ones;
    struct kg_launch_compare launches;
};

static void put_ones(struct opened *o) {
    const size_t n = o->session->config->n_embd;
    struct kg_error err;
    float *ones = kg_xcalloc(n, sizeof *ones);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    kg_must(o->backend->ops->alloc(o->backend, KG_MEMORY_WORKSPACE, n * sizeof *ones, "ones", &o->ones, &err), &err);
    kg_must(o->backend->ops->upload(o->backend, o->ones.data, ones, n * sizeof *ones, &err), &err);
    free(ones);
}

/* BF16 is as in the file. */
static void open_backend(int precision, struct kg_backend **backend) {
    static struct kg_backend_ops in_file;
    struct kg_error err;
    in_file = kg_cuda_ops;
    in_file.repack_weight = NULL;
    kg_must(kg_backend_open_ops(precision == KG_LOWERED_BF16 ? &in_file : &kg_cuda_ops, 0, backend, &err), &err);
}

/* False after a skip. */
static bool scene_open(struct kg_record *rec, const struct lowered_case *c, struct opened *o) {
    const struct kg_lowered_scene *scene = c->scene;
    const struct kg_session_options options = { scene->model.n_ctx, KG_LOWERED_FORMS[c->precision].activations,
                                                KG_LOWERED_FORMS[c->precision].kv };
    struct kg_tiny_model model = scene->model;
    struct kg_error err;
    const float *logits;
    *o = (struct opened){ 0 };
    if (!kg_backend_or_skip(rec, "cuda")) return false;
    char *path = kg_path_join(kg_scratch_dir(rec), "scene.gguf");
    model.matrices = KG_LOWERED_FORMS[c->precision].matrices;
    model.more_bits = KG_LOWERED_FORMS[c->precision].more_bits;
    kg_tiny_model_write(path, &model, NULL, 0);
    open_backend(c->precision, &o->backend);
    kg_must(kg_model_load(path, o->backend, NULL, &o->model, &err), &err);
    kg_must(kg_session_create(o->model, &options, &o->session, &err), &err);
    free(path);
    int32_t *ids = kg_xcalloc(scene->n_past, sizeof *ids);
    for (uint32_t i = 0; i < scene->n_past; i++) ids[i] = (int32_t)((31 * i * i + 17 * i + 5) % model.n_vocab);
    kg_must(kg_session_eval(o->session, ids, scene->n_past, KG_LOGITS_LAST, &logits, &err), &err);
    free(ids);
    put_ones(o);
    kg_launch_compare_open(o->session, 42, &o->launches);
    return true;
}

static void scene_close(struct opened *o) {
    kg_launch_compare_close(&o->launches);
    o->backend->ops->free(o->backend, &o->ones);
    kg_session_free(o->session);
    kg_model_free(o->model);
    kg_backend_close(o->backend);
}

static uint32_t compared_step_of(const struct kg_launch_compare *w, uint32_t node) {
    uint32_t i = 0;
    while (node >= w->steps[i].first + w->steps[i].n) i++;
    return i;
}

/* A copy of the session's plan with room for as many nodes again, cut after the step: all of it where that is
 * one launch. */
static struct kg_plan plan_until(const struct opened *o, uint32_t step) {
    struct kg_plan plan = *o->session->plan;
    plan.nodes = kg_xcalloc(2 * (size_t)plan.n_nodes, sizeof *plan.nodes);
    memcpy(plan.nodes, o->session->plan->nodes, plan.n_nodes * sizeof *plan.nodes);
    plan.n_nodes = o->launches.steps[step].first + o->launches.steps[step].n;
    if (plan.n_body > plan.n_nodes) plan.n_body = plan.n_nodes;
    return plan;
}

static struct kg_step_difference compared(const struct opened *o, const struct kg_plan *plan, uint32_t step,
                                          const struct kg_lowered_step *kernel, int precision) {
    struct kg_step_difference first;
    kg_launch_compare_run(&o->launches, plan, step, kernel, &KG_LOWERED_FORMS[precision].tol, &first);
    return first;
}

static void every_launch_is_as_the_operations(struct kg_record *rec, const void *arg) {
    const struct lowered_case *c = arg;
    struct opened o;
    if (!scene_open(rec, c, &o)) return;
    const struct kg_lowered *l = o.session->lowered;
    const char *attention = attention_of(c->scene, c->precision), *path = attention ? KG_LOWERED_GRAPH : c->scene->path;
    ck_assert_msg(strcmp(l->path, path) == 0, "the step is a %s, refused: %s", l->path,
                  l->n_refusals > 0 ? l->refusals[0].why : "nothing");
    for (uint32_t i = 0, n_seen = 0; i < l->n_steps; i++) {
        if (!l->steps[i].attention || n_seen++ > 0) continue;
        ck_assert_str_eq(l->steps[i].attention, attention);
    }
    for (uint32_t step = 0; step < o.launches.n_steps; step++) {
        struct kg_plan plan = plan_until(&o, step);
        const struct kg_step_difference d =
            compared(&o, &plan, step, l->is_one_launch ? NULL : &l->steps[step], c->precision);
        char name[80];
        free(plan.nodes);
        if (d.margin < 0) continue; /* it leaves nothing that is not looked at elsewhere */
        snprintf(name, sizeof name, "step_%u_%s", step, d.name);
        kg_record_judged(rec, name, &d.compare, &KG_LOWERED_FORMS[c->precision].tol);
        ck_assert_msg(d.margin <= 1, "step %u (%s): %s is outside its tolerance by a factor of %.4g", step,
                      o.launches.steps[step].kernel, d.name, d.margin);
    }
    kg_record_metric(rec, "steps", "count", o.launches.n_steps);
    kg_record_metric(rec, "places", "count", (double)o.launches.n_places);
    scene_close(&o);
}

/* The nth step or instruction of that kernel. */
static const struct kg_lowered_step *step_named(const struct kg_lowered *l, const char *kernel, uint32_t nth) {
    for (uint32_t i = 0; i < l->n_steps; i++)
        if (l->steps[i].is_fused && strcmp(l->steps[i].kernel, kernel) == 0 && nth-- == 0) return &l->steps[i];
    ck_abort_msg("no step is %s, or too few are", kernel);
}

static void make_mistake(const struct opened *o, const struct kg_lowered_mutant *m, const struct kg_lowered_step *step,
                         struct kg_plan *plan) {
    const struct kg_lowered_site site = { .n = plan->nodes + step->first,
                                          .nodes = plan->nodes,
                                          .n_step = step->n,
                                          .n_nodes = o->session->plan->n_nodes,
                                          .ones = o->ones.data,
                                          .alike = o->session->lowered->is_one_launch };
    if (m->change) m->change(&site);
    if (m->how == KG_LOWERED_TWICE) memcpy(site.n + step->n, site.n, step->n * sizeof *site.n);
    if (m->how == KG_LOWERED_TWICE) plan->n_nodes = plan->n_body = plan->n_nodes + step->n;
    if (m->how == KG_LOWERED_LEFT_OUT) plan->n_nodes = plan->n_body = step->first;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct lowered_case *c = arg;
    const struct kg_lowered_mutant *m = c->mutant;
    struct opened o;
    if (!scene_open(rec, c, &o)) return;
    const struct kg_lowered *l = o.session->lowered;
    const struct kg_lowered_step *kernel = step_named(l, m->kernel, m->nth);
    const uint32_t step = compared_step_of(&o.launches, kernel->first);
    struct kg_plan plan = plan_until(&o, step);
    const struct kg_step_difference control = compared(&o, &plan, step, kernel, c->precision);
    ck_assert_msg(control.margin >= 0 && control.margin <= 1, "the step itself is at %.4g of its tolerance (%s)",
                  control.margin, control.name ? control.name : "it leaves nothing");
    make_mistake(&o, m, kernel, &plan);
    const struct kg_step_difference d =
        compared(&o, &plan, step, m->how == KG_LOWERED_LEFT_OUT ? NULL : kernel, c->precision);
    ck_assert_msg(d.margin > 1, "the mutant lives: %s is at %.4g of its tolerance", d.name, d.margin);
    ck_assert_msg(strncmp(d.name, m->first, strlen(m->first)) == 0, "the first place outside is %s, not %s", d.name,
                  m->first);
    ck_assert_msg(isfinite(d.margin), "%s is not finite: the mutant did not run to its end", d.name);
    kg_record_compare(rec, d.name, &d.compare, &KG_LOWERED_FORMS[c->precision].tol);
    kg_record_metric(rec, "kill_factor", "ratio", d.margin);
    kg_record_metric(rec, "control_margin", "ratio", control.margin);
    free(plan.nodes);
    scene_close(&o);
}

static bool is_of(const struct kg_lowered_mutant *m, const char *path, const char *name) {
    const struct kg_lowered_scene *scene = scene_of(m->scene);
    if (strcmp(path, "attention") != 0) return strcmp(scene->path, path) == 0 && strcmp(m->kernel, name) == 0;
    if (strcmp(m->kernel, KG_LOWERED_ATTENTION) != 0) return false;
    for (int p = KG_LOWERED_F16; p <= (m->f16_only ? KG_LOWERED_F16 : KG_LOWERED_F32); p++)
        if (scene->attention[p] && strcmp(scene->attention[p], name) == 0) return true;
    return false;
}

/* Of steps of one name there must be mutants of the first, of the second ... */
static void every_step_has_a_mutant(struct kg_record *rec, const void *arg) {
    const char *path, *name, *before;
    size_t n = 0;
    (void)arg;
    if (!kg_cuda_ops.step_kind) {
        kg_record_skip(rec, "this build has no kernels");
        return;
    }
    for (uint32_t i = 0; (name = kg_cuda_ops.step_kind(i, &path)); i++, n++) {
        const char *path_before;
        uint32_t nth = 0;
        bool any = false;
        for (uint32_t j = 0; j < i; j++) {
            before = kg_cuda_ops.step_kind(j, &path_before);
            nth += strcmp(before, name) == 0 && strcmp(path_before, path) == 0;
        }
        for (size_t m = 0; m < KG_LOWERED_N_MUTANTS; m++)
            any = any || (is_of(&KG_LOWERED_MUTANTS[m], path, name) && (nth == 0 || KG_LOWERED_MUTANTS[m].nth == nth));
        ck_assert_msg(any, "no mutant is of the %s's %s (%u of that name before it)", path, name, nth);
    }
    ck_assert_uint_gt(n, 0);
    kg_record_metric(rec, "kinds", "count", (double)n);
}

static void add(struct kg_case_list *cases, const char *layer, const char *name, const struct lowered_case *c,
                void (*run)(struct kg_record *, const void *)) {
    struct lowered_case *kept = &lowered_cases[n_lowered_cases++];
    *kept = *c;
    char *shape = kg_xasprintf("%s keys=%u", c->scene->name, c->scene->n_past + 1);
    kg_case_list_add(cases, &(struct kg_case){ .layer = layer,
                                               .op = "lowered_step",
                                               .name = name,
                                               .backend = "cuda",
                                               .dtype = KG_LOWERED_FORMS[c->precision].dtype,
                                               .shape = shape,
                                               .run = run,
                                               .arg = kept });
    free(shape);
}

void kg_lowered_cases_add(struct kg_case_list *cases, int begin, int end) {
    lowered_cases =
        kg_xcalloc((size_t)(end - begin) * (KG_LOWERED_N_SCENES + KG_LOWERED_N_MUTANTS), sizeof *lowered_cases);
    for (int p = begin; p < end; p++) {
        for (size_t i = 0; i < KG_LOWERED_N_SCENES; i++) {
            const struct lowered_case c = { &KG_LOWERED_SCENES[i], NULL, p };
            if (suits(&KG_LOWERED_SCENES[i], p))
                add(cases, "tolerance", "every_launch", &c, every_launch_is_as_the_operations);
        }
        if (!KG_LOWERED_FORMS[p].has_mutants) continue;
        for (size_t m = 0; m < KG_LOWERED_N_MUTANTS; m++) {
            const struct lowered_case c = { scene_of(KG_LOWERED_MUTANTS[m].scene), &KG_LOWERED_MUTANTS[m], p };
            if ((p == KG_LOWERED_F32 && c.mutant->f16_only) || !suits(c.scene, p)) continue;
            if (p == KG_LOWERED_BF16 && strcmp(c.mutant->kernel, KG_LOWERED_QUANTISED) == 0) continue; /* it is not */
            if (p < KG_LOWERED_BLOCKS || c.scene->formats != KG_LOWERED_OF_ALL)
                add(cases, "mutation", KG_LOWERED_MUTANTS[m].name, &c, mutant_is_rejected);
        }
    }
}

void kg_lowered_kinds_add(struct kg_case_list *cases) {
    kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                               .op = "lowered_step",
                                               .name = "every_step_has_a_mutant",
                                               .backend = "cuda",
                                               .run = every_step_has_a_mutant });
}
