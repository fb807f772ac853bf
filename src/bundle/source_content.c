#include "bundle/source_content.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/tree.h"
#include <stdlib.h>
#include <string.h>

bool kg_source_counts(const char *path) {
    static const char *const ENDINGS[] = { ".c", ".h", ".cu", ".cuh", ".in", ".mk", ".py", ".sh", ".tsv", ".md" };
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < KG_COUNT_OF(ENDINGS); i++)
        if (strcmp(ending, ENDINGS[i]) == 0) return strcmp(path, "bundle/build_info.h") != 0;
    return false;
}

enum kg_status kg_source_content(const char *source_dir, struct kg_source_content *content, struct kg_error *err) {
    static const char *const FOLDERS[] = { "kernels", "src", "suites" };
    struct kg_buffer lines = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    *content = (struct kg_source_content){ "", 0 };
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS) && status == KG_OK; i++) {
        char *folder = kg_path_join(source_dir, FOLDERS[i]);
        struct kg_tree tree = { 0 };
        if (kg_path_is_dir(folder)) status = kg_tree_list(folder, &tree, err);
        for (size_t k = 0; k < tree.n_entries && status == KG_OK; k++) {
            if (tree.entries[k].kind != KG_TREE_FILE || !kg_source_counts(tree.entries[k].path)) continue;
            char hex[KG_SHA256_HEX_SIZE] = "";
            char *path = kg_path_join(folder, tree.entries[k].path);
            status = kg_sha256_file(path, hex, err);
            free(path);
            kg_buffer_printf(&lines, "%s  %s/%s\n", hex, FOLDERS[i], tree.entries[k].path);
            content->n_files++;
        }
        kg_tree_free(&tree);
        free(folder);
    }
    if (status == KG_OK && content->n_files > 0) kg_sha256_hex(kg_buffer_text(&lines), lines.len, content->sha256);
    kg_buffer_free(&lines);
    return status;
}
