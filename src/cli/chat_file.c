#include "base/buffer.h"
#include "base/file.h"
#include "base/json_put.h"
#include "cli/chat.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void note_file(struct kg_cli_chat *chat, const char *path) {
    char *kept = kg_xstrdup(path);
    free(chat->file);
    chat->file = kept;
}

enum kg_status kg_cli_chat_save(struct kg_cli_chat *chat, const char *path, struct kg_error *err) {
    const struct kg_conversation *c = &chat->conversation;
    const bool is_own = chat->file && strcmp(chat->file, path) == 0;
    if (!is_own && kg_path_exists(path))
        return kg_fail(err, KG_ERR_EXISTS, "%s exists and is not this conversation's; give another name", path);
    json_t *messages = json_array();
    for (size_t i = 0; i < c->n_messages; i++)
        json_array_append_new(messages,
                              json_pack("{s:s, s:s}", "role", c->messages[i].role, "content", c->messages[i].content));
    json_t *object = json_pack("{s:o}", "messages", messages);
    char *text = object ? kg_json_dump(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (!text) return kg_fail(err, KG_ERR_INTERNAL, "cannot write the messages as JSON");
    char *lines = kg_xasprintf("%s\n", text);
    free(text);
    const enum kg_status status = kg_file_write(path, lines, strlen(lines), err);
    free(lines);
    if (!status) note_file(chat, path);
    return status;
}

/* The messages of the array, whose texts stay its own; malloc'ed. */
static enum kg_status read_messages(const json_t *list, struct kg_chat_message **messages, struct kg_error *err) {
    const size_t n = json_array_size(list);
    struct kg_chat_message *made = kg_xcalloc(n + 1, sizeof *made);
    for (size_t i = 0; i < n; i++) {
        const json_t *object = json_array_get(list, i);
        made[i].role = json_string_value(json_object_get(object, "role"));
        made[i].content = json_string_value(json_object_get(object, "content"));
        if (made[i].role && made[i].content) continue;
        free(made);
        return kg_fail(err, KG_ERR_FORMAT, "message %zu has no text \"role\" and \"content\"", i);
    }
    *messages = made;
    return KG_OK;
}

static enum kg_status replace(struct kg_cli_chat *chat, const json_t *document, struct kg_error *err) {
    const json_t *list = json_is_array(document) ? document : json_object_get(document, "messages");
    struct kg_chat_message *messages;
    if (!json_is_array(list)) return kg_fail(err, KG_ERR_FORMAT, "no array \"messages\"");
    enum kg_status status = read_messages(list, &messages, err);
    if (status) return status;
    status = kg_conversation_replace(&chat->conversation, messages, json_array_size(list), err);
    free(messages);
    return status;
}

enum kg_status kg_cli_chat_load(struct kg_cli_chat *chat, const char *path, struct kg_error *err) {
    char *text;
    size_t len;
    json_error_t why;
    enum kg_status status = kg_file_read_regular(path, &text, &len, err);
    if (status) return status;
    json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    free(text);
    if (!document) return kg_fail(err, KG_ERR_FORMAT, "%s: line %d: %s", path, why.line, why.text);
    status = replace(chat, document, err);
    json_decref(document);
    if (status) return kg_error_context(err, status, "%s", path);
    note_file(chat, path);
    return KG_OK;
}
