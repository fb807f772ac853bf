/* kigo inspect as its users run it: what it prints is what the file holds, and bad files end it with the right code. */
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/support/tiny_model.h"
#include "suites/support/gguf_image.h"
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 6 };

static struct kg_process_result inspect(const char *const args[]) {
    const char *argv[MAX_ARGS + 3] = { kg_program_path(), "inspect" };
    struct kg_process_result result;
    struct kg_error err = { 0 };
    for (int i = 0; i < MAX_ARGS && args[i]; i++) argv[i + 2] = args[i];
    const struct kg_process process = { .argv = argv };
    ck_assert_msg(kg_process_run(&process, &result, &err) == KG_OK, "%s", err.message);
    return result;
}

#define INSPECT(...) inspect((const char *const[MAX_ARGS + 1]){ __VA_ARGS__, NULL })

/* jansson holds no whole number above 2^63, so all are read as reals. */
static json_t *inspect_json(const char *path, const char *option) {
    struct kg_process_result r = INSPECT("--json", path, option);
    json_error_t problem;
    ck_assert_msg(r.exit_code == 0 && r.err_len == 0, "exit code %d, %s", r.exit_code, r.err);
    ck_assert_ptr_eq(strchr(r.out, '\n'), r.out + r.out_len - 1); /* one line */
    json_t *all = json_loads(r.out, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &problem);
    ck_assert_msg(all != NULL, "%s at byte %d of: %s", problem.text, problem.position, r.out);
    kg_process_result_free(&r);
    return all;
}

static const json_t *value_of(const json_t *all, const char *key) {
    const json_t *value = json_object_get(json_object_get(json_object_get(all, "metadata"), key), "value");
    ck_assert_msg(value != NULL, "key %s is not shown", key);
    return value;
}

static char *write_image(const struct kg_record *rec, const char *script) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_error err = { 0 };
    char *path = kg_path_join(kg_scratch_dir(rec), "image.gguf");
    kg_image_build(&image, script);
    ck_assert_int_eq(kg_file_write(path, image.data, image.len, &err), KG_OK);
    kg_buffer_free(&image);
    return path;
}

static void json_holds_all_of_the_file(struct kg_record *rec, const void *arg) {
    const struct {
        const char *type;
        int n_tensors, n_params, size_bytes;
    } types[] = { { "F32", 3, 217, 868 }, { "F16", 1, 96, 192 }, { "BF16", 1, 96, 192 }, { "Q8_0", 1, 96, 102 },
                  { "Q4_0", 1, 96, 54 },  { "Q5_0", 1, 96, 66 }, { "MXFP4", 1, 96, 51 } };
    (void)rec, (void)arg;
    json_t *all = inspect_json(kg_fixture_path("formats/other-writer.gguf"), NULL);
    ck_assert_int_eq((int)json_number_value(json_object_get(all, "version")), 3);
    ck_assert_int_eq((int)json_number_value(json_object_get(all, "alignment")), 64);
    ck_assert_int_eq((int)json_number_value(json_object_get(all, "n_keys")), 26);
    ck_assert_int_eq((int)json_number_value(json_object_get(all, "n_params")), 793);
    ck_assert_int_eq((int)json_number_value(json_object_get(all, "tensor_bytes")), 1525);
    ck_assert_uint_eq(json_object_size(json_object_get(all, "metadata")), 26);
    ck_assert_double_eq(json_number_value(value_of(all, "scalar.i64")), -0x1p63);
    ck_assert_double_eq(json_real_value(value_of(all, "scalar.f64")), 0.1);
    ck_assert(json_is_true(value_of(all, "scalar.bool")));
    ck_assert_str_eq(json_string_value(value_of(all, "scalar.string")), "haiku \u4ff3\u53e5 \U0001f343");
    ck_assert_uint_eq(json_array_size(value_of(all, "array.string")), 4);
    ck_assert_str_eq(json_string_value(json_array_get(value_of(all, "array.string"), 3)), "two words");
    const json_t *by_type = json_object_get(all, "types"), *tensors = json_object_get(all, "tensors");
    ck_assert_uint_eq(json_object_size(by_type), KG_COUNT_OF(types));
    for (size_t i = 0; i < KG_COUNT_OF(types); i++) {
        const json_t *t = json_object_get(by_type, types[i].type);
        ck_assert_int_eq((int)json_number_value(json_object_get(t, "n_tensors")), types[i].n_tensors);
        ck_assert_int_eq((int)json_number_value(json_object_get(t, "n_params")), types[i].n_params);
        ck_assert_int_eq((int)json_number_value(json_object_get(t, "size_bytes")), types[i].size_bytes);
    }
    ck_assert_uint_eq(json_array_size(tensors), 9);
    const json_t *deep = json_array_get(tensors, 8);
    ck_assert_str_eq(json_string_value(json_object_get(deep, "name")), "deep.f32");
    for (size_t d = 0; d < 4; d++)
        ck_assert_int_eq((int)json_number_value(json_array_get(json_object_get(deep, "dims"), d)), 5 - (int)d);
    json_decref(all);
}

static void json_keeps_u64(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path = write_image(rec, "=GGUF 3.4 0.8 1.8 ~big 10.4 0xffffffffffffffff.8");
    struct kg_process_result r = INSPECT("--json", path);
    ck_assert_ptr_nonnull(strstr(r.out, "\"value\":18446744073709551615}"));
    kg_process_result_free(&r);
    free(path);
}

/* Twelve elements are shown, of more the first six. */
static void long_arrays_are_cut(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path =
        write_image(rec, "=GGUF 3.4 0.8 2.8 ~twelve 9.4 0.4 12.8 1.1 2.1 3.1 4.1 5.1 6.1 7.1 8.1 9.1 10.1 11.1 12.1 "
                         "~thirteen 9.4 0.4 13.8 1.1 2.1 3.1 4.1 5.1 6.1 7.1 8.1 9.1 10.1 11.1 12.1 13.1");
    struct kg_process_result r = INSPECT("--keys", path);
    ck_assert_msg(strstr(r.out, " [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n") != NULL, "%s%s", r.out, r.err);
    ck_assert_msg(strstr(r.out, " [1, 2, 3, 4, 5, 6, ...]\n") != NULL, "%s", r.out);
    kg_process_result_free(&r);
    free(path);
}

static void json_of_bytes_that_are_no_utf8(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path = write_image(rec, "=GGUF 3.4 1.8 4.8 2.8 =a 0xff.1 8.4 4.8 =x 0x80.1 0.1 =y 2.8 =a 0xfe.1 0.4 1.1 "
                                  "~nan 6.4 0x7fc00000.4 ~quote 8.4 ~\"\\ 2.8 =w 0xff.1 1.4 1.8 0.4 0.8 @32 *4");
    json_t *all = inspect_json(path, NULL);
    ck_assert_uint_eq(json_object_size(json_object_get(all, "metadata")), 4);
    const json_t *text = value_of(all, "a\\xFF");
    ck_assert_uint_eq(json_string_length(text), 6);
    ck_assert_mem_eq(json_string_value(text), "x\uFFFD\0y", 6);
    ck_assert_int_eq((int)json_number_value(value_of(all, "a\\xFE")), 1);
    ck_assert_str_eq(json_string_value(value_of(all, "nan")), "NaN");
    ck_assert_str_eq(json_string_value(value_of(all, "quote")), "\"\\");
    const json_t *tensor = json_array_get(json_object_get(all, "tensors"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(tensor, "name")), "w\\xFF");
    json_decref(all);
    struct kg_process_result r = INSPECT(path);
    ck_assert_int_eq(r.exit_code, 0);
    ck_assert(kg_utf8_valid(r.out, r.out_len));
    ck_assert_ptr_nonnull(strstr(r.out, "\"x\\x80\\x00y\""));
    kg_process_result_free(&r);
    free(path);
}

/* Control characters, DEL and U+0080 to U+009F are written by their number; what is next to them stands as it is. */
static void control_characters_of_texts(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path =
        write_image(rec, "=GGUF 3.4 0.8 1.8 ~k 8.4 10.8 0x1f.1 =!~ 0x7f.1 0xc2.1 0x80.1 0xc2.1 0x9f.1 0xc2.1 0xa0.1");
    struct kg_process_result r = INSPECT(path);
    ck_assert_int_eq(r.exit_code, 0);
    ck_assert_msg(strstr(r.out, "\"\\x1F!~\\u007F\\u0080\\u009F\u00a0\"") != NULL, "%s", r.out);
    kg_process_result_free(&r);
    free(path);
}

/* A hundred elements are abbreviated and say so; --full shows them. A text of 10,000 bytes is a scalar: never cut in
 * JSON. */
static void json_abbreviates_arrays_not_scalars(struct kg_record *rec, const void *arg) {
    struct kg_buffer script = KG_BUFFER_INIT;
    (void)arg;
    kg_buffer_puts(&script, "=GGUF 3.4 0.8 2.8 ~long 8.4 ~");
    for (int i = 0; i < 10000; i++) kg_buffer_puts(&script, "x");
    kg_buffer_puts(&script, " ~many 9.4 4.4 100.8");
    for (int i = 0; i < 100; i++) kg_buffer_printf(&script, " %d.4", i * i);
    char *path = write_image(rec, script.data);
    json_t *brief = inspect_json(path, NULL), *full = inspect_json(path, "--full");
    ck_assert_uint_eq(json_string_length(value_of(brief, "long")), 10000);
    const json_t *many = json_object_get(json_object_get(brief, "metadata"), "many");
    ck_assert_int_eq((int)json_number_value(json_object_get(many, "n")), 100);
    ck_assert(json_is_false(json_object_get(many, "complete")));
    ck_assert_uint_lt(json_array_size(value_of(brief, "many")), 100);
    ck_assert_uint_eq(json_array_size(value_of(full, "many")), 100);
    for (size_t i = 0; i < 100; i++)
        ck_assert_int_eq((int)json_number_value(json_array_get(value_of(full, "many"), i)), (int)(i * i));
    ck_assert(json_is_true(json_object_get(json_object_get(json_object_get(full, "metadata"), "many"), "complete")));
    json_decref(full);
    json_decref(brief);
    free(path);
    kg_buffer_free(&script);
}

static void text_shows_the_parts_asked_for(struct kg_record *rec, const void *arg) {
    const char *path = kg_fixture_path("formats/other-writer.gguf");
    const struct {
        const char *option;
        bool keys, tensors;
    } rows[] = { { NULL, true, true }, { "--keys", true, false }, { "--tensors", false, true } };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        struct kg_process_result r = INSPECT(path, rows[i].option);
        ck_assert_int_eq(r.exit_code, 0);
        ck_assert_int_eq(strstr(r.out, "scalar.u16") != NULL, rows[i].keys);
        ck_assert_int_eq(strstr(r.out, "ramp.Q8_0") != NULL, rows[i].tensors);
        ck_assert_ptr_nonnull(strstr(r.out, "793 parameters"));
        kg_process_result_free(&r);
        json_t *all = inspect_json(path, rows[i].option);
        ck_assert_int_eq(json_object_get(all, "metadata") != NULL, rows[i].keys);
        ck_assert_int_eq(json_object_get(all, "tensors") != NULL, rows[i].tensors);
        json_decref(all);
    }
}

struct failing_row {
    const char *name;
    const char *script;  /* of a file, or NULL */
    const char *word[2]; /* instead of one */
    int exit_code;
    const char *message;
};
static const struct failing_row FAILURES[] = {
    { "no_such_file", NULL, { "/nowhere/at/all.gguf" }, 2, "kigo inspect: cannot open /nowhere/at/all.gguf" },
    { "a_folder", NULL, { "/" }, 2, "not a regular file" },
    { "no_file_given", NULL, { NULL }, 2, "too few arguments" },
    { "two_files", NULL, { "/a", "/b" }, 2, "too many arguments" },
    { "unknown_option", NULL, { "--tensor" }, 2, "unknown option '--tensor'" },
    { "no_gguf_file", "=PK34 *100", { NULL }, 4, "begins with 'PK" },
    { "empty_file", "", { NULL }, 4, "truncated" },
    { "truncated", "=GGUF 3.4 1.8 0.8 ~w 1.4 4.8 0.4 0.8 @32 *15", { NULL }, 4, "truncated: tensor 'w'" },
    { "version_1", "=GGUF 1.4 0.4 0.4", { NULL }, 4, "GGUF version 1" },
    { "unread_type", "=GGUF 3.4 1.8 0.8 ~w 1.4 256.8 10.4 0.8 @32 *84", { NULL }, 2, "tensor 'w': type Q2_K (10)" },
};

static void fails_with_its_code(struct kg_record *rec, const void *arg) {
    const struct failing_row *row = arg;
    char *path = row->script ? write_image(rec, row->script) : NULL;
    for (int json = 0; json < 2; json++) {
        struct kg_process_result r = path ? INSPECT(path, json ? "--json" : NULL)
                                          : INSPECT(json ? "--json" : row->word[0], json ? row->word[0] : row->word[1],
                                                    json ? row->word[1] : NULL);
        ck_assert_msg(r.exit_code == row->exit_code, "exit code %d, %s", r.exit_code, r.err);
        ck_assert_uint_eq(r.out_len, 0);
        ck_assert_msg(strstr(r.err, row->message) != NULL, "'%s' lacks '%s'", r.err, row->message);
        if (path) ck_assert_ptr_nonnull(strstr(r.err, path));
        kg_process_result_free(&r);
    }
    free(path);
}

static void full_standard_output_is_an_error(struct kg_record *rec, const void *arg) {
    const char *const argv[] = { "/bin/sh",
                                 "-c",
                                 "exec \"$0\" inspect \"$1\" >/dev/full",
                                 kg_program_path(),
                                 kg_fixture_path("formats/other-writer.gguf"),
                                 NULL };
    const struct kg_process process = { .argv = argv };
    struct kg_process_result r;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_int_eq(kg_process_run(&process, &r, &err), KG_OK);
    ck_assert_int_eq(r.exit_code, 5);
    ck_assert_ptr_nonnull(strstr(r.err, "cannot write to standard output"));
    kg_process_result_free(&r);
}

/* What is computed, printed as text and as JSON. */
static void numbers_of_gpt_oss(const json_t *model) {
    static const struct {
        const char *of, *name;
        double value;
    } NUMBERS[] = {
        { "rope", "n_rot", 24 },       { "rope", "original_context", 4096 }, { "rope", "position_scale", 1 },
        { "rope", "yarn_factor", 32 }, { "rope", "magnitude", 1.3465736 },   { "swiglu", "limit", 7 },
        { "swiglu", "alpha", 1.702 },  { "swiglu", "up_offset", 1 }
    };
    for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) {
        const json_t *number = json_object_get(json_object_get(model, NUMBERS[i].of), NUMBERS[i].name);
        ck_assert_msg(json_is_number(number), "%s has no %s", NUMBERS[i].of, NUMBERS[i].name);
        ck_assert_double_eq_tol(json_number_value(number), NUMBERS[i].value, 1e-6);
    }
}

static void model_is_told(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const struct {
        struct kg_tiny_model model;
        const char *says[4];
        int n_sliding;
    } ROWS[] = {
        { KG_TINY_PHI3, { "window of 9 keys on all layers", "llama.cpp ignores it", "swiglu", "RMS norms" }, 2 },
        { KG_TINY_GPT_OSS,
          { "window of 9 keys on all layers but one in 2, sinks", "5 experts, of which 2 run",
            "YaRN by 32 from 4096 positions, its ramp not rounded, magnitude 1.3465",
            "clamped at 7, alpha 1.702, up + 1" },
          2 },
        { KG_TINY_GPT2, { "learned, 64", "gelu (tanh)", "layer norms", "tied to the embedding" }, 0 },
    };
    char *path = kg_path_join(kg_scratch_dir(rec), "tiny.gguf");
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        kg_tiny_model_write(path, &ROWS[i].model, NULL, 0);
        struct kg_process_result r = INSPECT(path);
        for (size_t j = 0; j < KG_COUNT_OF(ROWS[i].says); j++)
            ck_assert_msg(strstr(r.out, ROWS[i].says[j]) != NULL, "'%s' does not say '%s'", r.out, ROWS[i].says[j]);
        json_t *all = inspect_json(path, NULL);
        const json_t *model = json_object_get(all, "model");
        ck_assert_str_eq(json_string_value(json_object_get(model, "architecture")), ROWS[i].model.architecture);
        ck_assert_int_eq((int)json_array_size(json_object_get(model, "sliding_layers")), ROWS[i].n_sliding);
        ck_assert_int_eq((int)json_number_value(json_object_get(model, "n_experts")), (int)ROWS[i].model.n_experts);
        if (strcmp(ROWS[i].model.architecture, "gpt-oss") == 0) numbers_of_gpt_oss(model);
        json_decref(all);
        kg_process_result_free(&r);
    }
    free(path);
}

/* A file must not have billions of layers listed whose tensors it lacks. */
static void made_up_layers_are_not_listed(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const struct kg_tiny_edit MANY = { .name = "gpt-oss.block_count",
                                              .change = KG_TINY_KEY_U32,
                                              .number = 2147483648.0 };
    const struct kg_tiny_model tiny = KG_TINY_GPT_OSS;
    char *path = kg_path_join(kg_scratch_dir(rec), "tiny.gguf");
    kg_tiny_model_write(path, &tiny, &MANY, 1);
    json_t *all = inspect_json(path, NULL);
    const char *why = json_string_value(json_object_get(json_object_get(all, "model"), "refused"));
    ck_assert_msg(why && strstr(why, "gpt-oss.block_count is 2147483648"), "'%s'", why ? why : "not refused");
    json_decref(all);
    free(path);
}

/* docs/plan.md has the plan of the fixture model, line by line as printed. */
static void plan_is_as_documented(struct kg_record *rec, const void *arg) {
    static const char MODEL[] = "haiku-qwen2/haiku-qwen2-f16.gguf";
    struct kg_process_result r = INSPECT("--plan", kg_fixture_path(MODEL), "--backend", "cpu");
    char *page, *command = kg_xasprintf("    $ kigo inspect --plan fixtures/unpacked/%s --backend cpu\n", MODEL);
    size_t n_bytes;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_msg(r.exit_code == 0 && r.err_len == 0, "exit code %d, %s", r.exit_code, r.err);
    ck_assert_msg(kg_file_read(kg_fixture_path("../docs/plan.md"), &page, &n_bytes, &err) == KG_OK, "%s", err.message);
    const char *at = strstr(page, command);
    ck_assert_ptr_nonnull(at);
    at += strlen(command);
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n")) {
        while (*at == '\n') at++;
        const size_t n = strcspn(at, "\n");
        ck_assert_msg(n == strlen(line) + 4 && strncmp(at, "    ", 4) == 0 && strncmp(at + 4, line, n - 4) == 0,
                      "printed:\n%s\ndocumented:\n%.*s", line, (int)n, at);
        at += n;
    }
    ck_assert_msg(strncmp(at, "\n\n", 2) == 0 && at[2] != ' ', "more is documented than printed: %.80s", at);
    free(command);
    free(page);
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *list) {
    const struct kg_case cases[] = {
        { .name = "json_holds_all_of_the_file", .run = json_holds_all_of_the_file },
        { .name = "made_up_layers_are_not_listed", .run = made_up_layers_are_not_listed, .timeout_s = 10 },
        { .name = "json_keeps_u64", .run = json_keeps_u64 },
        { .name = "control_characters_of_texts", .run = control_characters_of_texts },
        { .name = "long_arrays_are_cut", .run = long_arrays_are_cut },
        { .name = "json_of_bytes_that_are_no_utf8", .run = json_of_bytes_that_are_no_utf8 },
        { .name = "json_abbreviates_arrays_not_scalars", .run = json_abbreviates_arrays_not_scalars },
        { .name = "text_shows_the_parts_asked_for", .run = text_shows_the_parts_asked_for },
        { .name = "full_standard_output_is_an_error", .run = full_standard_output_is_an_error },
        { .name = "model_is_told", .run = model_is_told },
        { .name = "plan_is_as_documented", .source_tree = true, .run = plan_is_as_documented },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "integration", c.op = "inspect";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(FAILURES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "inspect",
                                                  .name = FAILURES[i].name,
                                                  .run = fails_with_its_code,
                                                  .arg = &FAILURES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
