/* The small things everything stands on: buffers, sizes, random numbers, hashes, threads, UTF-8, clocks, errors. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_put.h"
#include "base/rng.h"
#include "base/size.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "suites/harness/case.h"
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void buffer_grows_and_ends_with_nul(struct kg_record *rec, const void *arg) {
    struct kg_buffer b = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    ck_assert_str_eq(kg_buffer_text(&b), "");
    kg_buffer_append(&b, NULL, 0);
    ck_assert_str_eq(kg_buffer_text(&b), "");
    for (int i = 0; i < 1000; i++) {
        kg_buffer_printf(&b, "%d,", i);
        ck_assert_int_eq(b.data[b.len], '\0');
    }
    ck_assert_uint_eq(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    ck_assert_int_eq(strncmp(b.data, "0,1,2,3,", 8), 0);
    ck_assert_str_eq(b.data + b.len - 8, "998,999,");
    kg_buffer_clear(&b);
    ck_assert_str_eq(kg_buffer_text(&b), "");
    kg_buffer_append(&b, "a\0b", 3);
    kg_buffer_puts(&b, "c");
    ck_assert_uint_eq(b.len, 4);
    ck_assert_mem_eq(b.data, "a\0bc", 5);
    kg_buffer_free(&b);
    ck_assert(b.data == NULL && b.len == 0 && b.capacity == 0);
}

static void sizes_that_overflow(struct kg_record *rec, const void *arg) {
    uint64_t out;
    (void)rec, (void)arg;
    ck_assert(kg_mul_u64(0xFFFFFFFF, 0x100000001, &out) && out == UINT64_MAX);
    ck_assert(!kg_mul_u64(0x100000000, 0x100000000, &out));
    ck_assert(kg_mul_u64(0, UINT64_MAX, &out) && out == 0);
    ck_assert(kg_add_u64(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    ck_assert(!kg_add_u64(UINT64_MAX, 1, &out));
    ck_assert(kg_align_u64(0, 32, &out) && out == 0);
    ck_assert(kg_align_u64(1, 32, &out) && out == 32);
    ck_assert(kg_align_u64(32, 32, &out) && out == 32);
    ck_assert(kg_align_u64(33, 1, &out) && out == 33);
    ck_assert(kg_align_u64(UINT64_MAX - 31, 32, &out) && out == UINT64_MAX - 31);
    ck_assert(!kg_align_u64(UINT64_MAX - 30, 32, &out));
}

/* The known answers of the Random123 paper's authors for philox4x32-10 (their kat_vectors). */
static const struct {
    uint64_t seed, stream, counter;
    uint32_t want[4];
} PHILOX[] = {
    { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { 0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void philox_known_answers(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(PHILOX); i++) {
        uint32_t got[4];
        kg_philox4x32(PHILOX[i].seed, PHILOX[i].stream, PHILOX[i].counter, got);
        for (int k = 0; k < 4; k++) ck_assert_uint_eq(got[k], PHILOX[i].want[k]);
    }
}

static void rng_hands_out_the_blocks_in_order(struct kg_record *rec, const void *arg) {
    struct kg_rng rng, other;
    (void)rec, (void)arg;
    kg_rng_init(&rng, 7, 9);
    for (uint64_t counter = 0; counter < 3; counter++) {
        uint32_t block[4];
        kg_philox4x32(7, 9, counter, block);
        for (int k = 0; k < 4; k++) ck_assert_uint_eq(kg_rng_u32(&rng), block[k]);
    }
    kg_rng_init(&rng, 7, 9);
    kg_rng_init(&other, 7, 10);
    ck_assert_uint_ne(kg_rng_u32(&rng), kg_rng_u32(&other));
}

/* Moments and bins of 200,000 draws; each limit is 5 or more standard deviations wide. */
static void rng_distributions(struct kg_record *rec, const void *arg) {
    enum { N = 200000, BINS = 7 };
    struct kg_rng rng;
    double sum = 0, square = 0, fourth = 0, uniform = 0, chi = 0;
    size_t bins[BINS] = { 0 };
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 1);
    for (int i = 0; i < N; i++) {
        const double z = kg_rng_normal(&rng), u = kg_rng_uniform(&rng);
        if (!isfinite(z) || u < 0 || u >= 1) ck_abort_msg("draw %d: normal %g, uniform %g", i, z, u);
        sum += z, square += z * z, fourth += z * z * z * z, uniform += u;
        bins[kg_rng_below(&rng, BINS)]++;
    }
    for (int b = 0; b < BINS; b++) chi += pow((double)bins[b] - N / (double)BINS, 2) / (N / (double)BINS);
    ck_assert_double_lt(fabs(sum / N), 5 / sqrt(N));
    ck_assert_double_lt(fabs(square / N - 1), 5 * sqrt(2.0 / N));
    ck_assert_double_lt(fabs(fourth / N - 3), 5 * sqrt(96.0 / N));
    ck_assert_double_lt(fabs(uniform / N - 0.5), 5 * sqrt(1 / 12.0 / N));
    ck_assert_double_lt(chi, 45); /* 6 degrees of freedom: 1e-7 */
    ck_assert_uint_eq(kg_rng_below(&rng, 1), 0);
}

static const struct {
    const char *text;
    size_t n_times;
    const char *hex;
} SHA256[] = {
    { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    { "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
};

static void sha256_known_answers(struct kg_record *rec, const void *arg) {
    char hex[KG_SHA256_HEX_SIZE], *path = NULL;
    struct kg_error err = { 0 };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SHA256); i++) {
        struct kg_sha256 *h = kg_sha256_new();
        for (size_t k = 0; k < SHA256[i].n_times; k++) kg_sha256_update(h, SHA256[i].text, strlen(SHA256[i].text));
        kg_sha256_finish(h, hex);
        ck_assert_str_eq(hex, SHA256[i].hex);
    }
    kg_sha256_hex("abc", 3, hex);
    ck_assert_str_eq(hex, SHA256[1].hex);
    path = kg_xasprintf("%s/million", kg_scratch_dir(rec));
    FILE *f = fopen(path, "w");
    for (int k = 0; k < 1000000; k++) fputc('a', f);
    fclose(f);
    errno = EINTR; /* of an earlier call: the end of a file is its end all the same */
    ck_assert_int_eq(kg_sha256_file(path, hex, &err), KG_OK);
    ck_assert_str_eq(hex, SHA256[3].hex);
    ck_assert_int_eq(kg_sha256_file("/nowhere/at/all", hex, &err), KG_ERR_NOT_FOUND);
    ck_assert_int_eq(kg_sha256_file(kg_scratch_dir(rec), hex, &err), KG_ERR_IO);
    free(path);
}

/* Loops of many lengths and least ranges: each index exactly once, no range shorter than asked. */
struct loop_seen {
    atomic_uchar counts[1000];
    size_t min_per_range, n;
    atomic_int too_short;
};

static void count_range(void *arg, size_t begin, size_t end) {
    struct loop_seen *seen = arg;
    if (end - begin < seen->min_per_range && end - begin < seen->n) seen->too_short++;
    for (size_t i = begin; i < end; i++) seen->counts[i]++;
}

static void threads_cover_every_index_once(struct kg_record *rec, const void *arg) {
    const size_t lengths[] = { 0, 1, 2, 3, 7, 8, 64, 999, 1000 }, least[] = { 0, 1, 2, 10, 1000, 5000 };
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        struct kg_thread_pool *pool;
        ck_assert_int_eq(kg_thread_pool_create(n_threads, &pool, &err), KG_OK);
        ck_assert_int_eq(kg_thread_pool_size(pool), n_threads);
        for (size_t l = 0; l < KG_COUNT_OF(lengths); l++) {
            for (size_t m = 0; m < KG_COUNT_OF(least); m++) {
                struct loop_seen seen = { .min_per_range = least[m], .n = lengths[l] };
                kg_parallel_for(pool, lengths[l], least[m], count_range, &seen);
                for (size_t i = 0; i < 1000; i++)
                    if (seen.counts[i] != (i < lengths[l]))
                        ck_abort_msg("%d threads, length %zu: [%zu] ran %d times", n_threads, lengths[l], i,
                                     seen.counts[i]);
                ck_assert_int_eq(seen.too_short, 0);
            }
        }
        kg_thread_pool_destroy(pool);
    }
    struct loop_seen alone = { .n = 10 };
    kg_parallel_for(NULL, 10, 1, count_range, &alone);
    for (size_t i = 0; i < 1000; i++) ck_assert_uint_eq(alone.counts[i], i < 10);
}

/* Ten thousand short loops in a row: a worker that sleeps through one, or runs one twice, would show. */
static void many_short_loops(struct kg_record *rec, const void *arg) {
    struct kg_thread_pool *pool;
    struct kg_error err = { 0 };
    static atomic_ulong total;
    (void)rec, (void)arg;
    ck_assert_int_eq(kg_thread_pool_create(4, &pool, &err), KG_OK);
    unsigned long want = 0;
    for (int loop = 0; loop < 10000; loop++) {
        struct loop_seen seen = { .n = 8 };
        kg_parallel_for(pool, 8, 1, count_range, &seen);
        for (size_t i = 0; i < 8; i++) total += seen.counts[i];
        want += 8;
    }
    ck_assert_uint_eq(total, want);
    kg_thread_pool_destroy(pool);
    kg_thread_pool_destroy(NULL);
    ck_assert_int_eq(kg_thread_pool_create(-1, &pool, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_thread_pool_size(NULL), 1);
}

static const struct {
    const char *bytes;
    size_t len, sequence; /* length of the first sequence, 0 if malformed */
    uint32_t code_point;
} UTF8[] = {
    { "a", 1, 1, 'a' },
    { "\xC2\x80", 2, 2, 0x80 },
    { "\xDF\xBF", 2, 2, 0x7FF },
    { "\xE0\xA0\x80", 3, 3, 0x800 },
    { "\xEF\xBF\xBF", 3, 3, 0xFFFF },
    { "\xED\x9F\xBF", 3, 3, 0xD7FF },
    { "\xF0\x90\x80\x80", 4, 4, 0x10000 },
    { "\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF },
    { "\0", 1, 1, 0 },
    { "", 0, 0, 0 },
    { "\x80", 1, 0, 0 },             /* stray continuation */
    { "\xC0\x80", 2, 0, 0 },         /* overlong NUL */
    { "\xC1\xBF", 2, 0, 0 },         /* overlong */
    { "\xE0\x9F\xBF", 3, 0, 0 },     /* overlong */
    { "\xF0\x8F\xBF\xBF", 4, 0, 0 }, /* overlong */
    { "\xED\xA0\x80", 3, 0, 0 },     /* surrogate */
    { "\xED\xBF\xBF", 3, 0, 0 },     /* surrogate */
    { "\xF4\x90\x80\x80", 4, 0, 0 }, /* above U+10FFFF */
    { "\xF8\x88\x80\x80", 4, 0, 0 }, /* five-byte form */
    { "\xFF", 1, 0, 0 },
    { "\xE2\x82", 2, 0, 0 },  /* cut off */
    { "\xC3(", 2, 0, 0 },     /* no continuation */
    { "\xE2\x82(", 3, 0, 0 }, /* no second continuation */
};

static void utf8_sequences(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(UTF8); i++) {
        uint32_t cp = 0xABCD;
        ck_assert_msg(kg_utf8_sequence(UTF8[i].bytes, UTF8[i].len, &cp) == UTF8[i].sequence, "row %zu", i);
        ck_assert_uint_eq(cp, UTF8[i].sequence ? UTF8[i].code_point : 0xABCD);
        ck_assert_int_eq(kg_utf8_valid(UTF8[i].bytes, UTF8[i].len), UTF8[i].sequence || UTF8[i].len == 0);
    }
    ck_assert(!kg_utf8_valid("good\xFFgood", 9));
}

static void utf8_made_fit_to_print(struct kg_record *rec, const void *arg) {
    struct kg_buffer b = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_utf8_append(&b, "a\xFF\xE2\x82z\u4ff3", 8);
    ck_assert_str_eq(b.data, "a\uFFFD\uFFFD\uFFFDz\u4ff3");
    ck_assert_str_eq(kg_quote("a\n\xFF\u4ff3\x7F\xC2\x85", 9).text, "a\\x0A\\xFF\u4ff3\\u007F\\u0085");
    ck_assert_str_eq(kg_quote("", 0).text, "");
    for (size_t n = 120; n < 400; n++) { /* cut, whole and of whole characters */
        kg_buffer_clear(&b);
        for (size_t i = 0; i < n; i++) kg_buffer_puts(&b, i % 3 == 0 ? "\U0001f343" : i % 3 == 1 ? "\x01" : "x");
        const struct kg_quoted q = kg_quote(b.data, b.len);
        ck_assert_uint_lt(strlen(q.text), sizeof q.text);
        ck_assert(kg_utf8_valid(q.text, strlen(q.text)));
        ck_assert_str_eq(q.text + strlen(q.text) - 3, "...");
    }
    kg_buffer_free(&b);
}

/* Whatever the bytes, the text is JSON that jansson reads, and good text comes back as it was. */
static void json_of_any_bytes(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < 2000; trial++) {
        char bytes[24];
        struct kg_buffer b = KG_BUFFER_INIT;
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(1 + kg_rng_below(&rng, trial % 2 ? 255 : 127));
        kg_buffer_puts(&b, "[");
        kg_json_put_string(&b, bytes, sizeof bytes);
        kg_buffer_puts(&b, ",");
        kg_json_put_name(&b, bytes, sizeof bytes);
        kg_buffer_puts(&b, "]");
        json_t *list = json_loadb(b.data, b.len, 0, NULL);
        ck_assert_msg(list != NULL, "%s", b.data);
        if (kg_utf8_valid(bytes, sizeof bytes)) {
            const json_t *text = json_array_get(list, 0);
            ck_assert_uint_eq(json_string_length(text), sizeof bytes);
            ck_assert_mem_eq(json_string_value(text), bytes, sizeof bytes);
        }
        json_decref(list);
        kg_buffer_free(&b);
    }
}

static void json_names_stay_distinct(struct kg_record *rec, const void *arg) {
    const struct {
        const char *name, *json;
    } rows[] = { { "a\xFF", "\"a\\\\xFF\"" },
                 { "a\xFE", "\"a\\\\xFE\"" },
                 { "a\\xFF", "\"a\\\\\\\\xFF\"" },
                 { "a\"\n", "\"a\\\"\\n\"" } };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        struct kg_buffer b = KG_BUFFER_INIT;
        kg_json_put_name(&b, rows[i].name, strlen(rows[i].name));
        ck_assert_str_eq(b.data, rows[i].json);
        kg_buffer_free(&b);
    }
}

static void json_numbers_read_back(struct kg_record *rec, const void *arg) {
    const double values[] = { 0.1, -2.5, 1e300, 5e-324, 0, 123456789, 0x1.fffffffffffffp1023 };
    struct kg_buffer b = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(values); i++) {
        kg_buffer_clear(&b);
        kg_json_put_f64(&b, values[i]);
        ck_assert_double_eq(strtod(b.data, NULL), values[i]);
        if (fabs(values[i]) > 3e38) continue;
        kg_buffer_clear(&b);
        kg_json_put_f32(&b, (float)values[i]);
        ck_assert_float_eq(strtof(b.data, NULL), (float)values[i]);
    }
    kg_buffer_clear(&b);
    kg_json_put_f64(&b, NAN);
    kg_json_put_f64(&b, INFINITY);
    kg_json_put_f32(&b, -INFINITY);
    ck_assert_str_eq(b.data, "\"NaN\"\"Infinity\"\"-Infinity\"");
    kg_buffer_free(&b);
}

static void utc_texts(struct kg_record *rec, const void *arg) {
    char text[KG_UTC_TEXT_SIZE];
    (void)rec, (void)arg;
    kg_clock_utc_text(INT64_C(1795167502123456), text);
    ck_assert_str_eq(text, "2026-11-20T09:38:22.123456Z");
    kg_clock_utc_compact(INT64_C(1795167502123456), text);
    ck_assert_str_eq(text, "20261120T093822Z");
    kg_clock_utc_text(0, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000000Z");
    const uint64_t before = kg_clock_monotonic_ns();
    ck_assert_uint_le(before, kg_clock_monotonic_ns());
    ck_assert_int_ge(kg_clock_local_minute(), 0);
    ck_assert_int_le(kg_clock_local_minute(), 59);
}

static void errors_keep_status_and_context(struct kg_record *rec, const void *arg) {
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_int_eq(kg_fail(&err, KG_ERR_RANGE, "%d is too much", 7), KG_ERR_RANGE);
    ck_assert_int_eq(kg_error_context(&err, KG_ERR_RANGE, "file %s", "f"), KG_ERR_RANGE);
    ck_assert_str_eq(err.message, "file f: 7 is too much");
    ck_assert_int_eq(err.status, KG_ERR_RANGE);
    ck_assert_int_eq(kg_fail(NULL, KG_ERR_IO, "nobody listens"), KG_ERR_IO);
    ck_assert_int_eq(kg_error_context(NULL, KG_ERR_IO, "nobody"), KG_ERR_IO);
    char *long_text = kg_xmalloc(3000);
    memset(long_text, 'x', 2999);
    long_text[2999] = '\0';
    (void)!kg_fail(&err, KG_ERR_IO, "%s", long_text);
    (void)!kg_error_context(&err, KG_ERR_IO, "%s", long_text);
    ck_assert_uint_lt(strlen(err.message), sizeof err.message);
    free(long_text);
    ck_assert_str_eq(kg_status_name(KG_ERR_NOT_FOUND), "KG_ERR_NOT_FOUND");
    ck_assert_int_eq(kg_status_exit_code(KG_ERR_FORMAT), KG_EXIT_INTEGRITY);
    ck_assert_int_eq(kg_status_exit_code(KG_OK), KG_EXIT_OK);
    ck_assert_int_eq(kg_status_exit_code((enum kg_status)999), KG_EXIT_INTERNAL);
    ck_assert_ptr_nonnull(kg_status_text((enum kg_status)999));
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "buffer", .name = "grows_and_ends_with_nul", .run = buffer_grows_and_ends_with_nul },
    { .layer = "unit", .op = "size", .name = "sizes_that_overflow", .run = sizes_that_overflow },
    { .layer = "unit", .op = "rng", .name = "philox_known_answers", .run = philox_known_answers },
    { .layer = "unit", .op = "rng", .name = "blocks_in_order", .run = rng_hands_out_the_blocks_in_order },
    { .layer = "unit", .op = "rng", .name = "distributions", .run = rng_distributions },
    { .layer = "unit", .op = "hash", .name = "sha256_known_answers", .run = sha256_known_answers },
    { .layer = "unit", .op = "threads", .name = "cover_every_index_once", .run = threads_cover_every_index_once },
    { .layer = "unit", .op = "threads", .name = "many_short_loops", .run = many_short_loops },
    { .layer = "unit", .op = "utf8", .name = "sequences", .run = utf8_sequences },
    { .layer = "unit", .op = "utf8", .name = "made_fit_to_print", .run = utf8_made_fit_to_print },
    { .layer = "unit", .op = "json_put", .name = "any_bytes", .run = json_of_any_bytes },
    { .layer = "unit", .op = "json_put", .name = "names_stay_distinct", .run = json_names_stay_distinct },
    { .layer = "unit", .op = "json_put", .name = "numbers_read_back", .run = json_numbers_read_back },
    { .layer = "unit", .op = "clock", .name = "utc_texts", .run = utc_texts },
    { .layer = "unit",
      .op = "status",
      .name = "errors_keep_status_and_context",
      .run = errors_keep_status_and_context },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
