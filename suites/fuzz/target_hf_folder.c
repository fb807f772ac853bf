/* The files of a Hugging Face folder that are no tensors: the vocabulary is converted as `kigo convert --vocab-only`
 * does, and read back; the weights' index is opened. */
#include "suites/fuzz/readers.h"
#include "convert/hf_folder.h"
#include "convert/vocab.h"
#include "convert/vocab_source.h"
#include "suites/fuzz/folder.h"
#include <string.h>

static enum kg_status convert(const char *dir, struct kg_error *err) {
    struct kg_vocab_source source;
    struct kg_vocab_summary summary;
    enum kg_status status = kg_vocab_source_open(dir, &source, err);
    if (status != KG_OK) return status;
    struct kg_gguf_writer *writer = kg_gguf_writer_new(32);
    status = kg_convert_vocab_put(writer, &source, &summary, err);
    if (status == KG_OK) status = kg_convert_vocab_check(writer, "fuzz", err);
    kg_gguf_writer_free(writer);
    kg_vocab_source_close(&source);
    return status;
}

static enum kg_status open_folder(const char *dir, struct kg_error *err) {
    struct kg_hf_folder folder;
    const enum kg_status status = kg_hf_folder_open(dir, &folder, err);
    if (status == KG_OK) kg_hf_folder_close(&folder);
    return status;
}

KG_FUZZ_READER(hf_folder) {
    const struct kg_fuzz_folder *own = kg_fuzz_folder();
    struct kg_error err = { .status = KG_OK };
    kg_fuzz_put(own->hf, target->file, data, size);
    const bool is_index = strstr(target->file, "index") != NULL;
    const enum kg_status status = (is_index ? open_folder : convert)(own->hf, &err);
    kg_fuzz_restore(own->hf, kg_fuzz_folder_template()->hf, target->file);
    return status == KG_OK ? KG_OK : kg_fuzz_expect_error(&err);
}
