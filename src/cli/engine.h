/* What the verbs that run a model share: their options, and opening back end, model and session. */
#ifndef KIGO_CLI_ENGINE_H
#define KIGO_CLI_ENGINE_H

#include <kigo/engine.h>
#include <kigo/model.h>

struct kg_cli_engine_options {
    const char *model;   /* required */
    const char *backend; /* "auto" */
    const char *dtype;   /* "f32" */
    int64_t n_threads;   /* 0: all processors */
    int64_t n_ctx;       /* 0: what is needed, at most the model's training context */
    enum kg_yarn_ramp yarn_ramp;
};
#define KG_CLI_ENGINE_DEFAULTS                                                                                         \
    { .backend = "auto", .dtype = "f32" }

/* Rows for a table of struct kg_option: how a model runs, and with the model's file. */
#define KG_CLI_RUN_ROWS(o)                                                                                             \
    { "backend", 0, KG_OPTION_TEXT, &(o)->backend, "NAME", "cpu, cuda or auto (auto)", 0, 0 },                         \
        { "dtype",     0,      KG_OPTION_TEXT,                                                                         \
          &(o)->dtype, "NAME", "precision of activations and KV cache: f32, on a GPU f16 too (f32)",                   \
          0,           0 },                                                                                            \
        { "ctx",       'c',       KG_OPTION_INT,                                                                       \
          &(o)->n_ctx, "N",       "positions of the context, up to the model's (as needed; 8192 to talk)",             \
          1,           2147483647 },                                                                                   \
    {                                                                                                                  \
        "threads", 't', KG_OPTION_INT, &(o)->n_threads, "N", "threads of the cpu back end (all processors)", 1, 1024   \
    }
#define KG_CLI_ENGINE_ROWS(o)                                                                                          \
    { "model", 'm', KG_OPTION_TEXT, &(o)->model, "FILE", "the GGUF file", 0, 0 }, KG_CLI_RUN_ROWS(o)

/* Positions of a verb that talks with a person, unless --ctx says more or the model has fewer: enough for a long
 * conversation, in the memory that most machines have. */
enum { KG_CLI_TALK_CTX = 8192 };

struct kg_cli_engine {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    enum kg_precision activations, kv;
    uint64_t load_ns;    /* opening back end and model */
    uint64_t backend_ns; /* of it, the back end */
    uint64_t session_ns; /* making the session */
};

/* Opens back end and model, with a progress bar on a terminal. On failure nothing is left open. */
KG_WARN_UNUSED enum kg_status kg_cli_engine_open(const struct kg_cli_engine_options *options,
                                                 struct kg_cli_engine *engine, struct kg_error *err);
/* Makes the session; n_needed positions are what the verb is going to use. */
KG_WARN_UNUSED enum kg_status kg_cli_engine_begin(struct kg_cli_engine *engine,
                                                  const struct kg_cli_engine_options *options, uint64_t n_needed,
                                                  struct kg_error *err);
void kg_cli_engine_close(struct kg_cli_engine *engine);

#endif
