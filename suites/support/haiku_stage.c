#include "suites/support/haiku_stage.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/as_llama.h"
#include "suites/support/op_device.h"
#include <stdlib.h>

const struct kg_haiku_target KG_HAIKU_TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};
const size_t KG_HAIKU_N_TARGETS = KG_COUNT_OF(KG_HAIKU_TARGETS);

static const struct kg_haiku_chat PHI3 = { .before = "<|user|>\n", .after = "<|end|>\n<|assistant|>\n" };
static const struct kg_haiku_chat HARMONY = {
    .before = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
              "2024-06\nCurrent date: ",
    .date = "2026-11-20",
    .between = "\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for "
               "every message.<|end|><|start|>user<|message|>",
    .after = "<|end|><|start|>assistant",
};

/* At least: the qwen2 fixture is held to what it did when it was made; of the others 57 is asked. */
const struct kg_haiku_model KG_HAIKU_MODELS[] = {
    { "qwen2", KG_HAIKU_MODEL, "haiku-qwen2/golden/haiku.safetensors", &KG_HAIKU_CHATML, 59, false },
    { "llama", KG_HAIKU_MODEL, "haiku-qwen2/golden/haiku.safetensors", &KG_HAIKU_CHATML, 59, true },
    { "phi3", "haiku-phi3/haiku-phi3-q8_0.gguf", "haiku-phi3/golden/haiku.safetensors", &PHI3, 57, false },
    { "gpt-oss", "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf", "haiku-gpt-oss/golden/haiku.safetensors", &HARMONY, 57,
      false },
    { "gpt2", "haiku-gpt2/haiku-gpt2-mxfp4.gguf", "haiku-gpt2/golden/haiku.safetensors", &KG_HAIKU_CHATML, 57, false },
};
const size_t KG_HAIKU_N_MODELS = KG_COUNT_OF(KG_HAIKU_MODELS);

/* Where the model's file is; one that is rewritten lies in the case's folder, and stays readable once it is open.
 * malloc'ed. */
static char *model_path(struct kg_record *rec, const struct kg_haiku_model *model) {
    struct kg_error err = { 0 };
    if (!model->as_llama) return kg_xstrdup(kg_fixture_path(model->file));
    char *path = kg_xasprintf("%s/llama.gguf", kg_scratch_dir(rec));
    kg_must(kg_haiku_write_as_llama(kg_fixture_path(model->file), path, KG_LLAMA_PERMUTED, &err), &err);
    return path;
}

/* A back end that is not there is a skip; one that is and refuses the model is a failure. */
struct kg_haiku_stage *kg_haiku_stage_open(struct kg_record *rec, size_t target_index, size_t model_index) {
    static struct kg_haiku_stage *stages[KG_COUNT_OF(KG_HAIKU_TARGETS)][KG_COUNT_OF(KG_HAIKU_MODELS)];
    struct kg_haiku_stage *kept = stages[target_index][model_index];
    if (kept) return kept;
    const struct kg_haiku_target *const target = &KG_HAIKU_TARGETS[target_index];
    if (!kg_backend_or_skip(rec, target->backend)) return NULL;
    struct kg_haiku_stage stage = { .model = &KG_HAIKU_MODELS[model_index] };
    struct kg_error err = { 0 };
    char *path = model_path(rec, stage.model);
    kg_must(kg_engine_poet_open(target->backend, target->precision, path, &stage.engine, &err), &err);
    kg_must(kg_haiku_bench_open(path, kg_fixture_path(stage.model->golden), target->backend, target->precision,
                                &stage.bench, &err),
            &err);
    free(path);
    kept = stages[target_index][model_index] = kg_xmalloc(sizeof stage);
    *kept = stage;
    return kept;
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
