#include "cli/bench_report.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/threads.h"
#include "base/size.h"
#include "bundle/records.h"
#include "cli/bench_models.h"
#include "cli/bundles.h"
#include "report/bandwidth.h"
#include "report/peers.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: gnuplot with the script as its input, silent. */
static void become_gnuplot(int script_fd) {
    const int null = open("/dev/null", O_WRONLY);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null < 0 || dup2(script_fd, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        _exit(126);
    execlp("gnuplot", "gnuplot", (char *)NULL);
    _exit(127);
}

/* "" if it went well, else why not. The script is small next to a pipe's room, but a file needs no room at all. */
static const char *run_gnuplot(const char *script_path) {
    const int fd = open(script_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return "the script could not be read";
    const pid_t pid = fork();
    if (pid == 0) become_gnuplot(fd);
    close(fd);
    int status = -1;
    if (pid < 0) return "no process for gnuplot";
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return "gnuplot is not installed";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "gnuplot failed";
}

/* One picture into the bundle; *why is "" or the reason it is not there. */
static enum kg_status plot(struct kg_bundle *bundle, const struct kg_bandwidth *bandwidth, const char *terminal,
                           const char *dir, const char **why, struct kg_error *err) {
    char *script_path = kg_xasprintf("%s/%s.gp", dir, terminal);
    char *picture_path = kg_xasprintf("%s/%s", dir, terminal), *picture = NULL;
    char *name = kg_xasprintf("bandwidth.%s", terminal);
    struct kg_buffer script = KG_BUFFER_INIT;
    size_t size;
    enum kg_status status = KG_OK;
    *why = "no timing is cold";
    if (kg_bandwidth_plot(bandwidth, terminal, picture_path, &script)) {
        status = kg_file_write(script_path, script.data, script.len, err);
        if (status == KG_OK) *why = run_gnuplot(script_path);
        if (status == KG_OK && !**why && kg_file_read(picture_path, &picture, &size, NULL) != KG_OK)
            *why = "gnuplot made no picture";
        if (status == KG_OK && !**why) status = kg_bundle_file(bundle, name, picture, size, err);
    }
    kg_buffer_free(&script);
    free(picture);
    free(name);
    free(picture_path);
    free(script_path);
    return status;
}

/* Which pictures there are, or why not. */
static enum kg_status add_plots(struct kg_bundle *bundle, const struct kg_bandwidth *bandwidth, json_t *object,
                                struct kg_error *err) {
    static const char *const TERMINALS[] = { "svg", "png" };
    const char *parent = getenv("TMPDIR");
    char *dir = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-plot-XXXXXX");
    json_t *plots = json_object();
    enum kg_status status = KG_OK;
    if (!mkdtemp(dir)) status = kg_fail(err, KG_ERR_IO, "no folder %s for plots: %s", dir, strerror(errno));
    for (size_t i = 0; i < sizeof TERMINALS / sizeof *TERMINALS && status == KG_OK; i++) {
        const char *why = "";
        status = plot(bundle, bandwidth, TERMINALS[i], dir, &why, err);
        json_object_set_new(plots, TERMINALS[i], json_string(*why ? why : "made"));
    }
    if (status == KG_OK) status = kg_path_remove(dir, err);
    json_object_set_new(object, "plots", plots);
    free(dir);
    return status;
}

static enum kg_status load_records(const struct kg_bundle *bundle, struct kg_records *records, struct kg_error *err) {
    struct kg_bundle_findings findings = { 0 };
    enum kg_status status = kg_records_load_results(kg_bundle_dir(bundle), records, &findings, err);
    if (status == KG_OK && findings.n_items > 0) {
        status = kg_fail(err, KG_ERR_INTEGRITY, "the run's own records: %s %s", findings.items[0].what,
                         findings.items[0].detail);
        kg_records_free(records);
    }
    kg_bundle_findings_free(&findings);
    return status;
}

static enum kg_status put_buffer(struct kg_bundle *bundle, const char *name, struct kg_buffer *text,
                                 struct kg_error *err) {
    const enum kg_status status = kg_bundle_file(bundle, name, kg_buffer_text(text), text->len, err);
    kg_buffer_free(text);
    return status;
}

enum kg_status kg_bench_report_bandwidth(struct kg_bundle *bundle, struct kg_error *err) {
    struct kg_records records;
    struct kg_bandwidth bandwidth;
    enum kg_status status = load_records(bundle, &records, err);
    if (status != KG_OK) return status;
    kg_bandwidth_collect(&records, &bandwidth);
    if (bandwidth.n_rows > 0) {
        struct kg_buffer csv = KG_BUFFER_INIT, text = KG_BUFFER_INIT;
        json_t *object = kg_bandwidth_json(&bandwidth);
        kg_bandwidth_csv(&bandwidth, &csv);
        status = put_buffer(bundle, "bandwidth.csv", &csv, err);
        if (status == KG_OK) status = add_plots(bundle, &bandwidth, object, err);
        char *json = json_dumps(object, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
        kg_buffer_printf(&text, "%s\n", json);
        free(json);
        if (status == KG_OK) status = put_buffer(bundle, "bandwidth.json", &text, err);
        kg_buffer_free(&text);
        json_decref(object);
    }
    kg_bandwidth_free(&bandwidth);
    kg_records_free(&records);
    return status;
}

enum { MOST_PEERS = 8 };

/* The names of operations' peers, as they first come. */
static size_t peer_names(const struct kg_peers *peers, const char *names[MOST_PEERS]) {
    size_t n = 0;
    for (size_t i = 0; i < peers->n_rows && n < MOST_PEERS; i++) {
        size_t k = 0;
        if (kg_peer_is_of_model(&peers->rows[i])) continue;
        while (k < n && strcmp(names[k], peers->rows[i].peer->name) != 0) k++;
        if (k == n) names[n++] = peers->rows[i].peer->name;
    }
    return n;
}

static const struct kg_peer_row *find_peer(const struct kg_peers *peers, const struct kg_bandwidth_row *kigo,
                                           const char *name) {
    for (size_t i = 0; i < peers->n_rows; i++)
        if (peers->rows[i].kigo == kigo && strcmp(peers->rows[i].peer->name, name) == 0) return &peers->rows[i];
    return NULL;
}

/* A row for each of kigo's timings of operations, a column a peer; how many times as fast as the first. Models have a
 * separate table (bench_models.h). */
static void print_peers(const struct kg_peers *peers, struct kg_buffer *out) {
    static const char *const HEAD[] = { "dtype", "shape", "timing", "kigo" };
    const char *names[MOST_PEERS];
    const size_t n_names = peer_names(peers, names);
    struct kg_table table = { .n_columns = KG_COUNT_OF(HEAD) + n_names + 1 };
    if (n_names == 0) {
        if (peers->n_rows == 0) kg_buffer_puts(out, "peers: nothing was timed by both\n");
        return;
    }
    for (size_t i = 0; i < KG_COUNT_OF(HEAD); i++) kg_table_add(&table, HEAD[i]);
    for (size_t n = 0; n < n_names; n++) kg_table_add(&table, names[n]);
    kg_table_addf(&table, "times as fast as %s", names[0]);
    for (size_t i = 0; i < peers->n_rows; i++) {
        const struct kg_bandwidth_row *kigo = peers->rows[i].kigo;
        const struct kg_peer_row *first = find_peer(peers, kigo, names[0]);
        if (kg_peer_is_of_model(&peers->rows[i]) || (i > 0 && peers->rows[i - 1].kigo == kigo)) continue;
        kg_table_add(&table, kigo->dtype);
        kg_table_add(&table, kigo->shape);
        kg_table_addf(&table, "%s %s", kigo->kind, kigo->state);
        kg_table_add(&table, kg_quantity_time(kigo->median_ns).text);
        for (size_t n = 0; n < n_names; n++) {
            const struct kg_peer_row *row = find_peer(peers, kigo, names[n]);
            kg_table_add(&table, row ? kg_quantity_time(row->peer->median_ns).text : "");
        }
        if (first) kg_table_addf(&table, "%.2f", first->speedup);
        else kg_table_add(&table, "");
    }
    kg_table_print(&table, out);
    kg_table_free(&table);
}

enum kg_status kg_bench_report_peers(struct kg_bundle *bundle, struct kg_buffer *table, struct kg_error *err) {
    struct kg_records records;
    struct kg_bandwidth timings;
    struct kg_peers peers;
    struct kg_buffer csv = KG_BUFFER_INIT;
    enum kg_status status = load_records(bundle, &records, err);
    if (status != KG_OK) return status;
    kg_bandwidth_collect_timings(&records, KG_PEER_TIMINGS, &timings);
    kg_peers_collect(&timings, &peers);
    kg_peers_csv(&peers, &csv);
    print_peers(&peers, table);
    status = put_buffer(bundle, "peers.csv", &csv, err);
    kg_peers_free(&peers);
    kg_bandwidth_free(&timings);
    kg_records_free(&records);
    return status;
}

enum kg_status kg_bench_report_models(struct kg_bundle *bundle, struct kg_buffer *table, struct kg_error *err) {
    struct kg_records records;
    const enum kg_status status = load_records(bundle, &records, err);
    if (status != KG_OK) return status;
    kg_bench_models_print(&records, kg_processors_allowed(), table);
    kg_records_free(&records);
    return KG_OK;
}
