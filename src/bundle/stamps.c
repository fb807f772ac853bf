#include "bundle/stamps.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/tree.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Ten times the coarsest step of common file systems' clocks (a jiffy at 100 Hz). */
static const int64_t STEP_NS = 100 * 1000000;

struct stamping {
    struct kg_buffer text;
    int64_t before_ns; /* a change since then may hide behind another of the same step */
    bool settled;
};

static struct stamping begin(void) {
    return (struct stamping){ KG_BUFFER_INIT, kg_clock_utc_us() * 1000 - STEP_NS, true };
}

static void add(struct stamping *s, const struct kg_tree_entry *entry) {
    kg_buffer_printf(&s->text, "%d %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %s\n", (int)entry->kind,
                     entry->size_bytes, entry->inode, entry->mtime_ns, entry->ctime_ns, entry->path);
    s->settled = s->settled && entry->ctime_ns < s->before_ns;
}

static void end(struct stamping *s, struct kg_stamps *stamps) {
    kg_sha256_hex(kg_buffer_text(&s->text), s->text.len, stamps->sha256);
    stamps->settled = s->settled;
    kg_buffer_free(&s->text);
}

enum kg_status kg_stamps_of_tree(const char *dir, struct kg_stamps *stamps, struct kg_error *err) {
    struct stamping s = begin();
    struct kg_tree tree;
    const enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < tree.n_entries; i++) add(&s, &tree.entries[i]);
    kg_tree_free(&tree);
    end(&s, stamps);
    return KG_OK;
}

void kg_stamps_of_files(const char *dir, const char *const *names, struct kg_stamps *stamps) {
    struct stamping s = begin();
    for (size_t i = 0; names[i]; i++) {
        char *path = kg_path_join(dir, names[i]);
        struct kg_tree_entry entry;
        if (kg_tree_stat(path, &entry)) {
            entry.path = (char *)(uintptr_t)names[i];
            add(&s, &entry);
        } else {
            kg_buffer_printf(&s.text, "none %s\n", names[i]);
        }
        free(path);
    }
    end(&s, stamps);
}

bool kg_stamps_equal(const struct kg_stamps *a, const struct kg_stamps *b) {
    return strcmp(a->sha256, b->sha256) == 0;
}
