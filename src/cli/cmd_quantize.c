/* kigo quantize: a GGUF file's matrices rounded to another type. */
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
#include "convert/quantize.h"
#include <jansson.h>
#include <stdio.h>

struct quantize_options {
    struct kg_quantize_options quantize;
    const char *in, *out, *type;
    int64_t n_threads;
    bool force, json;
};

static void print_json(const struct quantize_options *o, const struct kg_quantize_summary *s, double seconds) {
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:f}", "file", kg_json_utf8(o->out), "architecture",
                  s->architecture, "type", o->quantize.type->name, "n_layers", (json_int_t)s->n_layers, "n_tensors",
                  (json_int_t)s->n_tensors, "n_params", (json_int_t)s->n_params, "tensor_bytes_before",
                  (json_int_t)s->n_bytes_before, "tensor_bytes", (json_int_t)s->n_bytes, "tensors",
                  kg_cli_written_json(s->tensors, s->n_tensors), "seconds", seconds);
    kg_say_json(object, JSON_COMPACT);
    json_decref(object);
}

static void print_text(const struct quantize_options *o, const struct kg_quantize_summary *s, double seconds) {
    kg_cli_print_written(s->tensors, s->n_tensors);
    kg_say(stdout, "%s: %s (%s), %u layers, %zu tensors, %s parameters, %s that were %s, in %s\n", o->out,
           o->quantize.type->name, s->architecture, s->n_layers, s->n_tensors,
           kg_quantity_count((double)s->n_params).text, kg_quantity_bytes((double)s->n_bytes).text,
           kg_quantity_bytes((double)s->n_bytes_before).text, kg_quantity_time(1e9 * seconds).text);
}

static enum kg_status check(struct quantize_options *o, struct kg_error *err) {
    if (!o->out) return kg_fail(err, KG_ERR_USAGE, "-o FILE is missing");
    if (!o->type) return kg_fail(err, KG_ERR_USAGE, "--type is missing: %s", KG_FILE_TYPE_NAMES);
    if (kg_path_is_dir(o->out)) return kg_fail(err, KG_ERR_USAGE, "%s is a folder", o->out);
    if (!o->force && kg_path_exists(o->out))
        return kg_fail(err, KG_ERR_EXISTS, "%s is there already; --force replaces it", o->out);
    o->quantize.n_threads = (int)o->n_threads;
    return kg_file_type_find(o->type, &o->quantize.type, err);
}

static enum kg_status run(struct quantize_options *o, struct kg_error *err) {
    struct kg_quantize_summary summary;
    struct kg_progress progress;
    const uint64_t start_ns = kg_clock_monotonic_ns();
    enum kg_status status = check(o, err);
    if (status != KG_OK) return status;
    o->quantize.on_progress = kg_cli_on_progress;
    o->quantize.cancelled = kg_cli_cancelled;
    o->quantize.user = &progress;
    kg_cli_end_on_signals();
    kg_progress_start(&progress, "quantising");
    status = kg_quantize_file(o->in, o->out, &o->quantize, &summary, err);
    kg_progress_finish(&progress);
    if (status != KG_OK) return status;
    const double seconds = (double)(kg_clock_monotonic_ns() - start_ns) * 1e-9;
    if (o->json) print_json(o, &summary, seconds);
    else print_text(o, &summary, seconds);
    kg_quantize_summary_free(&summary);
    return KG_OK;
}

int kg_cmd_quantize(int argc, char **argv) {
    struct quantize_options o = { 0 };
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
          .help = "of the file: " KG_FILE_TYPE_NAMES ", " KG_FILE_TYPE_PLAIN_NAMES },
        { .name = "allow-requantize",
          .kind = KG_OPTION_FLAG,
          .value = &o.quantize.requantize,
          .help = "round tensors of a block format again" },
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
        .name = "kigo quantize",
        .usage = "IN.gguf -o FILE --type TYPE [options]",
        .summary =
            "Writes a GGUF file with the matrices of another one in fewer bits. A type gives each the format that\n"
            "llama.cpp's quantiser gives it: of q4_k_m some are Q6_K, the others Q4_K. Of q5_k, q4_k and mxfp4 all "
            "have\n"
            "the one format. Rows that are no whole blocks get another one. Scales are searched for the least square\n"
            "error; what each tensor lost is printed: sqrt(sum (x - y)^2 / sum x^2), and the largest |x - y|. "
            "Metadata\n"
            "and other tensors stay as they are. The file takes its place, and with --force that of an older one, "
            "only\n"
            "when it is complete.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &o.in, 1, &ended)) return ended;
    return run(&o, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("quantize", &err);
}
