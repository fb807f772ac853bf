#include "base/json_put.h"
#include "base/utf8.h"
#include "cli/generate.h"
#include "model/weights.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *list_of_ids(const int32_t *ids, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

json_t *kg_cli_json_u64(uint64_t value) {
    char text[24];
    if (value <= INT64_MAX) return json_integer((json_int_t)value);
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

static json_t *memory_of(const struct kg_backend *backend) {
    struct kg_memory_use use;
    kg_backend_memory(backend, &use);
    json_t *memory = json_object();
    for (int tag = 0; tag < KG_MEMORY_TAG_COUNT; tag++)
        json_object_set_new(memory, kg_memory_tag_name((enum kg_memory_tag)tag),
                            json_pack("{s:I, s:I}", "current_bytes", (json_int_t)use.current_bytes[tag], "peak_bytes",
                                      (json_int_t)use.peak_bytes[tag]));
    json_object_set_new(memory, "total",
                        json_pack("{s:I, s:I}", "current_bytes", (json_int_t)use.total_current_bytes, "peak_bytes",
                                  (json_int_t)use.total_peak_bytes));
    return memory;
}

static json_t *options_of(const struct kg_cli_generate *g) {
    const struct kg_sampler_options *s = &g->sampling.sampler;
    json_t *stops = json_array();
    for (size_t i = 0; i < g->sampling.stop_texts.n_items; i++)
        json_array_append_new(stops, json_string(g->sampling.stop_texts.items[i]));
    return json_pack("{s:b, s:I, s:f, s:I, s:f, s:f, s:f, s:I, s:I, s:b, s:o}", "chat", g->chat, "max_tokens",
                     (json_int_t)g->sampling.max_tokens, "temperature", s->temperature, "top_k", (json_int_t)s->top_k,
                     "top_p", s->top_p, "min_p", s->min_p, "repeat_penalty", s->repeat_penalty, "repeat_last_n",
                     (json_int_t)s->repeat_last_n, "ctx", (json_int_t)kg_session_n_ctx(g->engine.session), "ignore_eos",
                     g->sampling.ignore_end, "stop", stops);
}

static json_t *timings_of(const struct kg_cli_generate *g) {
    const struct kg_generate_result *r = &g->result;
    const double ms = 1e-6;
    const double prefill_s = (double)r->prefill_ns * 1e-9;
    const struct kg_cli_engine *e = &g->engine;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "load_ms", (double)e->load_ns * ms, "backend_ms",
                     (double)e->backend_ns * ms, "session_ms", (double)e->session_ns * ms, "prefill_ms",
                     (double)r->prefill_ns * ms, "first_token_ms", (double)r->first_token_ns * ms, "decode_ms",
                     (double)r->decode_ns * ms, "decode_tokens_per_s", kg_cli_generate_speed(r), "decode_steps",
                     (json_int_t)r->n_evals, "prefill_tokens_per_s",
                     prefill_s > 0 ? (double)g->prompt_ids.n / prefill_s : 0.0);
}

/* Names come from files and command lines and may hold any bytes; JSON text is UTF-8. */
static json_t *text_of_bytes(const char *bytes) {
    struct kg_buffer text = KG_BUFFER_INIT;
    kg_utf8_append(&text, bytes, strlen(bytes));
    json_t *string = json_string(kg_buffer_text(&text));
    kg_buffer_free(&text);
    return string;
}

static json_t *model_of(const struct kg_cli_generate *g) {
    const struct kg_model_config *c = kg_model_config(g->engine.model);
    return json_pack("{s:o, s:s, s:o, s:I, s:I}", "path", text_of_bytes(g->engine_options.model), "architecture",
                     c->architecture, "name", text_of_bytes(c->name), "n_params",
                     (json_int_t)kg_model_n_params(g->engine.model), "weight_bytes",
                     (json_int_t)kg_model_weight_bytes(g->engine.model));
}

static json_t *precision_of(const struct kg_cli_generate *g) {
    return json_pack("{s:s, s:s, s:s}", "weights", kg_model_weights(g->engine.model)->dtype_name, "activations",
                     kg_precision_name(g->engine.activations), "kv", kg_precision_name(g->engine.kv));
}

/* The final message alone, where an answer has channels; "text" shows them all. */
static void add_answer(json_t *object, const struct kg_cli_generate *g) {
    const struct kg_tokenizer *t = kg_model_tokenizer(g->engine.model);
    const struct kg_generate_result *r = &g->result;
    struct kg_error err;
    char *text;
    size_t len;
    if (!object || !kg_chat_has_channels(t)) return;
    if (kg_tokenizer_show(t, g->prompt_ids.ids, g->prompt_ids.n, r->ids, r->n_ids, true, &text, &len, &err) != KG_OK)
        return;
    json_object_set_new(object, "answer", json_stringn(text, len));
    free(text);
}

char *kg_cli_generate_json(const struct kg_cli_generate *g) {
    const struct kg_generate_result *r = &g->result;
    json_t *object =
        json_pack("{s:s%, s:o, s:s%, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:s, s:o, s:o}", "text", r->text,
                  r->text_len, "ids", list_of_ids(r->ids, r->n_ids), "prompt", g->prompt, g->prompt_len, "prompt_ids",
                  list_of_ids(g->prompt_ids.ids, g->prompt_ids.n), "seed", kg_cli_json_u64(g->sampling.sampler.seed),
                  "finish", kg_finish_name(r->finish), "options", options_of(g), "timings", timings_of(g), "memory",
                  memory_of(g->engine.backend), "decode_allocations", (json_int_t)r->n_decode_allocations,
                  "decode_waits", (json_int_t)r->n_decode_waits, "backend", kg_backend_name(g->engine.backend),
                  "precision", precision_of(g), "model", model_of(g));
    add_answer(object, g);
    char *line = object ? kg_json_dump(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    return line;
}
