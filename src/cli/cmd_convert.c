/* kigo convert: a Hugging Face folder to a GGUF file. */
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
#include "cli/written.h"
#include "convert/model.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct convert_options {
    const char *dir, *out, *type;
    int64_t n_threads;
    bool vocab_only, force, json;
    const struct kg_file_type *file_type;
};

static int print_json(json_t *object) {
    kg_say_json(object, JSON_COMPACT);
    json_decref(object);
    return KG_EXIT_OK;
}

static int print_vocab(const struct kg_vocab_summary *s, const struct convert_options *o) {
    if (o->json)
        return print_json(json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "file", kg_json_utf8(o->out), "pre", s->kind,
                                    "n_tokens", (json_int_t)s->n_tokens, "n_special", (json_int_t)s->n_special,
                                    "n_unused", (json_int_t)s->n_padding, "n_merges", (json_int_t)s->n_merges));
    kg_say(stdout, "%s: %zu tokens (%zu special, %zu unused), %zu merges, pre-tokenizer %s\n", o->out, s->n_tokens,
           s->n_special, s->n_padding, s->n_merges, s->kind);
    return KG_EXIT_OK;
}

static int print_model(const struct kg_convert_summary *s, const struct convert_options *o, double seconds) {
    if (o->json) {
        json_t *f16 = json_array();
        for (size_t i = 0; i < s->n_tensors; i++)
            if (s->tensors[i].dtype != s->tensors[i].by_rules && s->tensors[i].dtype == KG_DTYPE_F16)
                json_array_append_new(f16, kg_json_utf8(s->tensors[i].name));
        return print_json(json_pack(
            "{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:I, s:I, s:I, s:f}", "file", kg_json_utf8(o->out),
            "architecture", s->architecture, "type", o->file_type->name, "n_layers", (json_int_t)s->n_layers,
            "n_tensors", (json_int_t)s->n_tensors, "n_params", (json_int_t)s->n_params, "tensor_bytes",
            (json_int_t)s->n_bytes, "mxfp4_kept", (json_int_t)s->n_packed, "f16_instead", f16, "tensors",
            kg_cli_written_json(s->tensors, s->n_tensors), "pre", s->vocab.kind, "n_tokens",
            (json_int_t)s->vocab.n_tokens, "n_unused", (json_int_t)s->vocab.n_padding, "n_merges",
            (json_int_t)s->vocab.n_merges, "seconds", seconds));
    }
    kg_cli_print_written(s->tensors, s->n_tensors);
    kg_say(stdout, "%s: %s, %u layers, %zu tensors, %s parameters, %s in %s\n", o->out, s->architecture, s->n_layers,
           s->n_tensors, kg_quantity_count((double)s->n_params).text, kg_quantity_bytes((double)s->n_bytes).text,
           kg_quantity_time(1e9 * seconds).text);
    kg_say(stdout, "%zu tokens (%zu unused), pre-tokenizer %s\n", s->vocab.n_tokens, s->vocab.n_padding, s->vocab.kind);
    if (s->n_packed) kg_say(stdout, "%zu tensors were MXFP4 and stay as they were\n", s->n_packed);
    return KG_EXIT_OK;
}

/* A file of hours is not replaced by a slip. */
static enum kg_status check_output(const struct convert_options *o, struct kg_error *err) {
    if (kg_path_is_dir(o->out)) return kg_fail(err, KG_ERR_USAGE, "%s is a folder", o->out);
    if (o->force || !kg_path_exists(o->out)) return KG_OK;
    return kg_fail(err, KG_ERR_EXISTS, "%s is there already; --force replaces it", o->out);
}

static enum kg_status check_options(struct convert_options *o, struct kg_error *err) {
    if (!o->out) return kg_fail(err, KG_ERR_USAGE, "-o FILE is missing");
    if (o->vocab_only && o->type)
        return kg_fail(err, KG_ERR_USAGE, "--vocab-only writes no weights: --type %s", o->type);
    return kg_file_type_find(o->type ? o->type : "f16", &o->file_type, err);
}

static enum kg_status convert_vocab(const struct convert_options *o, struct kg_error *err) {
    struct kg_vocab_summary summary;
    const enum kg_status status = kg_convert_vocab(o->dir, o->out, &summary, err);
    if (status == KG_OK) print_vocab(&summary, o);
    return status;
}

static enum kg_status convert_model(const struct convert_options *o, struct kg_error *err) {
    struct kg_convert_summary summary;
    struct kg_progress progress;
    const struct kg_convert_options options = { .type = o->file_type,
                                                .n_threads = (int)o->n_threads,
                                                .on_progress = kg_cli_on_progress,
                                                .cancelled = kg_cli_cancelled,
                                                .user = &progress };
    const uint64_t start_ns = kg_clock_monotonic_ns();
    kg_cli_end_on_signals();
    kg_progress_start(&progress, "converting");
    const enum kg_status status = kg_convert_model(o->dir, o->out, &options, &summary, err);
    kg_progress_finish(&progress);
    if (status != KG_OK) return status;
    print_model(&summary, o, (double)(kg_clock_monotonic_ns() - start_ns) * 1e-9);
    kg_convert_summary_free(&summary);
    return KG_OK;
}

int kg_cmd_convert(int argc, char **argv) {
    struct convert_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.out,
          .metavar = "FILE",
          .help = "GGUF file to write" },
        { .name = "type",
          .kind = KG_OPTION_TEXT,
          .value = &o.type,
          .metavar = "TYPE",
          .help = "of the file: " KG_FILE_TYPE_NAMES ", " KG_FILE_TYPE_PLAIN_NAMES " (f16)" },
        { .name = "threads",
          .letter = 't',
          .kind = KG_OPTION_INT,
          .value = &o.n_threads,
          .metavar = "N",
          .help = "threads (all processors)",
          .min = 1,
          .max = 1024 },
        { .name = "vocab-only",
          .kind = KG_OPTION_FLAG,
          .value = &o.vocab_only,
          .help = "convert tokenizer.json alone, without weights" },
        { .name = "force", .kind = KG_OPTION_FLAG, .value = &o.force, .help = "replace FILE if it is there" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo convert",
        .usage = "HF_DIR -o FILE [--type TYPE] [options]",
        .summary =
            "Writes a GGUF file from a folder of the Qwen2, Qwen3, Llama, Gemma 3, Phi-3, GPT-OSS or GPT-2 "
            "architecture:\n"
            "config.json, tokenizer.json, and the weights of model.safetensors or of the files its index names. Names "
            "and metadata\n"
            "are llama.cpp's. A type gives each matrix the format that llama.cpp's quantiser gives it: of q4_k_m some "
            "are\n"
            "Q6_K, the others Q4_K, and what is printed says which and what rounding lost. Of q5_k, q4_k and mxfp4 "
            "all\n"
            "have the one format. Rows that are no whole blocks get another one. Norms, biases, routers and positions\n"
            "are F32; GPT-OSS's MXFP4 experts stay as they are, whatever the type. The file takes its place, and with\n"
            "--force that of an older one, only when it is complete.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &o.dir, 1, &ended)) return ended;
    enum kg_status status = check_options(&o, &err);
    if (status == KG_OK) status = check_output(&o, &err);
    if (status == KG_OK) status = o.vocab_only ? convert_vocab(&o, &err) : convert_model(&o, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("convert", &err);
}
