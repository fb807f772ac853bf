/* kigo synth: a model file of true shapes and random weights. */
#include "base/quantity.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/long_write.h"
#include "convert/synth.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct synth_options {
    struct kg_synth_options synth;
    const char *out;
    int64_t n_layers, n_threads;
    bool force, json;
};

static int print_summary(const struct synth_options *o, const struct kg_synth_plan *plan, uint64_t wall_ns) {
    const double seconds = (double)wall_ns * 1e-9;
    if (!o->json) {
        kg_say(stdout, "%s: %s (%s), %u layers, %zu tensors, %s parameters, %s in %s\n", o->out, plan->shape->name,
               plan->architecture, plan->n_layers, plan->n_tensors, kg_quantity_count((double)plan->n_params).text,
               kg_quantity_bytes((double)plan->n_bytes).text, kg_quantity_time((double)wall_ns).text);
        return KG_EXIT_OK;
    }
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f}", "file", kg_json_utf8(o->out), "like",
                  plan->shape->name, "architecture", plan->architecture, "type", plan->type->name, "n_layers",
                  (json_int_t)plan->n_layers, "n_tensors", (json_int_t)plan->n_tensors, "n_params",
                  (json_int_t)plan->n_params, "tensor_bytes", (json_int_t)plan->n_bytes, "seconds", seconds);
    kg_say_json(object, JSON_COMPACT);
    json_decref(object);
    return KG_EXIT_OK;
}

static enum kg_status check(struct synth_options *o, struct kg_error *err) {
    if (!o->synth.like) return kg_fail(err, KG_ERR_USAGE, "--like is missing: which model's shapes? --help lists them");
    if (!o->out) return kg_fail(err, KG_ERR_USAGE, "-o FILE is missing");
    if (kg_path_is_dir(o->out)) return kg_fail(err, KG_ERR_USAGE, "%s is a folder", o->out);
    if (!o->force && kg_path_exists(o->out))
        return kg_fail(err, KG_ERR_EXISTS, "%s is there already; --force replaces it", o->out);
    o->synth.n_layers = (uint32_t)o->n_layers;
    o->synth.n_threads = (int)o->n_threads;
    return KG_OK;
}

static int run(struct synth_options *o) {
    struct kg_error err;
    struct kg_synth_plan plan = { 0 };
    struct kg_progress progress;
    const uint64_t start_ns = kg_clock_monotonic_ns();
    enum kg_status status = check(o, &err);
    if (status == KG_OK) status = kg_synth_plan_make(&o->synth, &plan, &err);
    if (status == KG_OK) {
        kg_cli_end_on_signals();
        kg_progress_start(&progress, "writing");
        o->synth.on_progress = kg_cli_on_progress;
        o->synth.cancelled = kg_cli_cancelled;
        o->synth.user = &progress;
        status = kg_synth_write(&o->synth, &plan, o->out, &err);
        kg_progress_finish(&progress);
    }
    const int exit_code =
        status == KG_OK ? print_summary(o, &plan, kg_clock_monotonic_ns() - start_ns) : kg_cli_error("synth", &err);
    kg_synth_plan_free(&plan);
    return exit_code;
}

int kg_cmd_synth(int argc, char **argv) {
    struct synth_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "like",
          .kind = KG_OPTION_TEXT,
          .value = &o.synth.like,
          .metavar = "MODEL",
          .help = "qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-7b, qwen3-8b, llama-3.1-8b, phi-3-mini, gpt-oss-20b or gpt2" },
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.out,
          .metavar = "FILE",
          .help = "GGUF file to write" },
        { .name = "type",
          .kind = KG_OPTION_TEXT,
          .value = &o.synth.type,
          .metavar = "TYPE",
          .help = "of the file: " KG_FILE_TYPE_NAMES ", " KG_FILE_TYPE_PLAIN_NAMES " (f16; gpt-oss-20b: mxfp4)" },
        { .name = "arch",
          .kind = KG_OPTION_TEXT,
          .value = &o.synth.architecture,
          .metavar = "NAME",
          .help = "write phi-3-mini as llama: no fused tensors, no window (phi3)" },
        { .name = "layers",
          .kind = KG_OPTION_INT,
          .value = &o.n_layers,
          .metavar = "N",
          .help = "only the first N layers (all)",
          .min = 1,
          .max = 65535 },
        { .name = "seed",
          .kind = KG_OPTION_UINT64,
          .value = &o.synth.seed,
          .metavar = "S",
          .help = "of the random weights (0)" },
        { .name = "threads",
          .letter = 't',
          .kind = KG_OPTION_INT,
          .value = &o.n_threads,
          .metavar = "N",
          .help = "threads (all processors)",
          .min = 1,
          .max = 1024 },
        { .name = "force", .kind = KG_OPTION_FLAG, .value = &o.force, .help = "replace FILE if it is there" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo synth",
        .usage = "--like MODEL -o FILE [options]",
        .summary =
            "Writes a GGUF file of a published model's true shapes with random weights, for measuring speed and "
            "memory.\n"
            "The bytes depend on model, type, layers and seed only. Its vocabulary is synthetic: the 256 bytes, then\n"
            "made-up words; text encodes to a token a byte. A type gives each tensor the format that llama.cpp's\n"
            "quantiser gives it. mxfp4_moe is that of published GPT-OSS files: experts are MXFP4, other matrices "
            "Q8_0.\n"
            "Of q5_k, q4_k and mxfp4 all matrices have the one format, embedding and output, too; but of gpt-oss\n"
            "mxfp4 is for the matrices of experts, with f16 for the others.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    return run(&o);
}
