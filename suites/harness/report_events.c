#include "suites/harness/report_events.h"
#include "base/json_put.h"
#include "base/buffer.h"
#include "base/options.h"
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The descriptor an environment variable names, -1 if it names none. */
static int take_fd(const char *variable) {
    const char *text = getenv(variable);
    int64_t fd = -1;
    if (text && kg_parse_i64(text, &fd, NULL) != KG_OK) fd = -1;
    unsetenv(variable);
    if (fd < 0 || fd > 1 << 20 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0) return -1;
    return (int)fd;
}

int kg_events_fd(void) {
    return take_fd("KIGO_EVENTS_FD");
}

enum kg_status kg_events_select(struct kg_case_list *list, struct kg_error *err) {
    const int fd = take_fd("KIGO_CASES_FD");
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) return kg_fail(err, KG_ERR_USAGE, "KIGO_EVENTS_FD is set but KIGO_CASES_FD names no open descriptor");
    enum kg_status status = KG_OK;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len;
    while (status == KG_OK && (len = getline(&line, &capacity, file)) > 0) {
        if (line[len - 1] == '\n') line[len - 1] = '\0';
        struct kg_listed_case *item = kg_case_list_find(list, line);
        if (item) item->selected = true;
        else status = kg_fail(err, KG_ERR_USAGE, "asked to run '%s', which this program does not have", line);
    }
    free(line);
    fclose(file);
    return status;
}

void kg_events_start(int fd, const char *key) {
    kg_event_write(fd, json_pack("{s:s, s:s}", "event", "start", "key", key));
}

static void write_attachment(int fd, const char *key, const struct kg_attachment *a) {
    unsigned char *text = kg_xmalloc((a->size_bytes + 2) / 3 * 4 + 1);
    EVP_EncodeBlock(text, a->data, (int)a->size_bytes);
    kg_event_write(fd, json_pack("{s:s, s:s, s:o, s:s}", "event", "attach", "key", key, "file",
                                 kg_json_utf8(a->file_name), "data", (const char *)text));
    free(text);
}

void kg_events_end(int fd, const struct kg_record *rec, const struct kg_case_result *result) {
    if (result->outcome == KG_OUTCOME_FAIL)
        for (size_t i = 0; i < rec->n_attachments; i++) write_attachment(fd, rec->key, &rec->attachments[i]);
    json_t *reason = json_null();
    if (result->reason) {
        char *text = result->where ? kg_xasprintf("%s: %s", result->where, result->reason) : kg_xstrdup(result->reason);
        reason = kg_json_utf8(text);
        free(text);
    }
    kg_event_write(fd, json_pack("{s:s, s:s, s:s, s:o, s:I, s:O, s:O, s:O, s:O}", "event", "end", "key", rec->key,
                                 "status", kg_outcome_name(result->outcome), "reason", reason, "duration_ns",
                                 (json_int_t)result->duration_ns, "errors", rec->errors, "timings", rec->timings,
                                 "metrics", rec->metrics, "memory", rec->memory));
}

void kg_events_done(int fd) {
    kg_event_write(fd, json_pack("{s:s}", "event", "done"));
}
