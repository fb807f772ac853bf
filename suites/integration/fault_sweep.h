/* Fault injection in SQLite's way: a verb of kigo runs again and again over a copy of the same folder, and one call
 * after another fails, an allocation or a call that reads or writes files (suites/support/fault_injector.c). */
#ifndef KIGO_SUITES_FAULT_SWEEP_H
#define KIGO_SUITES_FAULT_SWEEP_H

#include "suites/harness/case.h"
#include <stdbool.h>
#include <stddef.h>

/* A verb over a world: a folder with `bundles`, `tmp`, `cache`, and what else `make` puts there. Arguments that
 * begin with '@' are paths inside the world. */
struct kg_fault_verb {
    const char *name;
    const char *needs; /* a program without which the case is skipped; NULL: none */
    const char *args[12];
    void (*make)(const char *world); /* fills the empty world */
    const char *variable;            /* "NAME=@path" in the environment, NULL: none */
    int again; /* what the verb ends with if it is called once more after it did its work; its own exit code if it only
                  answers */
    const char *leaves; /* beginning of names that a fault may leave beside the bundles, for recover; NULL: none */
    bool runs_again;    /* what of its fresh runs cannot be removed stays in tmp, and is named */
    bool by_steps;      /* a fault may leave some of its work done: the list is neither that before nor that after */
    const char *lacks; /* beginning of what it says of an index that it cannot use: the answer is right, but for that */
    bool runs_cases;   /* what keeps a program of cases from running is a failed case of the run that says why; what the
                          machine does not say is left out of the record */
    bool of_archives;  /* builds without libarchive skip it */
    bool in_check;     /* `make check` has a sample of it */
    bool only_answers; /* changes no bundle, and prints the same each time */
};

extern const struct kg_fault_verb KG_FAULT_VERBS[];
extern const size_t KG_N_FAULT_VERBS;

struct kg_fault_sweep {
    const char *kind; /* "memory" or "io" */
    const char *only; /* calls of that name alone, or allocations made in a library whose path holds it; NULL: all */
    size_t most;      /* calls that fail, spread over all places; 0: each */
    int n_frames;     /* how many frames of the stack tell places apart; 0: 24 */
    size_t n_drawn;   /* further calls that fail, drawn by the case's seed from all */
    bool every_call;  /* not only the first and the last from each place in the program */
};

/* What is not looked at, and why, is in CONTRIBUTING.md, "Faults".
 *
 * Fails the case, with a line for each finding, unless after every fault: the verb gave the right answer or ended with
 * an error that says why; nothing was left in tmp, and in the folder of bundles nothing that a run without a fault
 * would not have there before or after; `kigo list` answers as before or as after; all bundles and the chain verify;
 * and the verb, once more, does its work. Records how many calls there were, how many failed, and how many the verb got
 * over. */
void kg_fault_sweep(struct kg_record *rec, const struct kg_fault_verb *verb, const struct kg_fault_sweep *how);

#endif
