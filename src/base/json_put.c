#include "base/json_put.h"
#include <string.h>
#include <jansson.h>
#include "base/utf8.h"
#include "base/visible.h"
#include <math.h>
#include <stdlib.h>

/* A hidden character as JSON writes it: UTF-16, four digits a unit. */
static void put_hidden(struct kg_buffer *out, uint32_t c) {
    if (c <= 0xFFFF) kg_buffer_printf(out, "\\u%04x", (unsigned)c);
    else kg_buffer_printf(out, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (c >> 10)), (unsigned)(0xDC00 + (c & 0x3FF)));
}

/* One well-formed sequence of n bytes. */
static void put_sequence(struct kg_buffer *out, const char *data, size_t n, uint32_t code_point) {
    if (code_point == '"' || code_point == '\\') kg_buffer_printf(out, "\\%c", (char)code_point);
    else if (code_point == '\n') kg_buffer_puts(out, "\\n");
    else if (code_point == '\t') kg_buffer_puts(out, "\\t");
    else if (kg_is_hidden(code_point)) put_hidden(out, code_point);
    else kg_buffer_append(out, data, n);
}

static void put(struct kg_buffer *out, const char *data, size_t len, int name) {
    uint32_t cp = 0;
    kg_buffer_puts(out, "\"");
    for (size_t at = 0, n; at < len; at += n ? n : 1) {
        n = kg_utf8_sequence(data + at, len - at, &cp);
        if (n == 0 && name) kg_buffer_printf(out, "\\\\x%02X", (unsigned char)data[at]);
        else if (n == 0) kg_buffer_puts(out, "\xEF\xBF\xBD");
        else put_sequence(out, data + at, n, cp);
        if (n == 1 && name && cp == '\\') put_sequence(out, data + at, n, cp);
    }
    kg_buffer_puts(out, "\"");
}

void kg_json_put_string(struct kg_buffer *out, const char *data, size_t len) {
    put(out, data, len, 0);
}

void kg_json_put_name(struct kg_buffer *out, const char *data, size_t len) {
    put(out, data, len, 1);
}

static void put_number(struct kg_buffer *out, double value, int digits) {
    if (isfinite(value)) kg_buffer_printf(out, "%.*g", digits, value);
    else kg_buffer_puts(out, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

void kg_json_put_f32(struct kg_buffer *out, float value) {
    put_number(out, value, 9);
}

void kg_json_put_f64(struct kg_buffer *out, double value) {
    put_number(out, value, 17);
}

char *kg_json_dump(const json_t *json, size_t flags) {
    char *text = json_dumps(json, flags);
    if (!text) return NULL;
    const size_t len = strlen(text);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_reserve(&out, len + 1);
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t c = ' ';
        for (n = 0; at + n < len && (text[at + n] == '\n' || (text[at + n] >= 0x20 && text[at + n] < 0x7F)); n++) {}
        if (n == 0) n = kg_utf8_sequence(text + at, len - at, &c);
        if (kg_is_hidden(c)) put_hidden(&out, c);
        else kg_buffer_append(&out, text + at, n);
    }
    free(text);
    return out.data;
}

json_t *kg_json_utf8(const char *text) {
    struct kg_buffer utf8 = KG_BUFFER_INIT;
    kg_utf8_append(&utf8, text, strlen(text));
    json_t *string = json_string(kg_buffer_text(&utf8));
    kg_buffer_free(&utf8);
    return string;
}
