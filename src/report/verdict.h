/* A run in words and figures: what the first screen says of it, on a page, in `kigo show` and in Markdown alike. */
#ifndef KIGO_REPORT_VERDICT_H
#define KIGO_REPORT_VERDICT_H

#include "report/report.h"

enum kg_verdict_line {
    KG_VERDICT_RESULT,  /* passed or failed, how many of how many */
    KG_VERDICT_BEFORE,  /* worse or better than the runs before, by how many figures */
    KG_VERDICT_GOALS,   /* of a run that was made to measure some: met, missed, not measured */
    KG_VERDICT_SKIPPED, /* how many cases for which reason, the largest groups */
    KG_VERDICT_COMMIT,  /* id, subject, author's date */
    KG_VERDICT_MACHINE,
    KG_VERDICT_COUNT,
};
extern const char *const KG_VERDICT_NAMES[KG_VERDICT_COUNT];

struct kg_verdict {
    /* The worst of it: what the run ended with ("fail"), "unsound", "worse", "goals missed"; "pass, not compared" and
     * "pass, undecided" where earlier runs could still make it worse, else "pass". */
    const char *word;
    struct kg_buffer lines[KG_VERDICT_COUNT]; /* without a line break; none is empty */
};

/* Of the members of `report` but past and whole. */
void kg_verdict_make(const struct kg_report *report, struct kg_verdict *verdict);
void kg_verdict_free(struct kg_verdict *verdict);

#endif
