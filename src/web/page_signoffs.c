/* Sign-offs beside the bundles: what was signed off, from which runs, and whether it is what it was then. */
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/signed_off.h"
#include "history/store.h"
#include "web/pages.h"
#include <stdlib.h>
#include <string.h>

/* What `kigo signoff` judged, as the statement holds it; NULL if it holds none. */
static const json_t *document_of(const struct kg_signed_off *signed_off) {
    return json_object_get(json_object_get(signed_off->statement, "predicate"), "kigo");
}

static void put_signoff(const struct kg_web_view *view, const char *name, const struct kg_signed_off *signed_off,
                        size_t n_findings) {
    const bool is_sound = n_findings == 0 && signed_off->signature.state != KG_SIGNATURE_BAD;
    static const char *const COUNTS[] = { "n_met", "n_missed", "n_unproven" };
    const json_t *document = document_of(signed_off);
    struct kg_buffer url = KG_BUFFER_INIT;
    kg_buffer_puts(&url, "/signoffs/");
    kg_web_url_part(&url, name);
    kg_page_cell_link(view->page, kg_buffer_text(&url), name);
    kg_web_cell_text(view->page, document, "title");
    kg_web_cell_text(view->page, document, "verdict");
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        kg_page_cellf(view->page, "%lld", (long long)kg_json_int(document, COUNTS[i], 0));
    kg_page_cellf(view->page, "%zu", json_array_size(signed_off->runs));
    kg_page_cell(view->page, is_sound ? "sound" : "unsound");
    kg_buffer_free(&url);
}

/* One sign-off, held against its documents. A name that the folder does not list is not looked for. */
static enum kg_status check(const struct kg_web_view *view, const char *name, struct kg_signed_off *signed_off,
                            struct kg_bundle_findings *findings, struct kg_error *err) {
    struct kg_policy policy;
    enum kg_status status = kg_policy_load(view->options->root, NULL, &policy, err);
    if (status == KG_OK) status = kg_signed_off_check(view->options->root, name, &policy, signed_off, findings, err);
    kg_policy_free(&policy);
    return status;
}

/* A fleet keeps none, and those beside some folder of its reader's are of other runs. */
static enum kg_status list_names(const struct kg_web_view *view, struct kg_dir_list *names, struct kg_error *err) {
    return kg_history_is_store(view->history) ? KG_OK : kg_signed_off_list(view->options->root, names, err);
}

enum kg_status kg_web_page_signoffs(struct kg_web_view *view, struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "sign-off", KG_COLUMN_NAME },  { "sprint", KG_COLUMN_TEXT },
                                                { "verdict", KG_COLUMN_STATUS }, { "met", KG_COLUMN_NUMBER },
                                                { "missed", KG_COLUMN_NUMBER },  { "unproven", KG_COLUMN_NUMBER },
                                                { "runs", KG_COLUMN_NUMBER },    { "files", KG_COLUMN_STATUS } };
    struct kg_dir_list names = { 0 };
    enum kg_status status = list_names(view, &names, err);
    if (status != KG_OK) return status;
    kg_page_title(view->page, "kigo: sign-offs", NULL);
    kg_page_section(view->page, "Sign-offs");
    if (kg_history_is_store(view->history)) kg_page_text(view->page, "A fleet keeps no sign-offs.");
    else if (names.n_names == 0) kg_page_text(view->page, "Nothing was signed off here.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = names.n_names; i-- > 0 && names.n_names - i <= KG_WEB_ROWS && status == KG_OK;) {
        struct kg_signed_off signed_off = { 0 };
        struct kg_bundle_findings findings = { NULL, 0 };
        status = check(view, names.names[i], &signed_off, &findings, err);
        if (status == KG_OK) put_signoff(view, names.names[i], &signed_off, findings.n_items);
        kg_bundle_findings_free(&findings);
        kg_signed_off_free(&signed_off);
    }
    kg_page_table_end(view->page);
    kg_dir_list_free(&names);
    return status;
}

static void put_criteria(const struct kg_web_view *view, const json_t *document) {
    static const struct kg_column COLUMNS[] = { { "state", KG_COLUMN_STATUS },   { "story", KG_COLUMN_TEXT },
                                                { "criterion", KG_COLUMN_NAME }, { "wanted", KG_COLUMN_TEXT },
                                                { "found", KG_COLUMN_TEXT },     { "record", KG_COLUMN_NAME } };
    static const char *const MEMBERS[] = { "state", "story", "what", "wanted", "found", "record" };
    enum { MOST = 300 };
    const json_t *criteria = json_object_get(document, "criteria");
    kg_page_section(view->page, "Criteria");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(criteria) && i < MOST; i++)
        for (size_t m = 0; m < KG_COUNT_OF(MEMBERS); m++)
            kg_web_cell_text(view->page, json_array_get(criteria, i), MEMBERS[m]);
    kg_page_table_end(view->page);
}

static void put_runs(const struct kg_web_view *view, const json_t *runs) {
    static const struct kg_column COLUMNS[] = { { "run", KG_COLUMN_NAME } };
    kg_page_section(view->page, "Its runs");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(runs) && i < KG_WEB_ROWS; i++)
        kg_web_cell_run(view->page, json_string_value(json_array_get(runs, i)));
    kg_page_table_end(view->page);
}

enum kg_status kg_web_page_signoff(struct kg_web_view *view, struct kg_error *err) {
    struct kg_dir_list names = { 0 };
    struct kg_signed_off signed_off = { 0 };
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = list_names(view, &names, err);
    const char *name = NULL;
    for (size_t i = 0; status == KG_OK && i < names.n_names; i++)
        if (strcmp(names.names[i], view->name) == 0) name = names.names[i];
    if (status == KG_OK && !name) status = kg_fail(err, KG_ERR_NOT_FOUND, "there is no sign-off '%.80s'", view->name);
    if (status == KG_OK) status = check(view, name, &signed_off, &findings, err);
    if (status == KG_OK) {
        const json_t *document = document_of(&signed_off);
        char *title = kg_xasprintf("kigo sign-off %.160s", name);
        kg_page_title(view->page, title, kg_json_text(document, "verdict"));
        free(title);
        if (findings.n_items > 0)
            kg_page_alert(view->page, "It is not what was signed off: %s %s %s.", findings.items[0].what,
                          findings.items[0].path, findings.items[0].detail);
        if (signed_off.signature.state == KG_SIGNATURE_BAD) kg_page_alert(view->page, "Its signature is bad.");
        put_criteria(view, document);
        put_runs(view, signed_off.runs);
        kg_page_text(view->page, "kigo verify --signoffs judges its runs again.");
    }
    kg_bundle_findings_free(&findings);
    kg_signed_off_free(&signed_off);
    kg_dir_list_free(&names);
    return status;
}
