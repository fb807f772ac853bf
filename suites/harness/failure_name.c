#include "suites/harness/failure_name.h"
#include "base/hash.h"
#include <string.h>

static const char SAFE_CHARACTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";

char *kg_failure_folder(const char *key) {
    enum { MAX_KEPT = 120, HASH_DIGITS = 8 };
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(key, strlen(key), hex);
    struct kg_buffer name = KG_BUFFER_INIT;
    for (const char *p = key; *p && name.len < MAX_KEPT; p++) {
        const char c = *p == '/' ? '.' : strchr(SAFE_CHARACTERS, *p) ? *p : '_';
        kg_buffer_append(&name, name.len == 0 && c == '.' ? "_" : &c, 1);
    }
    kg_buffer_printf(&name, "-%.*s", HASH_DIGITS, hex);
    return name.data;
}

void kg_shell_quote(struct kg_buffer *out, const char *text) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._=,+-";
    if (*text && strspn(text, PLAIN) == strlen(text)) {
        kg_buffer_puts(out, text);
        return;
    }
    kg_buffer_puts(out, "'");
    for (const char *p = text; *p; p++) {
        if (*p == '\'') kg_buffer_puts(out, "'\\''");
        else kg_buffer_append(out, p, 1);
    }
    kg_buffer_puts(out, "'");
}

bool kg_attachment_name_ok(const char *name) {
    enum { MAX_NAME = 100 };
    const size_t len = strlen(name);
    return len > 0 && len <= MAX_NAME && name[0] != '.' && strspn(name, SAFE_CHARACTERS) == len;
}
