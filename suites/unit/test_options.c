/* Command-line options: what was given arrives, and what does not parse is an error with its name and value. */
#include "base/nearest.h"
#include "base/options.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Where the table's rows put their values. */
struct parsed {
    bool flag;
    const char *text;
    struct kg_option_list texts;
    int64_t count;
    uint64_t seed;
    double temp;
    const char **args;
    size_t n_args;
    bool helped;
};

static enum kg_status parse(const char *const *given, struct parsed *p, struct kg_error *err) {
    *p = (struct parsed){ .count = -1 };
    const struct kg_option options[] = {
        { .name = "flag", .letter = 'f', .kind = KG_OPTION_FLAG, .value = &p->flag, .help = "h" },
        { .name = "text", .letter = 't', .kind = KG_OPTION_TEXT, .value = &p->text, .metavar = "TEXT", .help = "h" },
        { .name = "texts", .kind = KG_OPTION_TEXTS, .value = &p->texts, .metavar = "TEXT", .help = "h" },
        { .name = "count",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &p->count,
          .metavar = "N",
          .help = "h",
          .min = 1,
          .max = 100 },
        { .name = "seed", .kind = KG_OPTION_UINT64, .value = &p->seed, .metavar = "S", .help = "h" },
        { .name = "temp",
          .kind = KG_OPTION_DOUBLE,
          .value = &p->temp,
          .metavar = "T",
          .help = "h",
          .min = 0,
          .max = 2 },
    };
    const struct kg_command command = {
        .name = "kigo test",
        .usage = "[FILE]",
        .summary = "s",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 2,
    };
    char *argv[16] = { (char *)(uintptr_t) "test" };
    int argc = 1;
    for (; given[argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)given[argc - 1];
    return kg_options_parse(&command, argc, argv, &p->args, &p->n_args, &p->helped, err);
}

static void every_way_to_give_a_value(struct kg_record *rec, const void *arg) {
    struct parsed p;
    struct kg_error err = { 0 };
    const char *const given[] = { "-f", "a",           "--text",      "one",    "--texts", "x", "-n",
                                  "7",  "--texts=y=z", "--seed=0xFF", "--temp", "0.5",     "b", NULL };
    (void)rec, (void)arg;
    ck_assert_msg(parse(given, &p, &err) == KG_OK, "%s", err.message);
    ck_assert(p.flag && !p.helped && p.count == 7 && p.seed == 255 && p.temp == 0.5);
    ck_assert_str_eq(p.text, "one");
    ck_assert_uint_eq(p.texts.n_items, 2);
    ck_assert_str_eq(p.texts.items[0], "x");
    ck_assert_str_eq(p.texts.items[1], "y=z");
    ck_assert_uint_eq(p.n_args, 2);
    ck_assert_str_eq(p.args[0], "a");
    ck_assert_str_eq(p.args[1], "b");
    free(p.texts.items);
    free(p.args);
}

static void nothing_given_changes_nothing(struct kg_record *rec, const void *arg) {
    struct parsed p;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_int_eq(parse((const char *const[]){ NULL }, &p, &err), KG_OK);
    ck_assert(!p.flag && !p.text && p.texts.n_items == 0 && p.count == -1 && p.seed == 0 && p.temp == 0 &&
              p.n_args == 0);
    free(p.args);
}

static void dashes_as_arguments(struct kg_record *rec, const void *arg) {
    struct parsed p;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_int_eq(parse((const char *const[]){ "-", "--", "--flag", NULL }, &p, &err), KG_OK);
    ck_assert_uint_eq(p.n_args, 2);
    ck_assert_str_eq(p.args[0], "-");
    ck_assert_str_eq(p.args[1], "--flag");
    ck_assert(!p.flag);
    free(p.args);
    ck_assert_int_eq(parse((const char *const[]){ "--text", "--flag", NULL }, &p, &err), KG_OK);
    ck_assert_str_eq(p.text, "--flag"); /* a value may look like an option */
    ck_assert(!p.flag);
    free(p.args);
}

struct refusal {
    const char *name;
    const char *given[4];
    const char *message;
};
static const struct refusal REFUSALS[] = {
    { "unknown_long", { "--flags" }, "unknown option '--flags', did you mean '--flag'?; see 'kigo test --help'" },
    { "unknown_prefix", { "--fla" }, "unknown option '--fla', did you mean '--flag'?" },
    { "mistyped", { "--cuont", "3" }, "unknown option '--cuont', did you mean '--count'?; see 'kigo test --help'" },
    { "mistyped_with_a_value", { "--sead=3" }, "unknown option '--sead', did you mean '--seed'?; see" },
    { "unknown_letter", { "-x" }, "unknown option '-x'; see" },
    { "bundled_letters", { "-fn" }, "unknown option '-fn'" },
    { "value_missing", { "a", "--seed" }, "--seed needs a value (S)" },
    { "flag_with_value", { "--flag=1" }, "--flag takes no value" },
    { "no_number", { "-n", "many" }, "--count: 'many' is not a whole number from 1 to 100" },
    { "empty_number", { "--count=" }, "--count: '' is not a whole number" },
    { "number_with_tail", { "-n", "7x" }, "--count: '7x'" },
    { "real_for_whole", { "-n", "7.0" }, "--count: '7.0'" },
    { "space_before_number", { "-n", " 7" }, "--count: ' 7'" },
    { "number_beyond_64_bits", { "-n", "9223372036854775808" }, "'9223372036854775808'" },
    { "below_range", { "-n", "0" }, "--count: 0 is outside 1 to 100" },
    { "above_range", { "-n", "101" }, "--count: 101 is outside 1 to 100" },
    { "far_above_range", { "-n", "9999999999" }, "--count: 9999999999 is outside 1 to 100" },
    { "negative_seed", { "--seed", "-1" }, "--seed: '-1' is not a whole number from 0 to 18446744073709551615" },
    { "seed_beyond_64_bits", { "--seed", "18446744073709551616" }, "--seed: '18446744073709551616'" },
    { "nan", { "--temp", "nan" }, "--temp: 'nan' is not a finite number from 0 to 2" },
    { "infinity", { "--temp", "inf" }, "--temp: 'inf' is not a finite number" },
    { "beyond_double", { "--temp", "1e999" }, "--temp: '1e999'" },
    { "real_out_of_range", { "--temp", "-0.1" }, "--temp: -0.1 is outside 0 to 2" },
    { "too_many_arguments", { "a", "b", "c" }, "too many arguments; usage: kigo test [FILE]" },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct refusal *row = arg;
    struct parsed p;
    struct kg_error err = { 0 };
    (void)rec;
    ck_assert_int_eq(parse(row->given, &p, &err), KG_ERR_USAGE);
    ck_assert_int_eq(err.status, KG_ERR_USAGE);
    ck_assert_msg(strstr(err.message, row->message) != NULL, "'%s' lacks '%s'", err.message, row->message);
    ck_assert_ptr_null(p.args);
}

static void numbers(struct kg_record *rec, const void *arg) {
    int64_t i;
    uint64_t u;
    double d;
    (void)rec, (void)arg;
    ck_assert(kg_parse_i64("-9223372036854775808", &i, NULL) == KG_OK && i == INT64_MIN);
    ck_assert(kg_parse_i64("9223372036854775807", &i, NULL) == KG_OK && i == INT64_MAX);
    ck_assert(kg_parse_i64("010", &i, NULL) == KG_OK && i == 10); /* ten, not octal */
    ck_assert(kg_parse_i64("-0x10", &i, NULL) == KG_OK && i == -16);
    ck_assert(kg_parse_u64("18446744073709551615", &u, NULL) == KG_OK && u == UINT64_MAX);
    ck_assert(kg_parse_u64("0xffffffffffffffff", &u, NULL) == KG_OK && u == UINT64_MAX);
    ck_assert(kg_parse_u64("08", &u, NULL) == KG_OK && u == 8);
    ck_assert(kg_parse_double("1e-3", &d, NULL) == KG_OK && d == 0.001);
    ck_assert_int_eq(kg_parse_u64("0x", &u, NULL), KG_ERR_USAGE);
    ck_assert_int_eq(kg_parse_i64("- 1", &i, NULL), KG_ERR_USAGE);
    ck_assert_int_eq(kg_parse_double("", &d, NULL), KG_ERR_USAGE);
}

/* --help lists every row, with its letter, and the arguments that surround it do not matter. */
static void help_lists_every_option(struct kg_record *rec, const void *arg) {
    const struct kg_option options[] = {
        { .name = "alpha", .letter = 'a', .kind = KG_OPTION_FLAG, .help = "first of them" },
        { .name = "omega", .kind = KG_OPTION_TEXT, .metavar = "WORD", .help = "last of them" },
    };
    const struct kg_command command = {
        .name = "kigo x", .usage = "FILE", .summary = "Does x.", .options = options, .n_options = 2
    };
    const char *const parts[] = { "usage: kigo x FILE", "Does x.",      "-a, --alpha",
                                  "first of them",      "--omega WORD", "--help" };
    char *text = NULL;
    size_t len = 0;
    (void)rec, (void)arg;
    FILE *out = open_memstream(&text, &len);
    kg_options_help(&command, out);
    fclose(out);
    for (size_t i = 0; i < KG_COUNT_OF(parts); i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "'%s' is not in the help:\n%s", parts[i], text);
    free(text);
}

/* One change in three letters, the nearest first; what begins a name is near however much is missing. */
static void nearest_names(struct kg_record *rec, const void *arg) {
    static const char *const NAMES[] = { "list", "lint", "regress", "recover", "reindex", "query", "sign" };
    static const struct {
        const char *word, *name;
    } ROWS[] = {
        { "lst", "list" },    { "lsit", "list" },      { "lits", "list" },       { "linst", "list" },
        { "reg", "regress" }, { "r", NULL },           { "regrses", "regress" }, { "recovre", "recover" },
        { "qery", "query" },  { "rindxe", "reindex" }, { "compose", NULL },      { "", NULL },
        { "sing", "sign" },   { "xign", "sign" },      { "xxgn", NULL },         { "resgersa", NULL },
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_nearest nearest = { .word = ROWS[i].word, .len = strlen(ROWS[i].word) };
        for (size_t k = 0; k < KG_COUNT_OF(NAMES); k++) kg_nearest_try(&nearest, NAMES[k]);
        const char *got = nearest.name ? nearest.name : "none", *want = ROWS[i].name ? ROWS[i].name : "none";
        ck_assert_msg(strcmp(got, want) == 0, "'%s' is near %s, not %s", ROWS[i].word, got, want);
    }
    char long_word[80];
    memset(long_word, 'a', sizeof long_word);
    struct kg_nearest nearest = { .word = long_word, .len = sizeof long_word };
    kg_nearest_try(&nearest, "aaaaaaaa");
    ck_assert_ptr_null(nearest.name);
}

static void build(struct kg_case_list *list) {
    const struct kg_case cases[] = {
        { .name = "every_way_to_give_a_value", .run = every_way_to_give_a_value },
        { .name = "nothing_given_changes_nothing", .run = nothing_given_changes_nothing },
        { .name = "dashes_as_arguments", .run = dashes_as_arguments },
        { .name = "numbers", .run = numbers },
        { .name = "help_lists_every_option", .run = help_lists_every_option },
        { .name = "nearest_names", .run = nearest_names },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "options";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSALS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "options_refused",
                                                  .name = REFUSALS[i].name,
                                                  .run = refused,
                                                  .arg = &REFUSALS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
