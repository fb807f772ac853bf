#include "suites/support/ncu_run.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "suites/support/ncu_figures.h"
#include "suites/harness/process.h"
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 240 };

/* The last line that begins so; "" if there is none. *len: without its newline. */
static const char *last_line(const char *text, const char *head, size_t *len) {
    const char *found = "";
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!*line) break;
        if (strncmp(line, head, strlen(head)) == 0) found = line;
    }
    *len = strcspn(found, "\n");
    return found;
}

/* Why ncu did not end well, in its own message or the program's. */
static enum kg_status failed(const struct kg_process_result *r, const char *written, struct kg_error *err) {
    enum { MOST = 400 };
    const struct {
        const char *text, *head;
    } places[] = { { r->out, "  message:" }, /* of a case that failed */
                   { written, "==ERROR==" },
                   { r->out, "==ERROR==" },
                   { r->err, "" } };
    struct kg_buffer message = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(places) && message.len == 0; i++) {
        size_t len;
        const char *line = last_line(places[i].text, places[i].head, &len);
        kg_utf8_append(&message, line, len < MOST ? len : MOST);
    }
    const enum kg_status status =
        kg_fail(err, KG_ERR_IO, "ncu %s with exit code %d: %s", r->timed_out ? "took too long and ended" : "ended",
                r->exit_code, kg_buffer_text(&message));
    kg_buffer_free(&message);
    return status;
}

enum kg_status kg_ncu_run(const char *program, const char *key, const char *dir, struct kg_ncu_launches *launches,
                          struct kg_error *err) {
    const char *ncu = getenv("KIGO_NCU");
    char *metrics = kg_ncu_metrics(), *path = kg_path_join(dir, "ncu.csv"), *written = NULL;
    size_t len = 0;
    const char *const argv[] = { "/usr/bin/env",
                                 ncu && *ncu ? ncu : "ncu",
                                 "--clock-control",
                                 "none",
                                 "--csv",
                                 "--print-units",
                                 "base",
                                 "--print-kernel-base",
                                 "function",
                                 "--metrics",
                                 metrics,
                                 "--log-file",
                                 path,
                                 program,
                                 "--case",
                                 key,
                                 NULL };
    /* Numbers must be in the C locale: others are ambiguous. */
    const char *const env[] = { "KIGO_BENCH_COUNTED=1", "LC_ALL=C", NULL };
    const struct kg_process process = { .argv = argv, .env = env, .timeout_s = TIMEOUT_S };
    struct kg_process_result r;
    enum kg_status status = kg_process_run(&process, &r, err);
    if (status == KG_OK) {
        const bool is_written = kg_file_read(path, &written, &len, NULL) == KG_OK;
        if (r.exit_code != 0 || r.timed_out) status = failed(&r, is_written ? written : "", err);
        else if (!is_written) status = failed(&r, "", err);
        else status = kg_ncu_parse(written, len, launches, err);
        kg_process_result_free(&r);
    }
    free(written);
    free(path);
    free(metrics);
    return status;
}
