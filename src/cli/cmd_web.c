/* kigo web: a history as pages for a browser. */
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/regress_call.h"
#include "web/server.h"
#include <stdlib.h>
#include <string.h>

struct web_options {
    struct kg_asked asked;
    const char *listen, *repository;
    int64_t port;
    bool json;
    bool said; /* what stands in the way of single runs is said once */
};

static enum kg_status open_history(void *user, struct kg_history **history, struct kg_error *err) {
    struct web_options *o = user;
    const char *place;
    if (o->said && !kg_cli_asked_is_fleet(&o->asked))
        return kg_history_open(kg_cli_bundles_root(o->asked.bundles), history, NULL, err);
    o->said = true;
    return kg_cli_asked_open("web", &o->asked, history, &place, err);
}

static void close_history(void *user, struct kg_history *history) {
    (void)user;
    kg_cli_history_close("web", history);
}

static enum kg_status say_address(const struct web_options *o, const struct kg_server *server, struct kg_error *err) {
    const char *address = kg_server_address(server);
    const bool v6 = strchr(address, ':') != NULL;
    struct kg_buffer out = KG_BUFFER_INIT;
    char *url = kg_xasprintf("http://%s%s%s:%u/", v6 ? "[" : "", address, v6 ? "]" : "", kg_server_port(server));
    enum kg_status status;
    if (o->json) {
        status = kg_cli_print_json(
            json_pack("{s:s, s:s, s:i}", "url", url, "listen", address, "port", (int)kg_server_port(server)), err);
    } else {
        kg_text_printf(&out, "%s\nCtrl-C ends it.\n", url);
        status = kg_cli_print(&out, err);
    }
    free(url);
    return status;
}

static enum kg_status serve(struct web_options *o, struct kg_error *err) {
    const struct kg_regress_call places_of = { .bundles = o->asked.bundles,
                                               .history = o->asked.history,
                                               .repository = o->repository };
    const char *places[4];
    kg_cli_repositories(&places_of, places);
    const struct kg_web_options options = { .root = kg_cli_bundles_root(o->asked.bundles),
                                            .open = open_history,
                                            .close = close_history,
                                            .user = o,
                                            .repositories = places };
    const struct kg_server_limits limits = { KG_SERVER_IDLE_S, KG_SERVER_REQUEST_S };
    struct kg_web *web = NULL;
    struct kg_server *server = NULL;
    enum kg_status status = kg_web_open(&options, &web, err);
    if (status == KG_OK) status = kg_server_open(web, o->listen, (uint16_t)o->port, &limits, &server, err);
    if (status == KG_OK) status = say_address(o, server, err);
    if (status == KG_OK) status = kg_server_run(server, err);
    kg_server_close(server);
    kg_web_close(web);
    return status;
}

int kg_cmd_web(int argc, char **argv) {
    struct web_options o = { .listen = "127.0.0.1", .port = KG_SERVER_PORT };
    const struct kg_option options[] = {
        { .name = "listen",
          .kind = KG_OPTION_TEXT,
          .value = &o.listen,
          .metavar = "ADDRESS",
          .help = "address to listen on (127.0.0.1: this machine alone); whoever reaches it reads all" },
        { .name = "port",
          .kind = KG_OPTION_INT,
          .value = &o.port,
          .metavar = "N",
          .help = "port to listen on, 0: any that is free (8317)",
          .min = 0,
          .max = UINT16_MAX },
        { .name = "repo",
          .kind = KG_OPTION_TEXT,
          .value = &o.repository,
          .metavar = "DIR",
          .help = "git repository that knows the commits" },
        KG_ASKED_OPTIONS(&o.asked),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print the address as one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo web",
        .usage = "[--listen ADDRESS] [--port N] [--repo DIR] [--bundles DIR|--history URL] [--json]",
        .summary =
            "Shows a history to a browser, and changes nothing: its runs with filters, a run, a case's figures over\n"
            "runs, two runs side by side, sign-offs, open regressions and waivers, search. It prints its address and\n"
            "answers until Ctrl-C or SIGTERM, then ends with exit code 0. There are no users and no passwords:\n"
            "docs/web.md says how others may read it.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    const enum kg_status status =
        kg_server_missing() ? kg_fail(&err, KG_ERR_UNSUPPORTED, "%s", kg_server_missing()) : serve(&o, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("web", &err);
}
