#include "bundle/verify.h"
#include "base/io_errors.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum kg_status kg_bundle_verify(const char *dir, struct kg_bundle_findings *findings, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    *findings = (struct kg_bundle_findings){ NULL, 0 };
    struct stat target;
    if (stat(dir, &target) != 0) {
        const bool absent = errno == ENOENT || errno == ENOTDIR;
        return kg_fail(err, absent ? KG_ERR_NOT_FOUND : KG_ERR_IO, "%s: %s", dir,
                       absent ? "no such bundle" : strerror(errno));
    }
    if (!S_ISDIR(target.st_mode)) return kg_fail(err, KG_ERR_FORMAT, "%s is not a folder", dir);

    const unsigned n_before = kg_io_errors_of_memory();
    struct kg_tree tree;
    json_t *info = NULL;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status == KG_OK) status = kg_verify_bag(dir, &tree, &info, findings, err);
    if (status == KG_OK) kg_stored_verify(dir, &tree, findings);
    if (status == KG_OK) status = kg_verify_records(dir, &tree, info, findings, err);
    json_decref(info);
    kg_tree_free(&tree);
    if (status == KG_OK && kg_io_errors_of_memory() != n_before)
        status = kg_fail(err, KG_ERR_NO_MEMORY, "%s: no memory to verify it", dir);
    if (status != KG_OK) {
        kg_bundle_findings_free(findings);
        return status;
    }
    if (findings->n_items == 0) return KG_OK;
    const struct kg_bundle_finding *first = &findings->items[0];
    return kg_fail(err, KG_ERR_INTEGRITY, "%s: %zu finding%s, first: %s %s: %s", dir,
                   kg_bundle_findings_count(findings), findings->n_items == 1 ? "" : "s", first->what, first->path,
                   first->detail);
}
