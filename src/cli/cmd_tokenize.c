/* kigo tokenize: text to token ids, and back. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <kigo/tokenizer.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tokenize_options {
    const char *model, *prompt;
    const char *text; /* NULL: standard input */
    bool special, jsonl, decode, json;
};

/* What stands around ids: alone, or as a member of a JSON object. */
static void append_ids(struct kg_buffer *out, const struct kg_ids *ids, const char *separator) {
    char digits[16];
    for (size_t i = 0; i < ids->n; i++) {
        char *p = digits + sizeof digits;
        uint32_t id = (uint32_t)ids->ids[i];
        do *--p = (char)('0' + id % 10);
        while ((id /= 10) > 0);
        if (i > 0) kg_buffer_puts(out, separator);
        kg_buffer_append(out, p, (size_t)(digits + sizeof digits - p));
    }
}

static void append_json_ids(struct kg_buffer *out, const struct kg_ids *ids) {
    kg_buffer_puts(out, "{\"ids\":[");
    append_ids(out, ids, ",");
    kg_buffer_puts(out, "]}\n");
}

static enum kg_status put(const struct kg_buffer *out, struct kg_error *err) {
    if (kg_out_exact(stdout, kg_buffer_text(out), out->len) && fflush(stdout) == 0) return KG_OK;
    return kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
}

static enum kg_status append_json_text(struct kg_buffer *out, const char *text, size_t len, struct kg_error *err) {
    json_t *object = json_pack("{s:s%}", "text", text, len);
    char *line = object ? kg_json_dump(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!line) return kg_fail(err, KG_ERR_INTERNAL, "cannot write the text as JSON");
    kg_buffer_puts(out, line);
    kg_buffer_puts(out, "\n");
    free(line);
    return KG_OK;
}

static bool parse_id(const char *word, size_t len, int32_t *id) {
    int64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (word[i] < '0' || word[i] > '9') return false;
        value = 10 * value + (word[i] - '0');
        if (value > INT32_MAX) return false;
    }
    *id = (int32_t)value;
    return len > 0;
}

static bool is_between(char c) {
    return c == ' ' || c == ',' || c == '[' || c == ']' || (c >= '\t' && c <= '\r');
}

/* Ids as decimal numbers between blanks, line ends, commas and the brackets other programs print around them. */
static enum kg_status parse_ids(const char *text, size_t len, const char *from, struct kg_ids *ids,
                                struct kg_error *err) {
    for (size_t at = 0, end; at < len; at = end) {
        int32_t id;
        end = at + 1;
        if (is_between(text[at])) continue;
        while (end < len && !is_between(text[end])) end++;
        if (!parse_id(text + at, end - at, &id))
            return kg_fail(err, KG_ERR_USAGE, "%s at byte %zu: '%s' is no token id", from, at,
                           kg_quote(text + at, end - at).text);
        kg_ids_push(ids, id);
    }
    return KG_OK;
}

/* What is asked for on the command line, or standard input to its end. */
static enum kg_status read_input(const struct tokenize_options *options, char **in, size_t *n_in,
                                 struct kg_error *err) {
    if (options->text) {
        *in = kg_xstrdup(options->text);
        *n_in = strlen(options->text);
        return KG_OK;
    }
    if (isatty(STDIN_FILENO))
        kg_say(stderr, "%s, to the end (Ctrl-D at the start of a line); or give TEXT as an argument\n",
               options->decode ? "token ids" : "text");
    return kg_file_read("-", in, n_in, err);
}

static enum kg_status convert_whole(const struct kg_tokenizer *t, const struct tokenize_options *options,
                                    struct kg_buffer *out, struct kg_error *err) {
    char *in = NULL, *text = NULL;
    size_t n_in = 0, n_text = 0;
    struct kg_ids ids = { 0 };
    enum kg_status status = read_input(options, &in, &n_in, err);
    if (status != KG_OK) return status;
    if (options->decode) {
        status = parse_ids(in, n_in, options->text ? "the text" : "standard input", &ids, err);
        if (status == KG_OK) status = kg_tokenizer_decode(t, ids.ids, ids.n, true, &text, &n_text, err);
        if (status == KG_OK && options->json) status = append_json_text(out, text, n_text, err);
        if (status == KG_OK && !options->json) kg_buffer_append(out, text, n_text);
    } else {
        status = kg_tokenizer_encode(t, in, n_in, options->special, &ids, err);
        if (status == KG_OK && options->json) append_json_ids(out, &ids);
        if (status == KG_OK && !options->json) {
            append_ids(out, &ids, " ");
            kg_buffer_puts(out, "\n");
        }
    }
    free(text);
    kg_ids_free(&ids);
    free(in);
    return status;
}

static enum kg_status encode_object(const struct kg_tokenizer *t, bool special, const json_t *object,
                                    struct kg_buffer *out, struct kg_error *err) {
    const json_t *text = json_object_get(object, "text");
    if (!json_is_string(text)) return kg_fail(err, KG_ERR_FORMAT, "no string \"text\"");
    struct kg_ids ids = { 0 };
    const enum kg_status status =
        kg_tokenizer_encode(t, json_string_value(text), json_string_length(text), special, &ids, err);
    if (status == KG_OK) append_json_ids(out, &ids);
    kg_ids_free(&ids);
    return status;
}

static enum kg_status decode_object(const struct kg_tokenizer *t, const json_t *object, struct kg_buffer *out,
                                    struct kg_error *err) {
    const json_t *list = json_object_get(object, "ids"), *item;
    if (!json_is_array(list)) return kg_fail(err, KG_ERR_FORMAT, "no array \"ids\"");
    struct kg_ids ids = { 0 };
    char *text = NULL;
    size_t len = 0, i;
    enum kg_status status = KG_OK;
    json_array_foreach(list, i, item) {
        const json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id > INT32_MAX) {
            status = kg_fail(err, KG_ERR_FORMAT, "\"ids\"[%zu] is no token id", i);
            break;
        }
        kg_ids_push(&ids, (int32_t)id);
    }
    if (status == KG_OK) status = kg_tokenizer_decode(t, ids.ids, ids.n, true, &text, &len, err);
    if (status == KG_OK) status = append_json_text(out, text, len, err);
    free(text);
    kg_ids_free(&ids);
    return status;
}

static enum kg_status convert_line(const struct kg_tokenizer *t, const struct tokenize_options *options,
                                   const char *line, size_t len, struct kg_buffer *out, struct kg_error *err) {
    json_error_t why;
    json_t *object = json_loadb(line, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    enum kg_status status;
    if (!json_is_object(object)) status = kg_fail(err, KG_ERR_FORMAT, "%s", object ? "no JSON object" : why.text);
    else if (options->decode) status = decode_object(t, object, out, err);
    else status = encode_object(t, options->special, object, out, err);
    json_decref(object);
    return status;
}

/* A line in, a line out; a reader that waits for the answer to its line gets it. */
static enum kg_status convert_lines(const struct kg_tokenizer *t, const struct tokenize_options *options,
                                    struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    char *line = NULL;
    size_t capacity = 0, number = 0;
    ssize_t len;
    enum kg_status status = KG_OK;
    while (status == KG_OK && (len = getline(&line, &capacity, stdin)) >= 0) {
        number++;
        kg_buffer_clear(&out);
        status = convert_line(t, options, line, (size_t)len, &out, err);
        if (status != KG_OK) kg_error_context(err, status, "standard input, line %zu", number);
        else status = put(&out, err);
    }
    if (status == KG_OK && ferror(stdin))
        status = kg_fail(err, KG_ERR_IO, "cannot read standard input: %s", strerror(errno));
    free(line);
    kg_buffer_free(&out);
    return status;
}

static enum kg_status run(struct tokenize_options *options, struct kg_error *err) {
    if (!options->model) return kg_fail(err, KG_ERR_USAGE, "-m FILE is missing");
    if (options->text && options->prompt) return kg_fail(err, KG_ERR_USAGE, "TEXT and --prompt exclude each other");
    if (options->prompt) options->text = options->prompt;
    if (options->text && options->jsonl) return kg_fail(err, KG_ERR_USAGE, "--jsonl reads standard input, no TEXT");
    struct kg_tokenizer *t;
    enum kg_status status = kg_tokenizer_open(options->model, &t, err);
    if (status != KG_OK) return status;
    if (options->jsonl) {
        status = convert_lines(t, options, err);
    } else {
        struct kg_buffer out = KG_BUFFER_INIT;
        status = convert_whole(t, options, &out, err);
        if (status == KG_OK) status = put(&out, err);
        kg_buffer_free(&out);
    }
    kg_tokenizer_free(t);
    return status;
}

int kg_cmd_tokenize(int argc, char **argv) {
    struct tokenize_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "model",
          .letter = 'm',
          .kind = KG_OPTION_TEXT,
          .value = &o.model,
          .metavar = "FILE",
          .help = "GGUF file, a model or a vocabulary alone" },
        { .name = "prompt",
          .letter = 'p',
          .kind = KG_OPTION_TEXT,
          .value = &o.prompt,
          .metavar = "TEXT",
          .help = "the text, as an argument that is no option" },
        { .name = "special",
          .kind = KG_OPTION_FLAG,
          .value = &o.special,
          .help = "special tokens written in the text become their ids" },
        { .name = "decode",
          .kind = KG_OPTION_FLAG,
          .value = &o.decode,
          .help = "ids in, text out, special tokens among it" },
        { .name = "jsonl",
          .kind = KG_OPTION_FLAG,
          .value = &o.jsonl,
          .help = "a {\"text\":...} per line gives an {\"ids\":[...]} per line; --decode the other way" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo tokenize",
        .usage = "-m FILE [TEXT | -p TEXT] [--special] [--decode] [--jsonl | --json]",
        .summary = "Converts a text into token ids, every byte of it counted, or ids into text. Without TEXT it reads\n"
                   "standard input to its end.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &o.text, 1, &ended)) return ended;
    return run(&o, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("tokenize", &err);
}
