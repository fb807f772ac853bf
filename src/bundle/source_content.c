#include "bundle/source_content.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/tree.h"
#include <stdlib.h>
#include <string.h>

bool kg_source_counts(const char *path) {
    static const char *const ENDINGS[] = { ".c", ".h", ".cu", ".cuh", ".in", ".mk", ".py", ".sh", ".tsv", ".md" };
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < sizeof ENDINGS / sizeof *ENDINGS; i++)
        if (strcmp(ending, ENDINGS[i]) == 0) return strcmp(path, "bundle/build_info.h") != 0;
    return false;
}

void kg_source_content(const char *source_dir, struct kg_source_content *content) {
    static const char *const FOLDERS[] = { "kernels", "src", "suites" };
    struct kg_buffer lines = KG_BUFFER_INIT;
    bool good = true;
    *content = (struct kg_source_content){ "", 0 };
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        char *folder = kg_path_join(source_dir, FOLDERS[i]);
        struct kg_tree tree = { 0 };
        if (kg_path_is_dir(folder)) good = good && kg_tree_list(folder, &tree, NULL) == KG_OK;
        for (size_t k = 0; k < tree.n_entries && good; k++) {
            if (tree.entries[k].kind != KG_TREE_FILE || !kg_source_counts(tree.entries[k].path)) continue;
            char hex[KG_SHA256_HEX_SIZE];
            char *path = kg_path_join(folder, tree.entries[k].path);
            good = kg_sha256_file(path, hex, NULL) == KG_OK;
            free(path);
            kg_buffer_printf(&lines, "%s  %s/%s\n", hex, FOLDERS[i], tree.entries[k].path);
            content->n_files++;
        }
        kg_tree_free(&tree);
        free(folder);
    }
    if (good && content->n_files > 0) kg_sha256_hex(kg_buffer_text(&lines), lines.len, content->sha256);
    kg_buffer_free(&lines);
}
