/* kigo export: a bundle as one file. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/transfer.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct export_options {
    const char *bundles, *output;
    bool json;
};

static enum kg_status answer(const char *dir, const char *path, bool json, struct kg_error *err) {
    char sha256[KG_SHA256_HEX_SIZE];
    struct stat info = { 0 };
    const enum kg_status status = kg_sha256_file(path, sha256, err);
    if (status != KG_OK) return status;
    if (stat(path, &info) != 0) return kg_fail(err, KG_ERR_IO, "%s went away", path);
    if (json)
        return kg_cli_print_json(json_pack("{s:o, s:o, s:I, s:s}", "dir", kg_json_utf8(dir), "file", kg_json_utf8(path),
                                           "size_bytes", (json_int_t)info.st_size, "sha256", sha256),
                                 err);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "%s: %s, SHA-256 %s\n", path, kg_quantity_bytes((double)info.st_size).text, sha256);
    return kg_cli_print(&out, err);
}

static enum kg_status export_run(const struct export_options *o, const char *run, struct kg_error *err) {
    char *dir = NULL, *path = NULL;
    enum kg_status status = kg_cli_bundle_find(kg_cli_bundles_root(o->bundles), run, &dir, err);
    if (status == KG_OK) {
        char *real = realpath(dir, NULL);
        path = o->output ? kg_xstrdup(o->output) : kg_xasprintf("%s.tar.zst", real ? strrchr(real, '/') + 1 : "bundle");
        free(real);
        status = kg_bundle_export(dir, path, err);
    }
    if (status == KG_OK) status = answer(dir, path, o->json, err);
    free(path);
    free(dir);
    return status;
}

int kg_cmd_export(int argc, char **argv) {
    struct export_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.output,
          .metavar = "FILE",
          .help = "the archive, .tar or .tar.zst (<id>.tar.zst here)" },
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo export",
        .usage = "RUN [-o FILE] [--bundles DIR] [--json]",
        .summary = "Writes a bundle that verifies to one file, its signature with it. The same bundle gives the same\n"
                   "bytes (compressed ones by the same libzstd). 'kigo import' takes it in.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    return export_run(&o, run, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("export", &err);
}
