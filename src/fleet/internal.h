/* The inside of an open fleet. */
#ifndef KIGO_FLEET_INTERNAL_H
#define KIGO_FLEET_INTERNAL_H

#include "fleet/fleet.h"
#include "fleet/libpq.h"

struct kg_fleet {
    const struct kg_libpq *pq;
    PGconn *conn;
    char *url, *where;
    char *secret; /* the password of the URL, which no message may hold; NULL: none */
    double wait_s;
    bool is_gone; /* the server went away */
    enum kg_fleet_use use;
    const char *more_settings; /* of each connection: SQL, or NULL */
};

/* Pushes hold this advisory lock shared, what makes partitions or rows anew holds it alone. */
#define KG_FLEET_LOCK "1802069871"

/* What the server said of a call that failed (result NULL: of the connection); clears the result. */
enum kg_status kg_fleet_fail(struct kg_fleet *fleet, const char *doing, PGresult *result, struct kg_error *err);
/* Whether the server went away. */
bool kg_fleet_is_lost(const struct kg_fleet *fleet);
/* Connects again, waiting as the fleet was opened; who read may write from then on, if the use says so. */
KG_WARN_UNUSED enum kg_status kg_fleet_reconnect(struct kg_fleet *fleet, struct kg_error *err);

/* Runs SQL without results: one statement or several. */
KG_WARN_UNUSED enum kg_status kg_fleet_exec(struct kg_fleet *fleet, const char *doing, const char *sql,
                                            struct kg_error *err);
/* Runs one statement with arguments $1, $2, ... as text, NULL for SQL's NULL. *rows is for kg_fleet_rows_free. */
struct kg_fleet_rows {
    const struct kg_fleet *fleet;
    PGresult *result;
    int n;
};
KG_WARN_UNUSED enum kg_status kg_fleet_ask(struct kg_fleet *fleet, const char *doing, const char *sql,
                                           const char *const *args, int n_args, struct kg_fleet_rows *rows,
                                           struct kg_error *err);
void kg_fleet_rows_free(struct kg_fleet_rows *rows);
/* A cell, "" for NULL; valid until the rows are freed. */
const char *kg_fleet_cell(const struct kg_fleet_rows *rows, int row, int column);
int64_t kg_fleet_integer(const struct kg_fleet_rows *rows, int row, int column);
/* The same where nothing is asked back. */
KG_WARN_UNUSED enum kg_status kg_fleet_tell(struct kg_fleet *fleet, const char *doing, const char *sql,
                                            const char *const *args, int n_args, struct kg_error *err);

/* Ends a transaction without a trace of it; errors say nothing that the one before did not. */
void kg_fleet_roll_back(struct kg_fleet *fleet);

/* The version of the tables, 0 if there are none. */
KG_WARN_UNUSED enum kg_status kg_fleet_read_version(struct kg_fleet *fleet, int *version, struct kg_error *err);
/* Makes the three roles that are missing; inside a transaction. */
KG_WARN_UNUSED enum kg_status kg_fleet_make_roles(struct kg_fleet *fleet, struct kg_error *err);

/* A run as the fleet files it. */
struct kg_fleet_place {
    char runner_no[16];
    char month[16]; /* "2026-11-01": of its start, the partition of its rows */
};
/* The rows of a bundle's folder, as an index in memory has them; for kg_history_close. */
struct kg_history;
KG_WARN_UNUSED enum kg_status kg_fleet_read_rows(const char *root, const char *id, struct kg_history **index,
                                                 struct kg_error *err);
/* Puts them into the tables of rows, those that are shared and there left as they are, inside a transaction of the
 * caller. KG_ERR_INTEGRITY if a row that runs share is another one. */
KG_WARN_UNUSED enum kg_status kg_fleet_put_rows(struct kg_fleet *fleet, struct kg_history *index,
                                                const struct kg_fleet_place *place, struct kg_error *err);
/* Fetches a run's archive into a folder and unpacks it there: *dir (malloc'ed) is <scratch>/bundles/<id>.
 * KG_ERR_INTEGRITY unless it has this name and this tag manifest; it is not verified. */
KG_WARN_UNUSED enum kg_status kg_fleet_unpack(struct kg_fleet *fleet, const char *id, const char *tagmanifest_sha256,
                                              const char *scratch, char **dir, struct kg_error *err);
/* As kg_store's (history/store.h). */
KG_WARN_UNUSED enum kg_status kg_fleet_bring(void *fleet, const char *root, const char *const *ids, size_t n_ids,
                                             bool *any_new, struct kg_error *err);
/* Deletes all of them. */
KG_WARN_UNUSED enum kg_status kg_fleet_delete_rows(struct kg_fleet *fleet, struct kg_error *err);

/* Puts a file's chunks into the fleet, inside a transaction of the caller. */
struct kg_file_map;
KG_WARN_UNUSED enum kg_status kg_fleet_put_chunks(struct kg_fleet *fleet, const char *tagmanifest_sha256,
                                                  const struct kg_fleet_place *place, const struct kg_file_map *file,
                                                  const struct kg_fleet_watch *watch, struct kg_error *err);
/* How many chunks a file of so many bytes has. */
uint64_t kg_fleet_n_chunks(uint64_t size_bytes);

#endif
