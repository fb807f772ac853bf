/* Every unit case that asks a history, asking a fleet: the same function, after its folder was pushed. */
#include "base/buffer.h"
#include "base/file.h"
#include "fleet/fleet.h"
#include "history/shelf.h"
#include "suites/harness/must.h"
#include "suites/integration/fleet_mirror.h"
#include "suites/integration/fleet_server.h"
#include "suites/support/asked_history.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const struct kg_asked_cases *const ALL[] = {
    &kg_asked_cases_history,        &kg_asked_cases_regress,     &kg_asked_cases_regress_again,
    &kg_asked_cases_regress_limits, &kg_asked_cases_step_search, &kg_asked_cases_views,
};

/* Cases of these programs that ask no fleet, and why. */
#define ASKS_NOTHING "it asks no history"
#define OF_THE_FILE "it is about the file of the index"
static const struct {
    const char *op, *name, *why;
} LEFT_OUT[] = {
    { "history", "incremental_equals_reindex", OF_THE_FILE ": a fleet's: integration/fleet/rebuilt_rows_are_the_same" },
    { "history", "order_does_not_matter", OF_THE_FILE },
    { "history", "hashes_that_meet",
      "it is about numbers that the index gives; a fleet has one number a run, or none" },
    { "history", "queries_only_read", "its statements are SQLite's: integration/fleet/queries_only_read" },
    { "history", "newer_schema", OF_THE_FILE ": a fleet's: integration/fleet/versions" },
    { "history", "from_an_empty_file", OF_THE_FILE },
    { "history", "file_that_is_no_database", OF_THE_FILE },
    { "history", "unreadable_bundle", "no push takes it: integration/fleet/refusals" },
    { "history", "many_folders", "it reads folders: a fleet's: integration/fleet/rebuilt_rows_are_the_same" },
    { "history", "many_writers", OF_THE_FILE ": a fleet's: integration/fleet/two_at_once" },
    { "history", "many_publishers", OF_THE_FILE ": a fleet's: integration/fleet/pushed_by_many" },
    { "history", "without_wal", OF_THE_FILE },
    { "history", "read_only_folder", OF_THE_FILE },
    { "regress", "which_way_is_worse", ASKS_NOTHING },
    { "regress", "a_bundle_that_cannot_be_read", "no push takes it: integration/fleet/refusals" },
    { "regress_again", "three_runs_tell_where_it_was", ASKS_NOTHING },
    { "regress_limits", "what_the_key_holds", ASKS_NOTHING },
    { "regress_limits", "runs_read_at_once", "threads read the index alone, of a fleet's runs as well" },
    { "views", "every_column_is_documented",
      "its statement is SQLite's: integration/fleet/rows_are_those_of_the_index" },
    { "views", "page_has_every_column", ASKS_NOTHING },
    { "views", "views_of_older_kigos", "a fleet has no views `result` and `metric`" },
    { "views", "older_index_is_made_again", OF_THE_FILE ": a fleet's: integration/fleet/older_versions_migrate" },
};

/* Unit programs that open a history, and have no table of cases here. */
static const struct {
    const char *file, *why;
} FILES_LEFT_OUT[] = {
    { "test_fleet_none.c", "it is about a kigo that has no fleet" },
    { "test_bundle_stored.c", "it asks nothing but whether folders of older kigos can be read" },
    { "test_history_scale.c", "it counts the work of SQLite: a fleet's: integration/fleet/questions_read_their_runs" },
    { "test_web_server.c", "it is about sockets: integration/fleet/pages_as_of_a_folder" },
};

static struct kg_fleet_lab lab;
static size_t n_asked; /* histories that the case has opened */

/* As somebody in a clone of the repository that the folder lies in. */
static enum kg_status open_fleet(const char *root, struct kg_history **history, const char **of_history,
                                 struct kg_error *err) {
    struct kg_fleet *fleet = NULL;
    n_asked++;
    kg_fleet_mirror(&lab, root);
    ck_assert_int_eq(chdir(root), 0);
    char *url = kg_fleet_lab_url(&lab, "reader");
    enum kg_status status = kg_fleet_open(url, KG_FLEET_READS, 10, &fleet, err);
    if (status == KG_OK) status = kg_fleet_history(fleet, history, err);
    if (status == KG_OK) status = kg_shelf_root(*history, of_history, err);
    if (status == KG_OK) kg_fleet_drop_brought(*of_history, root);
    free(url);
    return status;
}

/* What was brought for one case is there for the next. */
static void keep_what_is_brought(void) {
    const char *why;
    char *cache = kg_path_join(kg_fleet_server_dir(&why), "cache");
    struct kg_error err;
    kg_must(kg_dir_make(cache, &err), &err);
    ck_assert_int_eq(chmod(cache, 0700), 0);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    free(cache);
}

static void ask_fleet(struct kg_record *rec, const void *arg) {
    static char *started_in;
    const struct kg_case *c = arg;
    if (!started_in) started_in = getcwd(NULL, 0);
    ck_assert_int_eq(chdir(started_in), 0); /* a case that failed has not */
    if (!kg_fleet_lab_open_again(&lab, rec)) return;
    keep_what_is_brought();
    n_asked = 0;
    kg_asked_by(open_fleet);
    c->run(rec, c->arg);
    kg_asked_by(NULL);
    ck_assert_int_eq(chdir(started_in), 0);
    kg_fleet_lab_close(&lab);
    ck_assert_msg(n_asked > 0, "%s/%s asks no history by kg_asked_open; if it need not, say why in LEFT_OUT", c->op,
                  c->name);
}

static bool is_left_out(const struct kg_case *c) {
    for (size_t i = 0; i < KG_COUNT_OF(LEFT_OUT); i++)
        if (strcmp(LEFT_OUT[i].op, c->op) == 0 && strcmp(LEFT_OUT[i].name, c->name) == 0) return true;
    return false;
}

static size_t count_cases(const char *op, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(ALL); i++)
        for (size_t k = 0; k < ALL[i]->n_cases; k++)
            n += strcmp(ALL[i]->cases[k].op, op) == 0 && strcmp(ALL[i]->cases[k].name, name) == 0;
    return n;
}

static bool opens_a_history(const char *file) {
    static const char *const CALLS[] = { "kg_asked_open(", "kg_history_open(", "kg_history_lab_open",
                                         "kg_fleet_history(" };
    char *path = kg_xasprintf("%s/%s", kg_fixture_path("../suites/unit"), file), *text;
    size_t len;
    bool opens = false;
    struct kg_error err;
    kg_must(kg_file_read(path, &text, &len, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) opens = opens || strstr(text, CALLS[i]);
    free(text);
    free(path);
    return opens;
}

static bool has_table(const char *file) {
    for (size_t i = 0; i < KG_COUNT_OF(ALL); i++)
        if (strcmp(ALL[i]->file, file) == 0) return true;
    return false;
}

static bool is_file_left_out(const char *file) {
    for (size_t i = 0; i < KG_COUNT_OF(FILES_LEFT_OUT); i++)
        if (strcmp(FILES_LEFT_OUT[i].file, file) == 0) return true;
    return false;
}

/* No case is left out in silence: what the tables above name is there, and a unit program that opens a history has its
 * cases here or a reason. */
static void none_is_left_out_in_silence(struct kg_record *rec, const void *arg) {
    struct kg_dir_list files;
    struct kg_error err;
    size_t n_left_out = 0;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LEFT_OUT); i++)
        ck_assert_msg(count_cases(LEFT_OUT[i].op, LEFT_OUT[i].name) == 1, "there is no case %s/%s", LEFT_OUT[i].op,
                      LEFT_OUT[i].name);
    kg_must(kg_dir_list(kg_fixture_path("../suites/unit"), &files, &err), &err);
    for (size_t i = 0; i < files.n_names; i++) {
        const char *file = files.names[i], *end = strrchr(file, '.');
        if (strncmp(file, "test_", 5) != 0 || !end || strcmp(end, ".c") != 0 || !opens_a_history(file)) continue;
        ck_assert_msg(
            has_table(file) != is_file_left_out(file),
            "suites/unit/%s opens a history: end it with KG_ASKED_SUITE and name its table in ALL, or say why "
            "not in FILES_LEFT_OUT",
            file);
        n_left_out += is_file_left_out(file);
    }
    ck_assert_uint_eq(n_left_out, KG_COUNT_OF(FILES_LEFT_OUT));
    kg_dir_list_free(&files);
}

static void build(struct kg_case_list *list) {
    kg_case_list_add(list, &(const struct kg_case){ .layer = "integration",
                                                    .op = "fleet_asked",
                                                    .name = "none_is_left_out_in_silence",
                                                    .source_tree = true,
                                                    .run = none_is_left_out_in_silence });
    for (size_t i = 0; i < KG_COUNT_OF(ALL); i++)
        for (size_t k = 0; k < ALL[i]->n_cases; k++) {
            struct kg_case c = ALL[i]->cases[k];
            char *op = kg_xasprintf("fleet_asked_%s", c.op);
            if (!is_left_out(&c)) {
                c.layer = "integration";
                c.op = op;
                c.run = ask_fleet;
                c.arg = &ALL[i]->cases[k];
                kg_case_list_add(list, &c);
            }
            free(op);
        }
}

/* The cases make and remove some 40,000 small files, which a disk's file system may take longer for than all else. */
static void work_in_memory(void) {
    static const char MEMORY[] = "/dev/shm";
    struct statvfs room;
    if (access(MEMORY, W_OK) == 0 && statvfs(MEMORY, &room) == 0 &&
        (uint64_t)room.f_bavail * room.f_frsize >= UINT64_C(1) << 30)
        setenv("TMPDIR", MEMORY, 1);
}

int main(int argc, char **argv) {
    work_in_memory();
    return kg_suite_main_built(argc, argv, build);
}
