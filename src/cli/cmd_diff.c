/* kigo diff: two runs, case by case. It reports and judges nothing: that is regress. */
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/asked_runs.h"
#include "cli/commands.h"
#include "cli/regress_call.h"
#include "cli/skip_groups.h"
#include "history/comparison_key.h"
#include "history/trust.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct side {
    char *dir;
    struct kg_run_heads heads; /* one */
    struct kg_run run;
};

struct canary;
struct diff {
    const struct kg_filter *filter;
    const char *case_pattern;
    bool all;
    struct side a, b;
    struct kg_rows rows;
    struct canary *canaries;
    size_t n_canaries;
    struct kg_skip_groups skips; /* for people: "pass in a, skip in b" */
    size_t n_cases, n_different;
};

/* A figure of the machine, which cases of one process all have. */
struct canary {
    const struct kg_figure_info *info;
    double a, b;
    int64_t n_cases;
};

static bool for_people(const struct diff *d) {
    return !d->rows.format.json && !d->rows.format.csv;
}

static const char *const NAMES[] = { "what", "case", "figure", "unit", "a", "b", "change" };

static void put(struct diff *d, const char *what, const char *key, const struct kg_figure_info *info, struct kg_cell a,
                struct kg_cell b, double change) {
    char text[32] = "";
    if (isfinite(change)) snprintf(text, sizeof text, "%+.2f%%", 100 * change);
    const struct kg_cell cells[] = { kg_cell_of_text(what),
                                     kg_cell_of_text(key),
                                     kg_cell_of_text(info ? info->name : ""),
                                     kg_cell_of_text(info ? info->unit : ""),
                                     a,
                                     b,
                                     kg_cell_of_text(text) };
    kg_rows_add(&d->rows, KG_COUNT_OF(NAMES), NAMES, cells);
    d->n_different++;
}

static void put_canary(struct diff *d, const struct kg_figure_info *info, double a, double b) {
    size_t i = 0;
    while (i < d->n_canaries && (d->canaries[i].info != info || d->canaries[i].a != a || d->canaries[i].b != b)) i++;
    if (i == d->n_canaries) {
        d->canaries = kg_xrealloc(d->canaries, (d->n_canaries + 1) * sizeof *d->canaries);
        d->canaries[d->n_canaries++] = (struct canary){ .info = info, .a = a, .b = b };
        d->n_different++;
    }
    d->canaries[i].n_cases++;
}

static void put_figure(struct diff *d, const char *key, const struct kg_figure_info *info, double a, double b,
                       double change) {
    if (for_people(d) && kg_figure_is_roofline(info->name) && !isnan(a) && !isnan(b)) put_canary(d, info, a, b);
    else put(d, info->kind.subject, key, info, kg_cell_of_real(a), kg_cell_of_real(b), change);
}

static bool is_skip(const struct kg_run_result *r) {
    return strcmp(r->status, "skip") == 0;
}

/* For people, cases that one side skipped for the same reason are counted together; that side has none of
 * their figures. */
static bool put_skip(struct diff *d, const struct kg_run_result *a, const struct kg_run_result *b) {
    if (!for_people(d) || is_skip(a) == is_skip(b)) return false;
    char *what = kg_xasprintf("%s in a, %s in b", a->status, b->status);
    kg_skip_groups_add(&d->skips, what, a->skip_reason ? a->skip_reason : b->skip_reason, a->c->key);
    free(what);
    d->n_different++;
    return true;
}

/* Figures that one side lacks show as empty. Times and rates differ in every run: without --all they are shown from 3%
 * on. */
static void diff_figures(struct diff *d, const struct kg_run_result *a, const struct kg_run_result *b) {
    static const double WORTH_TELLING = 0.03;
    for (size_t i = 0; i < a->n_figures; i++) {
        const struct kg_run_figure *x = &d->a.run.figures[a->first_figure + i];
        const struct kg_run_figure *y = kg_run_figure(&d->b.run, b, x);
        const enum kg_figure_class class = x->info->kind.class;
        const double change = y && x->value != 0 ? y->value / x->value - 1 : NAN;
        const bool timed = class == KG_FIGURE_NOISY || class == KG_FIGURE_CANARY;
        const bool same = y && (y->value == x->value || (isnan(x->value) && isnan(y->value)));
        if (same || (!d->all && (class == KG_FIGURE_DERIVED || (timed && fabs(change) < WORTH_TELLING)))) continue;
        put_figure(d, a->c->key, x->info, x->value, y ? y->value : NAN, change);
    }
    for (size_t i = 0; i < b->n_figures; i++) {
        const struct kg_run_figure *y = &d->b.run.figures[b->first_figure + i];
        if (!kg_run_figure(&d->a.run, a, y)) put_figure(d, b->c->key, y->info, NAN, y->value, NAN);
    }
}

static void diff_cases(struct diff *d) {
    kg_rows_add(&d->rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < d->a.run.n_results; i++) {
        const struct kg_run_result *a = &d->a.run.results[i], *b = kg_run_find(&d->b.run, a->c->same);
        if (!kg_filter_takes_case(d->filter, d->case_pattern, a->c)) continue;
        d->n_cases++;
        if (b && put_skip(d, a, b)) continue;
        if (b) {
            if (strcmp(a->status, b->status) != 0)
                put(d, "status", a->c->key, NULL, kg_cell_of_text(a->status), kg_cell_of_text(b->status), NAN);
            diff_figures(d, a, b);
        } else if (kg_run_find_key(&d->b.run, a->c->key_no)) {
            put(d, "definition", a->c->key, NULL, kg_cell_of_text("one"), kg_cell_of_text("another"), NAN);
        } else {
            put(d, "missing", a->c->key, NULL, kg_cell_of_text(a->status), kg_cell_of_text(NULL), NAN);
        }
    }
    for (size_t i = 0; i < d->b.run.n_results; i++) {
        const struct kg_run_result *b = &d->b.run.results[i];
        if (kg_filter_takes_case(d->filter, d->case_pattern, b->c) && !kg_run_find_key(&d->a.run, b->c->key_no))
            put(d, "new", b->c->key, NULL, kg_cell_of_text(NULL), kg_cell_of_text(b->status), NAN);
    }
}

static enum kg_status find_sides(struct kg_asked_runs *runs, struct diff *d, const char *const *names,
                                 struct kg_error *err) {
    enum kg_status status = kg_asked_runs_find(runs, d->filter, names[0], &d->a.dir, err);
    return status == KG_OK ? kg_asked_runs_find(runs, d->filter, names[1], &d->b.dir, err) : status;
}

static enum kg_status load_side(struct kg_history *history, const struct kg_asked_runs *runs, struct side *side,
                                struct kg_error *err) {
    const char *slash = strrchr(side->dir, '/');
    const char *const args[] = { slash ? slash + 1 : side->dir };
    enum kg_status status = kg_trust_runs(history, args, 1, err);
    if (status == KG_OK) status = kg_run_heads_load(history, "WHERE bundle_id = ?1", args, 1, &side->heads, err);
    if (status == KG_OK && side->heads.n_items == 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "the index of %s holds no run '%s'", runs->where, args[0]);
    return status;
}

static void print_canaries(struct diff *d, const struct kg_rows_options *format, struct kg_buffer *out) {
    static const char *const COLUMNS[] = { "figure", "unit", "a", "b", "change", "cases" };
    struct kg_rows rows = KG_ROWS_INIT(format);
    if (d->n_canaries == 0) return;
    rows.for_people = true;
    kg_section_put(KG_ROOFLINE_SECTION, format, out);
    kg_rows_add(&rows, KG_COUNT_OF(COLUMNS), COLUMNS, NULL);
    for (size_t i = 0; i < d->n_canaries; i++) {
        const struct canary *c = &d->canaries[i];
        const char *change = c->a != 0 ? kg_quantity_percent(c->b / c->a - 1).text : "";
        const struct kg_cell cells[] = { kg_cell_of_text(c->info->name), kg_cell_of_text(c->info->unit),
                                         kg_cell_of_real(c->a),          kg_cell_of_real(c->b),
                                         kg_cell_of_text(change),        kg_cell_of_int(c->n_cases) };
        kg_rows_add(&rows, KG_COUNT_OF(COLUMNS), COLUMNS, cells);
    }
    kg_rows_put(&rows, out);
}

static void print_skips(const struct diff *d, bool markdown, struct kg_buffer *out) {
    if (kg_skip_groups_count(&d->skips) > 0) kg_buffer_puts(out, "\n");
    kg_skip_groups_put(&d->skips, markdown ? "- " : "", markdown ? KG_MEDIUM_MARKDOWN : KG_MEDIUM_TEXT, out);
}

static enum kg_status print(struct diff *d, const struct kg_rows_options *format, struct kg_error *err) {
    const struct kg_run_head *a = &d->a.heads.items[0], *b = &d->b.heads.items[0];
    struct kg_buffer out = KG_BUFFER_INIT;
    char *key = kg_comparison_difference(a->comparison_key, b->comparison_key);
    const bool as_text = !format->json && !format->csv;
    if (as_text) kg_text_printf(&out, "a  %s (%s)\nb  %s (%s)\n", a->bundle_id, a->verdict, b->bundle_id, b->verdict);
    if (as_text && *key) kg_text_printf(&out, "they differ in %s\n", key);
    if (as_text && format->markdown) kg_buffer_puts(&out, "\n");
    kg_rows_put(&d->rows, &out);
    if (as_text) print_canaries(d, format, &out);
    if (as_text) print_skips(d, format->markdown, &out);
    if (as_text && format->markdown) kg_buffer_puts(&out, "\n");
    if (as_text) kg_text_printf(&out, "%zu cases of a, %zu differences\n", d->n_cases, d->n_different);
    free(key);
    return kg_cli_print(&out, err);
}

static enum kg_status diff(const char *const *names, struct kg_asked_runs *runs, struct diff *d,
                           const struct kg_rows_options *format, struct kg_error *err) {
    struct kg_history *history = NULL;
    struct kg_catalogue catalogue = { 0 };
    enum kg_status status = find_sides(runs, d, names, err); /* a fleet's are in the index once they are here */
    if (status == KG_OK) status = kg_cli_history_open("diff", runs->root, &history, err);
    if (status == KG_OK) status = load_side(history, runs, &d->a, err);
    if (status == KG_OK) status = load_side(history, runs, &d->b, err);
    if (status == KG_OK) status = kg_catalogue_load(history, &catalogue, err);
    if (status == KG_OK) status = kg_run_load(history, d->a.heads.items[0].bundle_no, &catalogue, &d->a.run, err);
    if (status == KG_OK) status = kg_run_load(history, d->b.heads.items[0].bundle_no, &catalogue, &d->b.run, err);
    if (status == KG_OK) {
        d->rows = (struct kg_rows)KG_ROWS_INIT(format);
        d->rows.for_people = true;
        diff_cases(d);
        status = print(d, format, err);
    }
    struct side *const sides[] = { &d->a, &d->b };
    for (size_t i = 0; i < KG_COUNT_OF(sides); i++) {
        kg_run_free(&sides[i]->run);
        kg_run_heads_free(&sides[i]->heads);
        free(sides[i]->dir);
    }
    kg_skip_groups_free(&d->skips);
    free(d->canaries);
    kg_catalogue_free(&catalogue);
    kg_cli_history_close("diff", history);
    return status;
}

int kg_cmd_diff(int argc, char **argv) {
    struct kg_asked asked = { 0 };
    struct kg_filter filter = { 0 };
    struct kg_rows_options format = { 0 };
    struct diff d = { .filter = &filter };
    const struct kg_option options[] = {
        { .name = "case",
          .letter = 'c',
          .kind = KG_OPTION_TEXT,
          .value = &d.case_pattern,
          .metavar = "PATTERN",
          .help = "only these cases (* also crosses /; brackets stand for themselves)" },
        { .name = "all",
          .kind = KG_OPTION_FLAG,
          .value = &d.all,
          .help = "also times and rates that differ by less than 3%, and what follows from them" },
        KG_FILTER_OPTIONS(&filter),
        KG_ASKED_OPTIONS(&asked),
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo diff",
        .usage = "A B [--case PATTERN] [--all] [filters] [--bundles DIR|--history URL] [--json|--csv|--markdown]",
        .summary =
            "Prints what differs from run A to run B: statuses, figures, cases and definitions. It judges nothing;\n"
            "'kigo regress' does. The machine's own figures (roofline) come apart; cases that one side skipped are a\n"
            "line for each reason. A and B are named as 'kigo show' has it: latest~1 latest.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 2,
        .max_args = 2,
    };
    const char *args[2];
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, args, 2, &ended)) return ended;
    struct kg_asked_runs runs = { 0 };
    enum kg_status status = kg_rows_check(&format, &err);
    if (status == KG_OK) status = kg_asked_runs_open("diff", &asked, &runs, &err);
    if (status == KG_OK) status = diff(args, &runs, &d, &format, &err);
    const int code = status == KG_OK ? KG_EXIT_OK : kg_cli_error("diff", kg_asked_runs_error(&runs, &err));
    kg_asked_runs_close(&runs);
    return code;
}
