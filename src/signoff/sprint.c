/* The schema is a table a kind of object: what members there are, of what type, and which must be there. A member that
 * is not in the table is an error: a misspelt criterion is none. */
#include "signoff/sprint.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_SIZE = 160 };

bool kg_figure_parse(const char *text, struct kg_figure_goal *goal) {
    static const struct {
        const char *ending;
        enum kg_goal_kind kind;
    } KINDS[] = {
        { "speedup", KG_GOAL_SPEEDUP }, { "reduction", KG_GOAL_REDUCTION }, { "ratio", KG_GOAL_RATIO },
        { "max_abs", KG_GOAL_ERROR },   { "max_rel", KG_GOAL_ERROR },       { "rms_rel", KG_GOAL_ERROR },
        { "nmse", KG_GOAL_ERROR },      { "one_minus_cos", KG_GOAL_ERROR }, { "margin", KG_GOAL_ERROR },
    };
    static const char *const SENSES[] = { [KG_AT_LEAST] = ">=", [KG_AT_MOST] = "<=", [KG_EQUAL] = "==" };
    char sense[3], rest[64], *end;
    *goal = (struct kg_figure_goal){ .kind = KG_GOAL_VALUE };
    if (sscanf(text, "%63[a-z0-9_] %2[<>=] %63s", goal->name, sense, rest) != 3) return false;
    goal->limit = strtod(rest, &end);
    char *again = kg_xasprintf("%s %s %s", goal->name, sense, rest);
    const bool exact = strcmp(again, text) == 0; /* nothing before, between or behind */
    free(again);
    if (*end || !isfinite(goal->limit) || !exact) return false;
    size_t s = 0;
    while (s < KG_COUNT_OF(SENSES) && strcmp(SENSES[s], sense) != 0) s++;
    if (s == KG_COUNT_OF(SENSES)) return false;
    goal->sense = (enum kg_goal_sense)s;
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        const size_t n = strlen(goal->name), n_ending = strlen(KINDS[i].ending);
        const bool ends = n >= n_ending && strcmp(goal->name + n - n_ending, KINDS[i].ending) == 0;
        if (!ends || (n > n_ending && goal->name[n - n_ending - 1] != '_')) continue;
        goal->kind = KINDS[i].kind;
        if (goal->kind == KG_GOAL_ERROR) memmove(goal->name, KINDS[i].ending, n_ending + 1);
        break;
    }
    return true;
}

bool kg_figure_met(const struct kg_figure_goal *goal, double value) {
    return goal->sense == KG_AT_LEAST  ? value >= goal->limit
           : goal->sense == KG_AT_MOST ? value <= goal->limit
                                       : value == goal->limit;
}

struct schema;
typedef enum kg_status check_fn(const json_t *value, const char *where, const void *arg, struct kg_error *err);
struct member {
    const char *name;
    bool required;
    check_fn *check;
    const void *arg;
};
struct schema {
    const char *what;
    const struct member *members;
    size_t n_members;
    check_fn *whole; /* NULL: nothing more */
};

static enum kg_status bad(struct kg_error *err, const char *where, const json_t *got, const char *wanted) {
    char *text = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const enum kg_status status =
        kg_fail(err, KG_ERR_SCHEMA, "%s: %s%.80s, not %s", where, got ? "is " : "is missing", text ? text : "", wanted);
    free(text);
    return status;
}

static enum kg_status check_text(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    (void)arg;
    const char *text = json_string_value(value);
    return text && *text ? KG_OK : bad(err, where, value, "a text");
}

/* arg: array of the words, NULL at its end. */
static enum kg_status check_word(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    const char *text = json_string_value(value);
    struct kg_buffer all = KG_BUFFER_INIT;
    for (const char *const *word = arg; *word; word++) {
        if (text && strcmp(text, *word) == 0) return kg_buffer_free(&all), KG_OK;
        kg_buffer_printf(&all, "%s%s", all.len ? " or " : "", *word);
    }
    const enum kg_status status = bad(err, where, value, all.data);
    kg_buffer_free(&all);
    return status;
}

static enum kg_status check_count(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    (void)arg;
    return json_is_integer(value) && json_integer_value(value) >= 1 ? KG_OK
                                                                    : bad(err, where, value, "a whole number above 0");
}

static enum kg_status check_patterns(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    static const char WANTED[] = "a pattern of case keys or a list of them";
    (void)arg;
    if (json_is_string(value)) return check_text(value, where, NULL, err);
    if (json_array_size(value) == 0) return bad(err, where, value, WANTED);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_string_length(json_array_get(value, i)) == 0) return bad(err, where, value, WANTED);
    return KG_OK;
}

static enum kg_status check_figure(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    struct kg_figure_goal goal;
    (void)arg;
    const char *text = json_string_value(value);
    return text && kg_figure_parse(text, &goal) ? KG_OK : bad(err, where, value, "'<name> >=|<=|== <number>'");
}

/* {"params": [lo, hi]} */
static enum kg_status check_where(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    const char *name;
    json_t *range;
    (void)arg;
    if (!json_is_object(value)) return bad(err, where, value, "an object of ranges");
    json_object_foreach((json_t *)(uintptr_t)value, name, range) {
        const json_t *lo = json_array_get(range, 0), *hi = json_array_get(range, 1);
        if (json_array_size(range) != 2 || !json_is_number(lo) || !json_is_number(hi) ||
            json_number_value(lo) > json_number_value(hi))
            return bad(err, where, value, "an object of ranges [lowest, highest]");
    }
    return KG_OK;
}

static enum kg_status check_object(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    const struct schema *schema = arg;
    const char *name;
    json_t *member;
    char path[WHERE_SIZE];
    if (!json_is_object(value)) return bad(err, where, value, schema->what);
    json_object_foreach((json_t *)(uintptr_t)value, name, member) {
        size_t i = 0;
        while (i < schema->n_members && strcmp(schema->members[i].name, name) != 0) i++;
        if (i == schema->n_members)
            return kg_fail(err, KG_ERR_SCHEMA, "%s: %s has no member '%.60s'", where, schema->what, name);
        snprintf(path, sizeof path, "%s%s%s", where, *where ? "." : "", name);
        const enum kg_status status = schema->members[i].check(member, path, schema->members[i].arg, err);
        if (status != KG_OK) return status;
    }
    for (size_t i = 0; i < schema->n_members; i++)
        if (schema->members[i].required && !json_object_get(value, schema->members[i].name))
            return kg_fail(err, KG_ERR_SCHEMA, "%s: %s lacks '%s'", where, schema->what, schema->members[i].name);
    return schema->whole ? schema->whole(value, where, NULL, err) : KG_OK;
}

/* A list of at least one object of the schema. */
static enum kg_status check_list(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    char path[WHERE_SIZE];
    if (json_array_size(value) == 0) return bad(err, where, value, "a list that is not empty");
    for (size_t i = 0; i < json_array_size(value); i++) {
        snprintf(path, sizeof path, "%s[%zu]", where, i);
        const enum kg_status status = check_object(json_array_get(value, i), path, arg, err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static const struct member CASE_MEMBERS[] = {
    { "what", true, check_text, NULL },
    { "match", true, check_patterns, NULL },
    { "spec", false, check_text, NULL },
    { "at_least", false, check_count, NULL },
};
static const struct schema CASES = { "a cases criterion", CASE_MEMBERS, KG_COUNT_OF(CASE_MEMBERS), NULL };

static const struct member PREFER_MEMBERS[] = { { "least", false, check_text, NULL },
                                                { "most", false, check_text, NULL } };
static const struct schema PREFER = { "a preference", PREFER_MEMBERS, KG_COUNT_OF(PREFER_MEMBERS), NULL };

static const struct member SAME_MEMBERS[] = {
    { "layer", false, check_text, NULL },   { "op", false, check_text, NULL },    { "name", false, check_text, NULL },
    { "backend", false, check_text, NULL }, { "dtype", false, check_text, NULL }, { "shape", false, check_text, NULL },
};
static const struct schema SAME = { "a partner", SAME_MEMBERS, KG_COUNT_OF(SAME_MEMBERS), NULL };

#define READINGS                                                                                                       \
    { "timing", false, check_text, NULL }, { "metric", false, check_text, NULL },                                      \
        { "memory", false, check_text, NULL }, { "error", false, check_text, NULL },                                   \
        { "where", false, check_where, NULL }, {                                                                       \
        "prefer", false, check_object, &PREFER                                                                         \
    }

static size_t count_readings(const json_t *selector) {
    static const char *const NAMES[] = { "timing", "metric", "memory", "error" };
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) n += json_object_get(selector, NAMES[i]) != NULL;
    return n;
}

static enum kg_status one_reading(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    (void)arg;
    if (count_readings(value) == 1) return KG_OK;
    return kg_fail(err, KG_ERR_SCHEMA, "%s: a selection reads exactly one of timing, metric, memory and error", where);
}

static const struct member OF_MEMBERS[] = { { "match", true, check_patterns, NULL }, READINGS };
static const struct schema OF = { "a selection", OF_MEMBERS, KG_COUNT_OF(OF_MEMBERS), one_reading };

static enum kg_status match_or_partner(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    const bool partner = json_object_get(value, "same_but") != NULL;
    if (partner != (json_object_get(value, "match") != NULL))
        return partner ? KG_OK : one_reading(value, where, arg, err);
    return kg_fail(err, KG_ERR_SCHEMA, "%s: a base has either 'match' or 'same_but'", where);
}

static const struct member OVER_MEMBERS[] = { { "match", false, check_patterns, NULL },
                                              { "same_but", false, check_object, &SAME },
                                              READINGS };
static const struct schema OVER = { "a base", OVER_MEMBERS, KG_COUNT_OF(OVER_MEMBERS), match_or_partner };

static const char *const TAKES[] = { "each", "geometric_mean", NULL };
static const char *const UNITS[] = { "us", "ms", "s", "/s", "MiB", "GiB", "%", NULL };

static enum kg_status figure_is_whole(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    struct kg_figure_goal goal;
    (void)arg;
    if (!kg_figure_parse(kg_json_text(value, "figure"), &goal)) return KG_ERR_INTERNAL; /* checked as a member */
    const bool two = goal.kind != KG_GOAL_VALUE && goal.kind != KG_GOAL_ERROR;
    const bool reads_error = json_object_get(json_object_get(value, "of"), "error") != NULL;
    if (two != (json_object_get(value, "over") != NULL))
        return kg_fail(err, KG_ERR_SCHEMA, "%s: a %s %s 'over'", where, goal.name, two ? "needs" : "has no");
    if (reads_error != (goal.kind == KG_GOAL_ERROR))
        return kg_fail(err, KG_ERR_SCHEMA, "%s: a %s is read from %s", where, goal.name,
                       reads_error ? "a timing, metric or memory, not from an error" : "an error");
    const char *take = kg_json_text(value, "take");
    if (json_object_get(value, "at_least") && !(take && strcmp(take, "geometric_mean") == 0))
        return kg_fail(err, KG_ERR_SCHEMA, "%s: 'at_least' is of a geometric_mean", where);
    return KG_OK;
}

static const struct member FIGURE_MEMBERS[] = {
    { "what", true, check_text, NULL },   { "figure", true, check_figure, NULL },
    { "of", true, check_object, &OF },    { "over", false, check_object, &OVER },
    { "take", false, check_word, TAKES }, { "at_least", false, check_count, NULL },
    { "unit", false, check_word, UNITS },
};
static const struct schema FIGURES = { "a figure", FIGURE_MEMBERS, KG_COUNT_OF(FIGURE_MEMBERS), figure_is_whole };

static enum kg_status has_criteria(const json_t *value, const char *where, const void *arg, struct kg_error *err) {
    (void)arg;
    if (json_object_get(value, "cases") || json_object_get(value, "figures")) return KG_OK;
    return kg_fail(err, KG_ERR_SCHEMA, "%s: a story without cases and figures asks for nothing", where);
}

static const char *const NEEDS[] = { "gpu", "any", NULL };
static const struct member STORY_MEMBERS[] = {
    { "spec", true, check_text, NULL },         { "title", true, check_text, NULL },
    { "needs", false, check_word, NEEDS },      { "cases", false, check_list, &CASES },
    { "figures", false, check_list, &FIGURES },
};
static const struct schema STORIES = { "a story", STORY_MEMBERS, KG_COUNT_OF(STORY_MEMBERS), has_criteria };

static const struct member SPRINT_MEMBERS[] = {
    { "sprint", true, check_text, NULL },      { "title", true, check_text, NULL },
    { "about", false, check_text, NULL },      { "gpu", false, check_text, NULL },
    { "stories", true, check_list, &STORIES },
};
static const struct schema SPRINT = { "a sprint", SPRINT_MEMBERS, KG_COUNT_OF(SPRINT_MEMBERS), NULL };

/* The name is part of file names. */
static bool name_ok(const char *name) {
    for (const char *s = name; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '-') return false;
    return strlen(name) <= 64;
}

static enum kg_status read_file(const char *path, struct kg_sprint *sprint, struct kg_error *err) {
    char *text = NULL;
    size_t size_bytes = 0;
    json_error_t error;
    enum kg_status status = kg_file_read_regular(path, &text, &size_bytes, err);
    if (status != KG_OK) return status;
    kg_sha256_hex(text, size_bytes, sprint->sha256);
    sprint->root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!sprint->root) status = kg_fail(err, KG_ERR_SCHEMA, "%s, line %d: %s", path, error.line, error.text);
    free(text);
    return status;
}

enum kg_status kg_sprint_load(const char *path, struct kg_sprint *sprint, struct kg_error *err) {
    *sprint = (struct kg_sprint){ 0 };
    enum kg_status status = read_file(path, sprint, err);
    if (status == KG_OK) {
        status = check_object(sprint->root, "", &SPRINT, err);
        if (status != KG_OK) kg_error_prefix(err, "%s", path);
    }
    if (status == KG_OK) {
        sprint->name = kg_json_text(sprint->root, "sprint");
        sprint->title = kg_json_text(sprint->root, "title");
        sprint->stories = json_object_get(sprint->root, "stories");
        if (!name_ok(sprint->name))
            status =
                kg_fail(err, KG_ERR_SCHEMA, "%s: sprint: '%.80s' is not made of a-z, 0-9 and -", path, sprint->name);
    }
    for (size_t i = 0; status == KG_OK && i < json_array_size(sprint->stories); i++) {
        const char *needs = kg_json_text(json_array_get(sprint->stories, i), "needs");
        sprint->needs_gpu = sprint->needs_gpu || (needs && strcmp(needs, "gpu") == 0);
    }
    if (status != KG_OK) kg_sprint_free(sprint);
    return status;
}

void kg_sprint_free(struct kg_sprint *sprint) {
    json_decref(sprint->root);
    *sprint = (struct kg_sprint){ 0 };
}

void kg_sprint_keep_figures(struct kg_sprint *sprint) {
    json_t *story;
    size_t i;
    json_array_foreach(json_object_get(sprint->root, "stories"), i, story) json_object_del(story, "cases");
}
