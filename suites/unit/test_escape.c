/* Text from outside in each medium: it shows what it holds, and stays where it was put. */
#include "base/escape.h"
#include "base/json_put.h"
#include "base/markdown.h"
#include "base/say.h"
#include "base/size.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "cli/bundles.h"
#include "suites/harness/case.h"
#include <check.h>
#include <limits.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(struct kg_buffer *out, const char *wanted) {
    ck_assert_str_eq(kg_buffer_text(out), wanted);
    kg_buffer_free(out);
}

/* Every code point, its neighbours of the same kind left out: where hidden ones begin and end. */
static void hidden_characters(struct kg_record *rec, const void *arg) {
    static const uint32_t EDGES[] = { 0x00,   0x20,    0x7F,    0xA0,    0xAD,    0xAE,   0x61C,  0x61D,
                                      0x180E, 0x180F,  0x200B,  0x200C,  0x200E,  0x2010, 0x2028, 0x202F,
                                      0x2060, 0x2070,  0xFDD0,  0xFDF0,  0xFEFF,  0xFF00, 0xFFF9, 0xFFFC,
                                      0xFFFE, 0x10000, 0x1D173, 0x1D17B, 0x1FFFE, 0x20000 };
    size_t n = 0;
    (void)rec, (void)arg;
    for (uint32_t c = 0; c <= 0x20000; c++) {
        if (kg_is_hidden(c) == (n % 2 == 1)) continue;
        ck_assert_msg(n < KG_COUNT_OF(EDGES) && EDGES[n] == c, "U+%04X", (unsigned)c);
        n++;
    }
    ck_assert_uint_eq(n, KG_COUNT_OF(EDGES));
    ck_assert(kg_is_hidden(0xE0041) && kg_is_hidden(0x10FFFF) && !kg_is_hidden(0xE0100));
}

/* One text of everything in every medium. */
static void one_text_in_every_medium(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = "a\x1b[1m\xC2\x9B\xE2\x80\xAE\xED\xA0\x80\xF3\xA0\x81\x81 <b>&|`*#'\"\\\n\tz";
    static const struct {
        enum kg_medium medium;
        const char *wanted;
    } ROWS[] = {
        { KG_MEDIUM_TEXT, "a\\x1B[1m\\u009B\\u202E\\xED\\xA0\\x80\\U000E0041 <b>&|`*#'\"\\  z" },
        { KG_MEDIUM_MARKDOWN, "a\\\\x1B\\[1m\\\\u009B\\\\u202E\\\\xED\\\\xA0\\\\x80\\\\U000E0041 "
                              "&lt;b>&amp;\\|\\`\\*#'\"\\\\  z" },
        { KG_MEDIUM_HTML, "a\\x1B[1m\\u009B\\u202E\\xED\\xA0\\x80\\U000E0041 &lt;b&gt;&amp;|`*#&#39;&quot;\\  z" },
        { KG_MEDIUM_TAP, "a\\\\x1B[1m\\\\u009B\\\\u202E\\\\xED\\\\xA0\\\\x80\\\\U000E0041 <b>&|`*\\#'\"\\\\  z" },
    };
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    ck_assert_uint_eq(KG_COUNT_OF(ROWS), KG_MEDIUM_COUNT);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        kg_escape(&out, ROWS[i].medium, TEXT, strlen(TEXT));
        expect(&out, ROWS[i].wanted);
    }
    kg_xml_put(&out, "<\n\t\x1b'>");
    expect(&out, "&lt;&#10;&#9;\\x1B&#39;&gt;");
    kg_markdown_span(&out, "a`b``c|\x1b");
    expect(&out, "``` a`b``c\\|\\x1B ```");
}

static void csv_computes_nothing(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *text, *wanted;
    } ROWS[] = {
        { "=1+1", "'=1+1" },
        { "+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0" },
        { "-2+3", "'-2+3" },
        { "@SUM(A1)", "'@SUM(A1)" },
        { "\t=1", "\"'\t=1\"" },
        { "=a,b", "\"'=a,b\"" },
        { "+", "'+" },
        { "\xEF\xBC\x9D"
          "1",
          "'\xEF\xBC\x9D"
          "1" },
        { "-5", "-5" },
        { "+1.5e-3", "+1.5e-3" },
        { "-0x1p3", "-0x1p3" },
        { "-inf", "-inf" },
        { "-", "-" },
        { "a=b", "a=b" },
        { "\r=1", "\\x0D=1" },
        { "-5 ", "\"'-5 \"" },
        { "a\nb", "\"a\nb\"" },
        { "a\x1b\xE2\x80\xAE", "a\\x1B\\u202E" },
        { "say \"x\"", "\"say \"\"x\"\"\"" },
        { "", "" },
    };
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        kg_csv_put(&out, ROWS[i].text, strlen(ROWS[i].text), "");
        expect(&out, ROWS[i].wanted);
    }
    kg_csv_put(&out, "-1\0x", 4, "\r\n");
    expect(&out, "'-1\\x00x\r\n");
}

/* JSON keeps the text, whatever it is, and shows it. */
static void json_is_visible_and_exact(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = "\x01\n\x7F\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81\xF0\x9F\x8D\x83 \"\\";
    static const char WANTED[] = "\"\\u0001\\n\\u007f\\u009b\\u202e\\udb40\\udc41\xF0\x9F\x8D\x83 \\\"\\\\\"";
    struct kg_buffer out = KG_BUFFER_INIT;
    json_t *string = json_string(TEXT);
    (void)rec, (void)arg;
    char *dumped = kg_json_dump(string, JSON_ENCODE_ANY);
    ck_assert_str_eq(dumped, WANTED);
    json_t *again = json_loads(dumped, JSON_DECODE_ANY, NULL);
    ck_assert(json_equal(string, again));
    kg_json_put_string(&out, TEXT, strlen(TEXT));
    expect(&out, WANTED);
    ck_assert_ptr_null(kg_json_dump(NULL, 0));
    json_decref(again);
    free(dumped);
    json_decref(string);
}

/* Values of printf's conversions are those of printf; a text is escaped, cut between characters, and as wide as asked
 * for in columns. */
static void formats(struct kg_record *rec, const void *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    char wanted[400];
#define SAME(...)                                                                                                      \
    do {                                                                                                               \
        snprintf(wanted, sizeof wanted, __VA_ARGS__);                                                                  \
        kg_text_printf(&out, __VA_ARGS__);                                                                             \
        expect(&out, wanted);                                                                                          \
    } while (0)
    (void)rec, (void)arg;
    SAME("%d|%5d|%-5d|%05d|%+d|% d|%u|%x|%o|%c|%%", -1, 7, 7, 7, 7, 7, UINT32_MAX, 255u, 8u, 'c');
    SAME("%lld %llu %ld %lu %zu %zd %jd %td %hhd %hd", LLONG_MIN, ULLONG_MAX, -1L, 1UL, SIZE_MAX, (ssize_t)-1,
         INTMAX_MIN, (ptrdiff_t)-3, (signed char)-1, (short)-2);
    SAME("%" PRIu64 " %14" PRIu64 " %" PRId64, UINT64_MAX, (uint64_t)5, INT64_MIN);
    SAME("%g|%.3f|%10.2e|%-10.4g|%+.1f%%|%a", 0.1, 2.0 / 3, 12345.678, 1e-9, -0.25, 1.5);
    SAME("%*d|%-*d|%.*f|%*d", 6, 42, 6, 42, 3, 1.0, -6, 42);
    SAME("%s|%10s|%-10s|%.3s|%*s|%-*.*s|%.*s|%.s|", "abc", "abc", "abc", "abcdef", 5, "x", 6, 2, "xyz", -1, "whole",
         "x");
#undef SAME
    kg_text_printf(&out, "%s\n%s", "a\nb\x1b", "\xE2\x80\xAE");
    expect(&out, "a b\\x1B\n\\u202E");
    kg_text_printf(&out, "[%5s][%-5s][%.2s][%.1s]", "\xE7\x8C\xAB", "e\xCC\x81", "a\xC3\xBC", "\xC3\xBC");
    expect(&out, "[   \xE7\x8C\xAB][e\xCC\x81    ][a][]");
    kg_escape_printf(&out, KG_MEDIUM_MARKDOWN, "**%s** %d", "*|<", 1);
    expect(&out, "**\\*\\|&lt;** 1");
}

/* Columns stay below each other whatever stands in them. */
static void tables_stay_aligned(struct kg_record *rec, const void *arg) {
    static const char *const CELLS[] = { "name",      "end", "\xE7\x8C\xAB\xE7\x8C\xAB", "1", "a\x1b", "22",
                                         "e\xCC\x81", "333" };
    struct kg_table table = { .n_columns = 2 };
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CELLS); i++) kg_table_add(&table, CELLS[i]);
    kg_table_print(&table, &out);
    kg_table_free(&table);
    expect(&out, "name   end\n\xE7\x8C\xAB\xE7\x8C\xAB     1\na\\x1B   22\ne\xCC\x81      333\n");
}

/* A shell reads the argument as it was; the command shows what it holds. */
static void shell_arguments_are_exact(struct kg_record *rec, const void *arg) {
    static const char *const TEXTS[] = { "a\x1b[31mb", "\x07",      "it's \xE2\x80\xAE\xC2\x9B",
                                         "\xFF\xFE",   "tab\there", "two\nlines\x7F" };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) {
        struct kg_buffer command = KG_BUFFER_INIT, shown = KG_BUFFER_INIT;
        char got[64];
        kg_buffer_puts(&command, "printf %s ");
        kg_shell_quote(&command, TEXTS[i]);
        kg_visible_put(&shown, command.data, command.len, KG_BREAKS_KEPT);
        ck_assert_str_eq(shown.data, command.data);
        FILE *pipe = popen(command.data, "r");
        ck_assert_ptr_nonnull(pipe);
        const size_t len = fread(got, 1, sizeof got - 1, pipe);
        got[len] = '\0';
        ck_assert_int_eq(pclose(pipe), 0);
        ck_assert_str_eq(got, TEXTS[i]);
        kg_buffer_free(&shown);
        kg_buffer_free(&command);
    }
}

/* What was laid out stands, and nothing hidden passes, also where a caller did not escape it. */
static void nothing_hidden_is_printed(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = "a\tb\r\nc\rd\x1b[2J\xE2\x80\xAE\n";
    static const char WANTED[] = "a\tb\r\nc\\x0Dd\\x1B[2J\\u202E\n";
    char got[128] = "";
    FILE *file = tmpfile();
    (void)rec, (void)arg;
    ck_assert_ptr_nonnull(file);
    ck_assert(kg_out_put(file, TEXT, strlen(TEXT)));
    ck_assert(kg_out_exact(file, TEXT, strlen(TEXT))); /* a file is no terminal */
    kg_say(file, "%s", TEXT);
    rewind(file);
    const size_t len = fread(got, 1, sizeof got - 1, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_eq(len, strlen(got));
    ck_assert_msg(strncmp(got, WANTED, strlen(WANTED)) == 0, "%s", got);
    ck_assert_msg(strncmp(got + strlen(WANTED), TEXT, strlen(TEXT)) == 0, "the bytes");
    ck_assert_str_eq(got + strlen(WANTED) + strlen(TEXT), "a b\\x0D c\\x0Dd\\x1B[2J\\u202E ");
}

#define CASE(name_)                                                                                                    \
    { .layer = "unit", .op = "escape", .name = #name_, .run = name_ }

int main(int argc, char **argv) {
    static const struct kg_case CASES[] = {
        CASE(hidden_characters),
        CASE(one_text_in_every_medium),
        CASE(csv_computes_nothing),
        CASE(json_is_visible_and_exact),
        CASE(formats),
        CASE(tables_stay_aligned),
        CASE(shell_arguments_are_exact),
        CASE(nothing_hidden_is_printed),
    };
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
