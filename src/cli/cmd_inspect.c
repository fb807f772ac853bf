/* kigo inspect: what a GGUF file holds. */
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/inspect.h"
#include "cli/inspect_plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_tensor(struct kg_inspect_total *total, const struct kg_gguf_tensor *tensor) {
    total->n_tensors++;
    total->n_params += tensor->n_elems;
    total->size_bytes += tensor->size_bytes;
}

/* To standard output; frees the text. */
static enum kg_status print(struct kg_buffer *out, struct kg_error *err) {
    kg_out_put(stdout, kg_buffer_text(out), out->len);
    kg_buffer_free(out);
    if (fflush(stdout) != 0 || ferror(stdout))
        return kg_fail(err, KG_ERR_IO, "cannot write to standard output: %s", strerror(errno));
    return KG_OK;
}

static enum kg_status inspect(const char *path, bool json, const struct kg_inspect_parts *parts, struct kg_error *err) {
    struct kg_gguf *gguf;
    enum kg_status status = kg_gguf_open(path, &gguf, err);
    if (status != KG_OK) return status;
    struct kg_inspect_totals totals = { .all = { 0, 0, 0 } };
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *tensor = kg_gguf_tensor_at(gguf, i);
        add_tensor(&totals.all, tensor);
        add_tensor(&totals.by_type[tensor->dtype], tensor);
    }
    struct kg_buffer out = KG_BUFFER_INIT;
    (json ? kg_inspect_json : kg_inspect_text)(&out, gguf, &totals, parts);
    kg_gguf_close(gguf);
    return print(&out, err);
}

/* Positions of the cache where none are asked for: its length decides which kernels take attention. */
enum { PLAN_CTX = 4096 };

static enum kg_status inspect_plan(const struct kg_cli_engine_options *options, bool json, bool full,
                                   struct kg_error *err) {
    struct kg_cli_engine engine;
    enum kg_status status = kg_cli_engine_open(options, &engine, err);
    if (status) return status;
    status = kg_cli_engine_begin(&engine, options, PLAN_CTX, err);
    if (!status) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_inspect_plan(&out, engine.session, json, full);
        status = print(&out, err);
    }
    kg_cli_engine_close(&engine);
    return status;
}

int kg_cmd_inspect(int argc, char **argv) {
    bool json = false, keys = false, tensors = false, full = false, plan = false;
    struct kg_cli_engine_options engine = KG_CLI_ENGINE_DEFAULTS;
    const struct kg_option options[] = {
        { .name = "keys",
          .kind = KG_OPTION_FLAG,
          .value = &keys,
          .help = "show the metadata; not the tensors unless asked" },
        { .name = "tensors",
          .kind = KG_OPTION_FLAG,
          .value = &tensors,
          .help = "show the tensors; not the metadata unless asked" },
        { .name = "full", .kind = KG_OPTION_FLAG, .value = &full, .help = "show arrays and long texts in full" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
        { .name = "plan",
          .kind = KG_OPTION_FLAG,
          .value = &plan,
          .help =
              "load the model and show its plan: nodes, the kernels they were lowered to, fusions not taken and why" },
        KG_CLI_RUN_ROWS(&engine),
    };
    const struct kg_command command = {
        .name = "kigo inspect",
        .usage = "FILE [--keys] [--tensors] [--full] [--json] [--plan [--backend B] [--dtype D]]",
        .summary =
            "Shows a GGUF file's metadata, its tensors with type, dimensions (fastest first) and size, and totals;\n"
            "with --plan what the engine computes, node by node, and on which kernels.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *path;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &path, 1, &ended)) return ended;
    const bool both = keys == tensors;
    const struct kg_inspect_parts parts = { keys || both, tensors || both, full };
    engine.model = path;
    const enum kg_status status = plan ? inspect_plan(&engine, json, full, &err) : inspect(path, json, &parts, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("inspect", &err);
}
