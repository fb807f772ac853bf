/* A fleet's history: the bundles of many runners in one PostgreSQL database.
 *
 * A bundle is there as the archive that `kigo export` makes of it, in chunks and with its SHA-256, and as the rows that
 * the index of a folder (kigo/history.h) has of it. The archives are the truth; the rows can be made again from them.
 * Who pushes is who the server says has logged in: a runner's role adds runs in its own name, and changes none.
 *
 * In a build without libpq every function is KG_ERR_UNSUPPORTED, saying so. Errors of the server: KG_ERR_INCOMPLETE (it
 * does not answer, or went away), KG_ERR_UNWRITABLE (the role may not, or no room), KG_ERR_CANCELLED (a time limit),
 * KG_ERR_SCHEMA (tables of another kigo). No message holds a password. */
#ifndef KIGO_FLEET_FLEET_H
#define KIGO_FLEET_FLEET_H

#include "base/hash.h"
#include "bundle/policy.h"
#include <kigo/bundle.h>
#include <kigo/history.h>

struct kg_fleet; /* a connection; one thread at a time may use it */

/* NULL, or why this build or machine reaches no fleet. */
const char *kg_fleet_missing(void);

/* Of several servers that a URL names, who reads is let in by the first that answers, unless the URL says otherwise
 * (target_session_attrs); who writes by the one that takes writes, whatever the URL says. */
enum kg_fleet_use { KG_FLEET_READS, KG_FLEET_WRITES };

/* url: postgresql://..., with libpq's parameters. A server that does not answer, or with KG_FLEET_WRITES only reads, is
 * asked again for wait_s seconds: when the fleet is opened, and when it is not known whether a push was taken.
 * KG_ERR_USAGE if it is no such URL. */
KG_WARN_UNUSED enum kg_status kg_fleet_open(const char *url, enum kg_fleet_use use, double wait_s,
                                            struct kg_fleet **fleet, struct kg_error *err);
void kg_fleet_close(struct kg_fleet *fleet);
/* Database, server and user, without a password: for people. */
const char *kg_fleet_where(const struct kg_fleet *fleet);

/* Makes roles and tables. KG_OK if they are there; KG_ERR_SCHEMA if a newer kigo made them. *version: of the tables. */
KG_WARN_UNUSED enum kg_status kg_fleet_init(struct kg_fleet *fleet, int *version, struct kg_error *err);
/* Brings the tables to this kigo's version. KG_ERR_NOT_FOUND if there are none. */
KG_WARN_UNUSED enum kg_status kg_fleet_migrate(struct kg_fleet *fleet, int *version, struct kg_error *err);
/* KG_ERR_NOT_FOUND without tables, KG_ERR_SCHEMA if they are older or newer than this kigo's. */
KG_WARN_UNUSED enum kg_status kg_fleet_check(struct kg_fleet *fleet, struct kg_error *err);
/* What kg_fleet_init brings it to. */
int kg_fleet_version(void);

/* A runner, and how its chain stands (bundle/chain.h): links that lead to a run of which the fleet has not even a
 * tombstone, as the first that it pushed may, and runs that another one follows as well. */
struct kg_fleet_runner {
    char *name;
    int64_t n_runs, archive_bytes, n_gaps, n_forks;
    int64_t n_pruned; /* runs of which the fleet has the tombstone alone */
    char *newest;     /* id of its newest run */
};
struct kg_fleet_status {
    int version;
    char *server;           /* version of PostgreSQL */
    int64_t database_bytes; /* of the whole database */
    struct kg_fleet_runner *runners;
    size_t n_runners;
};
KG_WARN_UNUSED enum kg_status kg_fleet_status(struct kg_fleet *fleet, struct kg_fleet_status *status,
                                              struct kg_error *err);
void kg_fleet_status_free(struct kg_fleet_status *status);

/* Called again and again with bytes done and in all; may be NULL. */
struct kg_fleet_watch {
    void (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

enum kg_push_state {
    KG_PUSH_ABSENT, /* nothing of it is in the fleet, or the fleet has another bundle under its name */
    KG_PUSH_PUSHED,
    KG_PUSH_THERE,   /* it was there */
    KG_PUSH_UNKNOWN, /* the server went away as it was to acknowledge it: whole or absent */
    KG_PUSH_PRUNED,  /* it was pruned from the fleet, and left so */
};
const char *kg_push_state_name(enum kg_push_state state); /* "absent", "pushed", ... */

struct kg_pushed {
    char id[256];
    char tagmanifest_sha256[KG_SHA256_HEX_SIZE], archive_sha256[KG_SHA256_HEX_SIZE]; /* "" where not known */
    uint64_t archive_bytes;
    enum kg_push_state state; /* set with an error, too */
    char note[512];           /* "", or what the fleet's copy lacks: the signature; or who pruned it, and when */
};
/* Verifies the bundle of a folder, its signature as the policy asks, and puts it into the fleet in one transaction; one
 * that was pruned from the fleet only if `pruned_too`.
 * KG_ERR_INTEGRITY if it does not verify, or if the fleet has another bundle under its name. */
KG_WARN_UNUSED enum kg_status kg_fleet_push(struct kg_fleet *fleet, const char *dir, const struct kg_policy *policy,
                                            bool pruned_too, const struct kg_fleet_watch *watch,
                                            struct kg_pushed *pushed, struct kg_error *err);

/* The id of a run by its id, the beginning of it, its last 8 digits, or 7 and more digits of its commit.
 * KG_ERR_NOT_FOUND, or KG_ERR_USAGE if several fit. */
KG_WARN_UNUSED enum kg_status kg_fleet_find(struct kg_fleet *fleet, const char *run, char id[256],
                                            struct kg_error *err);
/* The tag manifest of the run with this id, and whether its rows say that it is signed. KG_ERR_NOT_FOUND. */
KG_WARN_UNUSED enum kg_status kg_fleet_archived(struct kg_fleet *fleet, const char *id,
                                                char tagmanifest_sha256[KG_SHA256_HEX_SIZE], bool *is_signed,
                                                struct kg_error *err);
/* Writes its archive to a file. KG_ERR_INTEGRITY if the chunks are not the archive that was pushed. */
KG_WARN_UNUSED enum kg_status kg_fleet_fetch(struct kg_fleet *fleet, const char *id, const char *path,
                                             const struct kg_fleet_watch *watch, struct kg_error *err);

/* The fleet's rows as a history that only reads; the history's from then on, also what closes it. Errors as of
 * kg_fleet_check: the fleet stays the caller's then. */
KG_WARN_UNUSED enum kg_status kg_fleet_history(struct kg_fleet *fleet, struct kg_history **history,
                                               struct kg_error *err);

/* Makes every row again from the archives, in one transaction; *n_indexed of them. Those that are not sound become
 * findings, their ids as paths, and have no rows. */
KG_WARN_UNUSED enum kg_status kg_fleet_reindex(struct kg_fleet *fleet, const struct kg_fleet_watch *watch,
                                               size_t *n_indexed, struct kg_bundle_findings *problems,
                                               struct kg_error *err);

/* Which runs may go, newest first of each runner and comparison key (history/prune.h: the newest n_keep, baselines and
 * what is pinned stay), and those without rows; with an author they go, in one transaction: archive and rows, a month
 * of which none is left by its partitions. What is left is a tombstone. */
struct kg_prune_plan;
KG_WARN_UNUSED enum kg_status kg_fleet_prune(struct kg_fleet *fleet, size_t n_keep, const char *author,
                                             struct kg_prune_plan *plan, struct kg_error *err);

/* An empty folder below $TMPDIR for archives on their way; malloc'ed, for kg_path_remove. */
KG_WARN_UNUSED enum kg_status kg_fleet_scratch(char **dir, struct kg_error *err);

#endif
