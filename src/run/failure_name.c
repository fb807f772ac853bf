#include "run/failure_name.h"
#include "base/hash.h"
#include <string.h>

static const char SAFE_CHARACTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";

enum { MAX_KEPT = 120, HASH_DIGITS = 8 };

/* Appends the text with '.' for '/' and '_' for what is not safe; true if it was kept whole but for the '/'. */
static bool append_safe(struct kg_buffer *out, const char *text) {
    bool whole = true;
    size_t n = 0;
    for (const char *p = text; *p && n < MAX_KEPT; p++, n++) {
        const bool hidden = n == 0 && (*p == '.' || *p == '/');
        const bool safe = !hidden && (*p == '/' || strchr(SAFE_CHARACTERS, *p));
        whole = whole && safe;
        kg_buffer_append(out, !safe ? "_" : *p == '/' ? "." : p, 1);
    }
    return whole && !text[n];
}

static void append_hash(struct kg_buffer *out, const char *text) {
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(text, strlen(text), hex);
    kg_buffer_printf(out, "-%.*s", HASH_DIGITS, hex);
}

char *kg_failure_folder(const char *key) {
    struct kg_buffer name = KG_BUFFER_INIT;
    append_safe(&name, key);
    append_hash(&name, key);
    return name.data;
}

char *kg_log_path(const char *program) {
    struct kg_buffer path = KG_BUFFER_INIT;
    kg_buffer_puts(&path, "logs/");
    if (!append_safe(&path, program)) append_hash(&path, program);
    kg_buffer_puts(&path, ".log");
    return path.data;
}

bool kg_attachment_name_ok(const char *name) {
    enum { MAX_NAME = 100 };
    const size_t len = strlen(name);
    return len > 0 && len <= MAX_NAME && name[0] != '.' && strspn(name, SAFE_CHARACTERS) == len;
}
