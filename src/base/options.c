#include "base/options.h"
#include "base/say.h"
#include "base/buffer.h"
#include "base/nearest.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Decimal, or hexadecimal with 0x. A leading zero does not mean octal; a leading space is an error. */
static bool number_begins(const char *text, int *base) {
    const char *digits = text + (*text == '-' || *text == '+');
    *base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
    return digits[0] >= '0' && digits[0] <= '9';
}

enum kg_status kg_parse_i64(const char *text, int64_t *out, struct kg_error *err) {
    char *end;
    errno = 0;
    int base;
    const bool begins = number_begins(text, &base);
    const long long value = strtoll(text, &end, base);
    if (!begins || *end || errno) return kg_fail(err, KG_ERR_USAGE, "'%s' is not a whole number", text);
    *out = value;
    return KG_OK;
}

enum kg_status kg_parse_u64(const char *text, uint64_t *out, struct kg_error *err) {
    char *end;
    errno = 0;
    int base;
    const bool begins = number_begins(text, &base);
    const unsigned long long value = strtoull(text, &end, base);
    if (!begins || *end || errno || text[0] == '-')
        return kg_fail(err, KG_ERR_USAGE, "'%s' is not a whole number from 0 to %" PRIu64, text, UINT64_MAX);
    *out = value;
    return KG_OK;
}

enum kg_status kg_parse_double(const char *text, double *out, struct kg_error *err) {
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(value))
        return kg_fail(err, KG_ERR_USAGE, "'%s' is not a finite number", text);
    *out = value;
    return KG_OK;
}

static bool has_range(const struct kg_option *option) {
    return option->min != 0 || option->max != 0;
}

/* Limits are written in full: 2147483647, not 2.14748e+09. */
static enum kg_status check_range(const struct kg_option *option, double value, struct kg_error *err) {
    if (!has_range(option) || (value >= option->min && value <= option->max)) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%.15g is outside %.15g to %.15g", value, option->min, option->max);
}

/* Of a text that is no number of the option's kind. */
static enum kg_status refuse_number(const struct kg_option *option, const char *text, struct kg_error *err) {
    const char *kind = option->kind == KG_OPTION_INT ? "whole" : "finite";
    if (!has_range(option)) return kg_fail(err, KG_ERR_USAGE, "'%s' is not a %s number", text, kind);
    return kg_fail(err, KG_ERR_USAGE, "'%s' is not a %s number from %.15g to %.15g", text, kind, option->min,
                   option->max);
}

static enum kg_status set_value(const struct kg_option *option, const char *text, struct kg_error *err) {
    enum kg_status status = KG_OK;
    switch (option->kind) {
    case KG_OPTION_FLAG: *(bool *)option->value = true; break;
    case KG_OPTION_TEXT: *(const char **)option->value = text; break;
    case KG_OPTION_TEXTS: {
        struct kg_option_list *list = option->value;
        list->items = kg_xrealloc(list->items, (list->n_items + 1) * sizeof *list->items);
        list->items[list->n_items++] = text;
        break;
    }
    case KG_OPTION_INT: {
        int64_t value = 0;
        status = kg_parse_i64(text, &value, err);
        if (status != KG_OK) status = refuse_number(option, text, err);
        else status = check_range(option, (double)value, err);
        if (status == KG_OK) *(int64_t *)option->value = value;
        break;
    }
    case KG_OPTION_UINT64: status = kg_parse_u64(text, option->value, err); break;
    case KG_OPTION_DOUBLE: {
        double value = 0;
        status = kg_parse_double(text, &value, err);
        if (status != KG_OK) status = refuse_number(option, text, err);
        else status = check_range(option, value, err);
        if (status == KG_OK) *(double *)option->value = value;
        break;
    }
    }
    return status == KG_OK ? KG_OK : kg_error_context(err, status, "--%s", option->name);
}

static const struct kg_option *find_option(const struct kg_command *command, const char *arg, size_t len) {
    for (size_t i = 0; i < command->n_options; i++) {
        const struct kg_option *option = &command->options[i];
        if (arg[0] == '-' && len == 2 && arg[1] == option->letter) return option;
        if (len > 2 && strlen(option->name) == len - 2 && memcmp(arg + 2, option->name, len - 2) == 0) return option;
    }
    return NULL;
}

static enum kg_status refuse_option(const struct kg_command *command, const char *arg, size_t len,
                                    struct kg_error *err) {
    struct kg_nearest nearest = { .word = arg + 2, .len = len > 2 ? len - 2 : 0 };
    char meant[KG_NEAREST_TEXT_SIZE];
    for (size_t i = 0; i < command->n_options; i++) kg_nearest_try(&nearest, command->options[i].name);
    kg_nearest_text(&nearest, "--", meant);
    return kg_fail(err, KG_ERR_USAGE, "unknown option '%.*s'%s; see '%s --help'", (int)len, arg, meant, command->name);
}

/* Parses the option argv[*i] and moves *i to its last argument. */
static enum kg_status parse_option(const struct kg_command *command, int argc, char **argv, int *i,
                                   struct kg_error *err) {
    const char *arg = argv[*i];
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    const size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct kg_option *option = find_option(command, arg, len);
    if (!option) return refuse_option(command, arg, len, err);
    if (option->kind == KG_OPTION_FLAG) {
        if (equals) return kg_fail(err, KG_ERR_USAGE, "--%s takes no value", option->name);
        return set_value(option, NULL, err);
    }
    if (equals) return set_value(option, equals + 1, err);
    if (*i + 1 >= argc) return kg_fail(err, KG_ERR_USAGE, "--%s needs a value (%s)", option->name, option->metavar);
    return set_value(option, argv[++*i], err);
}

enum kg_status kg_options_parse(const struct kg_command *command, int argc, char **argv, const char ***args,
                                size_t *n_args, bool *helped, struct kg_error *err) {
    const char **found = kg_xcalloc((size_t)argc, sizeof *found);
    size_t n_found = 0;
    bool options_end = false;
    enum kg_status status = KG_OK;
    *helped = false;
    for (int i = 1; i < argc && status == KG_OK; i++) {
        if (options_end || argv[i][0] != '-' || argv[i][1] == '\0') {
            found[n_found++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            kg_options_help(command, stdout);
            *helped = true;
            break;
        } else {
            status = parse_option(command, argc, argv, &i, err);
        }
    }
    if (status == KG_OK && !*helped && n_found < command->min_args)
        status = kg_fail(err, KG_ERR_USAGE, "too few arguments; usage: %s %s", command->name, command->usage);
    if (status == KG_OK && !*helped && n_found > command->max_args)
        status = kg_fail(err, KG_ERR_USAGE, "'%s': too many arguments; usage: %s %s", found[command->max_args],
                         command->name, command->usage);
    if (status != KG_OK) {
        free(found);
        return status;
    }
    *args = found;
    *n_args = n_found;
    return KG_OK;
}

void kg_options_help(const struct kg_command *command, FILE *out) {
    struct kg_buffer text = KG_BUFFER_INIT;
    kg_buffer_printf(&text, "usage: %s %s\n\n%s\n", command->name, command->usage, command->summary);
    if (command->n_options > 0) kg_buffer_puts(&text, "\noptions:\n");
    for (size_t i = 0; i < command->n_options; i++) {
        const struct kg_option *option = &command->options[i];
        char left[64];
        const char letter[] = { '-', option->letter, ',', ' ', '\0' };
        snprintf(left, sizeof left, "%s--%s%s%s", option->letter ? letter : "    ", option->name,
                 option->metavar ? " " : "", option->metavar ? option->metavar : "");
        kg_buffer_printf(&text, "  %-30s %s\n", left, option->help);
    }
    kg_buffer_printf(&text, "  %-30s %s\n", "-h, --help", "show this help");
    kg_out_put(out, text.data, text.len);
    kg_buffer_free(&text);
}
