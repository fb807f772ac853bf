/* A figure through runs. */
#ifndef KIGO_HISTORY_SERIES_H
#define KIGO_HISTORY_SERIES_H

struct kg_series {
    const char *group; /* back end: its canaries have the same */
    double *by_run;    /* logarithms, more is worse; NaN where the run has none */
};

#endif
