/* Writing GGUF files: what was given comes back by the reader, and a file appears only whole. */
#include "format/gguf.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/gguf_image.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const float ROW[6] = { 1, 2, 3, 4, 5, 6 };
static const uint64_t DIMS[2] = { 3, 2 };

static char *path_in(const struct kg_record *rec, const char *name) {
    return kg_path_join(kg_scratch_dir(rec), name);
}

static void add_tensor(struct kg_gguf_writer *w, const char *name) {
    struct kg_error err = { 0 };
    ck_assert_msg(kg_gguf_writer_tensor(w, name, KG_DTYPE_F32, 2, DIMS, ROW, &err) == KG_OK, "%s", err.message);
}

static struct kg_gguf *finish_and_open(struct kg_gguf_writer *w, const char *path) {
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_gguf_writer_finish(w, path, &err) == KG_OK, "%s", err.message);
    kg_gguf_writer_free(w);
    ck_assert_msg(kg_gguf_open(path, &gguf, &err) == KG_OK, "%s", err.message);
    return gguf;
}

static void write_all_kinds(struct kg_gguf_writer *w, const void *blocks) {
    struct kg_error err = { 0 };
    const struct kg_str words[] = { { "a\0b", 3 }, { "", 0 }, { "\xff", 1 } };
    const int32_t ints[] = { -7, 2147483647 };
    const float floats[] = { 0.1f, -2.5f };
    kg_gguf_writer_u32(w, "u", 4000000000u);
    kg_gguf_writer_f32(w, "f", 0.1f);
    kg_gguf_writer_bool(w, "yes", true);
    kg_gguf_writer_bool(w, "no", false);
    kg_gguf_writer_str(w, "s", "two\0parts", 9);
    kg_gguf_writer_strings(w, "words", words, 3);
    kg_gguf_writer_strings(w, "no.words", NULL, 0);
    kg_gguf_writer_i32s(w, "ints", ints, 2);
    kg_gguf_writer_i32s(w, "no.ints", NULL, 0);
    kg_gguf_writer_f32s(w, "floats", floats, 2);
    add_tensor(w, "first");
    ck_assert_int_eq(kg_gguf_writer_tensor(w, "blocks", KG_DTYPE_Q8_0, 1, (const uint64_t[]){ 64 }, blocks, &err),
                     KG_OK);
    add_tensor(w, "last");
}

static void expect_all_kinds(const struct kg_gguf *gguf, const void *blocks) {
    struct kg_error err;
    uint32_t u;
    float f;
    bool yes, no;
    struct kg_str s;
    const struct kg_gguf_key *words, *ints, *floats;
    ck_assert_int_eq(kg_gguf_get_u32(gguf, "u", &u, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_f32(gguf, "f", &f, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_bool(gguf, "yes", &yes, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_bool(gguf, "no", &no, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_str(gguf, "s", &s, &err), KG_OK);
    ck_assert(u == 4000000000u && f == 0.1f && yes && !no);
    ck_assert_uint_eq(s.len, 9);
    ck_assert_mem_eq(s.data, "two\0parts", 9);
    ck_assert_int_eq(kg_gguf_get_array(gguf, "words", KG_GGUF_STRING, &words, &err), KG_OK);
    ck_assert_uint_eq(words->value.array.n, 3);
    ck_assert_mem_eq(words->value.array.strings[0].data, "a\0b", 3);
    ck_assert_uint_eq(words->value.array.strings[1].len, 0);
    ck_assert_mem_eq(words->value.array.strings[2].data, "\xff", 1);
    ck_assert_int_eq(kg_gguf_get_array(gguf, "no.words", KG_GGUF_STRING, &words, &err), KG_OK);
    ck_assert_uint_eq(words->value.array.n, 0);
    ck_assert_int_eq(kg_gguf_get_array(gguf, "ints", KG_GGUF_I32, &ints, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_array_int(ints, 0), -7);
    ck_assert_int_eq(kg_gguf_array_int(ints, 1), 2147483647);
    ck_assert_int_eq(kg_gguf_get_array(gguf, "floats", KG_GGUF_F32, &floats, &err), KG_OK);
    ck_assert_double_eq(kg_gguf_array_float(floats, 0), 0.1f);
    ck_assert_double_eq(kg_gguf_array_float(floats, 1), -2.5);
    ck_assert_uint_eq(kg_gguf_n_tensors(gguf), 3);
    ck_assert_mem_eq(kg_gguf_find_tensor(gguf, "first")->data, ROW, sizeof ROW);
    ck_assert_mem_eq(kg_gguf_find_tensor(gguf, "blocks")->data, blocks, 68);
    ck_assert_mem_eq(kg_gguf_find_tensor(gguf, "last")->data, ROW, sizeof ROW);
}

/* arg: the alignment, as a pointer to uint32_t. */
static void round_trip(struct kg_record *rec, const void *arg) {
    const uint32_t alignment = *(const uint32_t *)arg;
    char *path = path_in(rec, "round.gguf");
    uint8_t blocks[68];
    for (int i = 0; i < 68; i++) blocks[i] = (uint8_t)(i + 1);
    struct kg_gguf_writer *w = kg_gguf_writer_new(alignment);
    write_all_kinds(w, blocks);
    struct kg_gguf *gguf = finish_and_open(w, path);
    ck_assert_uint_eq(kg_gguf_version(gguf), 3);
    ck_assert_uint_eq(kg_gguf_alignment(gguf), alignment);
    ck_assert(!kg_gguf_find_key(gguf, "general.alignment") == (alignment == 32));
    expect_all_kinds(gguf, blocks);
    kg_gguf_close(gguf);
    free(path);
}

static bool same_value(const struct kg_gguf_key *a, const struct kg_gguf_key *b) {
    if (a->type != b->type) return false;
    if (a->type == KG_GGUF_STRING)
        return a->value.s.len == b->value.s.len && memcmp(a->value.s.data, b->value.s.data, a->value.s.len) == 0;
    if (a->type == KG_GGUF_BOOL) return a->value.b == b->value.b;
    if (a->type != KG_GGUF_ARRAY) return a->value.u == b->value.u; /* the bits of f too */
    if (a->value.array.elem_type != b->value.array.elem_type || a->value.array.n != b->value.array.n) return false;
    for (uint64_t i = 0; i < a->value.array.n; i++) {
        const struct kg_str *x = a->value.array.strings, *y = b->value.array.strings;
        if (x ? x[i].len != y[i].len || memcmp(x[i].data, y[i].data, x[i].len) != 0
              : kg_gguf_array_float(a, i) != kg_gguf_array_float(b, i))
            return false;
    }
    return true;
}

/* Every key type of the sample and of the other writer's file survives a copy; the alignment is the writer's own. */
static void copied_keys(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_gguf *sources[2], *copy;
    struct kg_error err = { 0 };
    char *path = path_in(rec, "copy.gguf");
    (void)arg;
    kg_image_build_sample(&image, 2);
    ck_assert_int_eq(kg_gguf_parse(image.data, image.len, "sample", &sources[0], &err), KG_OK);
    ck_assert_int_eq(kg_gguf_open(kg_fixture_path("formats/other-writer.gguf"), &sources[1], &err), KG_OK);
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    size_t n_keys = 0;
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < kg_gguf_n_keys(sources[s]); i++)
            kg_gguf_writer_copy_key(w, kg_gguf_key_at(sources[s], i));
    copy = finish_and_open(w, path);
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < kg_gguf_n_keys(sources[s]); i++) {
            const struct kg_gguf_key *key = kg_gguf_key_at(sources[s], i);
            if (kg_str_eq(key->name, "general.alignment")) continue;
            ck_assert_msg(same_value(key, kg_gguf_key_at(copy, n_keys)), "'%.*s' differs", (int)key->name.len,
                          key->name.data);
            n_keys++;
        }
    }
    ck_assert_uint_eq(kg_gguf_n_keys(copy), n_keys);
    ck_assert_uint_eq(kg_gguf_alignment(copy), 32);
    kg_gguf_close(copy);
    for (int s = 0; s < 2; s++) kg_gguf_close(sources[s]);
    kg_buffer_free(&image);
    free(path);
}

/* What a writer refuses when it finishes. */
struct refusal {
    const char *name;
    uint32_t alignment;
    const char *key, *tensor; /* each written twice, or NULL */
    const char *message;
};
static const struct refusal REFUSALS[] = {
    { "duplicate_key", 32, "k", NULL, "duplicate key 'k'" },
    { "duplicate_tensor", 32, NULL, "w", "duplicate tensor 'w'" },
    { "empty_key", 32, "", NULL, "is empty" },
    { "own_key", 64, "general.alignment", NULL, "key 'general.alignment' is written by the writer itself" },
    { "alignment_0", 0, NULL, NULL, "alignment 0 is not a power of two" },
    { "alignment_48", 48, NULL, NULL, "alignment 48 is not a power of two" },
};

static void refused_by_finish(struct kg_record *rec, const void *arg) {
    const struct refusal *row = arg;
    struct kg_error err = { 0 };
    struct kg_dir_list left;
    char *path = path_in(rec, "bad.gguf");
    struct kg_gguf_writer *w = kg_gguf_writer_new(row->alignment);
    for (int twice = 0; twice < 2; twice++) {
        if (row->key) kg_gguf_writer_u32(w, row->key, 1);
        if (row->tensor) add_tensor(w, row->tensor);
    }
    ck_assert_int_ne(kg_gguf_writer_finish(w, path, &err), KG_OK);
    ck_assert_msg(strstr(err.message, row->message) && strstr(err.message, "bad.gguf"), "%s", err.message);
    ck_assert_int_eq(kg_dir_list(kg_scratch_dir(rec), &left, &err), KG_OK);
    ck_assert_uint_eq(left.n_names, 0);
    kg_dir_list_free(&left);
    kg_gguf_writer_free(w);
    free(path);
}

static void refused_tensors(struct kg_record *rec, const void *arg) {
    const struct {
        const char *name;
        enum kg_dtype dtype;
        uint32_t n_dims;
        uint64_t dims[4];
        const char *message;
    } rows[] = {
        { "", KG_DTYPE_F32, 1, { 1 }, "outside 1 to 63 bytes" },
        { "a name that is longer by one than the sixty-three bytes ggml read",
          KG_DTYPE_F32,
          1,
          { 1 },
          "outside 1 to 63" },
        { "w", KG_DTYPE_F32, 0, { 1 }, "tensor 'w': 0 dimensions" },
        { "w", KG_DTYPE_F32, 5, { 1, 1, 1, 1 }, "tensor 'w': 5 dimensions" },
        { "w", KG_DTYPE_F32, 2, { 1, 0 }, "dimension 1 is 0" },
        { "w", KG_DTYPE_MXFP4, 1, { 33 }, "a row of 33 elements" },
        { "w", KG_DTYPE_F32, 2, { UINT64_MAX / 4, 2 }, "overflows" },
    };
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        struct kg_error err = { 0 };
        ck_assert_int_ne(kg_gguf_writer_tensor(w, rows[i].name, rows[i].dtype, rows[i].n_dims, rows[i].dims, ROW, &err),
                         KG_OK);
        ck_assert_msg(strstr(err.message, rows[i].message) != NULL, "%zu: %s", i, err.message);
    }
    kg_gguf_writer_free(w);
}

/* A file that was there stays as it was until the new one is whole. */
static void failure_leaves_the_old_file(struct kg_record *rec, const void *arg) {
    struct kg_error err = { 0 };
    char *path = path_in(rec, "kept.gguf"), *text;
    size_t len;
    (void)arg;
    ck_assert_int_eq(kg_file_write(path, "old", 3, &err), KG_OK);
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    kg_gguf_writer_u32(w, "k", 1);
    kg_gguf_writer_u32(w, "k", 2);
    ck_assert_int_ne(kg_gguf_writer_finish(w, path, &err), KG_OK);
    ck_assert_int_eq(kg_file_read(path, &text, &len, &err), KG_OK);
    ck_assert_str_eq(text, "old");
    ck_assert_int_eq(kg_gguf_writer_finish(w, "/nowhere/at/all.gguf", &err), KG_ERR_FORMAT);
    kg_gguf_writer_free(w);
    w = kg_gguf_writer_new(32);
    ck_assert_int_eq(kg_gguf_writer_finish(w, "/nowhere/at/all.gguf", &err), KG_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/at/all.gguf"));
    kg_gguf_writer_free(w);
    free(text);
    free(path);
}

static void build(struct kg_case_list *list) {
    static const uint32_t ALIGNMENTS[] = { 1, 8, 32, 64, 8192 };
    static const char *const NAMES[] = { "round_trip_alignment_1", "round_trip_alignment_8", "round_trip_alignment_32",
                                         "round_trip_alignment_64", "round_trip_alignment_8192" };
    for (size_t i = 0; i < KG_COUNT_OF(ALIGNMENTS); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){
                .layer = "unit", .op = "gguf_writer", .name = NAMES[i], .run = round_trip, .arg = &ALIGNMENTS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(REFUSALS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "gguf_writer",
                                                  .name = REFUSALS[i].name,
                                                  .run = refused_by_finish,
                                                  .arg = &REFUSALS[i] });
    const struct kg_case cases[] = {
        { .name = "copied_keys", .run = copied_keys },
        { .name = "refused_tensors", .run = refused_tensors },
        { .name = "failure_leaves_the_old_file", .run = failure_leaves_the_old_file },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "gguf_writer";
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
