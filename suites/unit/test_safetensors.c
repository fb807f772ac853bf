/* Safetensors files: values of every type come out, and a header that does not describe its data is refused. */
#include "format/safetensors.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* u64 length, header, then n_data bytes 1, 2, 3, ... */
static void build_image(struct kg_buffer *image, const char *header, size_t n_data) {
    const uint64_t len = strlen(header);
    kg_buffer_append(image, &len, sizeof len);
    kg_buffer_append(image, header, len);
    for (size_t i = 1; i <= n_data; i++) kg_buffer_append(image, &(uint8_t){ (uint8_t)i }, 1);
}

/* A copy of exactly the bytes, so that a read past their end is one past the allocation's. */
static enum kg_status parse_copy(const char *data, size_t len, struct kg_safetensors **st, char **copy,
                                 struct kg_error *err) {
    *copy = malloc(len ? len : 1);
    if (len) memcpy(*copy, data, len);
    return kg_safetensors_parse(*copy, len, "bad.safetensors", st, err);
}

static const char SAMPLE[] = "{\"__metadata__\":{\"made_by\":\"hand\",\"empty\":\"\"},"
                             "\"b\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[9,15]},"
                             "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                             "\"none\":{\"dtype\":\"F64\",\"shape\":[3,0,2],\"data_offsets\":[9,9]},"
                             "\"one\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[8,9]}}   ";
enum { SAMPLE_DATA = 15 };

static void shapes_places_and_metadata(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    build_image(&image, SAMPLE, SAMPLE_DATA);
    ck_assert_msg(kg_safetensors_parse(image.data, image.len, "x", &st, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(kg_safetensors_n_tensors(st), 4);
    const char *const order[] = { "a", "one", "none", "b" };
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(kg_safetensors_tensor_at(st, i)->name, order[i]);
        ck_assert_ptr_eq(kg_safetensors_find(st, order[i]), kg_safetensors_tensor_at(st, i));
    }
    const struct kg_safetensors_tensor *b = kg_safetensors_find(st, "b"), *none = kg_safetensors_find(st, "none"),
                                       *one = kg_safetensors_find(st, "one");
    ck_assert_uint_eq(b->n_dims, 2);
    ck_assert(b->dims[0] == 2 && b->dims[1] == 3 && b->dims[2] == 1);
    ck_assert_uint_eq(b->n_elems, 6);
    ck_assert_ptr_eq(b->data, image.data + image.len - 6);
    ck_assert_uint_eq(one->n_dims, 0);
    ck_assert_uint_eq(one->n_elems, 1);
    ck_assert_uint_eq(none->n_elems, 0);
    ck_assert_ptr_null(kg_safetensors_find(st, "c"));
    ck_assert_ptr_null(kg_safetensors_find(st, "__metadata__"));
    ck_assert_str_eq(kg_safetensors_metadata(st, "made_by"), "hand");
    ck_assert_str_eq(kg_safetensors_metadata(st, "empty"), "");
    ck_assert_ptr_null(kg_safetensors_metadata(st, "other"));
    kg_safetensors_close(st);
    kg_buffer_free(&image);
}

static void no_tensors(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    build_image(&image, "{}", 0);
    ck_assert_int_eq(kg_safetensors_parse(image.data, image.len, "x", &st, &err), KG_OK);
    ck_assert_uint_eq(kg_safetensors_n_tensors(st), 0);
    ck_assert_ptr_null(kg_safetensors_find(st, ""));
    ck_assert_ptr_null(kg_safetensors_metadata(st, "any"));
    kg_safetensors_close(st);
    kg_buffer_free(&image);
}

/* One element type a row: bytes of two elements, and what they are. */
struct value_row {
    const char *name; /* of the type */
    uint8_t bytes[16];
    size_t n_bytes;
    double want[2];
};
static const struct value_row VALUES[] = {
    { "F64", { 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0, 0, 0, 0, 0, 0, 0x04, 0xC0 }, 16, { 1.5, -2.5 } },
    { "F32", { 0, 0, 0xC0, 0x3F, 0, 0, 0x80, 0xFF }, 8, { 1.5, -INFINITY } },
    { "F16", { 0x01, 0x00, 0x00, 0xC1 }, 4, { 0x1p-24, -2.5 } },
    { "BF16", { 0xC0, 0x3F, 0x20, 0xC0 }, 4, { 1.5, -2.5 } },
    { "I64", { 1, 0, 0, 0, 1, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, 16, { 4294967297.0, -2 } },
    { "I32", { 0, 0, 0, 0x40, 0xFE, 0xFF, 0xFF, 0xFF }, 8, { 1073741824, -2 } },
    { "I16", { 0, 0x40, 0xFE, 0xFF }, 4, { 16384, -2 } },
    { "I8", { 0x7F, 0x80 }, 2, { 127, -128 } },
    { "U64", { 0, 0, 0, 0, 0, 0, 0, 0x80, 7, 0, 0, 0, 0, 0, 0, 0 }, 16, { 0x1p63, 7 } },
    { "U32", { 0, 0, 0, 0x80, 7, 0, 0, 0 }, 8, { 0x1p31, 7 } },
    { "U16", { 0, 0x80, 7, 0 }, 4, { 32768, 7 } },
    { "U8", { 0x80, 7 }, 2, { 128, 7 } },
    { "BOOL", { 0, 2 }, 2, { 0, 1 } },
};

/* The header's length puts the data at every alignment. */
static void values_of(struct kg_record *rec, const void *arg) {
    const struct value_row *row = arg;
    (void)rec;
    for (int padding = 0; padding < 8; padding++) {
        struct kg_buffer image = KG_BUFFER_INIT;
        struct kg_safetensors *st;
        struct kg_error err = { 0 };
        char *header = kg_xasprintf("{\"t\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%zu]}}%*s", row->name,
                                    row->n_bytes, padding, "");
        double f64[2];
        float f32[2];
        build_image(&image, header, 0);
        kg_buffer_append(&image, row->bytes, row->n_bytes);
        ck_assert_msg(kg_safetensors_parse(image.data, image.len, "x", &st, &err) == KG_OK, "%s", err.message);
        const struct kg_safetensors_tensor *t = kg_safetensors_find(st, "t");
        ck_assert_str_eq(kg_safetensors_dtype_name(t->dtype), row->name);
        ck_assert_int_eq(kg_safetensors_to_f64(t, f64, &err), KG_OK);
        ck_assert_int_eq(kg_safetensors_to_f32(t, f32, &err), KG_OK);
        for (int i = 0; i < 2; i++) ck_assert(f64[i] == row->want[i] && f32[i] == (float)row->want[i]);
        kg_safetensors_close(st);
        kg_buffer_free(&image);
        free(header);
    }
}

static void eight_bit_floats_have_no_values(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    float f32 = 7;
    double f64 = 7;
    (void)rec, (void)arg;
    build_image(&image, "{\"t\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    ck_assert_int_eq(kg_safetensors_parse(image.data, image.len, "x", &st, &err), KG_OK);
    const struct kg_safetensors_tensor *t = kg_safetensors_find(st, "t");
    ck_assert_int_eq(kg_safetensors_to_f32(t, &f32, &err), KG_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "tensor 't': values of type F8_E4M3"));
    ck_assert_int_eq(kg_safetensors_to_f64(t, &f64, &err), KG_ERR_UNSUPPORTED);
    ck_assert(f32 == 7 && f64 == 7);
    kg_safetensors_close(st);
    kg_buffer_free(&image);
}

struct hostile_row {
    const char *name;
    const char *header;
    size_t n_data;
    enum kg_status status;
    const char *message; /* a part of it */
};

#define ENTRY(dtype, shape, offsets)                                                                                   \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct hostile_row ROWS[] = {
    { "empty_header", "", 0, KG_ERR_FORMAT, "header: " },
    { "no_json", "abc", 0, KG_ERR_FORMAT, "header: " },
    { "json_cut_off", "{\"t\":{\"dtype\":\"F32\"", 0, KG_ERR_FORMAT, "header: " },
    { "json_array", "[]", 0, KG_ERR_FORMAT, "no JSON object" },
    { "text_behind_the_json", "{}x", 0, KG_ERR_FORMAT, "header: " },
    { "invalid_utf8", "{\"\xff\":1}", 0, KG_ERR_FORMAT, "header: " },
    { "entry_is_no_object", "{\"t\":7}", 0, KG_ERR_FORMAT, "tensor 't': its entry is no object" },
    { "dtype_missing", "{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, KG_ERR_FORMAT, "dtype is missing" },
    { "dtype_is_a_number", "{\"t\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, KG_ERR_FORMAT, "dtype is" },
    { "dtype_of_none", ENTRY("F33", "[1]", "[0,4]"), 4, KG_ERR_UNSUPPORTED, "tensor 't': dtype 'F33'" },
    { "shape_missing", "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, KG_ERR_FORMAT, "shape is missing" },
    { "shape_is_a_number", ENTRY("F32", "1", "[0,4]"), 4, KG_ERR_FORMAT, "shape is missing or no array" },
    { "dimension_negative", ENTRY("F32", "[-1]", "[0,4]"), 4, KG_ERR_FORMAT, "a dimension is -1" },
    { "dimension_is_real", ENTRY("F32", "[1.0]", "[0,4]"), 4, KG_ERR_FORMAT, "a dimension is not a whole number" },
    { "dimension_beyond_64_bits", ENTRY("F32", "[99999999999999999999]", "[0,4]"), 4, KG_ERR_FORMAT, "header: " },
    { "dimensions_overflow", ENTRY("F32", "[4294967296,4294967296]", "[0,4]"), 4, KG_ERR_FORMAT,
      "the product of its dimensions overflows at 4294967296" },
    { "bytes_overflow", ENTRY("F64", "[4611686018427387904]", "[0,4]"), 4, KG_ERR_FORMAT,
      "the size of 4611686018427387904 elements overflows" },
    { "nine_dimensions", ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, KG_ERR_UNSUPPORTED, "9 dimensions" },
    { "offsets_missing", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, KG_ERR_FORMAT, "data_offsets is missing" },
    { "three_offsets", ENTRY("F32", "[1]", "[0,4,4]"), 4, KG_ERR_FORMAT, "no pair" },
    { "offset_negative", ENTRY("F32", "[1]", "[-4,0]"), 4, KG_ERR_FORMAT, "the first of data_offsets is -4" },
    { "offset_is_text", ENTRY("F32", "[1]", "[0,\"4\"]"), 4, KG_ERR_FORMAT, "the second of data_offsets is not" },
    { "offsets_swapped", ENTRY("F32", "[1]", "[4,0]"), 4, KG_ERR_FORMAT, "data_offsets [4, 0] lie outside" },
    { "offsets_outside", ENTRY("F32", "[1]", "[4,8]"), 4, KG_ERR_FORMAT, "[4, 8] lie outside the 4 bytes of data" },
    { "offsets_far_outside", ENTRY("F32", "[1]", "[9223372036854775803,9223372036854775807]"), 4, KG_ERR_FORMAT,
      "lie outside" },
    { "size_and_shape_differ", ENTRY("F32", "[2]", "[0,4]"), 4, KG_ERR_FORMAT, "do not hold the 8 bytes of its shape" },
    { "data_behind_the_last", ENTRY("F32", "[1]", "[0,4]"), 5, KG_ERR_FORMAT, "its tensors end at 4 of 5" },
    { "hole_in_front", ENTRY("F32", "[1]", "[4,8]"), 8, KG_ERR_FORMAT, "begins at 4 of the data, leaving a hole" },
    { "overlap",
      "{\"s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]}}",
      7, KG_ERR_FORMAT, "tensor 't' begins at 3 of the data, overlapping what ends at 4" },
    { "duplicate_tensor",
      "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, KG_ERR_FORMAT, "duplicate" },
    { "metadata_is_no_object", "{\"__metadata__\":1}", 0, KG_ERR_FORMAT, "__metadata__ is no object" },
    { "metadata_holds_a_number", "{\"__metadata__\":{\"k\":1}}", 0, KG_ERR_FORMAT, "__metadata__: 'k' is no string" },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct hostile_row *row = arg;
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_safetensors *st = NULL;
    struct kg_error err = { 0 };
    char *copy;
    (void)rec;
    build_image(&image, row->header, row->n_data);
    ck_assert_int_eq(parse_copy(image.data, image.len, &st, &copy, &err), row->status);
    ck_assert_ptr_null(st);
    ck_assert_msg(strncmp(err.message, "bad.safetensors: ", 17) == 0, "'%s' does not begin with the file", err.message);
    ck_assert_msg(strstr(err.message, row->message) != NULL, "'%s' lacks '%s'", err.message, row->message);
    free(copy);
    kg_buffer_free(&image);
}

static void hostile_header_lengths(struct kg_record *rec, const void *arg) {
    const uint64_t lengths[] = { 3, 100000001, UINT64_C(1) << 32, UINT64_MAX - 7, UINT64_MAX };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(lengths); i++) {
        uint8_t image[10] = { [8] = '{', [9] = '}' };
        char *copy;
        struct kg_safetensors *st;
        struct kg_error err = { 0 };
        memcpy(image, &lengths[i], sizeof lengths[i]);
        ck_assert_int_eq(parse_copy((const char *)image, sizeof image, &st, &copy, &err), KG_ERR_FORMAT);
        ck_assert_msg(strstr(err.message, "does not lie in the file of 10") != NULL, "%s", err.message);
        free(copy);
    }
}

/* More JSON than the format allows, in a file that is long enough for it: refused before it is read. */
static void header_of_more_than_100_million_bytes(struct kg_record *rec, const void *arg) {
    const uint64_t header_bytes = 100000001;
    const size_t size_bytes = 8 + header_bytes;
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    uint8_t *image = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(image != MAP_FAILED);
    memcpy(image, &header_bytes, sizeof header_bytes);
    ck_assert_int_eq(kg_safetensors_parse(image, size_bytes, "x", &st, &err), KG_ERR_FORMAT);
    ck_assert_msg(strstr(err.message, "a header of 100000001 bytes is more than 100000000") != NULL, "%s", err.message);
    munmap(image, size_bytes);
}

/* Brackets a hundred thousand deep end the parser's patience, not its stack. */
static void deeply_nested_json(struct kg_record *rec, const void *arg) {
    enum { DEPTH = 100000 };
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    char *header = malloc(DEPTH + 1);
    (void)rec, (void)arg;
    memset(header, '[', DEPTH);
    header[DEPTH] = '\0';
    build_image(&image, header, 0);
    ck_assert_int_eq(kg_safetensors_parse(image.data, image.len, "x", &st, &err), KG_ERR_FORMAT);
    kg_buffer_free(&image);
    free(header);
}

static void cut_at_every_byte(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)arg;
    build_image(&image, SAMPLE, SAMPLE_DATA);
    for (size_t len = 0; len < image.len; len++) {
        struct kg_safetensors *st;
        struct kg_error err = { 0 };
        char *copy;
        ck_assert_msg(parse_copy(image.data, len, &st, &copy, &err) == KG_ERR_FORMAT, "the first %zu of %zu bytes pass",
                      len, image.len);
        free(copy);
    }
    kg_record_metric(rec, "cuts", "count", (double)image.len);
    kg_buffer_free(&image);
}

static void every_bit_flipped(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    size_t n_refused = 0, n_read = 0;
    (void)arg;
    build_image(&image, SAMPLE, SAMPLE_DATA);
    for (size_t bit = 0; bit < image.len * 8; bit++) {
        struct kg_safetensors *st;
        struct kg_error err = { 0 };
        char *copy;
        image.data[bit / 8] ^= (char)(1 << bit % 8);
        const bool read = parse_copy(image.data, image.len, &st, &copy, &err) == KG_OK;
        image.data[bit / 8] ^= (char)(1 << bit % 8);
        for (size_t i = 0; read && i < kg_safetensors_n_tensors(st); i++) {
            double values[SAMPLE_DATA];
            const struct kg_safetensors_tensor *t = kg_safetensors_tensor_at(st, i);
            ck_assert_uint_le(t->n_elems, SAMPLE_DATA);
            (void)!kg_safetensors_to_f64(t, values, &err);
        }
        if (read) kg_safetensors_close(st);
        n_read += read;
        n_refused += !read;
        free(copy);
    }
    ck_assert_uint_eq(n_refused + n_read, image.len * 8);
    ck_assert_uint_gt(n_refused, image.len);
    ck_assert_uint_gt(n_read, SAMPLE_DATA * 8 - 1);
    kg_record_metric(rec, "refused", "count", (double)n_refused);
    kg_buffer_free(&image);
}

static void file_of_the_format_s_own_library(struct kg_record *rec, const void *arg) {
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    const char *path = kg_fixture_path("formats/blocks.safetensors");
    ck_assert_msg(kg_safetensors_open(path, &st, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(kg_safetensors_path(st), path);
    ck_assert_str_eq(kg_safetensors_metadata(st, "made_by"), "make_formats.py with the gguf package");
    const struct kg_safetensors_tensor *t = kg_safetensors_find(st, "MXFP4.raw");
    ck_assert(t && t->dtype == KG_SAFETENSORS_U8 && t->dims[0] == 255 && t->dims[1] == 17);
    for (size_t i = 0; i < 255; i++) ck_assert_uint_eq(((const uint8_t *)t->data)[17 * i], i);
    kg_safetensors_close(st);
    ck_assert_int_eq(kg_safetensors_open("/nowhere/at/all", &st, &err), KG_ERR_NOT_FOUND);
}

static void build(struct kg_case_list *list) {
    const struct kg_case cases[] = {
        { .name = "shapes_places_and_metadata", .run = shapes_places_and_metadata },
        { .name = "no_tensors", .run = no_tensors },
        { .name = "eight_bit_floats_have_no_values", .run = eight_bit_floats_have_no_values },
        { .name = "hostile_header_lengths", .run = hostile_header_lengths },
        { .name = "header_of_more_than_100_million_bytes", .run = header_of_more_than_100_million_bytes },
        { .name = "deeply_nested_json", .run = deeply_nested_json },
        { .name = "cut_at_every_byte", .run = cut_at_every_byte },
        { .name = "every_bit_flipped", .run = every_bit_flipped },
        { .name = "file_of_the_format_s_own_library", .run = file_of_the_format_s_own_library },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "safetensors";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(VALUES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "safetensors",
                                                  .name = "values_at_every_alignment",
                                                  .dtype = VALUES[i].name,
                                                  .run = values_of,
                                                  .arg = &VALUES[i] });
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "safetensors_hostile",
                                                  .name = ROWS[i].name,
                                                  .definition = ROWS[i].header,
                                                  .run = refused,
                                                  .arg = &ROWS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
