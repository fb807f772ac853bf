#include "run/case_key.h"
#include "base/buffer.h"
#include "base/size.h"
#include <stdbool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status check_part(const char *what, const char *part, const char *forbidden, struct kg_error *err) {
    if (!part || !*part) return kg_fail(err, KG_ERR_USAGE, "a case's %s is empty", what);
    for (const char *p = part; *p; p++)
        if (*p < ' ' || *p > '~' || strchr(forbidden, *p))
            return kg_fail(err, KG_ERR_USAGE, "a case's %s holds the byte 0x%02x at %zu, which a key may not hold",
                           what, (unsigned char)*p, (size_t)(p - part));
    return KG_OK;
}

enum kg_status kg_case_key(const struct kg_case *c, char key[KG_CASE_KEY_MAX], struct kg_error *err) {
    const struct {
        const char *what, *part, *forbidden;
        bool required;
    } parts[] = {
        { "layer", c->layer, "#/[]", true },  { "op", c->op, "#/[]", true },
        { "name", c->name, "#/[]", true },    { "back end", c->backend, "#,[]", false },
        { "dtype", c->dtype, "#,[]", false }, { "shape", c->shape, "#[]", false },
    };
    for (size_t i = 0; i < KG_COUNT_OF(parts); i++) {
        if (!parts[i].required && !parts[i].part) continue;
        const enum kg_status status = check_part(parts[i].what, parts[i].part, parts[i].forbidden, err);
        if (status != KG_OK) return status;
    }
    int len = snprintf(key, KG_CASE_KEY_MAX, "%s/%s/%s", c->layer, c->op, c->name);
    if (len < KG_CASE_KEY_MAX && (c->backend || c->dtype || c->shape))
        len += snprintf(key + len, KG_CASE_KEY_MAX - (size_t)len, "[%s,%s,%s]", c->backend ? c->backend : "-",
                        c->dtype ? c->dtype : "-", c->shape ? c->shape : "-");
    if (len >= KG_CASE_KEY_MAX)
        return kg_fail(err, KG_ERR_USAGE, "the key of %.40s/%.40s/... has %d bytes, more than %d", c->layer, c->op, len,
                       KG_CASE_KEY_MAX - 1);
    return KG_OK;
}

void kg_case_definition_sha(const struct kg_case *c, char hex[KG_SHA256_HEX_SIZE]) {
    const struct {
        const char *field, *value;
    } rows[] = {
        { "layer", c->layer }, { "op", c->op },       { "name", c->name }, { "backend", c->backend },
        { "dtype", c->dtype }, { "shape", c->shape }, { "spec", c->spec }, { "definition", c->definition },
    };
    struct kg_buffer text = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        if (rows[i].value) kg_buffer_printf(&text, "%s=%s\n", rows[i].field, rows[i].value);
    kg_sha256_hex(kg_buffer_text(&text), text.len, hex);
    kg_buffer_free(&text);
}

uint64_t kg_case_seed(uint64_t run_seed, const char *key) {
    char *text = kg_xasprintf("%" PRIu64 "\n%s", run_seed, key);
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(text, strlen(text), hex);
    free(text);
    hex[16] = '\0';
    return strtoull(hex, NULL, 16);
}
