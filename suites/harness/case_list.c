#include "suites/harness/case_list.h"
#include "base/buffer.h"
#include "run/case_key.h"
#include <stdlib.h>
#include <string.h>

static const char *copy_or_null(const char *s) {
    return s ? kg_xstrdup(s) : NULL;
}

void kg_case_list_add(struct kg_case_list *list, const struct kg_case *c) {
    char key[KG_CASE_KEY_MAX];
    struct kg_error err;
    enum kg_status status = kg_case_key(c, key, &err);
    if (status == KG_OK && !c->run) status = kg_fail(&err, KG_ERR_USAGE, "case %s has no run function", key);
    if (status == KG_OK && !(c->timeout_s >= 0 && c->timeout_s <= 86400))
        status = kg_fail(&err, KG_ERR_USAGE, "case %s: a time limit of %g s", key, c->timeout_s);
    if (status != KG_OK) {
        if (list->first_error.status == KG_OK) list->first_error = err;
        return;
    }
    if ((list->n_items & (list->n_items - 1)) == 0) /* the room doubles at each power of two */
        list->items = kg_xrealloc(list->items, (list->n_items ? 2 * list->n_items : 1) * sizeof *list->items);
    struct kg_listed_case *item = &list->items[list->n_items++];
    *item = (struct kg_listed_case){ .c = *c, .key = kg_xstrdup(key) };
    item->c.layer = kg_xstrdup(c->layer);
    item->c.op = kg_xstrdup(c->op);
    item->c.name = kg_xstrdup(c->name);
    item->c.backend = copy_or_null(c->backend);
    item->c.dtype = copy_or_null(c->dtype);
    item->c.shape = copy_or_null(c->shape);
    item->c.spec = copy_or_null(c->spec);
    item->c.definition = copy_or_null(c->definition);
    if (c->timeout_s == 0) item->c.timeout_s = KG_CASE_TIMEOUT_S;
}

static int by_key(const void *a, const void *b) {
    const struct kg_listed_case *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

enum kg_status kg_case_list_check(struct kg_case_list *list, struct kg_error *err) {
    if (list->first_error.status != KG_OK)
        return kg_fail(err, list->first_error.status, "%s", list->first_error.message);
    if (list->n_items == 0) return KG_OK;
    struct kg_listed_case **sorted = kg_xcalloc(list->n_items, sizeof *sorted);
    for (size_t i = 0; i < list->n_items; i++) sorted[i] = &list->items[i];
    qsort(sorted, list->n_items, sizeof *sorted, by_key);
    enum kg_status status = KG_OK;
    for (size_t i = 1; i < list->n_items && status == KG_OK; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            status = kg_fail(err, KG_ERR_USAGE, "two cases have the key %s", sorted[i]->key);
    free(sorted);
    return status;
}

struct kg_listed_case *kg_case_list_find(struct kg_case_list *list, const char *key) {
    for (size_t i = 0; i < list->n_items; i++)
        if (strcmp(list->items[i].key, key) == 0) return &list->items[i];
    return NULL;
}

void kg_case_list_free(struct kg_case_list *list) {
    for (size_t i = 0; i < list->n_items; i++) {
        struct kg_case *c = &list->items[i].c;
        const char *strings[] = { c->layer, c->op, c->name, c->backend, c->dtype, c->shape, c->spec, c->definition };
        for (size_t s = 0; s < sizeof strings / sizeof *strings; s++) free((char *)strings[s]);
        free(list->items[i].key);
    }
    free(list->items);
    *list = (struct kg_case_list){ 0 };
}
