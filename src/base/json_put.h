/* JSON to be printed: hidden characters (base/visible.h) in strings are \uXXXX. And values that jansson cannot hold:
 * bytes that may not be UTF-8, 64-bit unsigned and non-finite numbers. */
#ifndef KIGO_BASE_JSON_PUT_H
#define KIGO_BASE_JSON_PUT_H

#include "base/buffer.h"
#include <stddef.h>

/* Appends data[0..len) as a JSON string. Each byte outside a well-formed UTF-8 sequence becomes U+FFFD. */
void kg_json_put_string(struct kg_buffer *out, const char *data, size_t len);

/* The same for names, which must stay distinct: such a byte becomes \xNN, and a backslash becomes two (before JSON's
 * escaping). */
void kg_json_put_name(struct kg_buffer *out, const char *data, size_t len);

/* json_dumps for what people and terminals see, too. malloc'ed; NULL where json_dumps gives NULL. */
struct json_t;
char *kg_json_dump(const struct json_t *json, size_t flags);

/* kg_json_put_string as a new jansson string. */
struct json_t *kg_json_utf8(const char *text);

/* Appends a number with enough digits to read the same value back (9 for float, 17 for double). NaN and infinities
 * become the strings "NaN", "Infinity" and "-Infinity". */
void kg_json_put_f32(struct kg_buffer *out, float value);
void kg_json_put_f64(struct kg_buffer *out, double value);

#endif
