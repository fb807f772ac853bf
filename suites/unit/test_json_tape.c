/* The quick reader against jansson: the same texts are accepted, and the same values come out. */
#include "base/buffer.h"
#include "base/json_read.h"
#include "base/json_tape.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool same_value(const struct kg_node *node, const json_t *json);

static bool same_members(const struct kg_node *object, json_t *json) {
    size_t n = 0;
    for (const struct kg_node *m = kg_node_first(object); m; m = kg_node_next(object, m), n++) {
        const json_t *value = json_object_get(json, m->name);
        if (!value || !same_value(m, value) || kg_node_member(object, m->name) != m) return false;
    }
    return n == json_object_size(json);
}

static bool same_list(const struct kg_node *list, const json_t *json) {
    size_t n = 0;
    for (const struct kg_node *c = kg_node_first(list); c; c = kg_node_next(list, c), n++)
        if (!same_value(c, json_array_get(json, n))) return false;
    return n == json_array_size(json);
}

static bool same_value(const struct kg_node *node, const json_t *json) {
    switch (node->kind) {
    case KG_NODE_NULL: return json_is_null(json);
    case KG_NODE_FALSE: return json_is_false(json);
    case KG_NODE_TRUE: return json_is_true(json);
    case KG_NODE_INT: return json_is_integer(json) && kg_node_integer(node) == json_integer_value(json);
    case KG_NODE_REAL: return json_is_real(json) && kg_node_number(node) == json_real_value(json);
    case KG_NODE_TEXT: return json_is_string(json) && strcmp(node->text, json_string_value(json)) == 0;
    case KG_NODE_LIST: return json_is_array(json) && same_list(node, json);
    case KG_NODE_OBJECT: return json_is_object(json) && same_members(node, (json_t *)(uintptr_t)json);
    }
    return false;
}

/* A copy that ends, with the one byte more that the reader may write, before a page that nobody may read; valid until
 * the next call. */
static char *before_a_wall(const char *text, size_t len) {
    enum { ROOM = 4 };
    static char *pages;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!pages) {
        pages = mmap(NULL, (ROOM + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(pages != MAP_FAILED);
        ck_assert_int_eq(mprotect(pages + ROOM * page, page, PROT_NONE), 0);
    }
    ck_assert_uint_lt(len, ROOM * page);
    return memcpy(pages + ROOM * page - len - 1, text, len);
}

/* The values that are made of the tape, in jansson's order, and its words for what is wrong. */
static void compare_values(const char *text, size_t len) {
    static struct kg_json_room room;
    json_error_t error, ours;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error), *read = kg_json_read(&room, text, len, &ours);
    ck_assert_msg(!json == !read && (!json || json_equal(json, read)), "'%.*s': another value", (int)len, text);
    if (json) {
        char *expected = json_dumps(json, 0), *got = json_dumps(read, 0);
        ck_assert_str_eq(got, expected);
        free(got);
        free(expected);
    } else ck_assert_str_eq(ours.text, error.text);
    json_decref(read);
    json_decref(json);
}

/* Both readers; a byte touched behind the text ends the program. */
static bool compare(const char *text, size_t len) {
    struct kg_tape tape = { NULL, 0, 0 };
    size_t at = 0;
    json_error_t error;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    const char *wrong = kg_tape_read(&tape, before_a_wall(text, len), len, &at);
    ck_assert_msg(!wrong == !!json, "'%.*s': %s here, %s by jansson", (int)len, text, wrong ? wrong : "good",
                  json ? "good" : error.text);
    if (json) ck_assert_msg(same_value(&tape.nodes[at], json), "'%.*s': another value", (int)len, text);
    compare_values(text, len);
    const bool good = json != NULL;
    json_decref(json);
    kg_tape_free(&tape);
    return good;
}

static void edges(struct kg_record *rec, const void *arg) {
    static const char *const TEXTS[] = {
        "{}",
        "[]",
        " { \"a\" : 1 , \"b\" : [ 1 , 2.5 , -3e2, 0, -0, 0.0 ] } ",
        "{\"a\":{\"b\":{\"c\":[{},[],\"\"]}}}",
        "null",
        "true",
        "false",
        "nul",
        "truefalse",
        "tru",
        "\"\"",
        "\"a",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\x\"",
        "\"\\u00e9\\u20ac\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "\"\\u0000\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\t\"",
        "\"\xc3\xa9\"",
        "\"\xc3\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "01",
        "-01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "1E5",
        "1e400",
        "-1e400",
        "1e-400",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "123456789012345678901234567890.5",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":}",
        "{\"a\":1",
        "[",
        "]",
        "{",
        "}",
        "",
        " ",
        "1 2",
        "{} {}",
        "{\"\":1}",
        "{\"\":1,\"\":2}",
        "{\"a\\u0062\":1,\"ab\":2}",
        "NaN",
        "Infinity",
        "[1,[2,[3,[4,[5]]]]]",
        "'a'",
        "1.5.5",
        "--1",
        "1e5e5",
        "\"\\u0041\\u0062c\"",
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++)
        for (size_t len = 0; len <= strlen(TEXTS[i]); len++) compare(TEXTS[i], len);
    compare("{\"a\0b\":1}", 9);
}

/* A result's line with bytes changed, left out, doubled: as hostile as it gets. */
static void mutated_records(struct kg_record *rec, const void *arg) {
    static const char RECORD[] =
        "{\"key\":\"unit/a/b[cpu,f32,M=1]\",\"status\":\"pass\",\"reason\":null,\"seed\":\"18446744073709551615\","
        "\"started_us\":1700000000000000,\"duration_ns\":12,\"errors\":[{\"name\":\"y\\u00e9\\n\",\"max_abs\":1.25e-7,"
        "\"judged\":true,\"tolerance\":{\"max_abs\":0.001},\"why\":\"\xe2\x82\xac \\\"quoted\\\"\"}],\"timings\":[],"
        "\"metrics\":[{\"name\":\"n\",\"unit\":\"count\",\"value\":-0.5}],\"memory\":[]}";
    static const char ODD[] = "\"\\{}[]:,0123456789eE+-.tfnu\x01\x1f\x7f\x80\xc3\xff ";
    enum { N_TRIALS = 20000, MOST = sizeof RECORD + 64 };
    struct kg_rng rng;
    size_t n_good = 0;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        char text[MOST];
        size_t len = sizeof RECORD - 1;
        memcpy(text, RECORD, len);
        for (uint64_t n = kg_rng_below(&rng, 4); n > 0; n--) {
            const size_t at = (size_t)kg_rng_below(&rng, len);
            const char c = ODD[kg_rng_below(&rng, sizeof ODD - 1)];
            const uint64_t how = kg_rng_below(&rng, 4);
            if (how == 0) {
                text[at] = c;
            } else if (how == 1 && len > 1) {
                memmove(text + at, text + at + 1, len-- - at - 1);
            } else if (how == 2 && len < MOST - 1) {
                memmove(text + at + 1, text + at, len++ - at);
                text[at] = c;
            } else {
                len = at + 1;
            }
        }
        n_good += compare(text, len);
    }
    kg_record_metric(rec, "accepted", "count", (double)n_good);
    ck_assert_uint_gt(n_good, N_TRIALS / 10);
    ck_assert_uint_lt(n_good, N_TRIALS / 2);
}

/* A text that ends behind a pair of surrogates lacks its quote, not half of the pair. */
static void cut_behind_a_pair(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *text, *like;
    } ROWS[] = { { "\"\\ud83d\\ude00", "\"a" }, { "\"\\ud83d\\ude0", "\"\\ud83d\"" } };
    struct kg_tape tape = { NULL, 0, 0 };
    size_t at;
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const size_t len = strlen(ROWS[i].text), like_len = strlen(ROWS[i].like);
        const char *wrong = kg_tape_read(&tape, before_a_wall(ROWS[i].text, len), len, &at);
        const char *expected = kg_tape_read(&tape, before_a_wall(ROWS[i].like, like_len), like_len, &at);
        ck_assert_ptr_nonnull(wrong);
        ck_assert_ptr_nonnull(expected);
        ck_assert_str_eq(wrong, expected);
    }
    kg_tape_free(&tape);
}

static void too_deep(struct kg_record *rec, const void *arg) {
    enum { LIMIT = 64, DEEP = 100000 };
    struct kg_tape tape = { NULL, 0, 0 };
    char *text = kg_xmalloc(2 * DEEP + 1);
    size_t at;
    (void)rec;
    (void)arg;
    memset(text, '[', LIMIT);
    memset(text + LIMIT, ']', LIMIT);
    ck_assert_ptr_null(kg_tape_read(&tape, text, (size_t)2 * LIMIT, &at));
    ck_assert_uint_eq(tape.n_nodes, LIMIT);
    memset(text, '[', DEEP);
    ck_assert_str_eq(kg_tape_read(&tape, text, DEEP, &at), "nested too deep");
    ck_assert_uint_eq(tape.n_nodes, LIMIT); /* what was begun is taken back */
    kg_tape_free(&tape);
    free(text);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "json_tape", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(edges), CASE(mutated_records), CASE(cut_behind_a_pair), CASE(too_deep) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
