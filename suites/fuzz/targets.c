#include "suites/fuzz/readers.h"
#include <string.h>

#define BUNDLE(name, file, form)                                                                                       \
    { name, kg_fuzz_bundle, kg_fuzz_bundle_seeds, form, file, 25, 15 }
#define STORE(name, file, form, thousand)                                                                              \
    { name, kg_fuzz_store, kg_fuzz_store_seeds, form, file, 300, thousand }

/* At least half a million inputs of each kind of file, more where they are cheap. */
const struct kg_fuzz_target KG_FUZZ_TARGETS[] = {
    { "gguf", kg_fuzz_gguf, kg_fuzz_gguf_seeds, KG_FUZZ_GGUF, NULL, 4000, 1000 },
    { "model", kg_fuzz_model, kg_fuzz_model_seeds, KG_FUZZ_GGUF, NULL, 600, 500 },
    { "vocabulary", kg_fuzz_vocabulary, kg_fuzz_byte_level_seeds, KG_FUZZ_GGUF, NULL, 1500, 500 },
    { "sentencepiece", kg_fuzz_vocabulary, kg_fuzz_sentencepiece_seeds, KG_FUZZ_GGUF, NULL, 1500, 500 },
    { "safetensors", kg_fuzz_safetensors, kg_fuzz_safetensors_seeds, KG_FUZZ_SAFETENSORS, NULL, 4000, 1000 },
    { "encode", kg_fuzz_encode, kg_fuzz_text_seeds, KG_FUZZ_BYTES, "qwen2.5", 2000, 300 },
    { "encode_by_characters", kg_fuzz_encode, kg_fuzz_text_seeds, KG_FUZZ_BYTES, "phi3", 2000, 300 },
    { "hf_config", kg_fuzz_hf_config, kg_fuzz_hf_config_seeds, KG_FUZZ_JSON, NULL, 4000, 1000 },
    { "tokenizer_json", kg_fuzz_hf_folder, kg_fuzz_hf_folder_seeds, KG_FUZZ_JSON, "tokenizer.json", 300, 500 },
    { "tokenizer_config", kg_fuzz_hf_folder, kg_fuzz_hf_folder_seeds, KG_FUZZ_JSON, "tokenizer_config.json", 100, 50 },
    { "weights_index", kg_fuzz_hf_folder, kg_fuzz_hf_folder_seeds, KG_FUZZ_JSON, "model.safetensors.index.json", 200,
      100 },
    { "json", kg_fuzz_json, kg_fuzz_json_seeds, KG_FUZZ_JSON, NULL, 4000, 1000 },
    { "manifest", kg_fuzz_manifest, kg_fuzz_manifest_seeds, KG_FUZZ_LINES, NULL, 2000, 300 },
    { "bag_info", kg_fuzz_bag_info, kg_fuzz_bag_info_seeds, KG_FUZZ_LINES, NULL, 2000, 300 },
    { "records", kg_fuzz_records, kg_fuzz_records_seeds, KG_FUZZ_LINES, NULL, 2000, 500 },
    BUNDLE("bundle_plan", "data/plan.ndjson", KG_FUZZ_LINES),
    BUNDLE("bundle_results", "data/results.ndjson", KG_FUZZ_LINES),
    BUNDLE("bundle_journal", "data/journal.ndjson", KG_FUZZ_LINES),
    BUNDLE("bundle_samples", "data/samples.bin", KG_FUZZ_BYTES),
    BUNDLE("bundle_env", "data/env.json", KG_FUZZ_JSON),
    BUNDLE("bundle_build", "data/build.json", KG_FUZZ_JSON),
    BUNDLE("bundle_source", "data/source.json", KG_FUZZ_JSON),
    BUNDLE("bundle_summary", "data/summary.json", KG_FUZZ_JSON),
    BUNDLE("bundle_info", "bag-info.txt", KG_FUZZ_LINES),
    BUNDLE("bundle_manifest", "manifest-sha256.txt", KG_FUZZ_LINES),
    BUNDLE("bundle_tags", "tagmanifest-sha256.txt", KG_FUZZ_LINES),
    BUNDLE("bundle_statement", "statement.intoto.json", KG_FUZZ_JSON),
    STORE("chain", ".chain", KG_FUZZ_LINES, 100),
    STORE("tombstone", "tombstones/20200101T000000Z-nogit-00000001.json", KG_FUZZ_JSON, 100),
    STORE("left_out", "left-out.txt", KG_FUZZ_LINES, 500),
    STORE("policy", "kigo.policy.json", KG_FUZZ_JSON, 200),
    STORE("annotation", "annotations/a.json", KG_FUZZ_JSON, 200),
    STORE("signoff", "signoffs/s.json", KG_FUZZ_JSON, 200),
    STORE("signoff_statement", "signed/statement.intoto.json", KG_FUZZ_JSON, 300),
    STORE("checkpoint", "checkpoint.json", KG_FUZZ_JSON, 100),
    STORE("sprint", "sprint.json", KG_FUZZ_JSON, 200),
    { "archive", kg_fuzz_archive, kg_fuzz_archive_seeds, KG_FUZZ_TAR, NULL, 1000, 400 },
    { "archive_compressed", kg_fuzz_archive, kg_fuzz_compressed_seeds, KG_FUZZ_BYTES, NULL, 500, 100 },
    { "zstd", kg_fuzz_zstd, kg_fuzz_zstd_seeds, KG_FUZZ_BYTES, NULL, 2000, 500 },
    { "ncu", kg_fuzz_ncu, kg_fuzz_ncu_seeds, KG_FUZZ_LINES, NULL, 4000, 100 },
};
const size_t KG_FUZZ_N_TARGETS = sizeof KG_FUZZ_TARGETS / sizeof *KG_FUZZ_TARGETS;

const struct kg_fuzz_target *kg_fuzz_find(const char *name) {
    for (size_t i = 0; i < KG_FUZZ_N_TARGETS; i++)
        if (strcmp(KG_FUZZ_TARGETS[i].name, name) == 0) return &KG_FUZZ_TARGETS[i];
    return NULL;
}
