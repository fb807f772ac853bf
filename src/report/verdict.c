#include "report/verdict.h"
#include "base/size.h"
#include "report/sections.h"
#include <stdlib.h>
#include <string.h>

const char *const KG_VERDICT_NAMES[KG_VERDICT_COUNT] = { "result", "before", "goals", "skipped", "commit", "machine" };

static void put_before(const struct kg_report *report, struct kg_buffer *out) {
    static const struct {
        const char *word;
        bool always;
    } WORDS[KG_JUDGED_COUNT] = { [KG_JUDGED_WORSE] = { "worse", true },
                                 [KG_JUDGED_MISSING] = { "missing", false },
                                 [KG_JUDGED_INCOMPARABLE] = { "not comparable", false },
                                 [KG_JUDGED_INCONCLUSIVE] = { "undecided", false },
                                 [KG_JUDGED_BETTER] = { "better", true },
                                 [KG_JUDGED_NEW] = { "new", false } };
    const struct kg_regression *r = report->regression;
    const char *why = report->not_compared ? report->not_compared : KG_SEALED_BEFORE;
    if (r && r->baseline.n_items == 0) why = r->n_reasons > 0 ? r->reasons[0] : "there is no run to compare with";
    if (!r || r->baseline.n_items == 0) {
        kg_buffer_printf(out, "not compared: %s", why);
        return;
    }
    const char *word = r->exit_code == KG_EXIT_FAILED ? "worse than"
                       : r->exit_code == KG_EXIT_OK   ? "no worse than"
                                                      : "undecided against";
    kg_buffer_printf(out, "%s %zu run%s before:", word, r->baseline.n_items, r->baseline.n_items == 1 ? "" : "s");
    for (int k = 0; k < KG_JUDGED_COUNT; k++)
        if (r->counts[k] > 0 || WORDS[k].always)
            kg_buffer_printf(out, "%s %zu %s", k > 0 ? "," : "", r->counts[k], WORDS[k].word);
    if (r->n_waived > 0) kg_buffer_printf(out, ", %zu waived", r->n_waived);
    if (r->exit_code == KG_EXIT_INCONCLUSIVE && r->n_reasons > 0) kg_buffer_printf(out, " (%s)", r->reasons[0]);
}

static void put_goals(const struct kg_report *report, struct kg_buffer *out) {
    const struct kg_goal_counts *n = report->goals;
    const char *sprint = kg_report_text(json_object_get(report->run->env, "run"), "report");
    if (!*sprint || !n) kg_export_goals(report->run, out);
    else
        kg_buffer_printf(out, "%s: %zu met, %zu missed, %zu not measured",
                         n->n_missed > 0     ? "missed"
                         : n->n_unproven > 0 ? "not all measured"
                                             : "met",
                         n->n_met, n->n_missed, n->n_unproven);
}

struct reason {
    const char *text; /* its first line counts */
    size_t len, n_cases, place;
};

static int by_cases_falling(const void *a, const void *b) {
    const struct reason *x = a, *y = b;
    if (x->n_cases != y->n_cases) return x->n_cases < y->n_cases ? 1 : -1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The reasons of skipped cases, each once, that of the most cases first. *n_cases: all of them. malloc'ed. */
static struct reason *group_skips(const struct kg_records *records, size_t *n_reasons, size_t *n_cases) {
    struct reason *reasons = kg_xcalloc(records->n_cases, sizeof *reasons);
    *n_reasons = *n_cases = 0;
    for (size_t i = 0; i < records->n_cases; i++) {
        if (strcmp(kg_case_status(&records->cases[i]), "skip") != 0) continue;
        const char *text = kg_case_reason(&records->cases[i]);
        const size_t len = strcspn(text, "\n");
        size_t k = 0;
        while (k < *n_reasons && (reasons[k].len != len || memcmp(reasons[k].text, text, len) != 0)) k++;
        if (k == *n_reasons) reasons[(*n_reasons)++] = (struct reason){ text, len, 0, i };
        reasons[k].n_cases++;
        (*n_cases)++;
    }
    qsort(reasons, *n_reasons, sizeof *reasons, by_cases_falling);
    return reasons;
}

static void put_skips(const struct kg_records *records, struct kg_buffer *out) {
    enum { SHOWN = 4, MOST_CHARS = 120 };
    size_t n_reasons, n_cases;
    struct reason *reasons = group_skips(records, &n_reasons, &n_cases);
    kg_buffer_printf(out, n_cases > 0 ? "%zu: " : "none", n_cases);
    for (size_t i = 0; i < n_reasons && i < SHOWN; i++) {
        const int len = reasons[i].len < MOST_CHARS ? (int)reasons[i].len : MOST_CHARS;
        kg_buffer_printf(out, "%s%zu %.*s", i > 0 ? "; " : "", reasons[i].n_cases, len, reasons[i].text);
        n_cases -= reasons[i].n_cases;
    }
    if (n_cases > 0) kg_buffer_printf(out, "; %zu for %zu other reasons", n_cases, n_reasons - SHOWN);
    free(reasons);
}

static void put_commit(const json_t *source, struct kg_buffer *out) {
    const json_t *git = json_object_get(source, "git");
    const char *commit = kg_report_text(git, "commit"), *subject = kg_report_text(git, "subject");
    const char *date = kg_report_text(git, "author_date"), *why = kg_report_text(source, "git_why");
    if (!*commit) {
        kg_buffer_printf(out, "unknown%s%s", *why ? ": " : "", why);
        return;
    }
    kg_buffer_puts(out, commit);
    if (json_is_true(json_object_get(git, "dirty"))) kg_buffer_puts(out, ", changed (dirty.diff)");
    if (*subject) kg_buffer_printf(out, ", \"%s\"", subject);
    if (*date) kg_buffer_printf(out, ", authored %s", date);
}

static void put_machine(const json_t *env, struct kg_buffer *out) {
    const json_t *gpus = json_object_get(env, "gpus");
    const char *gpu = kg_report_text(json_array_get(gpus, 0), "name"), *os = kg_report_text(env, "os");
    const char *cpu = kg_report_text(json_object_get(env, "cpu"), "model");
    if (json_array_size(gpus) > 1) kg_buffer_printf(out, "%zu GPUs, ", json_array_size(gpus));
    kg_buffer_printf(out, "%s, %s, %s", *gpu ? gpu : "no GPU", *cpu ? cpu : "unknown CPU", *os ? os : "unknown system");
}

void kg_verdict_make(const struct kg_report *report, struct kg_verdict *verdict) {
    const struct kg_export *run = report->run;
    const char *ended = kg_report_text(run->summary, "verdict");
    *verdict = (struct kg_verdict){ .word = "pass" };
    kg_export_result(run, &verdict->lines[KG_VERDICT_RESULT]);
    put_before(report, &verdict->lines[KG_VERDICT_BEFORE]);
    put_goals(report, &verdict->lines[KG_VERDICT_GOALS]);
    put_skips(run->records, &verdict->lines[KG_VERDICT_SKIPPED]);
    put_commit(run->source, &verdict->lines[KG_VERDICT_COMMIT]);
    put_machine(run->env, &verdict->lines[KG_VERDICT_MACHINE]);
    if (strcmp(ended, "pass") != 0) verdict->word = ended;
    else if (report->findings && report->findings->n_items > 0) verdict->word = "unsound";
    else if (report->regression && report->regression->exit_code == KG_EXIT_FAILED) verdict->word = "worse";
    else if (report->goals && report->goals->n_missed > 0) verdict->word = "goals missed";
    else if (!report->regression || report->regression->baseline.n_items == 0) verdict->word = "pass, not compared";
    else if (report->regression->exit_code == KG_EXIT_INCONCLUSIVE) verdict->word = "pass, undecided";
}

void kg_verdict_free(struct kg_verdict *verdict) {
    for (int i = 0; i < KG_VERDICT_COUNT; i++) kg_buffer_free(&verdict->lines[i]);
}
