/* Plan and results of a bundle, read quickly (base/json_tape.h): every line is looked at once, for the index alone. The
 * rules are those of bundle/records.h; the first line that breaks one is the error. */
#include "history/folder.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/stored.h"
#include "history/id_cache.h"
#include <stdlib.h>
#include <string.h>

struct file {
    const char *name;
    size_t *lines; /* places of the lines' nodes */
    size_t n_lines;
};

/* Reads a file's lines onto the tape. */
static enum kg_status read_lines(const char *dir, struct kg_history_folder *folder, int which, struct file *file,
                                 uint64_t *values_left, struct kg_error *err) {
    size_t size_bytes = 0;
    enum kg_status status =
        kg_stored_read(dir, file->name, KG_MAX_RECORD_BYTES, &folder->texts[which], &size_bytes, err);
    char *text = folder->texts[which];
    folder->text_bytes[which] = size_bytes;
    for (size_t begin = 0; begin < size_bytes && status == KG_OK;) {
        const char *newline = memchr(text + begin, '\n', size_bytes - begin);
        if (!newline)
            return kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: ends in %zu bytes without a newline", dir, file->name,
                           size_bytes - begin);
        const size_t len = (size_t)(newline - (text + begin));
        if ((file->n_lines & (file->n_lines + 1)) == 0) /* full at 2^n - 1 */
            file->lines = kg_xrealloc(file->lines, (file->n_lines + 1) * 2 * sizeof *file->lines);
        const char *wrong = kg_limit_line(text + begin, len, values_left);
        if (!wrong) wrong = kg_tape_read(&folder->tape, text + begin, len, &file->lines[file->n_lines]);
        file->n_lines++;
        if (wrong)
            status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: line %zu: %s", dir, file->name, file->n_lines, wrong);
        begin += len + 1;
    }
    return status;
}

static enum kg_status bad_line(const char *dir, const struct file *file, size_t line, const char *why,
                               struct kg_error *err) {
    return kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: line %zu: %s", dir, file->name, line + 1, why);
}

static enum kg_status take_plan(const char *dir, const struct file *file, struct kg_history_folder *folder,
                                struct kg_id_cache *places, struct kg_error *err) {
    folder->cases = kg_xcalloc(file->n_lines, sizeof *folder->cases);
    for (size_t i = 0; i < file->n_lines; i++) {
        const struct kg_node *line = &folder->tape.nodes[file->lines[i]];
        char why[KG_RECORD_WHY_SIZE];
        int64_t place;
        if (!kg_node_plan_ok(line, why)) return bad_line(dir, file, i, why, err);
        const char *key = kg_node_text(line, "key");
        if (kg_id_cache_find(places, key, strlen(key), &place)) return bad_line(dir, file, i, "planned twice", err);
        kg_id_cache_add(places, key, strlen(key), (int64_t)i);
        folder->cases[folder->n_cases++].plan = line;
    }
    return KG_OK;
}

static enum kg_status take_results(const char *dir, const struct file *file, struct kg_history_folder *folder,
                                   const struct kg_id_cache *places, struct kg_error *err) {
    for (size_t i = 0; i < file->n_lines; i++) {
        const struct kg_node *line = &folder->tape.nodes[file->lines[i]];
        char why[KG_RECORD_WHY_SIZE];
        int64_t place = 0;
        if (!kg_node_result_ok(line, why)) return bad_line(dir, file, i, why, err);
        const char *key = kg_node_text(line, "key");
        if (!kg_id_cache_find(places, key, strlen(key), &place)) return bad_line(dir, file, i, "was not planned", err);
        struct kg_history_case *c = &folder->cases[place];
        if (c->result) return bad_line(dir, file, i, "has a result already", err);
        if (!kg_node_same_definition(c->plan, line, why)) return bad_line(dir, file, i, why, err);
        c->result = line;
    }
    for (size_t i = 0; i < folder->n_cases; i++)
        if (!folder->cases[i].result)
            return kg_fail(err, KG_ERR_INTEGRITY, "%s: '%.200s' is planned and not recorded", dir,
                           kg_node_text(folder->cases[i].plan, "key"));
    return KG_OK;
}

enum kg_status kg_history_folder_records(const char *dir, struct kg_history_folder *folder, struct kg_error *err) {
    struct file files[] = { { "data/plan.ndjson", NULL, 0 }, { "data/results.ndjson", NULL, 0 } };
    struct kg_id_cache places = { NULL, 0, 0 };
    uint64_t values_left = KG_MAX_VALUES;
    enum kg_status status = KG_OK;
    for (int i = 0; i < (int)KG_COUNT_OF(files) && status == KG_OK; i++)
        status = read_lines(dir, folder, i, &files[i], &values_left, err);
    /* Nodes stay where they are from here on. */
    if (status == KG_OK) status = take_plan(dir, &files[0], folder, &places, err);
    if (status == KG_OK) status = take_results(dir, &files[1], folder, &places, err);
    kg_id_cache_clear(&places);
    for (size_t i = 0; i < KG_COUNT_OF(files); i++) free(files[i].lines);
    return status;
}
