#include "suites/harness/record.h"
#include <kigo/engine.h>

static void append_row(struct kg_record *rec, const char *tag, uint64_t peak_bytes, uint64_t left_bytes) {
    json_array_append_new(rec->memory, json_pack("{s:s, s:I, s:I}", "tag", tag, "peak_bytes", (json_int_t)peak_bytes,
                                                 "left_bytes", (json_int_t)left_bytes));
}

void kg_record_memory(struct kg_record *rec, const struct kg_memory_use *use) {
    for (int tag = 0; tag < KG_MEMORY_TAG_COUNT; tag++)
        append_row(rec, kg_memory_tag_name((enum kg_memory_tag)tag), use->peak_bytes[tag], use->current_bytes[tag]);
    append_row(rec, "total", use->total_peak_bytes, use->total_current_bytes);
}
