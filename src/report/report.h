/* A run, and a root's history, for people: what `kigo report` and report.html of a bundle are made of. */
#ifndef KIGO_REPORT_REPORT_H
#define KIGO_REPORT_REPORT_H

#include "bundle/export.h"
#include "history/regress.h"
#include "report/page.h"

/* What a run came to that was made to measure a sprint's figures. */
struct kg_goal_counts {
    size_t n_met, n_missed, n_unproven;
};

/* Which kernels of the build the page lists. */
enum kg_report_kernels {
    KG_KERNELS_ALL,
    KG_KERNELS_THAT_SPILL, /* registers; build.json has the others */
    KG_KERNELS_FORMAT_2    /* all, without the bytes that they spill, as bundles of that format have them */
};

struct kg_report {
    const struct kg_export *run;
    enum kg_report_kernels kernels;
    const char *manifest_sha256;               /* of manifest-sha256.txt; NULL while the bundle is being sealed */
    const char *signature;                     /* who vouches for it, as text; NULL: it was not looked at */
    const struct kg_bundle_findings *findings; /* what verify found; NULL: it was not asked */
    const struct kg_regression *regression;    /* NULL: it was held against nothing, not_compared says why */
    const char *not_compared;
    const struct kg_goal_counts *goals; /* NULL: there are none, or they were not judged */
    const json_t *past;                 /* report/past.h; NULL: none */
    bool whole;                         /* HTML: also each case by name, every margin, every timing */
};

/* Title and sections, every figure from records. */
void kg_report_page(const struct kg_report *report, struct kg_page *page);

/* RFC 4180, a line a case and a line each of its figures: bundle_id, manifest_sha256, case, layer, status, seconds,
 * reason, figure, kind (error, timing, metric, memory), unit, value, limit, margin, ci_lo, ci_hi, n, baseline, change,
 * judged (what regress says of the case or the figure). */
void kg_report_csv(const struct kg_report *report, struct kg_buffer *out);

/* What a report adds to a bundle that is being sealed: data/report.html, without plots, the history and cases that
 * passed, so that it stays small. */
extern const struct kg_bundle_document kg_report_documents[];

/* The newest n_most runs of the index: counts, margins, memory and timings from run to run, and steps. */
KG_WARN_UNUSED enum kg_status kg_history_page(struct kg_history *history, const char *const *repositories,
                                              int64_t n_most, struct kg_page *page, struct kg_error *err);

#endif
