/* What the table of targets is made of: a function a reader, and who makes its seeds. */
#ifndef KIGO_SUITES_FUZZ_READERS_H
#define KIGO_SUITES_FUZZ_READERS_H

#include "suites/fuzz/targets.h"

#define KG_FUZZ_READER(name)                                                                                           \
    enum kg_status kg_fuzz_##name(const struct kg_fuzz_target *target, const uint8_t *data, size_t size)
#define KG_FUZZ_SEEDS(name)                                                                                            \
    size_t kg_fuzz_##name##_seeds(const struct kg_fuzz_target *target, struct kg_buffer seeds[KG_FUZZ_MAX_SEEDS])

KG_FUZZ_READER(gguf);       /* the file's parts, found again and shown */
KG_FUZZ_READER(model);      /* configuration and weights of a GGUF file */
KG_FUZZ_READER(vocabulary); /* the tokenizer of a GGUF file */
KG_FUZZ_READER(safetensors);
KG_FUZZ_READER(encode);    /* text of any bytes by the vocabulary target->file: valid UTF-8 comes back */
KG_FUZZ_READER(hf_config); /* config.json of a Hugging Face model */
KG_FUZZ_READER(
    hf_folder);       /* target->file of a Hugging Face folder: its vocabulary, converted and read back, its index */
KG_FUZZ_READER(json); /* base/json_tape.h takes what jansson takes */
KG_FUZZ_READER(manifest);
KG_FUZZ_READER(bag_info);
KG_FUZZ_READER(records); /* plan and result lines; the page that shows them */
KG_FUZZ_READER(bundle);  /* target->file of a sealed bundle, whose manifests hold: verified, shown, indexed */
KG_FUZZ_READER(store);   /* target->file beside the bundles */
KG_FUZZ_READER(
    archive);         /* a tar archive, its headers' checksums made right: what comes out lies where it was meant to */
KG_FUZZ_READER(zstd); /* a Zstandard frame */
KG_FUZZ_READER(ncu);  /* what Nsight Compute prints (suites/support/ncu_output.h) */

KG_FUZZ_SEEDS(gguf);
KG_FUZZ_SEEDS(model);
KG_FUZZ_SEEDS(byte_level);
KG_FUZZ_SEEDS(sentencepiece);
KG_FUZZ_SEEDS(safetensors);
KG_FUZZ_SEEDS(text);
KG_FUZZ_SEEDS(hf_config);
KG_FUZZ_SEEDS(hf_folder);
KG_FUZZ_SEEDS(json);
KG_FUZZ_SEEDS(manifest);
KG_FUZZ_SEEDS(bag_info);
KG_FUZZ_SEEDS(records);
KG_FUZZ_SEEDS(bundle);
KG_FUZZ_SEEDS(store);
KG_FUZZ_SEEDS(archive);
KG_FUZZ_SEEDS(compressed);
KG_FUZZ_SEEDS(zstd);
KG_FUZZ_SEEDS(ncu);

#endif
