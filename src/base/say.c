#include "base/say.h"
#include "base/json_put.h"
#include "base/utf8.h"
#include "base/visible.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A conversion of a format: its text without '*', and what it converts. */
struct conversion {
    char text[64];
    char length[3], letter;
    bool left;
    int width, precision; /* -1: none */
};

/* A va_list that several functions take from. */
struct arguments {
    va_list list;
};

/* A number in the format or, for '*', from the arguments; -1 if there is none. */
static int read_number(const char **at, struct arguments *args) {
    int n = -1;
    if (**at == '*') {
        ++*at;
        return va_arg(args->list, int);
    }
    for (; **at >= '0' && **at <= '9'; ++*at) n = 10 * (n < 0 ? 0 : n) + (**at - '0');
    return n;
}

/* The conversion behind the '%' at *at, which moves behind it. */
static struct conversion read_conversion(const char **at, struct arguments *args) {
    struct conversion c = { .precision = -1 };
    const char *flags = ++*at;
    *at += strspn(*at, "-+ #0");
    const int n_flags = (int)(*at - flags);
    c.left = memchr(flags, '-', (size_t)n_flags) != NULL;
    c.width = read_number(at, args);
    if (c.width < -1) {
        c.left = true;
        c.width = -c.width;
    }
    if (**at == '.') {
        const bool given = *++*at == '*';
        c.precision = read_number(at, args);
        if (c.precision < 0) c.precision = given ? -1 : 0;
    }
    for (size_t i = 0; i + 1 < sizeof c.length && **at && strchr("hljztL", **at); i++) c.length[i] = *(*at)++;
    c.letter = *(*at)++;
    size_t used = (size_t)snprintf(c.text, sizeof c.text, "%%%.*s%s", n_flags, flags, c.left ? "-" : "");
    if (c.width >= 0) used += (size_t)snprintf(c.text + used, sizeof c.text - used, "%d", c.width);
    if (c.precision >= 0) used += (size_t)snprintf(c.text + used, sizeof c.text - used, ".%d", c.precision);
    snprintf(c.text + used, sizeof c.text - used, "%s%c", c.length, c.letter);
    return c;
}

static void pad(struct kg_buffer *out, size_t n) {
    while (n-- > 0) kg_buffer_puts(out, " ");
}

/* A text cut by its precision is not cut inside a character. */
static size_t length_of(const char *text, int precision) {
    if (precision < 0) return strlen(text);
    const size_t len = strnlen(text, (size_t)precision);
    const size_t good = kg_utf8_first_error(text, len);
    return text[len] && len - good < KG_UTF8_MAX_BYTES ? good : len;
}

static void put_text(struct kg_buffer *out, enum kg_medium medium, const struct conversion *c, const char *text) {
    struct kg_buffer escaped = KG_BUFFER_INIT;
    if (!text) text = "(null)";
    kg_escape(&escaped, medium, text, length_of(text, c->precision));
    const size_t columns = c->width > 0 ? kg_visible_width(kg_buffer_text(&escaped)) : 0;
    const size_t gap = c->width > 0 && (size_t)c->width > columns ? (size_t)c->width - columns : 0;
    pad(out, c->left ? 0 : gap);
    kg_buffer_puts(out, kg_buffer_text(&escaped));
    pad(out, c->left ? gap : 0);
    kg_buffer_free(&escaped);
}

/* A conversion of printf's. The format was checked at compile time, where the caller wrote it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
static void put_number(struct kg_buffer *out, const struct conversion *c, struct arguments *args) {
    const char *length = c->length;
    if (strchr("fFeEgGaA", c->letter)) kg_buffer_printf(out, c->text, va_arg(args->list, double));
    else if (c->letter == 'p') kg_buffer_printf(out, c->text, va_arg(args->list, void *));
    else if (strcmp(length, "ll") == 0) kg_buffer_printf(out, c->text, va_arg(args->list, long long));
    else if (strcmp(length, "l") == 0) kg_buffer_printf(out, c->text, va_arg(args->list, long));
    else if (strcmp(length, "z") == 0) kg_buffer_printf(out, c->text, va_arg(args->list, size_t));
    else if (strcmp(length, "j") == 0) kg_buffer_printf(out, c->text, va_arg(args->list, intmax_t));
    else if (strcmp(length, "t") == 0) kg_buffer_printf(out, c->text, va_arg(args->list, ptrdiff_t));
    else kg_buffer_printf(out, c->text, va_arg(args->list, int));
}
#pragma GCC diagnostic pop

void kg_escape_vprintf(struct kg_buffer *out, enum kg_medium medium, const char *fmt, va_list list) {
    struct arguments args;
    va_copy(args.list, list);
    while (*fmt) {
        const size_t n = strcspn(fmt, "%");
        kg_buffer_append(out, fmt, n);
        fmt += n;
        if (!*fmt) break;
        const struct conversion c = read_conversion(&fmt, &args);
        if (c.letter == '%') kg_buffer_puts(out, "%");
        else if (c.letter == 's') put_text(out, medium, &c, va_arg(args.list, const char *));
        else put_number(out, &c, &args);
    }
    va_end(args.list);
}

void kg_escape_printf(struct kg_buffer *out, enum kg_medium medium, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    kg_escape_vprintf(out, medium, fmt, args);
    va_end(args);
}

void kg_text_printf(struct kg_buffer *out, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    kg_escape_vprintf(out, KG_MEDIUM_TEXT, fmt, args);
    va_end(args);
}

void kg_say(FILE *stream, const char *fmt, ...) {
    struct kg_buffer text = KG_BUFFER_INIT;
    va_list args;
    va_start(args, fmt);
    kg_escape_vprintf(&text, KG_MEDIUM_TEXT, fmt, args);
    va_end(args);
    fwrite(kg_buffer_text(&text), 1, text.len, stream);
    kg_buffer_free(&text);
}

void kg_say_json(const json_t *json, size_t flags) {
    char *text = kg_json_dump(json, flags);
    fputs(text ? text : "null", stdout);
    putc('\n', stdout);
    free(text);
}

bool kg_out_put(FILE *stream, const char *text, size_t len) {
    struct kg_buffer visible = KG_BUFFER_INIT;
    kg_visible_put(&visible, text, len, KG_BREAKS_CRLF);
    const bool taken = fwrite(kg_buffer_text(&visible), 1, visible.len, stream) == visible.len;
    kg_buffer_free(&visible);
    return taken;
}

bool kg_out_exact(FILE *stream, const char *data, size_t len) {
    return isatty(fileno(stream)) ? kg_out_put(stream, data, len) : fwrite(data, 1, len, stream) == len;
}
