#include "suites/support/made_gpu.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/records.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

void kg_made_gpu(const char *dir, const char *name) {
    json_t *env = NULL;
    struct kg_error err;
    EXPECT_OK(kg_bundle_read_json(dir, "data/env.json", &env, &err), err);
    json_object_set_new(env, "gpus", name ? json_pack("[{s:s}]", "name", name) : json_null());
    char *path = kg_path_join(dir, "data/env.json"), *text = json_dumps(env, JSON_INDENT(2));
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
    kg_maker_rehash(dir);
    free(text);
    free(path);
    json_decref(env);
}
