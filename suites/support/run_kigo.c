#include "suites/support/run_kigo.h"
#include "suites/support/edit_model.h"
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SLOTS = 32 }; /* program, arguments, NULL */

static void must_write(const char *path, const char *data, size_t size) {
    FILE *const file = fopen(path, "wb");
    ck_assert_msg(file && fwrite(data, 1, size, file) == size, "%s", path);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_cut(const char *path) {
    char *bytes;
    size_t size;
    struct kg_error err = { 0 };
    kg_must(kg_file_read(kg_fixture_path(KG_HAIKU_MODEL), &bytes, &size, &err), &err);
    must_write(path, bytes, 100000);
    free(bytes);
}

/* The path an argument stands for, malloc'ed; the file is made if need be. */
static char *resolve(const struct kg_record *rec, const char *arg) {
    static const struct {
        const char *name;
        struct kg_model_edit edit;
    } EDITS[] = {
        { VOCABULARY, { .no_tensors = true } },
        { LYING_MODEL, { .tensor = "blk.1.attn_k.weight", .how = KG_TENSOR_DROP } },
        { NAN_MODEL, { .tensor = "blk.1.attn_v.weight", .how = KG_TENSOR_NAN } },
        { ODD_NAME_MODEL, { .str_key = "general.name", .str = "\xff\xfe odd" } },
    };
    if (arg[0] != '@') return kg_xstrdup(arg);
    if (strcmp(arg, MODEL) == 0) return kg_xstrdup(kg_fixture_path(KG_HAIKU_MODEL));
    char *const path = kg_xasprintf("%s/%s", kg_scratch_dir(rec), arg + 1);
    struct kg_error err = { 0 };
    for (size_t i = 0; i < KG_COUNT_OF(EDITS); i++)
        if (strcmp(arg, EDITS[i].name) == 0)
            kg_must(kg_model_edit(kg_fixture_path(KG_HAIKU_MODEL), path, &EDITS[i].edit, &err), &err);
    if (strcmp(arg, CUT_MODEL) == 0) make_cut(path);
    if (strcmp(arg, TEXT_FILE) == 0) must_write(path, "the old pond\n", 13);
    return path;
}

/* Verbs that run a model take the reference unless the row says otherwise: their numbers are compared bit for bit. */
static bool leaves_backend_open(const char *const *args) {
    if (!args[0] ||
        (strcmp(args[0], "generate") != 0 && strcmp(args[0], "logits") != 0 && strcmp(args[0], "chat") != 0))
        return false;
    for (; *args; args++)
        if (strncmp(*args, "--backend", 9) == 0) return false;
    return true;
}

struct kg_process_result kg_run_kigo(const struct kg_record *rec, const char *const *args, struct kg_process process) {
    char *owned[MOST_SLOTS] = { kg_xstrdup(kg_program_path()) };
    size_t n = 1;
    for (; args[n - 1]; n++) {
        ck_assert_uint_lt(n, MOST_SLOTS - 1);
        owned[n] = resolve(rec, args[n - 1]);
    }
    if (leaves_backend_open(args)) {
        ck_assert_uint_lt(n, MOST_SLOTS - 2);
        owned[n++] = kg_xstrdup("--backend");
        owned[n++] = kg_xstrdup("cpu");
    }
    struct kg_process_result result;
    struct kg_error err = { 0 };
    process.argv = (const char *const *)owned;
    if (process.input && process.input_len == 0) process.input_len = strlen(process.input);
    kg_must(kg_process_run(&process, &result, &err), &err);
    for (size_t i = 0; i < n; i++) free(owned[i]);
    ck_assert_msg(!result.timed_out, "kigo %s: timed out; it had written \"%s\" and \"%s\"", args[0], result.out,
                  result.err);
    return result;
}
