#include "suites/haiku/stage.h"
#include "base/buffer.h"
#include "base/size.h"
#include <string.h>

const struct kg_haiku_target KG_HAIKU_TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};
const size_t KG_HAIKU_N_TARGETS = KG_COUNT_OF(KG_HAIKU_TARGETS);

struct kg_haiku_stage *kg_haiku_stage_open(struct kg_record *rec, size_t index) {
    static struct kg_haiku_stage *stages[KG_COUNT_OF(KG_HAIKU_TARGETS)];
    if (stages[index]) return stages[index];
    const struct kg_haiku_target *const target = &KG_HAIKU_TARGETS[index];
    const char *const name = target->backend, *const model = kg_fixture_path(KG_HAIKU_MODEL);
    struct kg_haiku_stage stage;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_engine_poet_open(name, target->precision, model, &stage.engine, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(name, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return NULL;
    }
    kg_must(status, &err);
    kg_must(kg_haiku_bench_open(model, kg_fixture_path("haiku-qwen2/golden/haiku.safetensors"), name, target->precision,
                                &stage.bench, &err),
            &err);
    stages[index] = kg_xmalloc(sizeof stage);
    *stages[index] = stage;
    return stages[index];
}

/* Arguments live as long as the process, like the cases they belong to. */
static const struct kg_haiku_arg *keep(struct kg_haiku_arg arg) {
    static struct kept {
        struct kg_haiku_arg arg;
        struct kept *next;
    } * all;
    struct kept *const kept = kg_xmalloc(sizeof *kept);
    *kept = (struct kept){ .arg = arg, .next = all };
    all = kept;
    return &kept->arg;
}

void kg_haiku_add(struct kg_case_list *list, const char *op, const char *name, const char *shape,
                  const char *definition, void (*run)(struct kg_record *, const void *), struct kg_haiku_arg arg) {
    kg_case_list_add(list, &(struct kg_case){ .layer = "haiku",
                                              .op = op,
                                              .name = name,
                                              .backend = KG_HAIKU_TARGETS[arg.target].backend,
                                              .dtype = KG_HAIKU_TARGETS[arg.target].dtype,
                                              .shape = shape,
                                              .spec = "FT-050",
                                              .definition = definition,
                                              .timeout_s = 180,
                                              .run = run,
                                              .arg = keep(arg) });
}
