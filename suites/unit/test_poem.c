/* The judge of poems: good ones in every spelling it allows, and for each rule a poem that breaks it and nothing else.
 */
#include "suites/support/minute_words.h"
#include "suites/support/poem.h"
#include "suites/harness/case.h"
#include "base/size.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST "the quiet mountain\n"
#define THIRD "\na frog in the rain"
#define POEM(middle) FIRST middle THIRD
#define NONCE "aB3dE6gH"

struct poem_row {
    const char *name;
    const char *text;
    const char *minute_word;
    const char *nonce;
    uint32_t faults;
};

static const struct poem_row ROWS[] = {
    { "plain_poem", POEM("seven silver clouds drift by"), "seven", NONCE, 0 },
    { "capitals", "The Quiet MOUNTAIN\nSeven silver clouds drift by\nA frog in the rain", "seven", NONCE, 0 },
    { "punctuation", "the quiet mountain:\nseven silver clouds drift by;\na frog - in the rain...", "seven", NONCE, 0 },
    { "em_dash", "the quiet mountain \xe2\x80\x94\nseven silver clouds drift by\na frog in the rain!", "seven", NONCE,
      0 },
    { "newline_at_the_end", POEM("seven silver clouds drift by") "\n", "seven", NONCE, 0 },
    { "hyphenated_number", POEM("twenty-seven clouds drift by"), "twenty-seven", NONCE, 0 },
    { "spaced_number", POEM("twenty seven clouds drift by"), "twenty-seven", NONCE, 0 },
    { "capital_number", POEM("Twenty-Seven clouds drift by"), "twenty-seven", NONCE, 0 },
    { "unicode_hyphen", POEM("twenty\xe2\x80\x90seven clouds drift by"), "twenty-seven", NONCE, 0 },
    { "non_breaking_hyphen", POEM("twenty\xe2\x80\x91seven clouds drift by"), "twenty-seven", NONCE, 0 },
    { "tens_word_and_another_number", "twenty bright lanterns\ntwenty-seven clouds drift by\na frog in the rain",
      "twenty", NONCE, 0 },
    { "tens_and_units_of_two_lines", "the lanterns: twenty\none quiet mountain sleeps now\na frog in the rain", "one",
      NONCE, 0 },
    { "comma_parts_a_number", POEM("twenty, seven bright clouds drift"), "seven", NONCE, 0 },

    { "seven_is_not_in_seventeen", POEM("seventeen white clouds drift by"), "seven", NONCE, KG_POEM_WORD_ABSENT },
    { "seven_is_not_in_twenty_seven", POEM("twenty-seven clouds drift by"), "seven", NONCE, KG_POEM_WORD_ABSENT },
    { "seven_is_not_in_spaced_twenty_seven", POEM("twenty seven clouds drift by"), "seven", NONCE,
      KG_POEM_WORD_ABSENT },
    { "twenty_is_not_in_twenty_seven", POEM("twenty-seven clouds drift by"), "twenty", NONCE, KG_POEM_WORD_ABSENT },
    { "twenty_is_not_in_spaced_twenty_seven", POEM("twenty seven clouds drift by"), "twenty", NONCE,
      KG_POEM_WORD_ABSENT },
    { "six_is_not_in_sixteen", POEM("sixteen silver clouds drift by"), "six", NONCE, KG_POEM_WORD_ABSENT },
    { "another_number", POEM("seven silver clouds drift by"), "zero", NONCE, KG_POEM_WORD_ABSENT },
    { "no_number", POEM("quiet silver clouds drift by"), "seven", NONCE, KG_POEM_WORD_ABSENT },
    { "word_twice", "the seven mountains\nseven silver clouds drift by\na frog in the rain", "seven", NONCE,
      KG_POEM_WORD_REPEATED },
    { "word_twice_in_two_cases", "the SEVEN mountains\nseven silver clouds drift by\na frog in the rain", "seven",
      NONCE, KG_POEM_WORD_REPEATED },
    { "word_twice_in_two_spellings", "twenty seven moons\ntwenty-seven clouds drift by\na frog in the rain",
      "twenty-seven", NONCE, KG_POEM_WORD_REPEATED },
    { "six_syllables_first", "the mossy mountain now\nseven silver clouds drift by\na frog in the rain", "seven", NONCE,
      KG_POEM_SYLLABLES },
    { "six_syllables_second", POEM("seven silver clouds drift"), "seven", NONCE, KG_POEM_SYLLABLES },
    { "eight_syllables_second", POEM("seven silver clouds drift away"), "seven", NONCE, KG_POEM_SYLLABLES },
    { "four_syllables_third", FIRST "seven silver clouds drift by\na frog in rain", "seven", NONCE, KG_POEM_SYLLABLES },
    { "lines_swapped", "seven silver clouds drift by\nthe quiet mountain\na frog in the rain", "seven", NONCE,
      KG_POEM_SYLLABLES },
    { "spaced_number_counts_its_syllables", POEM("twenty seven clouds drift"), "twenty-seven", NONCE,
      KG_POEM_SYLLABLES },
    { "unknown_word", POEM("seven zilver clouds drift by"), "seven", NONCE, KG_POEM_UNKNOWN_WORD },
    { "unknown_compound", POEM("seven silver-clouds drift by"), "seven", NONCE, KG_POEM_UNKNOWN_WORD },
    { "apostrophe_s", POEM("seven cloud's silver drift by"), "seven", NONCE, KG_POEM_UNKNOWN_WORD },
    { "word_past_the_buffer",
      POEM("seven aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "seven", NONCE,
      KG_POEM_UNKNOWN_WORD },
    { "fourth_line", POEM("seven silver clouds drift by") "\nthe old pond", "seven", NONCE, KG_POEM_LINES },
    { "empty_line_between", "the quiet mountain\n\nseven silver clouds drift by\na frog in the rain", "seven", NONCE,
      KG_POEM_LINES | KG_POEM_SYLLABLES },
    { "two_newlines_at_the_end", POEM("seven silver clouds drift by") "\n\n", "seven", NONCE, KG_POEM_LINES },
    { "two_lines", "the quiet mountain\nseven silver clouds drift by", "seven", NONCE, KG_POEM_LINES },
    { "one_line", "the quiet mountain seven silver clouds drift by", "seven", NONCE,
      KG_POEM_LINES | KG_POEM_SYLLABLES },
    { "asterisks", POEM("*seven silver clouds drift by*"), "seven", NONCE, KG_POEM_MARKUP },
    { "quotes", POEM("\"seven silver clouds drift by\""), "seven", NONCE, KG_POEM_MARKUP },
    { "digits", POEM("seven silver clouds drift by 7"), "seven", NONCE, KG_POEM_MARKUP },
    { "tab", POEM("seven\tsilver clouds drift by"), "seven", NONCE, KG_POEM_MARKUP },
    { "carriage_return", POEM("seven silver clouds drift by\r"), "seven", NONCE, KG_POEM_MARKUP },
    { "emoji", POEM("seven silver clouds drift by \xf0\x9f\x8c\xb8"), "seven", NONCE, KG_POEM_MARKUP },
    { "special_token", POEM("seven silver clouds drift by") "<|im_end|>", "seven", NONCE,
      KG_POEM_MARKUP | KG_POEM_UNKNOWN_WORD },
    { "nonce_that_is_a_word", POEM("seven silver clouds drift by"), "seven", "mountain", KG_POEM_NONCE },
    { "nonce_in_other_case", POEM("seven silver clouds drift by"), "seven", "MoUnTaIn", KG_POEM_NONCE },
    { "nonce_across_words", POEM("seven silver clouds drift by"), "seven", "et mount", KG_POEM_NONCE },
    { "nonce_echoed", POEM("seven silver clouds drift by") " aB3dE6gH", "seven", NONCE,
      KG_POEM_NONCE | KG_POEM_MARKUP | KG_POEM_UNKNOWN_WORD },
    { "cut_utf8", POEM("seven silver clouds drift by") "\xe2\x80", "seven", NONCE, KG_POEM_ENCODING },
    { "surrogate", POEM("seven silver clouds drift by") "\xed\xa0\x80", "seven", NONCE, KG_POEM_ENCODING },
    { "overlong", POEM("seven silver clouds drift by") "\xc0\xaf", "seven", NONCE, KG_POEM_ENCODING },
    { "empty_text", "", "seven", NONCE, KG_POEM_LINES | KG_POEM_SYLLABLES | KG_POEM_WORD_ABSENT },
};

static struct kg_lexicon *lexicon;

static void open_lexicon(void) {
    struct kg_error err = { 0 };
    if (!lexicon && kg_lexicon_open(kg_fixture_path("lexicon/syllables.tsv"), &lexicon, &err) != KG_OK)
        ck_abort_msg("%s", err.message);
}

static void judged_as_said(struct kg_record *rec, const void *arg) {
    const struct poem_row *const row = arg;
    (void)rec;
    open_lexicon();
    struct kg_poem_verdict verdict;
    kg_poem_judge(lexicon, row->text, strlen(row->text), row->minute_word, row->nonce, &verdict);
    ck_assert_msg(verdict.faults == row->faults, "faults 0x%x, expected 0x%x: %s", verdict.faults, row->faults,
                  verdict.message);
    ck_assert_int_eq(verdict.message[0] != '\0', row->faults != 0);
}

static void nul_byte_is_no_end(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = POEM("seven silver clouds drift by") "\0hidden";
    (void)rec;
    (void)arg;
    open_lexicon();
    struct kg_poem_verdict verdict;
    kg_poem_judge(lexicon, TEXT, sizeof TEXT - 1, "seven", NONCE, &verdict);
    ck_assert_msg(verdict.faults & KG_POEM_MARKUP, "%s", verdict.message);
}

static void counts_are_told(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = "one frog\none river dreaming\n\n";
    (void)rec;
    (void)arg;
    open_lexicon();
    struct kg_poem_verdict verdict;
    kg_poem_judge(lexicon, TEXT, sizeof TEXT - 1, "one", NONCE, &verdict);
    ck_assert_uint_eq(verdict.n_lines, 3);
    ck_assert_int_eq(verdict.syllables[0], 2);
    ck_assert_int_eq(verdict.syllables[1], 5);
    ck_assert_int_eq(verdict.syllables[2], 0);
    ck_assert_uint_eq(verdict.n_minute_words, 2);
}

/* Every minute in three spellings, and no minute's word in another minute's poem: 60 x 60 judgements. */
static void each_minute_matches_itself_only(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    open_lexicon();
    for (int said = 0; said < KG_MINUTES; said++)
        for (int asked = 0; asked < KG_MINUTES; asked++)
            for (int spelling = 0; spelling < 3; spelling++) {
                char text[64];
                const int len = snprintf(text, sizeof text, "a\n%s\nb", kg_minute_word(said));
                for (char *c = text; *c; c++) {
                    if (spelling == 1 && *c == '-') *c = ' ';
                    if (spelling == 2 && *c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
                }
                struct kg_poem_verdict verdict;
                kg_poem_judge(lexicon, text, (size_t)len, kg_minute_word(asked), NONCE, &verdict);
                ck_assert_msg(verdict.n_minute_words == (said == asked), "'%s' holds '%s' %zu times", text,
                              kg_minute_word(asked), verdict.n_minute_words);
            }
}

static void lexicon_starts_with_the_minutes(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    open_lexicon();
    ck_assert_uint_ge(kg_lexicon_n_words(lexicon), 300);
    for (int minute = 0; minute < KG_MINUTES; minute++) {
        const char *const word = kg_minute_word(minute);
        ck_assert_str_eq(kg_lexicon_word_at(lexicon, (size_t)minute), word);
        ck_assert_str_eq(kg_lexicon_class_at(lexicon, (size_t)minute), "minute");
        ck_assert_int_eq(kg_minute_from_word(word, strlen(word)), minute);
    }
    ck_assert_str_ne(kg_lexicon_class_at(lexicon, KG_MINUTES), "minute");
}

static void hyphenated_syllables_add_up(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    open_lexicon();
    for (int minute = 21; minute < KG_MINUTES; minute++) {
        const char *const word = kg_minute_word(minute), *const hyphen = strchr(word, '-');
        if (!hyphen) continue;
        ck_assert_int_eq(kg_lexicon_syllables(lexicon, word, strlen(word)),
                         kg_lexicon_syllables(lexicon, word, (size_t)(hyphen - word)) +
                             kg_lexicon_syllables(lexicon, hyphen + 1, strlen(hyphen + 1)));
    }
}

/* Looked up by length, not to the NUL; a prefix of a word and a longer word are other words. */
static void lookup_is_of_whole_words(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    open_lexicon();
    ck_assert_int_eq(kg_lexicon_syllables(lexicon, "mountaineer", strlen("mountain")), 2);
    ck_assert_int_eq(kg_lexicon_syllables(lexicon, "mountain", strlen("mountai")), 0);
    ck_assert_int_eq(kg_lexicon_syllables(lexicon, "mountaineer", strlen("mountaineer")), 0);
    ck_assert_int_eq(kg_lexicon_syllables(lexicon, "", 0), 0);
    for (size_t row = 0; row < kg_lexicon_n_words(lexicon); row++) {
        const char *const word = kg_lexicon_word_at(lexicon, row);
        ck_assert_msg(kg_lexicon_syllables(lexicon, word, strlen(word)) > 0, "'%s' is not found", word);
    }
}

struct bad_lexicon_row {
    const char *name, *text, *named;
};
static const struct bad_lexicon_row BAD_LEXICONS[] = {
    { "lexicon_missing_column", "stone\t1\tnoun\nfrog\t1\n", "frog" },
    { "lexicon_count_no_number", "stone\tone\tnoun\n", "one" },
    { "lexicon_zero_syllables", "stone\t0\tnoun\n", "stone" },
    { "lexicon_word_twice", "stone\t1\tnoun\nfrog\t1\tnoun\nstone\t2\tnoun\n", "stone" },
    { "lexicon_without_words", "\n", "no words" },
};

static void bad_lexicon_is_named(struct kg_record *rec, const void *arg) {
    const struct bad_lexicon_row *const row = arg;
    char path[1024];
    snprintf(path, sizeof path, "%s/bad.tsv", kg_scratch_dir(rec));
    FILE *const file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(row->text, file);
    ck_assert_int_eq(fclose(file), 0);
    struct kg_lexicon *bad = NULL;
    struct kg_error err = { 0 };
    ck_assert_int_eq(kg_lexicon_open(path, &bad, &err), KG_ERR_FORMAT);
    ck_assert_msg(strstr(err.message, row->named) && strstr(err.message, path), "%s", err.message);
    ck_assert_ptr_null(bad);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case OTHERS[] = {
        { .layer = "unit", .op = "poem", .name = "nul_byte_is_no_end", .run = nul_byte_is_no_end },
        { .layer = "unit", .op = "poem", .name = "counts_are_told", .run = counts_are_told },
        { .layer = "unit",
          .op = "poem",
          .name = "each_minute_matches_itself_only",
          .run = each_minute_matches_itself_only },
        { .layer = "unit",
          .op = "lexicon",
          .name = "lexicon_starts_with_the_minutes",
          .run = lexicon_starts_with_the_minutes },
        { .layer = "unit", .op = "lexicon", .name = "hyphenated_syllables_add_up", .run = hyphenated_syllables_add_up },
        { .layer = "unit", .op = "lexicon", .name = "lookup_is_of_whole_words", .run = lookup_is_of_whole_words },
    };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "poem",
                                                  .name = ROWS[i].name,
                                                  .spec = "FT-050",
                                                  .definition = ROWS[i].text,
                                                  .run = judged_as_said,
                                                  .arg = &ROWS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(BAD_LEXICONS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "lexicon",
                                                  .name = BAD_LEXICONS[i].name,
                                                  .definition = BAD_LEXICONS[i].text,
                                                  .run = bad_lexicon_is_named,
                                                  .arg = &BAD_LEXICONS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_case_list_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
