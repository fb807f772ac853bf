#include "report/past.h"
#include "base/buffer.h"
#include <stdlib.h>

static char *name_of(const char *key, const char *def_sha, const char *figure) {
    return kg_xasprintf("%s\n%s\n%s", key, def_sha, figure);
}

static bool add(void *past, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    json_t *values = json_object_get(past, cells[0].text);
    if (!values) json_object_set_new(past, cells[0].text, values = json_array());
    json_array_append_new(values, json_real(cells[1].real));
    return true;
}

enum kg_status kg_past_load(struct kg_history *history, const struct kg_run_heads *baseline, json_t **past,
                            struct kg_error *err) {
    static const char SQL[] =
        "SELECT c.case_key || char(10) || c.def_sha || char(10) || f.name, m.value FROM bundle b"
        " JOIN result_row r ON r.bundle_no = b.bundle_no JOIN tcase c USING(case_id) JOIN metric_row m USING(result_id)"
        " JOIN figure_name f USING(figure_id) WHERE b.bundle_id = ?1 AND m.mad IS NOT NULL AND m.valid AND m.value > 0";
    enum kg_status status = KG_OK;
    *past = json_object();
    for (size_t i = 0; i < baseline->n_items && status == KG_OK; i++) {
        const char *const args[] = { baseline->items[i].bundle_id };
        status = kg_history_query(history, SQL, args, 1, add, *past, err);
    }
    if (status == KG_OK) return KG_OK;
    json_decref(*past);
    *past = NULL;
    return status;
}

const json_t *kg_past_of(const json_t *past, const char *key, const char *def_sha, const char *figure) {
    char *name = name_of(key, def_sha, figure);
    const json_t *values = json_object_get(past, name);
    free(name);
    return values;
}
