/* How much memory a bundle's folder takes while the index reads it, from the sizes of its files. Many folders are read
 * side by side: what one takes at its limits all of them may not. */
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/stored.h"
#include "history/folder.h"

/* Bytes that a JSON value takes. A record's is a node of 24 on a tape that doubles, and its share of the places of
 * lines and cases. A document's is jansson's: 32 of a number, 80 of a member, 300 of an object, which counts as three.
 */
enum { RECORD_VALUE_BYTES = 2 * 24 + 16, DOCUMENT_VALUE_BYTES = 120, LEAST_VALUE_CHARS = 2 };

static uint64_t values_in(uint64_t text_bytes, uint64_t most) {
    return text_bytes / LEAST_VALUE_CHARS < most ? text_bytes / LEAST_VALUE_CHARS : most;
}

struct kg_history_size kg_history_folder_size(const char *dir) {
    static const char *const RECORDS[] = { "data/plan.ndjson", "data/results.ndjson" };
    static const char *const DOCUMENTS[] = { "data/summary.json", "data/env.json", "data/build.json",
                                             "data/source.json" };
    struct kg_history_size size = { 0, 0 };
    for (size_t i = 0; i < KG_COUNT_OF(RECORDS); i++)
        size.records_bytes += kg_stored_most_bytes(dir, RECORDS[i], KG_MAX_RECORD_BYTES);
    size.records_bytes += values_in(size.records_bytes, KG_MAX_VALUES) * RECORD_VALUE_BYTES;
    for (size_t i = 0; i < KG_COUNT_OF(DOCUMENTS); i++) {
        const uint64_t text_bytes = kg_stored_most_bytes(dir, DOCUMENTS[i], KG_MAX_DOCUMENT_BYTES);
        size.documents_bytes += text_bytes + values_in(text_bytes, KG_MAX_DOCUMENT_VALUES) * DOCUMENT_VALUE_BYTES;
    }
    return size;
}
