/* Two readers of JSON, which must take the same texts: that of the index, and jansson for everything else. */
#include "suites/fuzz/readers.h"
#include "base/json_tape.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

/* Counts the values, and how deep they nest. */
static size_t count(const json_t *json, size_t depth, size_t *deepest) {
    size_t n = 1, i;
    const char *name;
    json_t *item;
    if ((json_is_array(json) || json_is_object(json)) && ++depth > *deepest) *deepest = depth;
    json_array_foreach(json, i, item) n += count(item, depth, deepest);
    json_object_foreach((json_t *)(uintptr_t)json, name, item) n += count(item, depth, deepest);
    return n;
}

KG_FUZZ_READER(json) {
    (void)target;
    struct kg_tape tape = { NULL, 0, 0 };
    size_t at = 0;
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    const char *wrong = kg_tape_read(&tape, text, size, &at);
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    size_t deepest = 0;
    const size_t n = json ? count(json, 0, &deepest) : 0;
    const bool limited = deepest > DEEPEST || memchr(data, '\0', size);
    if (!wrong != (json != NULL) && !limited)
        kg_fuzz_give_up("jansson %s what the tape's reader %s", json ? "takes" : "refuses", wrong ? wrong : "takes");
    if (!wrong && json && n != tape.n_nodes - at)
        kg_fuzz_give_up("jansson reads %zu values, the tape's reader %zu", n, tape.n_nodes - at);
    json_decref(json);
    kg_tape_free(&tape);
    free(text);
    return wrong ? KG_ERR_FORMAT : KG_OK;
}
