#include "suites/integration/fleet_links.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/fleet_holds.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_relay.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* `push --json` of a run over the link, which may be cut. */
static void push_over(struct kg_fleet_lab *lab, struct kg_fleet_relay *relay, const char *dir,
                      struct kg_process_result *result) {
    const char *why;
    lab->servers = KG_FLEET_RELAY_PORT;
    kg_fleet_relay_start(relay, kg_fleet_server_dir(&why));
    kg_fleet_job_end(
        kg_fleet_lab_begin(lab, "runner_a", ARGS("push", dir, "--json", "--wait", relay->comes_back ? "20" : "0")),
        result);
    kg_fleet_relay_end(relay);
    lab->servers = NULL;
    kg_fleet_lab_wait(lab, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'kigo'");
}

/* It was cut, and what kigo says of the run is so: `state`, or NULL for any. */
static void expect_cut(struct kg_fleet_lab *lab, struct kg_fleet_relay relay, const char *state) {
    struct kg_process_result result;
    char *dir = kg_verb_seal(lab->bundles), *member = state ? kg_xasprintf("\"state\": \"%s\"", state) : NULL;
    push_over(lab, &relay, dir, &result);
    ck_assert_msg(relay.was_cut, "%.1000s", result.out);
    kg_fleet_expect_said(lab, dir, &result);
    ck_assert_msg(!member || strstr(result.out, member), "not %s: %.1000s%.1000s", state, result.out, result.err);
    kg_fleet_expect_whole(lab, dir);
    kg_process_result_free(&result);
    free(member);
    free(dir);
}

void kg_fleet_unreachable_in_mid_push(struct kg_record *rec, const void *n) {
    struct kg_fleet_lab lab;
    struct kg_fleet_relay whole = { .comes_back = true };
    struct kg_process_result result;
    struct kg_rng rng;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *first = kg_verb_seal(lab.bundles), *dir = kg_verb_seal(lab.bundles);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", first), KG_EXIT_OK, ": pushed", NULL); /* with names and month */
    push_over(&lab, &whole, dir, &result);
    kg_fleet_expect_said(&lab, dir, &result);
    ck_assert_int_eq(result.exit_code, KG_EXIT_OK);
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < *(const int *)n; i++) {
        const size_t at = 1 + (size_t)(0.95 * (double)whole.n_sent * kg_rng_uniform(&rng));
        expect_cut(&lab, (struct kg_fleet_relay){ .cut_at = at, .comes_back = i % 2 == 1 }, NULL);
    }
    expect_cut(&lab, (struct kg_fleet_relay){ .cut_at_commit = true }, "unknown");
    expect_cut(&lab, (struct kg_fleet_relay){ .cut_at_commit = true, .comes_back = true }, "pushed");
    kg_process_result_free(&result);
    free(dir);
    free(first);
    kg_fleet_lab_close(&lab);
}

/* Three keys with certificates that vouch for themselves, in the server's folder. False: no openssl. */
static bool make_certificates(const char *dir) {
    static const char SCRIPT[] =
        "command -v openssl >/dev/null || exit 1; cd \"$1\" || exit 1;"
        "make() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj \"/CN=$2\""
        " -addext \"subjectAltName=DNS:$2\" -keyout \"$1.key\" -out \"$1.crt\" 2>/dev/null; };"
        "make server db.example.org && make client runner_a && make other db.example.org";
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = ARGS("/bin/sh", "-c", SCRIPT, "sh", dir) }, &result, &err),
              err);
    const bool made = result.exit_code == 0;
    kg_process_result_free(&result);
    return made;
}

/* A port of this machine's that nobody listens on. */
static void free_port(char port[8]) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(port, 8, "%u", (unsigned)ntohs(address.sin_port));
    close(fd);
}

/* Over the network only who has a certificate is let in, and only with TLS. */
static void start_with_tls(const char *dir, const char *port) {
    static const char HBA[] = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n";
    char *hba = kg_path_join(dir, "tls_hba.conf");
    struct kg_error err;
    EXPECT_OK(kg_file_write(hba, HBA, sizeof HBA - 1, &err), err);
    ck_assert_msg(chmod(hba, 0644) == 0, "%s", hba);
    free(hba);
    char *settings[] = { kg_xasprintf("hba_file=%s/tls_hba.conf", dir),
                         kg_xasprintf("ssl_cert_file=%s/server.crt", dir),
                         kg_xasprintf("ssl_key_file=%s/server.key", dir),
                         kg_xasprintf("ssl_ca_file=%s/client.crt", dir) };
    kg_fleet_server_own("server.key");
    kg_fleet_server_kill();
    kg_fleet_server_start(ARGS("-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "ssl=on", "-c", settings[0], "-c",
                               settings[1], "-c", settings[2], "-c", settings[3]));
    for (size_t i = 0; i < KG_COUNT_OF(settings); i++) free(settings[i]);
}

void kg_fleet_over_tls(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *verb, *user, *host, *mode, *root;
        int exit_code;
        const char *says;
    } ROWS[] = {
        { "push", "runner_a", "db.example.org", "verify-full", "other.crt", KG_EXIT_INCOMPLETE,
          "certificate verify failed" },
        { "push", "runner_a", "db.example.org", "verify-full", "none.crt", KG_EXIT_INCOMPLETE, "does not exist" },
        { "push", "runner_a", "db2.example.org", "verify-full", "server.crt", KG_EXIT_INCOMPLETE,
          "does not match host name" },
        { "push", "runner_a", "db.example.org", "disable", "server.crt", KG_EXIT_INCOMPLETE, "no encryption" },
        { "push", "runner_b", "db.example.org", "verify-full", "server.crt", KG_EXIT_INCOMPLETE,
          "certificate authentication failed" },
        { "push", "runner_a", "db.example.org", "verify-full", "server.crt", KG_EXIT_OK, ": pushed" },
        { "query", "runner_a", "db.example.org", "verify-full", "server.crt", KG_EXIT_OK, "TLSv1" },
    };
    static const char ASK[] = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    struct kg_fleet_lab lab;
    const char *why;
    char port[8];
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    const char *const dir = kg_fleet_server_dir(&why);
    if (!make_certificates(dir)) {
        kg_fleet_lab_close(&lab);
        return kg_record_skip(rec, "no openssl that makes a certificate");
    }
    char *run = kg_verb_seal(lab.bundles);
    free_port(port);
    start_with_tls(dir, port);
    lab.servers = port;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const bool pushes = strcmp(ROWS[i].verb, "push") == 0;
        char *url =
            kg_xasprintf("KIGO_HISTORY=postgresql://%s@%s:%s/%s?hostaddr=127.0.0.1&sslmode=%s&sslrootcert=%s/%s"
                         "&sslcert=%s/client.crt&sslkey=%s/client.key",
                         ROWS[i].user, ROWS[i].host, port, lab.database, ROWS[i].mode, dir, ROWS[i].root, dir, dir);
        const char *const env[] = { url, NULL }, *const argv[] = {
            kg_program_path(), ROWS[i].verb, pushes ? run : ASK, pushes ? "--wait" : NULL, "0", NULL
        };
        struct kg_process_result result;
        struct kg_error err;
        EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv, .env = env }, &result, &err), err);
        ck_assert_msg(result.exit_code == ROWS[i].exit_code &&
                          (strstr(result.out, ROWS[i].says) || strstr(result.err, ROWS[i].says)),
                      "row %zu ended with %d: %.1000s%.1000s", i, result.exit_code, result.out, result.err);
        ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive"), ROWS[i].exit_code == 0);
        kg_process_result_free(&result);
        free(url);
    }
    free(run);
    kg_fleet_server_kill();
    kg_fleet_server_start(NULL);
    kg_fleet_lab_close(&lab);
}
