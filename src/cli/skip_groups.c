#include "cli/skip_groups.h"
#include "base/json_put.h"
#include "base/say.h"
#include <stdlib.h>
#include <string.h>

void kg_skip_groups_add(struct kg_skip_groups *groups, const char *what, const char *reason, const char *key) {
    const int first_line = reason ? (int)strcspn(reason, "\n") : 0;
    char *name = kg_xasprintf("%s%s%.*s", what, first_line > 0 ? ", " : "", first_line, reason ? reason : "");
    json_t *as_json = kg_json_utf8(name); /* records may hold what is no UTF-8 */
    const char *group = json_string_value(as_json);
    if (!groups->keys) groups->keys = json_object();
    if (!json_object_get(groups->keys, group)) json_object_set_new(groups->keys, group, json_array());
    json_array_append_new(json_object_get(groups->keys, group), kg_json_utf8(key));
    json_decref(as_json);
    free(name);
}

void kg_skip_groups_put(const struct kg_skip_groups *groups, const char *margin, enum kg_medium medium,
                        struct kg_buffer *out) {
    enum { KEYS_SHOWN = 3 };
    const char *name;
    json_t *keys;
    json_object_foreach(groups->keys, name, keys) {
        const size_t n = json_array_size(keys);
        kg_buffer_puts(out, margin);
        kg_escape_printf(out, medium, "%s: %zu case%s:", name, n, n == 1 ? "" : "s");
        for (size_t i = 0; i < n && i < KEYS_SHOWN; i++)
            kg_escape_printf(out, medium, "%s %s", i > 0 ? "," : "", json_string_value(json_array_get(keys, i)));
        kg_buffer_puts(out, n > KEYS_SHOWN ? ", ...\n" : "\n");
    }
}

size_t kg_skip_groups_count(const struct kg_skip_groups *groups) {
    return json_object_size(groups->keys);
}

void kg_skip_groups_free(struct kg_skip_groups *groups) {
    json_decref(groups->keys);
    groups->keys = NULL;
}
