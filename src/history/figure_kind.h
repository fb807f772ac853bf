/* What a figure of the index says when it changes. */
#ifndef KIGO_HISTORY_FIGURE_KIND_H
#define KIGO_HISTORY_FIGURE_KIND_H

enum kg_figure_class {
    KG_FIGURE_EXACT,    /* the same program gives the same value: any change for the worse is an event */
    KG_FIGURE_NOISY,    /* a time or rate: judged against its run-to-run noise */
    KG_FIGURE_CANARY,   /* a rate of fixed work: how fast the machine was */
    KG_FIGURE_LIMIT,    /* of an error: larger is looser */
    KG_FIGURE_DERIVED,  /* follows from another figure of the same case, which is judged */
    KG_FIGURE_REPORTED, /* neither more nor less of it is better */
};

struct kg_figure_kind {
    enum kg_figure_class class;
    int worse;            /* +1: more is worse; -1: less is worse; 0 where neither is */
    double resolution_ns; /* of a time, of the clock it was read from; else 0 */
    const char *subject;  /* "error", "memory", "time", "speed", "count"; static */
};

/* name and unit as in the index (history.h). */
struct kg_figure_kind kg_figure_kind_of(const char *name, const char *unit);

#endif
