/* Reading GGUF files: the reader returns what a file holds, whoever wrote it; a wrong question is an error. */
#include "format/gguf.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/gguf_image.h"
#include <check.h>
#include <math.h>
#include <string.h>

static struct kg_gguf *parse(const struct kg_buffer *image) {
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_gguf_parse(image->data, image->len, "sample", &gguf, &err) == KG_OK, "%s", err.message);
    return gguf;
}

static struct kg_gguf *parse_script(struct kg_buffer *image, const char *script) {
    kg_image_build(image, script);
    return parse(image);
}

static const struct kg_gguf_key *key_of(const struct kg_gguf *gguf, const char *name, enum kg_gguf_type type) {
    const struct kg_gguf_key *key = kg_gguf_find_key(gguf, name);
    ck_assert_msg(key != NULL, "key %s is not found", name);
    ck_assert_int_eq(key->type, type);
    return key;
}

static void expect_sample_keys(const struct kg_gguf *gguf) {
    ck_assert_uint_eq(kg_gguf_n_keys(gguf), 14);
    ck_assert_uint_eq(key_of(gguf, "k.u8", KG_GGUF_U8)->value.u, 200);
    ck_assert_int_eq(key_of(gguf, "k.i8", KG_GGUF_I8)->value.i, -100);
    ck_assert_uint_eq(key_of(gguf, "k.u16", KG_GGUF_U16)->value.u, 60000);
    ck_assert_int_eq(key_of(gguf, "k.i16", KG_GGUF_I16)->value.i, -30000);
    ck_assert_uint_eq(key_of(gguf, "k.u32", KG_GGUF_U32)->value.u, 4000000000u);
    ck_assert_int_eq(key_of(gguf, "k.i32", KG_GGUF_I32)->value.i, -2000000000);
    ck_assert_double_eq(key_of(gguf, "k.f32", KG_GGUF_F32)->value.f, 0.5);
    ck_assert(key_of(gguf, "k.bool", KG_GGUF_BOOL)->value.b);
    ck_assert(kg_str_eq(key_of(gguf, "k.str", KG_GGUF_STRING)->value.s, "text"));
    ck_assert_uint_eq(key_of(gguf, "k.u64", KG_GGUF_U64)->value.u, UINT64_MAX);
    ck_assert_int_eq(key_of(gguf, "k.i64", KG_GGUF_I64)->value.i, -9000000000);
    ck_assert_double_eq(key_of(gguf, "k.f64", KG_GGUF_F64)->value.f, -2.5);
    const struct kg_gguf_key *ints = key_of(gguf, "k.ints", KG_GGUF_ARRAY),
                             *strs = key_of(gguf, "k.strs", KG_GGUF_ARRAY);
    ck_assert_uint_eq(ints->value.array.n, 2);
    ck_assert_int_eq(kg_gguf_array_int(ints, 0), -1);
    ck_assert_int_eq(kg_gguf_array_int(ints, 1), 7);
    ck_assert(ints->value.array.strings == NULL);
    ck_assert_uint_eq(strs->value.array.n, 3);
    const char *const texts[] = { "a", "", "ccc" };
    for (size_t i = 0; i < 3; i++) ck_assert(kg_str_eq(strs->value.array.strings[i], texts[i]));
}

static void expect_tensor(const struct kg_gguf *gguf, const struct kg_buffer *image, const char *name,
                          const struct kg_gguf_tensor *want, size_t data_at) {
    const struct kg_gguf_tensor *t = kg_gguf_find_tensor(gguf, name);
    ck_assert_msg(t != NULL, "tensor %s is not found", name);
    ck_assert(kg_str_eq(t->name, name));
    ck_assert_int_eq(t->dtype, want->dtype);
    ck_assert_uint_eq(t->n_dims, want->n_dims);
    for (int d = 0; d < KG_GGUF_MAX_DIMS; d++) ck_assert_uint_eq(t->dims[d], want->dims[d]);
    ck_assert_uint_eq(t->n_elems, want->n_elems);
    ck_assert_uint_eq(t->size_bytes, want->size_bytes);
    ck_assert_uint_eq((size_t)((const char *)t->data - image->data), data_at);
}

/* arg: the version, as a pointer to unsigned. */
static void every_key_and_tensor(struct kg_record *rec, const void *arg) {
    const unsigned version = *(const unsigned *)arg;
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)rec;
    kg_image_build_sample(&image, version);
    struct kg_gguf *gguf = parse(&image);
    ck_assert_uint_eq(kg_gguf_version(gguf), version);
    ck_assert_uint_eq(kg_gguf_alignment(gguf), 32);
    ck_assert_str_eq(kg_gguf_path(gguf), "sample");
    expect_sample_keys(gguf);
    ck_assert_uint_eq(kg_gguf_n_tensors(gguf), 3);
    const struct kg_gguf_tensor a = {
        .dtype = KG_DTYPE_F32, .n_dims = 2, .dims = { 3, 2, 1, 1 }, .n_elems = 6, .size_bytes = 24
    };
    const struct kg_gguf_tensor b = {
        .dtype = KG_DTYPE_F16, .n_dims = 1, .dims = { 5, 1, 1, 1 }, .n_elems = 5, .size_bytes = 10
    };
    const struct kg_gguf_tensor c = {
        .dtype = KG_DTYPE_Q8_0, .n_dims = 1, .dims = { 32, 1, 1, 1 }, .n_elems = 32, .size_bytes = 34
    };
    const size_t data_at = image.len - 10 - 96;
    expect_tensor(gguf, &image, "a.f32", &a, data_at);
    expect_tensor(gguf, &image, "b.f16", &b, data_at + 96);
    expect_tensor(gguf, &image, "c.q8", &c, data_at + 32);
    ck_assert(kg_gguf_find_key(gguf, "k.u") == NULL);
    ck_assert(kg_gguf_find_tensor(gguf, "") == NULL);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

static void empty_file_of_no_keys(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    struct kg_gguf *gguf = parse_script(&image, "=GGUF 3.4 0.8 0.8");
    ck_assert_uint_eq(kg_gguf_n_keys(gguf), 0);
    ck_assert_uint_eq(kg_gguf_n_tensors(gguf), 0);
    ck_assert(kg_gguf_find_key(gguf, "any") == NULL);
    ck_assert(kg_gguf_find_tensor(gguf, "any") == NULL);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

/* The alignment decides where the data begins: 1 means right behind the last tensor's entry. */
static void alignment_of_one(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    struct kg_gguf *gguf = parse_script(&image, "=GGUF 3.4 2.8 1.8 ~general.alignment 4.4 1.4 "
                                                "~x 1.4 1.8 0.4 0.8 ~y 1.4 3.8 1.4 4.8 *10");
    ck_assert_uint_eq(kg_gguf_alignment(gguf), 1);
    ck_assert_ptr_eq(kg_gguf_find_tensor(gguf, "x")->data, image.data + image.len - 10);
    ck_assert_ptr_eq(kg_gguf_find_tensor(gguf, "y")->data, image.data + image.len - 6);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

static void large_alignment_of_another_type(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    struct kg_gguf *gguf = parse_script(&image, "=GGUF 2.4 1.8 1.8 ~general.alignment 10.4 4096.8 "
                                                "~x 1.4 1.8 0.4 0.8 @4096 *4");
    ck_assert_uint_eq(kg_gguf_alignment(gguf), 4096);
    ck_assert_ptr_eq(kg_gguf_find_tensor(gguf, "x")->data, image.data + 4096);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

static void names_beyond_ascii_and_nul(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    struct kg_gguf *gguf = parse_script(&image, "=GGUF 3.4 0.8 2.8 3.8 =a 0.1 =b 0.4 1.1 2.8 0x80.1 0xff.1 0.4 2.1");
    ck_assert_uint_eq(kg_gguf_find_key(gguf, "\x80\xff")->value.u, 2);
    ck_assert_uint_eq(kg_gguf_key_at(gguf, 0)->name.len, 3);
    ck_assert(kg_gguf_find_key(gguf, "a") == NULL);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

/* Getters: each row asks the sample for a key in one way. */
enum asked { AS_U32, AS_F32, AS_BOOL, AS_STR, AS_INTS, AS_STRS };
struct get_row {
    const char *name, *key;
    enum asked asked;
    enum kg_status status;
    double number;       /* wanted where status is KG_OK */
    const char *message; /* a part of it, where not */
};

static const struct get_row GETS[] = {
    { "u8_as_u32", "k.u8", AS_U32, KG_OK, 200, NULL },
    { "u32_as_u32", "k.u32", AS_U32, KG_OK, 4000000000.0, NULL },
    { "negative_as_u32", "k.i32", AS_U32, KG_ERR_FORMAT, 0, "sample: key 'k.i32': -2000000000 is negative" },
    { "too_large_as_u32", "k.u64", AS_U32, KG_ERR_FORMAT, 0, "18446744073709551615 does not fit in 32 bits" },
    { "float_as_u32", "k.f32", AS_U32, KG_ERR_FORMAT, 0, "key 'k.f32' is of type f32, not an integer" },
    { "bool_as_u32", "k.bool", AS_U32, KG_ERR_FORMAT, 0, "is of type bool" },
    { "absent_as_u32", "k.none", AS_U32, KG_ERR_NOT_FOUND, 0, "sample: key 'k.none' is missing" },
    { "f32_as_f32", "k.f32", AS_F32, KG_OK, 0.5, NULL },
    { "f64_as_f32", "k.f64", AS_F32, KG_OK, -2.5, NULL },
    { "integer_as_f32", "k.u8", AS_F32, KG_ERR_FORMAT, 0, "is of type u8, not a float" },
    { "absent_as_f32", "k.none", AS_F32, KG_ERR_NOT_FOUND, 0, "missing" },
    { "bool_as_bool", "k.bool", AS_BOOL, KG_OK, 1, NULL },
    { "u8_as_bool", "k.u8", AS_BOOL, KG_ERR_FORMAT, 0, "is of type u8, not bool" },
    { "absent_as_bool", "k.none", AS_BOOL, KG_ERR_NOT_FOUND, 0, "missing" },
    { "string_as_string", "k.str", AS_STR, KG_OK, 4, NULL },
    { "array_as_string", "k.strs", AS_STR, KG_ERR_FORMAT, 0, "is of type array of string, not string" },
    { "absent_as_string", "k.none", AS_STR, KG_ERR_NOT_FOUND, 0, "missing" },
    { "i32s_as_i32s", "k.ints", AS_INTS, KG_OK, 2, NULL },
    { "strings_as_i32s", "k.strs", AS_INTS, KG_ERR_FORMAT, 0, "is of type array of string, not array of i32" },
    { "scalar_as_i32s", "k.i32", AS_INTS, KG_ERR_FORMAT, 0, "is of type i32, not array of i32" },
    { "strings_as_strings", "k.strs", AS_STRS, KG_OK, 3, NULL },
    { "absent_as_strings", "k.none", AS_STRS, KG_ERR_NOT_FOUND, 0, "missing" },
};

static enum kg_status get(const struct kg_gguf *gguf, const struct get_row *row, double *out, struct kg_error *err) {
    uint32_t u = 0;
    float f = 0;
    bool b = false;
    struct kg_str s = { NULL, 0 };
    const struct kg_gguf_key *key = NULL;
    enum kg_status status = KG_ERR_INTERNAL;
    switch (row->asked) {
    case AS_U32: status = kg_gguf_get_u32(gguf, row->key, &u, err); break;
    case AS_F32: status = kg_gguf_get_f32(gguf, row->key, &f, err); break;
    case AS_BOOL: status = kg_gguf_get_bool(gguf, row->key, &b, err); break;
    case AS_STR: status = kg_gguf_get_str(gguf, row->key, &s, err); break;
    case AS_INTS: status = kg_gguf_get_array(gguf, row->key, KG_GGUF_I32, &key, err); break;
    case AS_STRS: status = kg_gguf_get_array(gguf, row->key, KG_GGUF_STRING, &key, err); break;
    }
    *out = (double)u + (double)f + b + (double)s.len + (key ? (double)key->value.array.n : 0);
    return status;
}

static void get_by_type(struct kg_record *rec, const void *arg) {
    const struct get_row *row = arg;
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_error err = { 0 };
    double number;
    (void)rec;
    kg_image_build_sample(&image, 3);
    struct kg_gguf *gguf = parse(&image);
    ck_assert_int_eq(get(gguf, row, &number, &err), row->status);
    ck_assert_double_eq(number, row->number); /* untouched, so 0, on failure */
    if (row->message)
        ck_assert_msg(strstr(err.message, row->message) != NULL, "'%s' lacks '%s'", err.message, row->message);
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

static void f64_beyond_f32_is_refused(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_error err = { 0 };
    float f = 7;
    (void)rec, (void)arg;
    struct kg_gguf *gguf = parse_script(&image, "=GGUF 3.4 0.8 1.8 ~k 12.4 0x7e37e43c8800759c.8"); /* 1e300 */
    ck_assert_int_eq(kg_gguf_get_f32(gguf, "k", &f, &err), KG_ERR_FORMAT);
    ck_assert_float_eq(f, 7);
    ck_assert_ptr_nonnull(strstr(err.message, "1e+300"));
    kg_gguf_close(gguf);
    kg_buffer_free(&image);
}

/* What fixtures/formats/make_formats.py had the gguf package write. */
struct other_array {
    const char *key;
    enum kg_gguf_type type;
    size_t n;
    double first, last;
};
static const struct other_array OTHER_ARRAYS[] = {
    { "array.u8", KG_GGUF_U8, 3, 0, 255 },
    { "array.i8", KG_GGUF_I8, 3, -128, 127 },
    { "array.u16", KG_GGUF_U16, 2, 0, 65535 },
    { "array.i16", KG_GGUF_I16, 2, -32768, 32767 },
    { "array.u32", KG_GGUF_U32, 2, 0, 4294967295.0 },
    { "array.i32", KG_GGUF_I32, 2, -2147483648.0, 2147483647.0 },
    { "array.u64", KG_GGUF_U64, 2, 0, 0x1p64 },
    { "array.i64", KG_GGUF_I64, 2, -0x1p63, 0x1p63 },
    { "array.f32", KG_GGUF_F32, 2, 0.1f, -2.5 },
    { "array.f64", KG_GGUF_F64, 2, 0.1, 1e300 },
    { "array.bool", KG_GGUF_BOOL, 3, 1, 1 },
};

static void other_writer_keys(struct kg_record *rec, const void *arg) {
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_msg(kg_gguf_open(kg_fixture_path("formats/other-writer.gguf"), &gguf, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(kg_gguf_alignment(gguf), 64);
    ck_assert_uint_eq(key_of(gguf, "scalar.u8", KG_GGUF_U8)->value.u, 200);
    ck_assert_int_eq(key_of(gguf, "scalar.i8", KG_GGUF_I8)->value.i, -100);
    ck_assert_uint_eq(key_of(gguf, "scalar.u16", KG_GGUF_U16)->value.u, 60000);
    ck_assert_int_eq(key_of(gguf, "scalar.i16", KG_GGUF_I16)->value.i, -30000);
    ck_assert_uint_eq(key_of(gguf, "scalar.u32", KG_GGUF_U32)->value.u, 4000000000u);
    ck_assert_int_eq(key_of(gguf, "scalar.i32", KG_GGUF_I32)->value.i, -2000000000);
    ck_assert_uint_eq(key_of(gguf, "scalar.u64", KG_GGUF_U64)->value.u, UINT64_MAX);
    ck_assert_int_eq(key_of(gguf, "scalar.i64", KG_GGUF_I64)->value.i, INT64_MIN);
    ck_assert_double_eq(key_of(gguf, "scalar.f32", KG_GGUF_F32)->value.f, 0.1f);
    ck_assert_double_eq(key_of(gguf, "scalar.f64", KG_GGUF_F64)->value.f, 0.1);
    ck_assert(key_of(gguf, "scalar.bool", KG_GGUF_BOOL)->value.b);
    ck_assert(kg_str_eq(key_of(gguf, "scalar.string", KG_GGUF_STRING)->value.s, "haiku \u4ff3\u53e5 \U0001f343"));
    for (size_t i = 0; i < KG_COUNT_OF(OTHER_ARRAYS); i++) {
        const struct other_array *row = &OTHER_ARRAYS[i];
        const struct kg_gguf_key *key;
        ck_assert_msg(kg_gguf_get_array(gguf, row->key, row->type, &key, &err) == KG_OK, "%s", err.message);
        ck_assert_uint_eq(key->value.array.n, row->n);
        ck_assert_double_eq(kg_gguf_array_float(key, 0), row->first);
        ck_assert_double_eq(kg_gguf_array_float(key, row->n - 1), row->last);
    }
    const struct kg_gguf_key *strings;
    const char *const texts[] = { "", "a", "\u53e5", "two words" };
    ck_assert_int_eq(kg_gguf_get_array(gguf, "array.string", KG_GGUF_STRING, &strings, &err), KG_OK);
    ck_assert_uint_eq(strings->value.array.n, KG_COUNT_OF(texts));
    for (size_t i = 0; i < KG_COUNT_OF(texts); i++) ck_assert(kg_str_eq(strings->value.array.strings[i], texts[i]));
    kg_gguf_close(gguf);
}

/* The ramp -40 ... 55 in rows of 32; step: what the format may be off by. */
static const struct {
    const char *name;
    double step;
} RAMPS[] = { { "ramp.f32", 0 },    { "ramp.f16", 0 },    { "ramp.BF16", 0 },   { "ramp.Q8_0", 0.25 },
              { "ramp.Q4_0", 3.6 }, { "ramp.Q5_0", 1.9 }, { "ramp.MXFP4", 8.1 } };

static void other_writer_tensors(struct kg_record *rec, const void *arg) {
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_msg(kg_gguf_open(kg_fixture_path("formats/other-writer.gguf"), &gguf, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(kg_gguf_n_tensors(gguf), 9);
    for (size_t i = 0; i < KG_COUNT_OF(RAMPS); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_find_tensor(gguf, RAMPS[i].name);
        float values[96];
        ck_assert_msg(t != NULL, "tensor %s is not found", RAMPS[i].name);
        ck_assert_uint_eq(t->n_elems, 96);
        kg_dtype_info(t->dtype)->decode(t->data, values, 96);
        for (int k = 0; k < 96; k++)
            ck_assert_msg(fabs(values[k] - (k - 40.0)) <= RAMPS[i].step, "%s[%d] is %g", RAMPS[i].name, k, values[k]);
    }
    const uint64_t deep[] = { 5, 4, 3, 2 };
    for (int d = 0; d < 4; d++) ck_assert_uint_eq(kg_gguf_find_tensor(gguf, "deep.f32")->dims[d], deep[d]);
    kg_gguf_close(gguf);
}

static void build(struct kg_case_list *list) {
    static const unsigned TWO = 2, THREE = 3;
    const struct kg_case cases[] = {
        { .name = "every_key_and_tensor_v2", .run = every_key_and_tensor, .arg = &TWO },
        { .name = "every_key_and_tensor_v3", .run = every_key_and_tensor, .arg = &THREE },
        { .name = "empty_file_of_no_keys", .run = empty_file_of_no_keys },
        { .name = "alignment_of_one", .run = alignment_of_one },
        { .name = "large_alignment_of_another_type", .run = large_alignment_of_another_type },
        { .name = "names_beyond_ascii_and_nul", .run = names_beyond_ascii_and_nul },
        { .name = "f64_beyond_f32_is_refused", .run = f64_beyond_f32_is_refused },
        { .name = "other_writer_keys", .run = other_writer_keys },
        { .name = "other_writer_tensors", .run = other_writer_tensors },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "gguf";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(GETS); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "gguf_get", .name = GETS[i].name, .run = get_by_type, .arg = &GETS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
