#include "suites/integration/hostile_store.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTROLS                                                                                                       \
    "\x1b[31m\x1b]0;FORGED\x07\x08\r\x7f\xC2\x9B"                                                                      \
    "31m"
#define DIRECTIONS                                                                                                     \
    "\xE2\x80\xAE\xE2\x81\xA6\xE2\x80\x8E\xE2\x80\x8F\xD8\x9C\xE2\x80\x8B\xE2\x80\xA8\xE2\x80\xA9\xEF\xBB\xBF"         \
    "\xF3\xA0\x81\x81"
#define MARKUP "<b>|`\"'$(x),\t\nFORGED\r\nFORGED"

const char KG_HOSTILE[] = CONTROLS DIRECTIONS MARKUP;
const char KG_HOSTILE_NAME[] = "=\xFF\xED\xA0\x80" CONTROLS DIRECTIONS "<b>|`\"'$(x),\t\nFORGED";

bool kg_shows_hostile(const char *text) {
    return strstr(text, "x1B[31m") || strstr(text, "x1B\\[31m") || strstr(text, "u001b[31m") ||
           strstr(text, "u001B[31m");
}

/* What programs look up, count or compare. */
static bool stays(const char *text) {
    static const char *const WORDS[] = { "pass",       "fail",  "skip",     "crash",   "timeout", "norun",
                                         "incomplete", "start", "complete", "partial", "end",     "planned",
                                         "graph",      "warm",  "host",     "bench",   "kernel" };
    const size_t len = strlen(text);
    for (size_t i = 0; i < KG_COUNT_OF(WORDS); i++)
        if (strcmp(text, WORDS[i]) == 0) return true;
    int64_t unused;
    return len == 0 || strspn(text, "0123456789") == len || (len >= 40 && strspn(text, "0123456789abcdef") == len) ||
           kg_bundle_id_parse(text, &unused);
}

char *kg_hostile_text(const char *text) {
    static const char SIGNS[] = "=+-@\t";
    unsigned sum = 0;
    for (const char *s = text; *s; s++) sum += (unsigned char)*s;
    return kg_xasprintf("%c%s%s", SIGNS[sum % (sizeof SIGNS - 1)], text, KG_HOSTILE);
}

static json_t *changed(const json_t *value, bool all, size_t *n) {
    const char *name;
    json_t *item, *copy;
    size_t i;
    if (json_is_string(value) && (all || !stays(json_string_value(value)))) {
        char *text = kg_hostile_text(json_string_value(value));
        copy = json_string(text);
        free(text);
        ++*n;
        return copy;
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, item) {
            json_array_append_new(copy, changed(item, all, n));
        }
        return copy;
    }
    if (!json_is_object(value)) return json_deep_copy(value);
    copy = json_object();
    json_object_foreach((json_t *)(uintptr_t)value, name, item) {
        json_object_set_new(copy, name, changed(item, all, n));
    }
    return copy;
}

/* A file of one object, or of one a line. */
static size_t change_file(const char *dir, const char *relative, bool all) {
    char *path = kg_path_join(dir, relative), *text;
    size_t size_bytes, n = 0;
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    json_error_t why;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    for (size_t at = 0; at < size_bytes;) {
        json_t *value = json_loadb(text + at, size_bytes - at, JSON_DISABLE_EOF_CHECK, &why);
        ck_assert_msg(value != NULL, "%s: %s", path, why.text);
        at += (size_t)why.position;
        at += strspn(text + at, "\n");
        json_t *hostile = changed(value, all, &n);
        char *line = json_dumps(hostile, JSON_COMPACT);
        kg_buffer_printf(&out, "%s\n", line);
        free(line);
        json_decref(hostile);
        json_decref(value);
    }
    EXPECT_OK(kg_file_write(path, out.data, out.len, &err), err);
    kg_buffer_free(&out);
    free(text);
    free(path);
    return n;
}

size_t kg_hostile_records(const char *dir) {
    static const char *const FILES[] = { "data/build.json",  "data/env.json",       "data/journal.ndjson",
                                         "data/plan.ndjson", "data/results.ndjson", "data/source.json",
                                         "data/summary.json" };
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) n += change_file(dir, FILES[i], false);
    kg_maker_plan_again(dir);
    kg_maker_rehash(dir);
    return n;
}

void kg_hostile_file(const char *dir, const char *relative) {
    ck_assert_uint_gt(change_file(dir, relative, true), 0);
}
