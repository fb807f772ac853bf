#include "cli/asked_runs.h"
#include "base/clock.h"
#include "base/size.h"
#include "bundle/standing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kg_status kg_asked_runs_open(const char *verb, const struct kg_asked *asked, struct kg_asked_runs *runs,
                                  struct kg_error *err) {
    *runs = (struct kg_asked_runs){ .verb = verb, .bundles = asked->bundles };
    if (!kg_cli_asked_is_fleet(asked)) {
        runs->root = runs->where = kg_cli_bundles_root(asked->bundles);
        return KG_OK;
    }
    struct kg_fleet *fleet = NULL;
    enum kg_status status = kg_cli_fleet_history(asked, &fleet, &runs->history, err);
    if (status != KG_OK) return status;
    (void)kg_cli_bundles_root(NULL); /* bundles are read */
    runs->fleet = fleet;
    runs->where = kg_fleet_where(runs->fleet);
    status = kg_fleet_cache_open(runs->fleet, runs->history, &runs->cache, err);
    if (status == KG_OK) runs->root = kg_fleet_cache_root(runs->cache);
    else kg_asked_runs_close(runs);
    return status;
}

void kg_asked_runs_close(struct kg_asked_runs *runs) {
    kg_fleet_cache_close(runs->cache);
    kg_history_close(runs->history); /* the fleet with it */
    *runs = (struct kg_asked_runs){ NULL };
}

/* A run of the fleet, and what it is to count as the latest. */
struct candidate {
    char *id, why[256];
    bool counts, is_signed;
};
struct candidates {
    struct candidate *items;
    size_t n_items, n_counting;
    int64_t now_us;
    bool takes_unsigned; /* the policy does */
    size_t n_before;     /* then no more are needed once so many and one more count */
};

static void free_candidates(struct candidates *all) {
    for (size_t i = 0; i < all->n_items; i++) free(all->items[i].id);
    free(all->items);
}

/* As kg_standing_counts has it of a folder. */
static bool take_candidate(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    enum { ID, STARTED, SEALED, SEALED_BEFORE, SIGNATURE };
    struct candidates *all = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    all->items = kg_xrealloc(all->items, (all->n_items + 1) * sizeof *all->items);
    struct candidate *one = &all->items[all->n_items++];
    *one = (struct candidate){ .id = kg_xstrndup(cells[ID].text, cells[ID].size_bytes) };
    const int64_t sealed_us = cells[SEALED].integer, before_us = cells[SEALED_BEFORE].integer;
    one->is_signed = strcmp(cells[SIGNATURE].text, "unsigned") != 0;
    one->counts = !kg_times_wrong(one->id, cells[STARTED].integer, sealed_us, all->now_us, one->why);
    if (one->counts && cells[SEALED_BEFORE].kind == KG_CELL_INT &&
        sealed_us + (int64_t)KG_TIME_SLACK_S * 1000000 < before_us) {
        snprintf(one->why, sizeof one->why, "it says that it was sealed before its predecessor");
        one->counts = false;
    }
    all->n_counting += one->counts;
    return !all->takes_unsigned || all->n_counting <= all->n_before;
}

#define LATEST_SQL(order)                                                                                              \
    "SELECT b.bundle_id, b.started_us, b.sealed_us, p.sealed_us, b.sig_state FROM bundle b"                            \
    " JOIN archive a ON a.bundle_id = b.bundle_id AND a.runner_no = b.runner_no LEFT JOIN env e USING(env_id)"         \
    " LEFT JOIN bundle p ON p.bundle_id = a.previous_id WHERE " KG_FILTER_RUN_POSTGRES " ORDER BY " order

/* A folder's ids are looked through by their second, its index by the start. */
static enum kg_status load_candidates(struct kg_asked_runs *runs, const struct kg_filter *filter,
                                      struct candidates *all, struct kg_error *err) {
    static const char *const SQL[] = {
        LATEST_SQL("left(b.bundle_id, 16) COLLATE \"C\" DESC, b.started_us DESC, b.bundle_id COLLATE \"C\" DESC"),
        LATEST_SQL("b.started_us DESC, b.bundle_id COLLATE \"C\" DESC"),
    };
    static const struct kg_filter ANY = { NULL };
    struct kg_filter_args args;
    const bool chosen = filter && (filter->commits || filter->machine);
    enum kg_status status = kg_filter_bind(chosen ? filter : &ANY, kg_cli_bundles_root(runs->bundles), &args, err);
    if (status != KG_OK) return status;
    status = kg_history_query(runs->history, SQL[chosen], args.values, KG_FILTER_ARGS, take_candidate, all, err);
    kg_filter_args_free(&args);
    return status;
}

/* Whether the policy takes the run by its signature, for which it has to be here. */
static enum kg_status look_at_signature(struct kg_asked_runs *runs, const struct kg_policy *policy,
                                        struct candidate *one, struct kg_error *err) {
    struct kg_signature signature = { .state = KG_SIGNATURE_NONE };
    enum kg_status status = KG_OK, checked = KG_OK;
    char *dir = NULL;
    if (one->is_signed) status = kg_fleet_cache_bring(runs->cache, runs->verb, one->id, &dir, err);
    if (status == KG_OK && dir) checked = kg_signature_check(dir, &policy->trust, &signature, NULL);
    if (status == KG_OK && (checked != KG_OK || !kg_policy_takes(policy, KG_ROLE_LATEST, true, &signature))) {
        one->counts = false;
        snprintf(one->why, sizeof one->why, "%s",
                 checked != KG_OK                         ? "its signature cannot be checked"
                 : signature.state == KG_SIGNATURE_NONE   ? "nobody signed it"
                 : signature.state == KG_SIGNATURE_GOOD   ? "its signer does not count"
                 : signature.state == KG_SIGNATURE_INTACT ? "no list of allowed signers says who signed it"
                                                          : "its signature does not count");
    }
    free(dir);
    return status;
}

static enum kg_status choose_latest(struct kg_asked_runs *runs, const struct kg_policy *policy, struct candidates *all,
                                    char **id, struct kg_error *err) {
    enum kg_status status = KG_OK;
    size_t n_counting = 0;
    for (size_t i = 0; i < all->n_items && !*id && status == KG_OK; i++) {
        struct candidate *one = &all->items[i];
        if (one->counts && !all->takes_unsigned) status = look_at_signature(runs, policy, one, err);
        if (status == KG_OK && one->counts && n_counting++ == all->n_before) *id = kg_xstrdup(one->id);
    }
    all->n_counting = n_counting;
    return status;
}

static enum kg_status say_no_latest(const struct kg_asked_runs *runs, const struct candidates *all,
                                    struct kg_error *err) {
    if (all->n_items == 0) return kg_fail(err, KG_ERR_NOT_FOUND, "%s holds no bundle yet", runs->where);
    if (all->n_counting > 0)
        return kg_fail(err, KG_ERR_NOT_FOUND, "latest~%zu: only %zu run%s of %s count%s as the latest", all->n_before,
                       all->n_counting, all->n_counting == 1 ? "" : "s", runs->where, all->n_counting == 1 ? "s" : "");
    const struct candidate *first = &all->items[all->n_items - 1];
    return kg_fail(err, KG_ERR_NOT_FOUND, "no run of %s counts as the latest: of %s, %s; name the run", runs->where,
                   first->id, first->why);
}

static enum kg_status find_latest(struct kg_asked_runs *runs, const struct kg_filter *filter, const char *name,
                                  size_t n_before, char **id, struct kg_error *err) {
    struct kg_policy policy = { 0 };
    struct candidates all = { .now_us = kg_clock_utc_us(), .n_before = n_before };
    enum kg_status status = kg_policy_load(kg_cli_bundles_root(runs->bundles), NULL, &policy, err);
    if (status == KG_OK) {
        all.takes_unsigned = kg_policy_takes(&policy, KG_ROLE_LATEST, true, NULL);
        status = load_candidates(runs, filter, &all, err);
    }
    if (status == KG_OK) status = choose_latest(runs, &policy, &all, id, err);
    if (status == KG_OK && !*id)
        status = filter && (filter->commits || filter->machine)
                     ? kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' of those commits and machine", name)
                     : say_no_latest(runs, &all, err);
    free_candidates(&all);
    kg_policy_free(&policy);
    return status;
}

static bool take_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_dir_list *ids = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    if ((ids->n_names & (ids->n_names + 1)) == 0) /* full at 2^n - 1 */
        ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * 2 * sizeof *ids->names);
    ids->names[ids->n_names++] = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

static bool take_text(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    char **text = arg;
    (void)n_columns;
    (void)names;
    if (cells && !*text) *text = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

/* One that was pruned is said to be. */
static void say_pruned(struct kg_asked_runs *runs, const char *name, struct kg_error *err) {
    static const char SQL[] =
        "SELECT bundle_id || ' was pruned on ' || to_char(pruned_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
        " || ' UTC by ' || author FROM tombstone WHERE starts_with(bundle_id, ?1) OR right(bundle_id, 8) = ?1"
        " ORDER BY bundle_id LIMIT 1";
    char *said = NULL;
    if (kg_history_query(runs->history, SQL, &name, 1, take_text, &said, NULL) == KG_OK && said)
        kg_error_prefix(err, "%s", said);
    free(said);
}

/* One that is named by its whole id is asked for alone: a fleet may have very many. */
static enum kg_status find_named(struct kg_asked_runs *runs, const char *name, char **id, struct kg_error *err) {
    static const char ONE[] = "SELECT bundle_id FROM archive WHERE bundle_id = ?1",
                      ALL[] = "SELECT bundle_id FROM archive ORDER BY bundle_id COLLATE \"C\"";
    const struct kg_run_place place = { .root = runs->where, .where = runs->where, .policy_root = runs->where };
    struct kg_dir_list ids = { 0 };
    const char *chosen = NULL;
    enum kg_status status = kg_history_query(runs->history, ONE, &name, 1, take_id, &ids, err);
    if (status == KG_OK && ids.n_names == 0) status = kg_history_query(runs->history, ALL, NULL, 0, take_id, &ids, err);
    if (status == KG_OK) {
        status = kg_run_name_choose(&place, name, KG_RUN_BY_ANY_NAME, &ids, &chosen, err);
        if (status == KG_ERR_NOT_FOUND) say_pruned(runs, name, err);
    }
    if (status == KG_OK) *id = kg_xstrdup(chosen);
    kg_dir_list_free(&ids);
    return status;
}

/* Whether a run is of the commits and the machine wanted. */
static enum kg_status check_wanted(struct kg_asked_runs *runs, const struct kg_filter *filter, const char *name,
                                   const char *id, struct kg_error *err) {
    struct kg_filter_args args;
    char *found = NULL;
    enum kg_status status = kg_filter_bind(filter, kg_cli_bundles_root(runs->bundles), &args, err);
    if (status != KG_OK) return status;
    args.values[KG_FILTER_ARGS] = id;
    status =
        kg_history_query(runs->history,
                         "SELECT b.bundle_id FROM bundle b LEFT JOIN env e USING(env_id) WHERE " KG_FILTER_RUN_POSTGRES
                         " AND b.bundle_id = ?8",
                         args.values, KG_FILTER_ARGS + 1, take_text, &found, err);
    if (status == KG_OK && !found)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' of those commits and machine", name);
    free(found);
    kg_filter_args_free(&args);
    return status;
}

static enum kg_status find_in_fleet(struct kg_asked_runs *runs, const struct kg_filter *filter, const char *name,
                                    char **dir, struct kg_error *err) {
    size_t n_before = 0;
    char *id = NULL;
    const bool latest = kg_run_name_is_latest(name, &n_before),
               is_path = strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (!*name) return kg_fail(err, KG_ERR_USAGE, "the name of the run is empty");
    if (is_path) return kg_cli_bundle_find(kg_cli_bundles_root(runs->bundles), name, dir, err);
    enum kg_status status =
        latest ? find_latest(runs, filter, name, n_before, &id, err) : find_named(runs, name, &id, err);
    if (status == KG_OK && !latest && filter && (filter->commits || filter->machine))
        status = check_wanted(runs, filter, name, id, err);
    if (status == KG_OK) status = kg_fleet_cache_bring(runs->cache, runs->verb, id, dir, err);
    free(id);
    return status;
}

enum kg_status kg_asked_runs_find(struct kg_asked_runs *runs, const struct kg_filter *filter, const char *name,
                                  char **dir, struct kg_error *err) {
    if (runs->fleet) return find_in_fleet(runs, filter, name, dir, err);
    if (!filter) return kg_cli_bundle_find(runs->root, name, dir, err);
    return kg_filter_find(runs->verb, filter, runs->root, name, dir, err);
}

const char *kg_asked_runs_dir(const struct kg_asked_runs *runs, const char *dir) {
    if (!runs->fleet) return dir;
    const size_t len = strlen(runs->root);
    return strncmp(dir, runs->root, len) == 0 && dir[len] == '/' ? NULL : dir;
}

const struct kg_error *kg_asked_runs_error(const struct kg_asked_runs *runs, struct kg_error *err) {
    if (runs->fleet) kg_fleet_cache_hide(runs->root, err);
    return err;
}
