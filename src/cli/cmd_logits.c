/* kigo logits: the logits of given ids, a JSON object a line or one array of them, for comparing with other programs.
 */
#include "base/buffer.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include <errno.h>
#include <kigo/tokenizer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct logits_options {
    struct kg_cli_engine_options engine;
    const char *ids, *positions, *yarn;
    bool step, json;
};

/* Whole numbers in [0, limit) between commas or blanks. */
static enum kg_status parse_list(const char *option, const char *text, int64_t limit, struct kg_ids *list,
                                 struct kg_error *err) {
    for (const char *at = text;; at += *at == ',') {
        at += strspn(at, " ");
        const size_t len = strcspn(at, ", ");
        char *word = kg_xstrndup(at, len);
        int64_t value = -1;
        enum kg_status status = kg_parse_i64(word, &value, err);
        if (!status && (value < 0 || value >= limit))
            status = kg_fail(err, KG_ERR_RANGE, "%s is outside [0, %lld)", word, (long long)limit);
        free(word);
        if (status) return kg_error_context(err, status, "--%s", option);
        kg_ids_push(list, (int32_t)value);
        at += len + strspn(at + len, " ");
        if (!*at) return KG_OK;
    }
}

/* Marks the positions to print; wanted has one place for each of the n ids. */
static enum kg_status choose_positions(const char *text, bool *wanted, size_t n, struct kg_error *err) {
    if (strcmp(text, "all") == 0) {
        for (size_t i = 0; i < n; i++) wanted[i] = true;
        return KG_OK;
    }
    if (strcmp(text, "last") == 0) {
        wanted[n - 1] = true;
        return KG_OK;
    }
    struct kg_ids list = { 0 };
    const enum kg_status status = parse_list("positions", text, (int64_t)n, &list, err);
    for (size_t i = 0; i < list.n && !status; i++) wanted[list.ids[i]] = true;
    kg_ids_free(&list);
    return status;
}

/* Where rows go: lines as they are computed; or an array, kept until it is whole. */
struct answer {
    bool whole;
    struct kg_buffer text;
};

static enum kg_status put(struct kg_buffer *text, struct kg_error *err) {
    const bool taken = kg_out_put(stdout, kg_buffer_text(text), text->len);
    kg_buffer_free(text);
    return taken ? KG_OK : kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
}

static enum kg_status add_row(struct answer *answer, size_t position, const float *logits, uint32_t n_vocab,
                              struct kg_error *err) {
    struct kg_buffer *text = &answer->text;
    if (answer->whole) kg_buffer_puts(text, text->len ? ",\n" : "[");
    kg_buffer_printf(text, "{\"pos\":%zu,\"logits\":[", position);
    for (uint32_t i = 0; i < n_vocab; i++) kg_buffer_printf(text, i ? ",%.9g" : "%.9g", (double)logits[i]);
    kg_buffer_puts(text, answer->whole ? "]}" : "]}\n");
    return answer->whole ? KG_OK : put(text, err);
}

/* Feeds all ids at once, or one by one, and adds the wanted rows in the order of positions. */
static enum kg_status evaluate(struct kg_session *session, const struct kg_ids *ids, bool step, const bool *wanted,
                               uint32_t n_vocab, struct answer *answer, struct kg_error *err) {
    const size_t at_once = step ? 1 : ids->n;
    const bool only_last = !step && memchr(wanted, 1, ids->n - 1) == NULL;
    for (size_t done = 0; done < ids->n; done += at_once) {
        const float *logits;
        enum kg_status status = kg_session_eval(session, ids->ids + done, at_once,
                                                only_last ? KG_LOGITS_LAST : KG_LOGITS_ALL, &logits, err);
        const size_t first = only_last ? ids->n - 1 : done;
        for (size_t i = first; i < done + at_once && !status; i++)
            if (wanted[i]) status = add_row(answer, i, logits + (i - first) * n_vocab, n_vocab, err);
        if (status) return status;
    }
    return KG_OK;
}

static enum kg_status read_ramp(const char *name, enum kg_yarn_ramp *ramp, struct kg_error *err) {
    static const char *const NAMES[] = {
        [KG_YARN_RAMP_PUBLISHED] = "published", [KG_YARN_RAMP_EXACT] = "exact", [KG_YARN_RAMP_ROUNDED] = "rounded"
    };
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        if (strcmp(name, NAMES[i]) != 0) continue;
        *ramp = (enum kg_yarn_ramp)i;
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "--yarn: there is no ramp '%s'; published, exact and rounded are", name);
}

static enum kg_status run(struct logits_options *options, struct kg_error *err) {
    struct kg_cli_engine engine = { 0 };
    struct kg_ids ids = { 0 };
    bool *wanted = NULL;
    struct answer answer = { .whole = options->json, .text = KG_BUFFER_INIT };
    if (!options->ids)
        return kg_fail(err, KG_ERR_USAGE, "--ids is missing: token ids, as 1,2,3 or as 'kigo tokenize' prints them");
    enum kg_status status = read_ramp(options->yarn, &options->engine.yarn_ramp, err);
    if (!status) status = parse_list("ids", options->ids, (int64_t)INT32_MAX + 1, &ids, err);
    if (status) goto cleanup;
    wanted = kg_xcalloc(ids.n, sizeof *wanted);
    status = choose_positions(options->positions, wanted, ids.n, err);
    if (status) goto cleanup;
    status = kg_cli_engine_open(&options->engine, &engine, err);
    if (status) goto cleanup;
    status = kg_cli_engine_begin(&engine, &options->engine, ids.n, err);
    if (status) goto cleanup;
    status =
        evaluate(engine.session, &ids, options->step, wanted, kg_model_config(engine.model)->n_vocab, &answer, err);
    if (!status && answer.whole) kg_buffer_puts(&answer.text, "]\n");
    if (!status && answer.whole) status = put(&answer.text, err);
    if (!status && fflush(stdout) != 0) status = kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
cleanup:
    kg_buffer_free(&answer.text);
    kg_cli_engine_close(&engine);
    free(wanted);
    kg_ids_free(&ids);
    return status;
}

int kg_cmd_logits(int argc, char **argv) {
    struct logits_options o = { .engine = KG_CLI_ENGINE_DEFAULTS, .positions = "all", .yarn = "published" };
    const struct kg_option rows[] = {
        KG_CLI_ENGINE_ROWS(&o.engine),
        { "ids", 0, KG_OPTION_TEXT, &o.ids, "LIST", "token ids, as 1,2,3 or '1 2 3'", 0, 0 },
        { "positions", 0, KG_OPTION_TEXT, &o.positions, "WHICH", "all, last or a list as 0,5 (all)", 0, 0 },
        { "yarn", 0, KG_OPTION_TEXT, &o.yarn, "RAMP",
          "where YaRN's ramp begins and ends: published, exact or rounded (published)", 0, 0 },
        { "step", 0, KG_OPTION_FLAG, &o.step, NULL, "feed one id at a time: the decode path", 0, 0 },
        { "json", 0, KG_OPTION_FLAG, &o.json, NULL, "print one JSON array of these objects", 0, 0 },
    };
    const struct kg_command command = {
        .name = "kigo logits",
        .usage = "-m FILE --ids LIST [options]",
        .summary =
            "Print the logits after each id, a line {\"pos\":N,\"logits\":[...]} a position, float32 to 9 digits.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    return run(&o, &err) ? kg_cli_error("logits", &err) : KG_EXIT_OK;
}
