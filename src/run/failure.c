#include "run/failure.h"
#include "base/buffer.h"
#include "base/escape.h"
#include "base/json_put.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

char *kg_failure_rerun(const struct kg_run_options *options, const char *key) {
    struct kg_buffer text = KG_BUFFER_INIT;
    kg_buffer_printf(&text, "%s --case ", options->rerun_prefix);
    kg_shell_quote(&text, key);
    kg_buffer_printf(&text, " --seed %" PRIu64, options->surroundings.seed);
    return text.data;
}

static json_t *worst_places(const json_t *lists) {
    static const char *const FIELDS[] = { "name", "n", "worst_index", "worst_got", "worst_want", "margin", "judged" };
    json_t *places = json_array();
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(lists, "errors"), i, row) {
        json_t *place = json_object();
        for (size_t f = 0; f < sizeof FIELDS / sizeof *FIELDS; f++)
            json_object_set(place, FIELDS[f], json_object_get(row, FIELDS[f]));
        json_array_append_new(places, place);
    }
    return places;
}

static enum kg_status write_file(struct kg_run *run, const char *folder, const char *name, const void *data,
                                 size_t size_bytes, struct kg_error *err) {
    char *path = kg_xasprintf("failures/%s/%s", folder, name);
    const enum kg_status status = kg_bundle_file(run->bundle, path, data, size_bytes, err);
    free(path);
    return status;
}

static enum kg_status write_attachments(struct kg_run *run, const char *folder, const json_t *attachments,
                                        struct kg_error *err) {
    enum kg_status status = KG_OK;
    const char *name;
    json_t *text;
    json_object_foreach((json_t *)attachments, name, text) {
        const char *base64 = json_string_value(text);
        const size_t len = json_string_length(text); /* a multiple of 4: checked when it came */
        const size_t padding = len > 0 ? (size_t)(base64[len - 1] == '=') + (base64[len - 2] == '=') : 0;
        unsigned char *data = kg_xmalloc(len / 4 * 3 + 1);
        const int size = EVP_DecodeBlock(data, (const unsigned char *)base64, (int)len);
        char *file_name = kg_xasprintf("attached-%s", name); /* never one of the runner's own */
        if (status == KG_OK && size >= 0)
            status = write_file(run, folder, file_name, data, (size_t)size - padding, err);
        free(file_name);
        free(data);
    }
    return status;
}

enum kg_status kg_failure_write(struct kg_run *run, const struct kg_case_finish *finish, const char *rerun,
                                struct kg_error *err) {
    const char *key = json_string_value(json_object_get(finish->plan_line, "key"));
    char *folder = kg_failure_folder(key);
    json_t *about = json_pack("{s:s, s:s, s:s, s:O, s:o, s:o, s:o}", "key", key, "status", finish->status, "reason",
                              finish->reason, "seed", json_object_get(finish->plan_line, "seed"), "run_seed",
                              json_sprintf("%" PRIu64, run->options->surroundings.seed), "worst",
                              worst_places(finish->lists), "rerun", kg_json_utf8(rerun));
    char *about_text = json_dumps(about, JSON_INDENT(2));
    json_decref(about);
    struct kg_buffer command = KG_BUFFER_INIT, log = KG_BUFFER_INIT;
    kg_buffer_printf(&command, "%s\n", rerun);
    enum { LOG_BYTES = 16384 };
    if (finish->log) kg_bounded_log_last(finish->log, LOG_BYTES, &log);

    enum kg_status status = write_file(run, folder, "case.json", about_text, strlen(about_text), err);
    if (status == KG_OK) status = write_file(run, folder, "rerun.txt", command.data, command.len, err);
    if (status == KG_OK && log.len > 0) status = write_file(run, folder, "log.txt", log.data, log.len, err);
    if (status == KG_OK) status = write_attachments(run, folder, finish->attachments, err);
    kg_buffer_free(&log);
    kg_buffer_free(&command);
    free(about_text);
    free(folder);
    return status;
}
