/* What the judge finds out about a model by itself, from its file. */
#include "suites/support/haiku_evidence.h"
#include "suites/harness/case.h"
#include "format/gguf.h"
#include <string.h>

static const struct kg_tolerance GOLDEN_F32 = {
    .nmse = 1e-12,
    .max_abs = 2e-4,
    .why = "FP32 in another order of summation, ten times transformers' own float32, which is 1e-13 and 2e-5 away from "
           "float64; a norm's epsilon of 1e-5 for 1e-6 would be 2.6e-8 away",
};
static const struct kg_tolerance GOLDEN_F16 = {
    .nmse = 2e-6,
    .why = "what plain FP16 implementations are away in their worst row, 1.8e-6; one bias of zeros is 4.9e-3",
};

/* Weights of one sequence are read from memory no faster than this: 400 GB/s for processors (the largest sockets do
 * about 300 from DRAM, and from their caches synchronisation of a token's operations costs more), 10 TB/s for GPUs (the
 * L2 of an H200). */
static double most_bytes_per_s(const char *backend_name) {
    return strcmp(backend_name, "cpu") == 0 ? 400e9 : 10e12;
}

/* Every token reads every tensor whole, but of an embedding table that is not the output matrix as well only a row, and
 * of experts those that were chosen. */
static void count_bytes(const struct kg_gguf *gguf, struct kg_haiku_bench *bench) {
    uint32_t n_experts = 1, n_used = 1;
    if (kg_gguf_get_u32(gguf, "gpt-oss.expert_count", &n_experts, NULL) != KG_OK ||
        kg_gguf_get_u32(gguf, "gpt-oss.expert_used_count", &n_used, NULL) != KG_OK)
        n_experts = n_used = 1;
    const bool tied = kg_gguf_find_tensor(gguf, "output.weight") == NULL;
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *const tensor = kg_gguf_tensor_at(gguf, i);
        bench->weight_bytes += tensor->size_bytes;
        const bool of_experts = tensor->n_dims == 3;
        if (tied || !kg_str_eq(tensor->name, "token_embd.weight"))
            bench->streamed_bytes += of_experts ? tensor->size_bytes / n_experts * n_used : tensor->size_bytes;
    }
}

/* Converters pad the vocabulary to the embedding's rows with tokens of type 5 (UNUSED). */
static size_t count_tokens(const struct kg_gguf *gguf) {
    enum { UNUSED = 5 };
    const struct kg_gguf_key *types = NULL;
    if (kg_gguf_get_array(gguf, "tokenizer.ggml.token_type", KG_GGUF_I32, &types, NULL) != KG_OK) return 0;
    uint64_t n = types->value.array.n;
    while (n > 0 && kg_gguf_array_int(types, n - 1) == UNUSED) n--;
    return (size_t)n;
}

enum kg_status kg_haiku_bench_open(const char *model_path, const char *golden_path, const char *backend_name,
                                   enum kg_precision precision, struct kg_haiku_bench *bench, struct kg_error *err) {
    struct kg_haiku_bench own = { .bytes_per_s = most_bytes_per_s(backend_name),
                                  .golden_tolerance = precision == KG_PRECISION_F16 ? GOLDEN_F16 : GOLDEN_F32 };
    struct kg_gguf *gguf = NULL;
    enum kg_status status = kg_lexicon_open(kg_fixture_path("lexicon/syllables.tsv"), &own.lexicon, err);
    if (status == KG_OK) status = kg_gguf_open(model_path, &gguf, err);
    if (status == KG_OK) status = kg_tokenizer_create(gguf, &own.tokenizer, err);
    if (status == KG_OK) {
        const struct kg_gguf_tensor *const embedding = kg_gguf_find_tensor(gguf, "token_embd.weight");
        if (!embedding) status = kg_fail(err, KG_ERR_FORMAT, "%s: no tensor token_embd.weight", model_path);
        else own.n_vocab = (size_t)embedding->dims[1];
        count_bytes(gguf, &own);
        own.n_tokens = count_tokens(gguf);
        if (own.n_tokens == 0) own.n_tokens = kg_tokenizer_n_tokens(own.tokenizer);
        if (golden_path) own.golden = kg_golden_open(golden_path);
    }
    kg_gguf_close(gguf);
    if (status == KG_OK) *bench = own;
    else kg_haiku_bench_close(&own);
    return status;
}

void kg_haiku_bench_close(struct kg_haiku_bench *bench) {
    kg_golden_close(bench->golden);
    kg_tokenizer_free(bench->tokenizer);
    kg_lexicon_free(bench->lexicon);
    memset(bench, 0, sizeof *bench);
}
