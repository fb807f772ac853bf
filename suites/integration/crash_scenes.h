/* What kigo does to a folder of bundles when it dies or the machine does: the verbs that change something, and what
 * must hold afterwards whatever moment it was. */
#ifndef KIGO_SUITES_CRASH_SCENES_H
#define KIGO_SUITES_CRASH_SCENES_H

#include "suites/harness/case.h"
#include <stdbool.h>

/* Where a scene plays. */
struct kg_crash_place {
    char *dir;    /* all of it */
    char *world;  /* what is watched and made again; the bundles are in <world>/bundles */
    char *suites; /* a suite program of six passing cases */
    char *said;   /* file for standard output */
    char *key, *allowed, *archive, *sprint, *repository; /* NULL where the scene has none */
    char *run;                                           /* id of its first bundle, NULL without one */
    char *imported;                                      /* id of the archive's run, NULL without one */
    char **sealed;                                       /* "<id> <hash of its tag manifest>" of those there before */
    size_t n_sealed;
};

struct kg_crash_scene {
    const char *name;
    void (*prepare)(struct kg_crash_place *place, struct kg_record *rec); /* may skip the case */
    const char *args[16]; /* @B bundles, @W world, @S suites, @K key, @A archive, @R run, @P sprint, @G repository */
    const char *done;     /* on standard output once it is done: what was done is there from then on */
    char *(*after)(const struct kg_crash_place *place, const char *world, const char *said); /* then; NULL: no more */
    bool prunes;
};

extern const struct kg_crash_scene KG_CRASH_SCENES[];
extern const size_t KG_N_CRASH_SCENES;

/* False if the case was skipped. */
bool kg_crash_place_open(struct kg_crash_place *place, const struct kg_crash_scene *scene, struct kg_record *rec);
void kg_crash_place_close(struct kg_crash_place *place);
/* The scene's command; the list and its texts malloc'ed. */
char **kg_crash_command(const struct kg_crash_place *place, const struct kg_crash_scene *scene);
void kg_crash_command_free(char **argv);

/* What is known of the moment. */
struct kg_crash_moment {
    const char *said;    /* on standard output by then */
    const char *results; /* lines of results that must not be lost */
    bool run_first;      /* another run is sealed before recover comes */
};
/* What a user finds in the folder afterwards, with kigo's own verbs: what is wrong, NULL for nothing. malloc'ed. */
char *kg_crash_complaint(const struct kg_crash_place *place, const struct kg_crash_scene *scene, const char *world,
                         const struct kg_crash_moment *moment);

#endif
