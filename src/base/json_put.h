/* JSON text of values that jansson cannot hold: bytes that may be no UTF-8, 64-bit unsigned and non-finite numbers. */
#ifndef KIGO_BASE_JSON_PUT_H
#define KIGO_BASE_JSON_PUT_H

#include "base/buffer.h"
#include <stddef.h>

/* A JSON string of the bytes; each byte that is part of no well-formed UTF-8 sequence becomes U+FFFD. */
void kg_json_put_string(struct kg_buffer *out, const char *data, size_t len);

/* The same for names, which must stay distinct: such a byte becomes \xNN, and a backslash two (before JSON's escaping).
 */
void kg_json_put_name(struct kg_buffer *out, const char *data, size_t len);

/* The same as a new string of jansson. */
struct json_t;
struct json_t *kg_json_utf8(const char *text);

/* A number with as many digits as the type needs to be read back (9 for float, 17 for double); "NaN", "Infinity" and
 * "-Infinity" as strings. */
void kg_json_put_f32(struct kg_buffer *out, float value);
void kg_json_put_f64(struct kg_buffer *out, double value);

#endif
