/* kigo op: one operation of a back end on given tensors. */
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/op_call.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ROLES[] = {
    [KG_OP_ACTIVATIONS] = "F64, F32, F16 or BF16, rounded to the precision of --dtype",
    [KG_OP_QUANTIZED] = "F64, F32, F16 or BF16, as --dtype; or E4M3 as U8 or F8_E4M3, or int8 as I8, with all scales",
    [KG_OP_CACHE] = "as given and as output; zero if not given",
    [KG_OP_VECTOR] = "F64, F32, F16 or BF16, used as F32",
    [KG_OP_WEIGHT] = "F32, F16 or BF16; or NAME_bytes, U8, with weight_dtype",
    [KG_OP_IDS] = "I32 or I64",
    [KG_OP_OUT] = "the output, F32",
    [KG_OP_OUT_VECTOR] = "an output, F32",
    [KG_OP_OUT_QUANTIZED] = "the output, F8_E4M3 or I8",
    [KG_OP_OUT_IDS] = "an output, I32",
};

static const struct kg_op_spec *find_spec(const char *name) {
    for (size_t i = 0; name && i < KG_OP_N_SPECS; i++)
        if (strcmp(KG_OP_SPECS[i].name, name) == 0) return &KG_OP_SPECS[i];
    return NULL;
}

static const char *param_kind(const struct kg_op_param *p) {
#define VARIANT_NAME(name, text, what) " " text
    static const char *const KINDS[] = { "a whole number", "a number", "0 or 1", "a type",
                                         "one of" KG_SDPA_VARIANT_LIST(VARIANT_NAME) };
#undef VARIANT_NAME
    return KINDS[p->kind];
}

/* NULL: the operation decides. */
static json_t *default_of(const struct kg_op_param *p) {
    if (isnan(p->fallback)) return json_null();
    if (p->kind == KG_OP_VARIANT) return json_string(kg_sdpa_variant_name((enum kg_sdpa_variant)p->fallback));
    return json_real(p->fallback);
}

/* What an operation takes, for its --help. */
static void describe(const struct kg_op_spec *spec, struct kg_buffer *text) {
    kg_text_printf(text, "%s\n\ntensors (slowest length first; the last two of three may be one):", spec->equation);
    for (size_t i = 0; i < KG_OP_MAX_TENSORS && spec->tensors[i].name; i++) {
        const struct kg_op_tensor *t = &spec->tensors[i];
        kg_text_printf(text, "\n  %-15s (%s)  %s%s", t->name, t->shape, t->optional ? "optional; " : "",
                       ROLES[t->role]);
    }
    kg_buffer_puts(text, "\n\nparameters (also any length by name, and tensors of one element by name):");
    for (size_t i = 0; i < KG_OP_MAX_PARAMS && spec->params[i].name; i++) {
        const struct kg_op_param *p = &spec->params[i];
        kg_text_printf(text, "\n  %-15s %s, %s", p->name, param_kind(p), p->help);
        json_t *fallback = default_of(p);
        if (json_is_real(fallback)) kg_text_printf(text, " (%g)", json_real_value(fallback));
        if (json_is_string(fallback)) kg_text_printf(text, " (%s)", json_string_value(fallback));
        json_decref(fallback);
    }
}

static json_t *spec_json(const struct kg_op_spec *spec) {
    json_t *tensors = json_array(), *params = json_array();
    for (size_t i = 0; i < KG_OP_MAX_TENSORS && spec->tensors[i].name; i++) {
        const struct kg_op_tensor *t = &spec->tensors[i];
        json_array_append_new(tensors,
                              json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", t->name, "shape", t->shape, "dtype",
                                        ROLES[t->role], "optional", t->optional, "output", kg_op_is_output(t)));
    }
    for (size_t i = 0; i < KG_OP_MAX_PARAMS && spec->params[i].name; i++) {
        const struct kg_op_param *p = &spec->params[i];
        json_array_append_new(params, json_pack("{s:s, s:s, s:o, s:s}", "name", p->name, "kind", param_kind(p),
                                                "default", default_of(p), "help", p->help));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "op", spec->name, "equation", spec->equation, "tensors", tensors, "params",
                     params);
}

static int list(bool json) {
    json_t *all = json_array();
    for (size_t i = 0; i < KG_OP_N_SPECS; i++) {
        if (json) json_array_append_new(all, spec_json(&KG_OP_SPECS[i]));
        else kg_say(stdout, "%-13s %s\n", KG_OP_SPECS[i].name, KG_OP_SPECS[i].equation);
    }
    if (json) {
        kg_say_json(all, JSON_COMPACT);
    }
    json_decref(all);
    return KG_EXIT_OK;
}

struct op_options {
    const char *in, *out, *backend, *dtype;
    struct kg_option_list params;
    bool list, json;
};

static void print_results(const struct op_options *o, const struct kg_op_request *request, const char *backend,
                          const struct kg_op_result *results, size_t n) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *shape = json_array();
        if (!o->json) kg_say(stdout, "%s%s (", i ? ", " : "", results[i].name);
        for (size_t d = 0; d < results[i].n_dims; d++) {
            json_array_append_new(shape, json_integer((json_int_t)results[i].dims[d]));
            if (!o->json) kg_say(stdout, "%s%llu", d ? ", " : "", (unsigned long long)results[i].dims[d]);
        }
        if (!o->json) kg_say(stdout, "), %llu not finite", (unsigned long long)results[i].n_nonfinite);
        json_array_append_new(tensors, json_pack("{s:s, s:o, s:I}", "name", results[i].name, "shape", shape,
                                                 "n_nonfinite", (json_int_t)results[i].n_nonfinite));
    }
    if (o->json) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:o, s:O}", "op", request->spec->name, "backend", backend,
                                   "activations", kg_precision_name(request->activations), "kv",
                                   kg_precision_name(request->kv), "file", kg_json_utf8(o->out), "tensors", tensors);
        kg_say_json(object, JSON_COMPACT);
        json_decref(object);
    } else {
        kg_say(stdout, " by %s in %s -> %s\n", backend, kg_precision_name(request->activations), o->out);
    }
    json_decref(tensors);
}

/* f8 and i8 are how inputs of an operation are stored, where one takes such. */
static bool takes_quantized(const struct kg_op_spec *spec) {
    for (size_t i = 0; i < KG_OP_MAX_TENSORS && spec->tensors[i].name; i++)
        if (spec->tensors[i].role == KG_OP_QUANTIZED) return true;
    return false;
}

static enum kg_status choose(const struct op_options *o, const char *op, struct kg_op_request *request,
                             struct kg_error *err) {
    if (!op) return kg_fail(err, KG_ERR_USAGE, "which operation? kigo op --list shows them");
    request->spec = find_spec(op);
    if (!request->spec)
        return kg_fail(err, KG_ERR_USAGE, "no operation '%s'; kigo op --list shows them",
                       kg_quote(op, strlen(op)).text);
    if (!o->in) return kg_fail(err, KG_ERR_USAGE, "--in FILE is missing");
    if (!o->out) return kg_fail(err, KG_ERR_USAGE, "-o FILE is missing");
    const enum kg_status status = kg_precision_from_name(o->dtype, &request->kv, err);
    if (status != KG_OK) return kg_error_context(err, status, "--dtype");
    const bool quantized = kg_precision_is_quantized(request->kv);
    if (quantized && !takes_quantized(request->spec))
        return kg_fail(err, KG_ERR_USAGE, "--dtype: %s has no %s, only f32 and f16", request->spec->name, o->dtype);
    request->activations = quantized ? KG_PRECISION_F16 : request->kv;
    request->backend = o->backend;
    request->in = o->in;
    request->out = o->out;
    request->params = o->params.items;
    request->n_params = o->params.n_items;
    return KG_OK;
}

static int run(const struct op_options *o, const char *op) {
    struct kg_op_request request = { 0 };
    struct kg_op_result results[KG_OP_MAX_TENSORS];
    size_t n_results = 0;
    const char *backend = NULL;
    struct kg_error err;
    enum kg_status status = choose(o, op, &request, &err);
    if (status == KG_OK) status = kg_op_run(&request, &backend, results, &n_results, &err);
    if (status != KG_OK) return kg_cli_error("op", &err);
    print_results(o, &request, backend, results, n_results);
    return KG_EXIT_OK;
}

int kg_cmd_op(int argc, char **argv) {
    struct op_options o = { .backend = "auto", .dtype = "f32" };
    const struct kg_option options[] = {
        { .name = "in", .kind = KG_OPTION_TEXT, .value = &o.in, .metavar = "FILE", .help = "safetensors file to read" },
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.out,
          .metavar = "FILE",
          .help = "safetensors file to write" },
        { .name = "backend",
          .kind = KG_OPTION_TEXT,
          .value = &o.backend,
          .metavar = "NAME",
          .help = "cpu, cuda or auto (auto)" },
        { .name = "dtype",
          .kind = KG_OPTION_TEXT,
          .value = &o.dtype,
          .metavar = "NAME",
          .help = "precision of activations and cache: f32, on a GPU f16 too; sdpa's inputs: f8, i8 (f32)" },
        { .name = "param",
          .kind = KG_OPTION_TEXTS,
          .value = &o.params,
          .metavar = "KEY=VALUE",
          .help = "a parameter or a length; may be repeated" },
        { .name = "list", .kind = KG_OPTION_FLAG, .value = &o.list, .help = "list the operations" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print JSON" },
    };
    struct kg_command command = {
        .name = "kigo op",
        .usage = "NAME --in X.safetensors -o Y.safetensors [options] | --list",
        .summary =
            "Runs an operation of a back end on the tensors of a file, for comparing with a reference of one's own.\n"
            "kigo op NAME --help lists its tensors and parameters. Outputs are float32,\n"
            "quantised ones F8_E4M3 or I8.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const struct kg_op_spec *asked = argc > 1 ? find_spec(argv[1]) : NULL;
    struct kg_buffer about = KG_BUFFER_INIT;
    char *name = NULL;
    if (asked) {
        describe(asked, &about);
        command.summary = kg_buffer_text(&about);
        command.name = name = kg_xasprintf("kigo op %s", asked->name);
        command.usage = "--in X.safetensors -o Y.safetensors [options]";
    }
    const char *op;
    int exit_code;
    if (kg_cli_parse(&command, argc, argv, &op, 1, &exit_code)) exit_code = o.list ? list(o.json) : run(&o, op);
    free(o.params.items);
    kg_buffer_free(&about);
    free(name);
    return exit_code;
}
