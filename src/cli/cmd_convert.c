/* kigo convert: a Hugging Face folder to a GGUF file. */
#include "base/options.h"
#include "base/size.h"
#include "cli/commands.h"
#include "model/convert_vocab.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct convert_options {
    const char *out;
    bool vocab_only, json;
};

static int print_summary(const struct kg_vocab_summary *s, const char *out, bool json) {
    if (!json) {
        printf("%s: %zu tokens (%zu special, %zu unused), %zu merges, pre-tokenizer %s\n", out, s->n_tokens,
               s->n_special, s->n_padding, s->n_merges, s->kind);
        return KG_EXIT_OK;
    }
    json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "file", out, "pre", s->kind, "n_tokens",
                               (json_int_t)s->n_tokens, "n_special", (json_int_t)s->n_special, "n_unused",
                               (json_int_t)s->n_padding, "n_merges", (json_int_t)s->n_merges);
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    return KG_EXIT_OK;
}

static enum kg_status check_options(const struct convert_options *o, struct kg_error *err) {
    if (!o->vocab_only) return kg_fail(err, KG_ERR_UNSUPPORTED, "only vocabularies can be converted; say --vocab-only");
    if (!o->out) return kg_fail(err, KG_ERR_USAGE, "-o FILE is missing");
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
        { .name = "vocab-only",
          .kind = KG_OPTION_FLAG,
          .value = &o.vocab_only,
          .help = "convert tokenizer.json alone, without weights" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo convert",
        .usage = "--vocab-only HF_DIR -o FILE [--json]",
        .summary =
            "Writes a vocabulary-only GGUF from the tokenizer.json of a folder, with what its tokenizer_config.json,\n"
            "chat_template.jinja and config.json add, if they are there.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    struct kg_error err;
    struct kg_vocab_summary summary;
    const char **args;
    size_t n_args;
    bool helped = false;
    if (kg_options_parse(&command, argc, argv, &args, &n_args, &helped, &err) != KG_OK)
        return kg_cli_error("convert", &err);
    if (helped) {
        free(args);
        return KG_EXIT_OK;
    }
    enum kg_status status = check_options(&o, &err);
    if (status == KG_OK) status = kg_convert_vocab(args[0], o.out, &summary, &err);
    free(args);
    return status == KG_OK ? print_summary(&summary, o.out, o.json) : kg_cli_error("convert", &err);
}
