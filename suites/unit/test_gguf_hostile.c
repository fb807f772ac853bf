/* GGUF files that are cut, flipped or lying: each a clear error or a good file, never a crash or a read outside. */
#include "format/gguf.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/gguf_image.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

struct hostile_row {
    const char *name;
    const char *script;
    enum kg_status status;
    const char *message; /* a part of it */
};

#define HEADER_OF(n_tensors, n_keys) "=GGUF 3.4 " #n_tensors ".8 " #n_keys ".8 "
#define HUGE "0xffffffffffffffff.8 "

static const struct hostile_row ROWS[] = {
    { "no_bytes", "", KG_ERR_FORMAT, "truncated: the magic" },
    { "wrong_magic", "=PK34 3.4 0.8 0.8", KG_ERR_FORMAT, "begins with 'PK34', not 'GGUF'" },
    { "git_lfs_pointer", "=version 0x20.1 =https://git-lfs.github.com/spec/v1", KG_ERR_FORMAT, "pointer of Git LFS" },
    { "magic_of_control_bytes", "0x0a1b00ff.4 3.4 0.8 0.8", KG_ERR_FORMAT, "'\\xFF\\x00\\x1B\\x0A'" },
    { "version_0", "=GGUF 0.4 0.8 0.8", KG_ERR_SCHEMA, "version 0 is not read" },
    { "version_1", "=GGUF 1.4 0.4 0.4", KG_ERR_SCHEMA, "GGUF version 1 is not read" },
    { "version_4", "=GGUF 4.4 0.8 0.8", KG_ERR_SCHEMA, "GGUF version 4 is not read" },
    { "big_endian", "=GGUF 0x03000000.4 0.8 0.8", KG_ERR_SCHEMA, "big-endian GGUF file (version 3)" },
    { "huge_count_of_keys", "=GGUF 3.4 0.8 " HUGE "~k 0.4 1.1", KG_ERR_FORMAT, "18446744073709551615 keys cannot lie" },
    { "one_key_too_many", HEADER_OF(0, 2) "~k 0.4 1.1", KG_ERR_FORMAT, "2 keys cannot lie in the 14 bytes left" },
    { "huge_count_of_tensors", "=GGUF 3.4 " HUGE "0.8 ~x 1.4 1.8 0.4 0.8 @32 *4", KG_ERR_FORMAT,
      "18446744073709551615 tensors cannot lie" },
    { "count_of_tensors_sign_bit", "=GGUF 3.4 0x8000000000000000.8 0.8", KG_ERR_FORMAT, "tensors cannot lie" },
    { "huge_key_name", HEADER_OF(0, 1) HUGE "=kkkkkkkkkkk", KG_ERR_FORMAT, "key 0 of 1: truncated: the name" },
    { "empty_key_name", HEADER_OF(0, 1) "~ 4.4 7.4 *8", KG_ERR_FORMAT, "a name of 0 bytes" },
    { "key_type_of_none", HEADER_OF(0, 1) "~k.x 13.4 7.4 *8", KG_ERR_FORMAT, "'k.x': the type is 13" },
    { "huge_string", HEADER_OF(0, 1) "~k 8.4 " HUGE "=abc", KG_ERR_FORMAT, "'k': truncated: the value" },
    { "string_one_byte_short", HEADER_OF(0, 1) "~k 8.4 4.8 =abc", KG_ERR_FORMAT,
      "needs 4 bytes at offset 45, the file has 48" },
    { "bool_of_two", HEADER_OF(0, 1) "~k 7.4 2.1", KG_ERR_FORMAT, "'k': bool 0 holds 2" },
    { "bool_of_two_in_array", HEADER_OF(0, 1) "~k 9.4 7.4 3.8 1.1 0.1 2.1", KG_ERR_FORMAT, "bool 2 holds 2" },
    { "huge_array", HEADER_OF(0, 1) "~k 9.4 4.4 " HUGE "*8", KG_ERR_FORMAT,
      "18446744073709551615 elements of type u32" },
    { "array_product_overflows", HEADER_OF(0, 1) "~k 9.4 10.4 0x2000000000000001.8 *8", KG_ERR_FORMAT,
      "2305843009213693953 elements of type u64" },
    { "array_one_element_short", HEADER_OF(0, 1) "~k 9.4 4.4 3.8 *8", KG_ERR_FORMAT, "3 elements of type u32" },
    { "huge_array_of_strings", HEADER_OF(0, 1) "~k 9.4 8.4 0x1000000000000000.8 ~a ~b", KG_ERR_FORMAT,
      "elements of type string" },
    { "string_in_array_too_long", HEADER_OF(0, 1) "~k 9.4 8.4 2.8 ~a 100.8 =b", KG_ERR_FORMAT,
      "element 1 of 2: truncated" },
    { "nested_array", HEADER_OF(0, 1) "~k 9.4 9.4 1.8 4.4 1.8 7.4", KG_ERR_UNSUPPORTED, "'k': an array of arrays" },
    { "array_of_no_type", HEADER_OF(0, 1) "~k 9.4 99.4 1.8 *8", KG_ERR_FORMAT, "element type is 99" },
    { "duplicate_key", HEADER_OF(0, 3) "~k 0.4 1.1 ~j 0.4 1.1 ~k 4.4 1.4", KG_ERR_FORMAT, "duplicate key 'k'" },
    { "control_bytes_in_a_key", HEADER_OF(0, 1) "3.8 =a 0x0a.1 0xff.1 7.4 9.1", KG_ERR_FORMAT, "'a\\x0A\\xFF': bool" },
    { "alignment_0", HEADER_OF(0, 1) "~general.alignment 4.4 0.4", KG_ERR_FORMAT, "'general.alignment': 0 is not" },
    { "alignment_33", HEADER_OF(0, 1) "~general.alignment 4.4 33.4", KG_ERR_FORMAT, "33 is not a power of two" },
    { "alignment_as_text", HEADER_OF(0, 1) "~general.alignment 8.4 ~64", KG_ERR_FORMAT, "is of type string" },
    { "alignment_beyond_the_file", HEADER_OF(1, 1) "~general.alignment 4.4 0x80000000.4 ~x 1.4 1.8 0.4 0.8 *64",
      KG_ERR_FORMAT, "truncated: tensor 'x' lies at bytes 2147483648" },
    { "empty_tensor_name", HEADER_OF(1, 0) "~ 1.4 1.8 0.4 0.8 *32", KG_ERR_FORMAT, "tensor 0 of 1: the name is empty" },
    { "no_dimensions", HEADER_OF(1, 0) "~w 0.4 0.4 0.8 @32 *64", KG_ERR_FORMAT, "tensor 'w': 0 dimensions" },
    { "five_dimensions", HEADER_OF(1, 0) "~w 5.4 1.8 1.8 1.8 1.8 1.8 0.4 0.8 *64", KG_ERR_FORMAT, "tensor 'w': 5 dim" },
    { "huge_count_of_dimensions", HEADER_OF(1, 0) "~w 0xffffffff.4 1.8 0.4 0.8 *64", KG_ERR_FORMAT, "4294967295 dim" },
    { "dimension_of_0", HEADER_OF(1, 0) "~w 2.4 4.8 0.8 0.4 0.8 *64", KG_ERR_FORMAT, "tensor 'w': dimension 1 is 0" },
    { "first_dimension_of_0", HEADER_OF(1, 0) "~w 1.4 0.8 8.4 0.8 *64", KG_ERR_FORMAT, "dimension 0 is 0" },
    { "dimensions_overflow", HEADER_OF(1, 0) "~w 3.4 1.8 0x100000000.8 0x100000000.8 0.4 0.8 *64", KG_ERR_FORMAT,
      "tensor 'w': the product of its dimensions overflows" },
    { "elements_overflow", HEADER_OF(1, 0) "~w 2.4 0x100000000.8 0x100000000.8 12.4 0.8 *64", KG_ERR_FORMAT,
      "tensor 'w': its size overflows" },
    { "bytes_overflow", HEADER_OF(1, 0) "~w 1.4 0x4000000000000000.8 0.4 0.8 *64", KG_ERR_FORMAT, "overflows" },
    { "row_is_no_multiple_of_the_block", HEADER_OF(1, 0) "~w 2.4 33.8 32.8 8.4 0.8 *64", KG_ERR_FORMAT,
      "tensor 'w': a row of 33 elements is no multiple of the 32 in a block of Q8_0" },
    { "type_known_by_name", HEADER_OF(1, 0) "~w 1.4 256.8 10.4 0.8 @32 *84", KG_ERR_UNSUPPORTED,
      "tensor 'w': type Q2_K (10) is not supported" },
    { "type_of_none", HEADER_OF(1, 0) "~w 1.4 256.8 0xffffffff.4 0.8 @32 *84", KG_ERR_UNSUPPORTED,
      "tensor 'w': type unknown (4294967295)" },
    { "offset_not_aligned", HEADER_OF(1, 0) "~w 1.4 4.8 0.4 16.8 @32 *64", KG_ERR_FORMAT,
      "tensor 'w': offset 16 is no multiple of the alignment 32" },
    { "offset_outside", HEADER_OF(1, 0) "~w 1.4 4.8 0.4 64.8 @32 *64", KG_ERR_FORMAT, "truncated: tensor 'w'" },
    { "offset_overflows", HEADER_OF(1, 0) "~w 1.4 4.8 0.4 0xffffffffffffffe0.8 @32 *64", KG_ERR_FORMAT,
      "tensor 'w': offset 18446744073709551584" },
    { "last_byte_missing", HEADER_OF(2, 0) "~v 1.4 4.8 0.4 0.8 ~w 1.4 4.8 0.4 32.8 @32 *16 @32 *15", KG_ERR_FORMAT,
      "truncated: tensor 'w' lies at bytes" },
    { "no_data_at_all", HEADER_OF(1, 0) "~w 1.4 4.8 0.4 0.8", KG_ERR_FORMAT, "truncated: tensor 'w'" },
    { "duplicate_tensor", HEADER_OF(2, 0) "~w 1.4 4.8 0.4 0.8 ~w 1.4 4.8 0.4 32.8 @32 *64", KG_ERR_FORMAT,
      "duplicate tensor 'w'" },
    { "same_place", HEADER_OF(2, 0) "~v 1.4 4.8 0.4 0.8 ~w 1.4 4.8 0.4 0.8 @32 *64", KG_ERR_FORMAT, "overlap" },
    { "overlap_by_two_bytes", HEADER_OF(2, 0) "~v 1.4 17.8 1.4 0.8 ~w 1.4 4.8 0.4 32.8 @32 *64", KG_ERR_FORMAT,
      "tensors 'v' and 'w' overlap" },
    { "overlap_in_reverse_order", HEADER_OF(2, 0) "~w 1.4 4.8 0.4 32.8 ~v 1.4 9.8 0.4 0.8 @32 *64", KG_ERR_FORMAT,
      "tensors 'v' and 'w' overlap" },
};

/* A copy of exactly the bytes, so that a read past their end is one past the allocation's. */
static enum kg_status parse_copy(const char *data, size_t len, struct kg_gguf **gguf, char **copy,
                                 struct kg_error *err) {
    *copy = malloc(len ? len : 1);
    if (len) memcpy(*copy, data, len);
    return kg_gguf_parse(*copy, len, "bad.gguf", gguf, err);
}

/* Reads every byte that the file says is there. */
static unsigned touch(const struct kg_gguf *gguf) {
    unsigned sum = 0;
    for (size_t i = 0; i < kg_gguf_n_keys(gguf); i++) {
        const struct kg_gguf_key *key = kg_gguf_key_at(gguf, i);
        for (size_t k = 0; k < key->name.len; k++) sum += (uint8_t)key->name.data[k];
        for (size_t k = 0; key->type == KG_GGUF_STRING && k < key->value.s.len; k++)
            sum += (uint8_t)key->value.s.data[k];
        for (uint64_t k = 0; key->type == KG_GGUF_ARRAY && k < key->value.array.n; k++) {
            const struct kg_str *s = key->value.array.strings ? &key->value.array.strings[k] : NULL;
            if (s && s->len) sum += (uint8_t)s->data[s->len - 1];
            else if (!s) sum += kg_gguf_array_float(key, k) > 0;
        }
    }
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(gguf, i);
        for (uint64_t k = 0; k < t->size_bytes; k++) sum += ((const uint8_t *)t->data)[k];
    }
    return sum;
}

static void refused(struct kg_record *rec, const void *arg) {
    const struct hostile_row *row = arg;
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_gguf *gguf = NULL;
    struct kg_error err = { 0 };
    char *copy;
    (void)rec;
    kg_image_build(&image, row->script);
    ck_assert_int_eq(parse_copy(image.data, image.len, &gguf, &copy, &err), row->status);
    ck_assert_int_eq(err.status, row->status);
    ck_assert_ptr_null(gguf);
    ck_assert_msg(strncmp(err.message, "bad.gguf: ", 10) == 0, "'%s' does not begin with the file", err.message);
    ck_assert_msg(strstr(err.message, row->message) != NULL, "'%s' lacks '%s'", err.message, row->message);
    free(copy);
    kg_buffer_free(&image);
}

static void cut_at_every_byte(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    (void)arg;
    kg_image_build_sample(&image, 3);
    size_t n_naming_a_tensor = 0;
    for (size_t len = 0; len < image.len; len++) {
        struct kg_gguf *gguf;
        struct kg_error err = { 0 };
        char *copy;
        ck_assert_msg(parse_copy(image.data, len, &gguf, &copy, &err) == KG_ERR_FORMAT,
                      "the first %zu of %zu bytes pass", len, image.len);
        ck_assert_msg(strstr(err.message, "truncated") || strstr(err.message, "cannot lie"), "%zu: %s", len,
                      err.message);
        n_naming_a_tensor += strstr(err.message, "truncated: tensor '") != NULL;
        free(copy);
    }
    ck_assert_uint_ge(n_naming_a_tensor, 96 + 10); /* at least all cuts in the data */
    kg_record_metric(rec, "cuts", "count", (double)image.len);
    kg_buffer_free(&image);
}

static void every_bit_flipped(struct kg_record *rec, const void *arg) {
    struct kg_buffer image = KG_BUFFER_INIT;
    size_t n_refused = 0, n_read = 0;
    unsigned sum = 0;
    (void)arg;
    kg_image_build_sample(&image, 3);
    for (size_t bit = 0; bit < image.len * 8; bit++) {
        struct kg_gguf *gguf;
        struct kg_error err = { 0 };
        char *copy;
        image.data[bit / 8] ^= (char)(1 << bit % 8);
        const enum kg_status status = parse_copy(image.data, image.len, &gguf, &copy, &err);
        image.data[bit / 8] ^= (char)(1 << bit % 8);
        if (status == KG_OK) {
            sum += touch(gguf);
            kg_gguf_close(gguf);
            n_read++;
        } else {
            ck_assert_int_eq(err.status, status);
            ck_assert_ptr_nonnull(strstr(err.message, "bad.gguf: "));
            n_refused++;
        }
        free(copy);
    }
    ck_assert_uint_eq(n_refused + n_read, image.len * 8);
    ck_assert_uint_gt(n_refused, image.len); /* counts, lengths and types are most of the header */
    ck_assert_uint_gt(n_read, 68 * 8);       /* flips in tensor data are no business of the parser */
    ck_assert_uint_gt(sum, 0);
    kg_record_metric(rec, "refused", "count", (double)n_refused);
    kg_record_metric(rec, "read", "count", (double)n_read);
    kg_buffer_free(&image);
}

static void missing_file_and_folder(struct kg_record *rec, const void *arg) {
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_int_eq(kg_gguf_open("/nowhere/at/all.gguf", &gguf, &err), KG_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/at/all.gguf"));
    ck_assert_int_eq(kg_gguf_open(kg_scratch_dir(rec), &gguf, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "not a regular file"));
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "gguf_hostile",
                                                  .name = ROWS[i].name,
                                                  .definition = ROWS[i].script,
                                                  .run = refused,
                                                  .arg = &ROWS[i] });
    const struct kg_case cases[] = {
        { .name = "cut_at_every_byte", .run = cut_at_every_byte },
        { .name = "every_bit_flipped", .run = every_bit_flipped },
        { .name = "missing_file_and_folder", .run = missing_file_and_folder },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "gguf_hostile";
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
