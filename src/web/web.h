/* A history as pages for a browser: what `kigo web` sends. Pages are made here, of a request's path and parameters;
 * src/web/server.h speaks HTTP. Nothing of a request names a file: a run, a case or a sign-off is looked up by its
 * name, and every text of the history is escaped where it is read.
 *
 *   path                what
 *   /                   runs, newest first: machine, branch, commit, verdict and, of a fleet, runner choose, page
 *   /run/ID             one run: what is not green, groups of cases, skips
 *   /run/ID/cases       its cases: layer, op, status choose, page
 *   /run/ID/changes     what `kigo regress` says of it
 *   /case/N             a case's figures over runs, N its number in the index; run: whose figures are listed
 *   /compare            two runs: a, b
 *   /standing           open regressions of each machine's newest run, waivers and what else people said
 *   /signoffs           sign-offs beside the bundles; /signoffs/NAME: one
 *   /search             q: runs and cases
 *   /filter.js          the script */
#ifndef KIGO_WEB_WEB_H
#define KIGO_WEB_WEB_H

#include "base/buffer.h"
#include <kigo/history.h>
#include <stdbool.h>

struct kg_web;

struct kg_web_options {
    const char
        *root; /* folder of bundles: sign-offs are there, and a policy; of a fleet the reader's, for that alone */
    /* Opens the history; what stands in the way of single runs is its own to say. */
    enum kg_status (*open)(void *user, struct kg_history **history, struct kg_error *err);
    void (*close)(void *user, struct kg_history *history);
    void *user;
    const char *const *repositories; /* where to ask git for commits; NULL ends them */
};

/* options must outlive it. Opens the history once, so that what cannot be read is said before anyone asks. */
KG_WARN_UNUSED enum kg_status kg_web_open(const struct kg_web_options *options, struct kg_web **web,
                                          struct kg_error *err);
void kg_web_close(struct kg_web *web);

enum {
    KG_WEB_MAX_PARAMS = 16,
    KG_WEB_MAX_VALUE = 256, /* bytes of a parameter's value, or of a name in the path */
    KG_WEB_NONCE_SIZE = 33,
};
struct kg_web_param {
    const char *name, *value; /* decoded */
};
struct kg_web_request {
    const char *path; /* decoded */
    struct kg_web_param params[KG_WEB_MAX_PARAMS];
    size_t n_params;
};
struct kg_web_response {
    int status;       /* of HTTP: 200, 400, 404, 500, 503 */
    const char *type; /* Content-Type */
    struct kg_buffer body;
    char nonce[KG_WEB_NONCE_SIZE]; /* of the page's style; "" where it has none */
};

/* Always gives a page; the caller frees the body. One call at a time. */
void kg_web_answer(struct kg_web *web, const struct kg_web_request *request, struct kg_web_response *response);

/* A page that says why there is no other. */
void kg_web_refuse(int status, const char *why, struct kg_web_response *response);

#endif
