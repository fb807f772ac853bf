#include "bundle/left_out.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

/* "<id> <sha256> <why>": cut behind the hash, which is the text of a link. */
static bool read_line(char *line, struct kg_chain_link *link) {
    char *hex = strchr(line, ' '), *why = hex ? strchr(hex + 1, ' ') : NULL;
    if (!why || !why[1 + strspn(why + 1, " \t\r")]) return false;
    *why = '\0';
    return kg_chain_parse(line, link);
}

enum kg_status kg_left_out_read(const char *root, struct kg_left_out *list, struct kg_bundle_findings *findings,
                                struct kg_error *err) {
    char *text = NULL, *rest;
    size_t size_bytes = 0;
    *list = (struct kg_left_out){ NULL, 0 };
    enum kg_status status = kg_beneath_read(root, KG_LEFT_OUT, KG_MAX_LEFT_OUT_BYTES, &text, &size_bytes, err);
    if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    rest = text;
    for (char *line; status == KG_OK && (line = strsep(&rest, "\n"));) {
        if (!*line || *line == '#') continue;
        list->links = kg_xrealloc(list->links, (list->n_links + 1) * sizeof *list->links);
        if (read_line(line, &list->links[list->n_links])) list->n_links++;
        else kg_finding_add(findings, "format", KG_LEFT_OUT, "'%.200s' is no run, tag manifest and reason", line);
    }
    free(text);
    return status;
}

const struct kg_chain_link *kg_left_out_find(const struct kg_left_out *list, const char *id) {
    for (size_t i = 0; i < list->n_links; i++)
        if (strcmp(list->links[i].id, id) == 0) return &list->links[i];
    return NULL;
}

void kg_left_out_free(struct kg_left_out *list) {
    free(list->links);
    *list = (struct kg_left_out){ NULL, 0 };
}
