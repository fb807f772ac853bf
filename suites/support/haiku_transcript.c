#include "suites/support/haiku_evidence.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *json_of_ids(const int32_t *ids, size_t n) {
    json_t *const array = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(array, json_integer(ids[i]));
    return array;
}

static json_t *json_of_times(const uint64_t *ns, size_t n) {
    json_t *const array = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(array, json_integer((json_int_t)ns[i]));
    return array;
}

/* Texts are valid UTF-8 by the engine's contract; one that is not becomes null rather than a lost line. */
static json_t *json_of_text(const char *text, size_t len) {
    json_t *const string = json_stringn(text, len);
    return string ? string : json_null();
}

/* The seed as decimal text: a JSON integer has one bit less. */
static json_t *json_of_options(const struct kg_sampler_options *o) {
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    return json_pack("{s:f, s:f, s:I, s:I, s:f, s:f, s:s}", "temperature", o->temperature, "repeat_penalty",
                     o->repeat_penalty, "repeat_last_n", (json_int_t)o->repeat_last_n, "top_k", (json_int_t)o->top_k,
                     "top_p", o->top_p, "min_p", o->min_p, "seed", seed);
}

kg_json *kg_haiku_transcript(const struct kg_haiku_request *request, const struct kg_haiku_judgement *judgement) {
    const struct kg_generate_result *const result = &judgement->answer.result;
    const struct kg_ids *const prompt = &judgement->answer.prompt_ids;
    json_t *const line = json_object();
    json_object_set_new(line, "topic", json_string(request->topic));
    json_object_set_new(line, "minute_word", json_string(request->minute_word));
    json_object_set_new(line, "nonce", json_string(request->nonce));
    json_object_set_new(line, "options", json_of_options(&request->sampler));
    json_object_set_new(line, "prompt", json_string(judgement->answer.prompt_text));
    json_object_set_new(line, "prompt_ids", json_of_ids(prompt->ids, prompt->n));
    json_object_set_new(line, "ids", json_of_ids(result->ids, result->n_ids));
    json_object_set_new(line, "text", json_of_text(result->text, result->text_len));
    json_object_set_new(line, "finish", json_string(kg_finish_name(result->finish)));
    json_object_set_new(line, "prefill_ns", json_integer((json_int_t)result->prefill_ns));
    json_object_set_new(line, "first_token_ns", json_integer((json_int_t)result->first_token_ns));
    json_object_set_new(line, "token_ns", json_of_times(result->token_ns, result->n_evals));
    json_object_set_new(line, "answer_ns", json_integer((json_int_t)judgement->answer_ns));
    json_object_set_new(line, "faults", json_integer(judgement->faults));
    json_object_set_new(line, "message", json_of_text(judgement->message, strlen(judgement->message)));
    return line;
}
