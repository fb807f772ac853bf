/* Continues a text by a model: cc generate.c $(pkg-config --cflags --libs kigo) && ./a.out model.gguf 'the old pond' */
#include <kigo/engine.h>
#include <kigo/tokenizer.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    struct kg_backend *backend = NULL;
    struct kg_model *model = NULL;
    struct kg_session *session = NULL;
    const struct kg_tokenizer *tokenizer = NULL;
    const struct kg_session_options precision = { 0, KG_PRECISION_F32, KG_PRECISION_F32 };
    struct kg_sampler_options greedy = KG_SAMPLER_DEFAULTS;
    struct kg_generate_options options;
    struct kg_generate_result result;
    struct kg_ids prompt = { NULL, 0, 0 };
    struct kg_error err = { KG_ERR_USAGE, "usage: generate MODEL TEXT" };
    memset(&options, 0, sizeof options);
    memset(&result, 0, sizeof result);
    greedy.temperature = 0;
    options.sampler = greedy;
    options.max_tokens = 12;
    const bool good = argc == 3 && kg_backend_open("cpu", 0, &backend, &err) == KG_OK &&
                      kg_model_load(argv[1], backend, NULL, &model, &err) == KG_OK &&
                      kg_model_require_tokenizer(model, &tokenizer, &err) == KG_OK &&
                      kg_session_create(model, &precision, &session, &err) == KG_OK &&
                      kg_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), false, &prompt, &err) == KG_OK &&
                      kg_generate(session, prompt.ids, prompt.n, &options, &result, &err) == KG_OK;
    if (good) printf("%s\n", result.text);
    else fprintf(stderr, "generate: %s\n", err.message);
    kg_generate_result_free(&result);
    kg_ids_free(&prompt);
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
    return good ? 0 : kg_status_exit_code(err.status);
}
