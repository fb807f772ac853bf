#include "suites/integration/fleet_mirror.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/internal.h"
#include "fleet/fleet.h"
#include "history/annotation.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* "id SHA-256\n" of each bundle, of its tag manifest; malloc'ed. */
static char *list_bundles(const char *root) {
    struct kg_buffer lines = KG_BUFFER_INIT;
    struct kg_dir_list names;
    struct kg_error err;
    kg_must(kg_dir_list(root, &names, &err), &err);
    for (size_t i = 0; i < names.n_names; i++) {
        char sha256[KG_SHA256_HEX_SIZE], *dir = kg_path_join(root, names.names[i]);
        int64_t unused;
        if (kg_bundle_id_parse(names.names[i], &unused) &&
            kg_beneath_hash(dir, "tagmanifest-sha256.txt", sha256, &err) == KG_OK)
            kg_buffer_printf(&lines, "%s %s\n", names.names[i], sha256);
        free(dir);
    }
    kg_dir_list_free(&names);
    return lines.data ? lines.data : kg_xstrdup("");
}

static struct kg_fleet *open_fleet(const struct kg_fleet_lab *lab, const char *user) {
    char *url = kg_fleet_lab_url(lab, user);
    struct kg_fleet *fleet;
    struct kg_error err;
    kg_must(kg_fleet_open(url, KG_FLEET_WRITES, 10, &fleet, &err), &err);
    free(url);
    return fleet;
}

/* Connections that last as long as the program's server. */
static struct kg_fleet *runner_of(const struct kg_fleet_lab *lab) {
    static struct kg_fleet *runner;
    if (!runner) runner = open_fleet(lab, "runner_a");
    return runner;
}

static struct kg_history *admins_of(const struct kg_fleet_lab *lab) {
    static struct kg_history *admins;
    struct kg_error err;
    if (!admins) kg_must(kg_fleet_history(open_fleet(lab, "postgres"), &admins, &err), &err);
    return admins;
}

static bool add_line(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (cells) kg_buffer_printf(arg, "%.*s\n", (int)cells[0].size_bytes, cells[0].text);
    return true;
}

/* What list_bundles gives, of the fleet. */
static char *list_archives(struct kg_history *admins) {
    static const char SQL[] = "SELECT bundle_id || ' ' || tagmanifest_sha256 AS line FROM archive";
    struct kg_buffer lines = KG_BUFFER_INIT;
    struct kg_error err;
    kg_must(kg_history_query(admins, SQL, NULL, 0, add_line, &lines, &err), &err);
    return lines.data ? lines.data : kg_xstrdup("");
}

/* The lines of one list that another has not; malloc'ed. */
static char *without(const char *list, const char *others) {
    struct kg_buffer left = KG_BUFFER_INIT;
    for (const char *line = list; *line; line += strcspn(line, "\n") + 1) {
        char *one = kg_xstrndup(line, strcspn(line, "\n") + 1);
        if (!strstr(others, one)) kg_buffer_puts(&left, one);
        free(one);
    }
    return left.data ? left.data : kg_xstrdup("");
}

/* Runs, and what only they had. */
static void take_away(const struct kg_fleet_lab *lab, const char *runs) {
    static const char SQL[] =
        "BEGIN; SET LOCAL search_path = kigo;"
        "CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT bundle_id, tagmanifest_sha256, bundle_no"
        "  FROM archive LEFT JOIN bundle USING (bundle_id)"
        "  WHERE bundle_id || ' ' || tagmanifest_sha256 = ANY (string_to_array('%s', chr(10)));"
        "DELETE FROM metric_row USING gone WHERE result_id BETWEEN bundle_no << 20 AND (bundle_no << 20) + 1048575;"
        "DELETE FROM result_row r USING gone g WHERE r.bundle_no = g.bundle_no;"
        "DELETE FROM archive_chunk c USING gone g WHERE c.tagmanifest_sha256 = g.tagmanifest_sha256;"
        "DELETE FROM bundle b USING gone g WHERE b.bundle_id = g.bundle_id;"
        "DELETE FROM archive a USING gone g WHERE a.bundle_id = g.bundle_id;"
        "DELETE FROM tcase c WHERE NOT EXISTS (SELECT FROM result_row r WHERE r.case_id = c.case_id);"
        "DELETE FROM figure_name f WHERE NOT EXISTS (SELECT FROM metric_row m WHERE m.figure_id = f.figure_id);"
        "COMMIT";
    if (!*runs) return;
    char *sql = kg_xasprintf(SQL, runs);
    free(kg_fleet_lab_sql(lab, "postgres", sql));
    free(sql);
}

static void push(const struct kg_fleet_lab *lab, const char *root, const char *runs) {
    const struct kg_policy policy = { 0 };
    for (const char *line = runs; *line; line += strcspn(line, "\n") + 1) {
        char *id = kg_xstrndup(line, strcspn(line, " ")), *dir = kg_path_join(root, id);
        struct kg_pushed pushed;
        struct kg_error err;
        kg_must(kg_fleet_push(runner_of(lab), dir, &policy, false, NULL, &pushed, &err), &err);
        ck_assert_int_eq(pushed.state, KG_PUSH_PUSHED);
        free(dir);
        free(id);
    }
}

static void annotate(struct kg_history *admins, const char *root) {
    struct kg_annotations old, new;
    struct kg_error err;
    kg_must(kg_annotations_read(admins, NULL, &old, &err), &err);
    kg_must(kg_annotations_load(root, &new, NULL, &err), &err);
    for (size_t i = 0; i < old.n_items; i++)
        kg_must(kg_annotation_take_back(admins, NULL, old.items[i].id, &err), &err);
    for (size_t i = 0; i < new.n_items; i++)
        kg_must(kg_annotation_put(admins, NULL, &new.items[i], NULL, NULL, &err), &err);
    kg_annotations_free(&new);
    kg_annotations_free(&old);
}

void kg_fleet_drop_brought(const char *brought, const char *root) {
    char *here = list_bundles(brought), *wanted = list_bundles(root), *old = without(here, wanted);
    for (const char *line = old; *line; line += strcspn(line, "\n") + 1) {
        char *id = kg_xstrndup(line, strcspn(line, " ")), *dir = kg_path_join(brought, id);
        struct kg_error err;
        kg_must(kg_path_remove(dir, &err), &err);
        free(dir);
        free(id);
    }
    free(old);
    free(wanted);
    free(here);
}

void kg_fleet_mirror(const struct kg_fleet_lab *lab, const char *root) {
    char *wanted = list_bundles(root), *there = list_archives(admins_of(lab));
    char *gone = without(there, wanted), *new = without(wanted, there);
    take_away(lab, gone);
    push(lab, root, new);
    annotate(admins_of(lab), root);
    free(new);
    free(gone);
    free(there);
    free(wanted);
}
