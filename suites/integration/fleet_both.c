#include "suites/integration/fleet_both.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/process.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGS = 16 };

bool kg_fleet_both_open(struct kg_fleet_both *both, struct kg_record *rec, const char *root) {
    if (!kg_fleet_lab_open(&both->fleet, rec, true)) return false;
    char *url = kg_fleet_lab_url(&both->fleet, "reader");
    both->root = kg_xstrdup(root);
    both->url = kg_xasprintf("KIGO_HISTORY=%s", url);
    both->where = kg_xasprintf("fleet %s at %s, as reader", both->fleet.database, strstr(url, "host=") + 5);
    free(url);
    return true;
}

void kg_fleet_both_close(struct kg_fleet_both *both) {
    free(both->where);
    free(both->url);
    free(both->root);
    kg_fleet_lab_close(&both->fleet);
}

void kg_fleet_both_push(const struct kg_fleet_both *both, const char *user, const char *id) {
    char *dir = kg_path_join(both->root, id);
    kg_fleet_lab_kigo(&both->fleet, user, ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    free(dir);
}

void kg_fleet_both_ask(const struct kg_fleet_both *both, const char *const *args, const char *more,
                       struct kg_process_result *result) {
    const char *argv[MOST_ARGS + 2] = { kg_program_path() };
    const char *const env[] = { both->url, more, NULL };
    struct kg_error err;
    for (size_t i = 0; args[i]; i++) argv[i + 1] = args[i];
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv, .env = env }, result, &err), err);
}

/* `to` wherever `from` is; malloc'ed. */
static char *replaced(const char *text, const char *from, const char *to) {
    struct kg_buffer out = KG_BUFFER_INIT;
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
        kg_buffer_append(&out, text, (size_t)(at - text));
        kg_buffer_puts(&out, to);
    }
    kg_buffer_puts(&out, text);
    return out.data ? out.data : kg_xstrdup("");
}

/* Where a run lies is the one thing that differs: a folder's is given by its path, a fleet's by the fleet. */
static char *as_of_fleet(const struct kg_fleet_both *both, const char *text) {
    const char *root = both->root;
    char *all = kg_xstrdup(text);
    struct kg_dir_list ids;
    struct kg_error err;
    EXPECT_OK(kg_dir_list(root, &ids, &err), err);
    for (size_t i = 0; i < ids.n_names; i++) {
        char *const from[] = { kg_xasprintf("\"dir\": \"%s/%s\"", root, ids.names[i]),
                               kg_xasprintf("folder   %s/%s\n", root, ids.names[i]),
                               kg_xasprintf("%s/%s: with", root, ids.names[i]) };
        char *const to[] = { kg_xstrdup("\"dir\": null"), kg_xasprintf("folder   %s\n", both->where),
                             kg_xasprintf("%s: with", ids.names[i]) };
        for (size_t k = 0; k < KG_COUNT_OF(from); k++) {
            char *before = all;
            all = replaced(before, from[k], to[k]);
            free(before);
            free(from[k]);
            free(to[k]);
        }
    }
    char *of_fleet = replaced(all, root, both->where);
    free(all);
    kg_dir_list_free(&ids);
    return of_fleet;
}

static void expect_text(const char *what, const char *const *args, const char *got, const char *want) {
    size_t same = 0;
    while (got[same] && got[same] == want[same]) same++;
    const size_t shown = same > 200 ? same - 200 : 0;
    ck_assert_msg(strcmp(got, want) == 0,
                  "kigo %s %s %s: %s: from byte %zu the folder says\n%.1000s\nand the fleet\n%.1000s", args[0], args[1],
                  args[2] ? args[2] : "", what, shown, want + shown, got + shown);
}

/* When it was signed off, as nobody does two things at once. */
static void mask_time(char *text) {
    static const char MEMBER[] = "\"signed_off_utc\": \"";
    char *at = strstr(text, MEMBER);
    if (at) memset(at + strlen(MEMBER), '-', strcspn(at + strlen(MEMBER), "\""));
}

void kg_fleet_both_expect(const struct kg_fleet_both *both, const char *const *args, const char *form) {
    const char *all[MOST_ARGS] = { NULL };
    struct kg_process_result local, fleet;
    size_t n = 0;
    for (; args[n]; n++) all[n] = args[n];
    all[n] = form;
    kg_verb_run(both->root, all, false, &local);
    kg_fleet_both_ask(both, all, NULL, &fleet);
    ck_assert_msg(fleet.exit_code == local.exit_code,
                  "kigo %s %s %s ends with %d of the folder, %d of the fleet: %.1000s%.1000s", all[0], all[1],
                  all[2] ? all[2] : "", local.exit_code, fleet.exit_code, local.err, fleet.err);
    mask_time(local.out);
    mask_time(fleet.out);
    char *out = as_of_fleet(both, local.out), *err = as_of_fleet(both, local.err);
    expect_text("output", all, fleet.out, out);
    expect_text("messages", all, fleet.err, err);
    free(err);
    free(out);
    kg_process_result_free(&fleet);
    kg_process_result_free(&local);
}
