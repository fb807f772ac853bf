/* What regress says of the run. */
#include "base/size.h"
#include "report/sections.h"
#include <math.h>
#include <string.h>

static void put_baseline(const struct kg_regression *r, struct kg_page *page) {
    const struct kg_run_heads *b = &r->baseline;
    if (b->n_items == 1) kg_page_text(page, "Against %s.", b->items[0].bundle_id);
    else if (b->n_items > 1)
        kg_page_text(page, "Against %zu runs, %s to %s.", b->n_items, b->items[b->n_items - 1].bundle_id,
                     b->items[0].bundle_id);
    if (r->other_key && *r->other_key) kg_page_text(page, "The baseline differs in %s.", r->other_key);
}

static void put_values(struct kg_page *page, const struct kg_judgement *j) {
    const double values[] = { j->before, j->after };
    const char *const texts[] = { j->before_text, j->after_text };
    for (size_t i = 0; i < KG_COUNT_OF(values); i++)
        kg_page_cell(page, *texts[i] ? texts[i] : kg_quantity_beside(values[i], values[1 - i], j->unit).text);
}

static void put_judgements(const struct kg_regression *r, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "judged", KG_COLUMN_STATUS },   { "case", KG_COLUMN_NAME },
                                                { "figure", KG_COLUMN_TEXT },     { "baseline", KG_COLUMN_NUMBER },
                                                { "this run", KG_COLUMN_NUMBER }, { "change", KG_COLUMN_NUMBER },
                                                { "why", KG_COLUMN_TEXT } };
    enum { MOST = 200 };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < r->n_judgements && i < MOST; i++) {
        const struct kg_judgement *j = &r->judgements[i];
        kg_page_cell(page, j->waived ? "waived" : KG_JUDGED_NAMES[j->judged]);
        kg_page_cell(page, j->key);
        kg_page_cell(page, *j->figure ? j->figure : j->subject);
        put_values(page, j);
        kg_page_cell(page, kg_quantity_percent(j->change).text);
        kg_page_cell(page, j->why);
    }
    kg_page_table_end(page);
    if (r->n_judgements > MOST)
        kg_page_text(page, "And %zu more: kigo regress --all tells them.", r->n_judgements - MOST);
}

static const char *verdict_of(const struct kg_regression *r) {
    return r->exit_code == KG_EXIT_OK ? "no regression" : r->exit_code == KG_EXIT_FAILED ? "regressed" : "inconclusive";
}

void kg_section_changes(const struct kg_report *report, struct kg_page *page) {
    const struct kg_regression *r = report->regression;
    if (!r && !report->not_compared) return;
    kg_page_section(page, "What changed");
    if (!r) {
        kg_page_text(page, "Not compared: %s.", report->not_compared);
        return;
    }
    static const struct kg_column VERDICT[] = {
        { "verdict", KG_COLUMN_STATUS }, { "regression", KG_COLUMN_NUMBER },   { "missing", KG_COLUMN_NUMBER },
        { "looser", KG_COLUMN_NUMBER },  { "incomparable", KG_COLUMN_NUMBER }, { "inconclusive", KG_COLUMN_NUMBER },
        { "better", KG_COLUMN_NUMBER },  { "new", KG_COLUMN_NUMBER },          { "waived", KG_COLUMN_NUMBER }
    };
    kg_page_table(page, VERDICT, KG_COUNT_OF(VERDICT));
    kg_page_cell(page, verdict_of(r));
    for (int k = 0; k < KG_JUDGED_COUNT; k++) kg_page_cellf(page, "%zu", r->counts[k]);
    kg_page_cellf(page, "%zu", r->n_waived);
    kg_page_table_end(page);
    put_baseline(r, page);
    kg_page_text(page, "Compared: %zu cases, %zu exact figures, %zu times and rates.", r->n_cases, r->n_exact,
                 r->n_noisy);
    for (size_t i = 0; i < r->n_drifts; i++)
        if (r->drifts[i].by_run[0] != 0)
            kg_page_text(page, "Drift of %s, removed: %s.", *r->drifts[i].group ? r->drifts[i].group : "the machine",
                         kg_quantity_percent(expm1(r->drifts[i].by_run[0])).text);
    for (size_t i = 0; i < r->n_reasons; i++) kg_page_text(page, "Inconclusive: %s.", r->reasons[i]);
    put_judgements(r, page);
}
