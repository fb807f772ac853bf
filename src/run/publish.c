#include "run/publish.h"
#include "report/report.h"
#include <kigo/history.h>
#include <stdio.h>
#include <string.h>

enum kg_status kg_run_seal(struct kg_bundle *bundle, struct kg_bundle_summary *summary, struct kg_error *err) {
    struct kg_error why;
    const enum kg_status status = kg_bundle_seal(bundle, kg_report_documents, summary, err);
    if (status == KG_OK && kg_history_add(kg_bundle_root(bundle), kg_bundle_id(bundle), &why) != KG_OK) {
        const size_t len = strlen(summary->note);
        snprintf(summary->note + len, sizeof summary->note - len, "%snot indexed: %.240s", len ? "; " : "",
                 why.message);
    }
    return status;
}
