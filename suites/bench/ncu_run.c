#include "suites/bench/ncu_run.h"
#include "base/buffer.h"
#include "base/file.h"
#include "suites/bench/ncu_figures.h"
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

/* Why ncu did not end well, in its own words or the program's. */
static enum kg_status failed(const struct kg_process_result *r, const char *written, struct kg_error *err) {
    static const struct {
        bool in_file; /* ncu's own file, else standard output, which is the program's too */
        const char *head;
    } WORDS[] = { { false, "not ok " }, { true, "==ERROR==" }, { false, "==ERROR==" } };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        size_t len;
        const char *line = last_line(WORDS[i].in_file ? written : r->out, WORDS[i].head, &len);
        if (len > 0)
            return kg_fail(err, KG_ERR_IO, "ncu ended with exit code %d: %.*s", r->exit_code,
                           (int)(len < 400 ? len : 400), line);
    }
    return kg_fail(err, KG_ERR_IO, "ncu %s with exit code %d: %.400s",
                   r->timed_out ? "took too long and ended" : "ended", r->exit_code, r->err);
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
    /* Numbers of another language's locale could not be told from others. */
    const char *const env[] = { "KIGO_BENCH_COUNTED=1", "LC_ALL=C", NULL };
    const struct kg_process process = { .argv = argv, .env = env, .timeout_s = TIMEOUT_S };
    struct kg_process_result r;
    enum kg_status status = kg_process_run(&process, &r, err);
    if (status == KG_OK) {
        const bool is_written = kg_file_read(path, &written, &len, NULL) == KG_OK;
        if (r.exit_code != 0 || r.timed_out) status = failed(&r, is_written ? written : "", err);
        else if (!is_written) status = kg_fail(err, KG_ERR_IO, "ncu wrote no %s: %.400s", path, r.err);
        else status = kg_ncu_parse(written, len, launches, err);
        kg_process_result_free(&r);
    }
    free(written);
    free(path);
    free(metrics);
    return status;
}
