/* A bundle's way into the fleet: one transaction, of which the client says how it ended whatever happens to the server.
 */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "bundle/verified.h"
#include "fleet/parcel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 3 };

/* The runner is who logged in; its number is given when it pushes for the first time. */
static enum kg_status find_runner(struct kg_fleet *fleet, struct kg_fleet_place *place, struct kg_error *err) {
    static const char ADD[] =
        "INSERT INTO runner(name) SELECT session_user WHERE my_runner() IS NULL ON CONFLICT DO NOTHING";
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_exec(fleet, "naming the runner", ADD, err);
    if (status != KG_OK) return status;
    status = kg_fleet_ask(fleet, "naming the runner", "SELECT my_runner()", NULL, 0, &rows, err);
    if (status == KG_OK) snprintf(place->runner_no, sizeof place->runner_no, "%s", kg_fleet_cell(&rows, 0, 0));
    kg_fleet_rows_free(&rows);
    return status;
}

/* Looks for a bundle of this name; *there if it is this one. */
static enum kg_status look(struct kg_fleet *fleet, const struct kg_parcel *parcel, struct kg_pushed *pushed,
                           bool *there, struct kg_error *err) {
    static const char SQL[] = "SELECT a.tagmanifest_sha256, a.sha256, a.size_bytes, coalesce(b.sig_state, '')"
                              " FROM archive a LEFT JOIN bundle b USING (bundle_id) WHERE a.bundle_id = $1";
    const char *const id = parcel->id;
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "looking for the run", SQL, &id, 1, &rows, err);
    *there = status == KG_OK && rows.n > 0;
    if (*there && strcmp(kg_fleet_cell(&rows, 0, 0), pushed->tagmanifest_sha256) != 0)
        status = kg_fail(err, KG_ERR_INTEGRITY,
                         "%s has another bundle of this name: its tag manifest's SHA-256 is %s, not %s", fleet->where,
                         kg_fleet_cell(&rows, 0, 0), pushed->tagmanifest_sha256);
    if (status == KG_OK && *there) {
        pushed->state = KG_PUSH_THERE;
        snprintf(pushed->archive_sha256, sizeof pushed->archive_sha256, "%s", kg_fleet_cell(&rows, 0, 1));
        pushed->archive_bytes = (uint64_t)kg_fleet_integer(&rows, 0, 2);
        if (parcel->is_signed && strcmp(kg_fleet_cell(&rows, 0, 3), "unsigned") == 0)
            snprintf(pushed->note, sizeof pushed->note,
                     "the fleet's copy is not signed, this one is; nothing was written");
    }
    kg_fleet_rows_free(&rows);
    return status;
}

/* Whether a bundle of this name was pruned; KG_ERR_INTEGRITY if that was another one. */
static enum kg_status look_pruned(struct kg_fleet *fleet, const struct kg_parcel *parcel, struct kg_pushed *pushed,
                                  struct kg_error *err) {
    static const char SQL[] = "SELECT tagmanifest_sha256, to_char(pruned_at, 'YYYY-MM-DD HH24:MI:SS'), author"
                              " FROM tombstone WHERE bundle_id = $1";
    const char *const id = parcel->id;
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "looking for a tombstone", SQL, &id, 1, &rows, err);
    const bool is_pruned = status == KG_OK && rows.n > 0;
    if (is_pruned && strcmp(kg_fleet_cell(&rows, 0, 0), pushed->tagmanifest_sha256) != 0)
        status = kg_fail(err, KG_ERR_INTEGRITY,
                         "%s had another bundle of this name: its tag manifest's SHA-256 was %s, not %s", fleet->where,
                         kg_fleet_cell(&rows, 0, 0), pushed->tagmanifest_sha256);
    if (status == KG_OK && is_pruned && !parcel->pruned_too) {
        pushed->state = KG_PUSH_PRUNED;
        snprintf(pushed->note, sizeof pushed->note, "pruned from the fleet on %s UTC by %s; --pruned pushes it again",
                 kg_fleet_cell(&rows, 0, 1), kg_fleet_cell(&rows, 0, 2));
    }
    kg_fleet_rows_free(&rows);
    return status;
}

/* The row of the archive: waits for whoever is about to push a bundle of this name. */
static enum kg_status claim(struct kg_fleet *fleet, const struct kg_parcel *parcel, const struct kg_pushed *pushed,
                            bool *claimed, struct kg_error *err) {
    static const char SQL[] =
        "INSERT INTO archive(bundle_id, tagmanifest_sha256, runner_no, month, sha256, size_bytes, n_chunks,"
        " previous_id, previous_sha256) VALUES ($1, $2, $3::integer, $4::date, $5, $6::bigint, $7::integer, $8, $9)"
        " ON CONFLICT DO NOTHING RETURNING 1";
    const bool follows = *parcel->previous.id;
    char size[24], n_chunks[24];
    snprintf(size, sizeof size, "%zu", parcel->archive.size_bytes);
    snprintf(n_chunks, sizeof n_chunks, "%llu", (unsigned long long)kg_fleet_n_chunks(parcel->archive.size_bytes));
    const char *const args[] = { parcel->id,
                                 pushed->tagmanifest_sha256,
                                 parcel->place.runner_no,
                                 parcel->place.month,
                                 pushed->archive_sha256,
                                 size,
                                 n_chunks,
                                 follows ? parcel->previous.id : NULL,
                                 follows ? parcel->previous.sha256 : NULL };
    struct kg_fleet_rows rows;
    const enum kg_status status =
        kg_fleet_ask(fleet, "adding the run", SQL, args, sizeof args / sizeof *args, &rows, err);
    if (status == KG_OK) *claimed = rows.n == 1;
    kg_fleet_rows_free(&rows);
    return status;
}

/* All of it, up to where only COMMIT is missing. */
static enum kg_status fill(struct kg_fleet *fleet, const struct kg_parcel *parcel, const struct kg_fleet_watch *watch,
                           struct kg_pushed *pushed, bool *there, struct kg_error *err) {
    const char *const month = parcel->place.month;
    bool claimed = false;
    *there = false;
    enum kg_status status = kg_fleet_tell(fleet, "making the month", "SELECT make_month($1::date)", &month, 1, err);
    if (status == KG_OK)
        status =
            kg_fleet_exec(fleet, "beginning", "BEGIN; SELECT pg_advisory_xact_lock_shared(" KG_FLEET_LOCK ")", err);
    if (status == KG_OK) status = claim(fleet, parcel, pushed, &claimed, err);
    if (status == KG_OK && !claimed) return look(fleet, parcel, pushed, there, err);
    if (status == KG_OK) status = look_pruned(fleet, parcel, pushed, err); /* since it was looked for */
    if (status == KG_OK && pushed->state == KG_PUSH_PRUNED) return *there = true, KG_OK;
    if (status == KG_OK)
        status = kg_fleet_put_chunks(fleet, pushed->tagmanifest_sha256, &parcel->place, &parcel->archive, watch, err);
    if (status == KG_OK) status = kg_fleet_put_rows(fleet, parcel->index, &parcel->place, err);
    return status;
}

/* The connection was lost before COMMIT was answered. Who claims the name again waits for a server's process that may
 * still be at it, so that the answer holds. */
static enum kg_status ask_again(struct kg_fleet *fleet, const struct kg_parcel *parcel, struct kg_pushed *pushed,
                                struct kg_error *err) {
    char *limit = kg_xasprintf("SET statement_timeout = %.0f; BEGIN", 1000 * fleet->wait_s + 1000);
    bool claimed = false;
    pushed->state = KG_PUSH_UNKNOWN;
    enum kg_status status = kg_fleet_reconnect(fleet, err);
    if (status == KG_OK) status = kg_fleet_exec(fleet, "asking again", limit, err);
    if (status == KG_OK) status = claim(fleet, parcel, pushed, &claimed, err);
    free(limit);
    if (status != KG_OK) {
        kg_error_prefix(
            err, "it is not known whether the fleet has the run, all of it or nothing; push it again, twice is once");
        kg_fleet_roll_back(fleet);
        return status;
    }
    pushed->state = claimed ? KG_PUSH_ABSENT : KG_PUSH_PUSHED;
    kg_fleet_roll_back(fleet);
    status = kg_fleet_exec(fleet, "asking again", "SET statement_timeout = 0", err);
    if (!claimed) return status;
    return kg_fail(err, KG_ERR_INCOMPLETE, "%s went away before it took the run; nothing of it is in the fleet",
                   fleet->where);
}

static enum kg_status commit(struct kg_fleet *fleet, const struct kg_parcel *parcel, struct kg_pushed *pushed,
                             struct kg_error *err) {
    const enum kg_status status = kg_fleet_exec(fleet, "committing", "COMMIT", err);
    if (status == KG_OK) pushed->state = KG_PUSH_PUSHED;
    else if (kg_fleet_is_lost(fleet)) return ask_again(fleet, parcel, pushed, err);
    return status;
}

static enum kg_status try_once(struct kg_fleet *fleet, struct kg_parcel *parcel, const struct kg_fleet_watch *watch,
                               struct kg_pushed *pushed, struct kg_error *err) {
    bool there = false;
    enum kg_status status = fill(fleet, parcel, watch, pushed, &there, err);
    if (status == KG_OK) status = kg_parcel_wait(parcel, err);
    if (status == KG_OK && !there) return commit(fleet, parcel, pushed, err);
    kg_fleet_roll_back(fleet);
    if (status == KG_ERR_INCOMPLETE) kg_error_prefix(err, "nothing of it is in the fleet");
    return status;
}

/* Not in the fleet, as far as one can see. What is wrong with the bundle is said before what came of it. */
static enum kg_status push(struct kg_fleet *fleet, struct kg_parcel *parcel, const struct kg_fleet_watch *watch,
                           struct kg_pushed *pushed, struct kg_error *err) {
    struct kg_error unsound;
    enum kg_status status = kg_parcel_pack(parcel, pushed, err);
    if (status == KG_OK) {
        status = find_runner(fleet, &parcel->place, err);
        if (status == KG_ERR_INCOMPLETE) kg_error_prefix(err, "nothing of it was sent");
    }
    for (int i = 1; status == KG_OK; i++) {
        status = try_once(fleet, parcel, watch, pushed, err);
        if (status != KG_ERR_BUSY || i == MOST_TRIES) break;
        status = KG_OK;
    }
    if (status != KG_OK && kg_parcel_wait(parcel, &unsound) == KG_ERR_INTEGRITY) {
        *err = unsound;
        return KG_ERR_INTEGRITY;
    }
    return status;
}

enum kg_status kg_fleet_push(struct kg_fleet *fleet, const char *dir, const struct kg_policy *policy, bool pruned_too,
                             const struct kg_fleet_watch *watch, struct kg_pushed *pushed, struct kg_error *err) {
    struct kg_parcel parcel = { .pruned_too = pruned_too };
    bool there = false;
    *pushed = (struct kg_pushed){ .state = KG_PUSH_ABSENT };
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_archive_missing());
    enum kg_status status = kg_parcel_open(dir, &parcel, pushed, err);
    if (status == KG_OK) status = look(fleet, &parcel, pushed, &there, err);
    if (status == KG_OK && there) status = kg_verified_check_folder(parcel.dir, err);
    if (status == KG_OK && !there) status = look_pruned(fleet, &parcel, pushed, err);
    if (status == KG_ERR_INCOMPLETE) kg_error_prefix(err, "nothing of it was sent");
    if (status == KG_OK) status = kg_parcel_check_signature(&parcel, policy, err);
    if (status == KG_OK && !there && pushed->state != KG_PUSH_PRUNED) status = push(fleet, &parcel, watch, pushed, err);
    kg_parcel_close(&parcel);
    return status;
}
