#include "cli/run_name.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/say.h"
#include "bundle/beside.h"
#include "bundle/records.h"
#include "bundle/source_tree.h"
#include "bundle/standing.h"
#include "history/ancestry.h"
#include "history/shelf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UTC_CHARS = 16,        /* "20261123T001050Z" */
    COMMIT_CHARS = 12,     /* what follows, behind a '-' */
    TAIL_CHARS = 8,        /* an id's end */
    FEWEST_OF_COMMIT = 7,  /* digits that git itself prints */
    MOST_LISTED = 10,      /* candidates in a message */
    MOST_BEFORE = 1000000, /* N of latest~N */
};

bool kg_run_name_is_latest(const char *name, size_t *n_before) {
    static const char LATEST[] = "latest";
    const size_t len = sizeof LATEST - 1;
    if (strncmp(name, LATEST, len) != 0) return false;
    *n_before = 0;
    if (!name[len]) return true;
    const char *digits = name + len + 1;
    if (name[len] != '~' || !*digits || strspn(digits, "0123456789") != strlen(digits)) return false;
    for (; *digits && *n_before < MOST_BEFORE; digits++) *n_before = 10 * *n_before + (size_t)(*digits - '0');
    return true;
}

struct started {
    const char *id;
    int64_t us;
};

static int latest_first(const void *a, const void *b) {
    const struct started *x = a, *y = b;
    const int by_second = strncmp(y->id, x->id, UTC_CHARS);
    if (by_second != 0) return by_second;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : strcmp(y->id, x->id);
}

static int64_t started_us(const char *root, const char *id) {
    json_t *summary = NULL;
    int64_t started = 0;
    if (kg_root_read_json(root, id, "data/summary.json", &summary, NULL) == KG_OK)
        started = kg_json_int(summary, "started_us", 0);
    json_decref(summary);
    return started;
}

static bool same_second(const char *a, const char *b) {
    return strncmp(a, b, UTC_CHARS) == 0;
}

/* The run n_before places before the last by name, of those that count; runs of one second come as they started. *found
 * is NULL if there are not so many, and *n_counting says how many. */
static enum kg_status find_latest(const struct kg_run_place *place, const struct kg_dir_list *ids,
                                  struct kg_standing *standing, size_t n_before, const char **found, size_t *n_counting,
                                  char why[256], struct kg_error *err) {
    struct started *second = kg_xcalloc(ids->n_names + 1, sizeof *second);
    enum kg_status status = KG_OK;
    *found = NULL;
    *n_counting = 0;
    for (size_t end = ids->n_names; end > 0 && !*found && status == KG_OK;) {
        size_t n = 0;
        const char *last = ids->names[end - 1];
        for (; end > 0 && same_second(ids->names[end - 1], last) && status == KG_OK; end--) {
            const char *const id = ids->names[end - 1];
            if (place->fleet) status = kg_shelf_bring(place->fleet, &id, 1, err);
            if (status == KG_OK && kg_standing_counts(standing, KG_ROLE_LATEST, id, why))
                second[n++] = (struct started){ id, started_us(place->root, id) };
        }
        qsort(second, n, sizeof *second, latest_first);
        if (n_before - *n_counting < n) *found = second[n_before - *n_counting].id;
        *n_counting += n;
    }
    free(second);
    return status;
}

static enum kg_status choose_latest(const struct kg_run_place *place, const struct kg_dir_list *ids, size_t n_before,
                                    const char **id, struct kg_error *err) {
    struct kg_standing *standing = NULL;
    char why[256] = "";
    size_t n_counting;
    const char *const where = place->where;
    enum kg_status status = kg_standing_open_by(place->root, place->policy_root, kg_clock_utc_us(), &standing, err);
    if (status != KG_OK) return status;
    status = find_latest(place, ids, standing, n_before, id, &n_counting, why, err);
    kg_standing_close(standing);
    if (status != KG_OK) return status;
    const char *unread = kg_io_error_noted();
    if (unread) return kg_fail(err, KG_ERR_IO, "which run is the latest is unknown: %s; name the run", unread);
    if (*id) return KG_OK;
    if (ids->n_names == 0) return kg_fail(err, KG_ERR_NOT_FOUND, "%s holds no bundle yet", where);
    if (n_counting > 0)
        return kg_fail(err, KG_ERR_NOT_FOUND, "latest~%zu: only %zu run%s of %s count%s as the latest", n_before,
                       n_counting, n_counting == 1 ? "" : "s", where, n_counting == 1 ? "s" : "");
    return kg_fail(err, KG_ERR_NOT_FOUND, "no run of %s counts as the latest: of %s, %s; name the run", where,
                   ids->names[0], why);
}

/* The first 12 digits of the commit that the name means, as ids hold them; "" if it means none. */
static void commit_of(const char *root, const char *name, char commit[COMMIT_CHARS + 1]) {
    const char *const places[] = { root, ".", kg_source_tree(), NULL };
    char full[KG_COMMIT_SIZE];
    const char *dir;
    const size_t len = strlen(name);
    commit[0] = '\0';
    if (len >= FEWEST_OF_COMMIT && strspn(name, "0123456789abcdef") == len) {
        snprintf(commit, COMMIT_CHARS + 1, "%.*s", COMMIT_CHARS, name);
    } else if (kg_find_repository(places, name, &dir, NULL) == KG_OK &&
               kg_resolve_commit(dir, name, full, NULL) == KG_OK) {
        snprintf(commit, COMMIT_CHARS + 1, "%.*s", COMMIT_CHARS, full);
    }
}

/* By one of the three ways that a name can fit an id. */
static bool fits(const char *id, const char *name, const char *commit) {
    const size_t len = strlen(id);
    const bool by_commit = *commit && strncmp(id + UTC_CHARS + 1, commit, strlen(commit)) == 0;
    return by_commit || strncmp(id, name, strlen(name)) == 0 || strcmp(id + len - TAIL_CHARS, name) == 0;
}

static size_t find_fitting(const struct kg_dir_list *ids, const char *name, const char *commit, const char **id,
                           struct kg_buffer *listed) {
    size_t n = 0;
    for (size_t i = 0; i < ids->n_names; i++) {
        if (!fits(ids->names[i], name, commit)) continue;
        *id = ids->names[i];
        if (n++ < MOST_LISTED) kg_text_printf(listed, "%s%s", n > 1 ? ", " : "", ids->names[i]);
    }
    if (n > MOST_LISTED) kg_buffer_printf(listed, " and %zu more", n - MOST_LISTED);
    return n;
}

enum kg_status kg_run_name_choose(const struct kg_run_place *place, const char *name, enum kg_run_names names,
                                  const struct kg_dir_list *ids, const char **id, struct kg_error *err) {
    size_t n_before;
    if (kg_run_name_is_latest(name, &n_before)) return choose_latest(place, ids, n_before, id, err);
    char commit[COMMIT_CHARS + 1] = "";
    struct kg_buffer listed = KG_BUFFER_INIT;
    size_t n = find_fitting(ids, name, "", id, &listed);
    /* git is asked only where the store has no such id: a repository has many names, and one may be a run's. */
    if (names == KG_RUN_BY_ANY_NAME && ids->n_names > 0) {
        const bool hexadecimal = strspn(name, "0123456789abcdef") == strlen(name);
        if (n == 0 || hexadecimal) commit_of(place->root, name, commit);
        kg_buffer_free(&listed);
        n = find_fitting(ids, name, commit, id, &listed);
    }
    enum kg_status status = KG_OK;
    if (n == 0)
        status = *commit ? kg_fail(err, KG_ERR_NOT_FOUND,
                                   "no run '%s' in %s, and none of commit %s; 'kigo list' shows what there is", name,
                                   place->where, commit)
                         : kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' in %s; 'kigo list' shows what there is", name,
                                   place->where);
    if (n > 1)
        status = kg_fail(err, KG_ERR_USAGE, "'%s' names %zu runs: %s; name one by its id or its last %d digits", name,
                         n, kg_buffer_text(&listed), TAIL_CHARS);
    kg_buffer_free(&listed);
    return status;
}
