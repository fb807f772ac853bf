#include "cli/fleet.h"
#include "fleet/place.h"

enum kg_status kg_cli_fleet_open(const char *given, enum kg_fleet_use use, int64_t wait_s, struct kg_fleet **fleet,
                                 struct kg_error *err) {
    const char *url = NULL;
    enum kg_status status = KG_OK;
    if (kg_fleet_missing()) status = kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_fleet_missing());
    if (status == KG_OK) status = kg_fleet_url(given, &url, err);
    if (status == KG_OK) status = kg_fleet_open(url, use, (double)wait_s, fleet, err);
    return status;
}

static void draw(void *progress, uint64_t done, uint64_t total) {
    kg_progress_update(progress, done, total);
}

struct kg_fleet_watch kg_cli_fleet_watch(struct kg_progress *progress, const char *label) {
    kg_progress_start(progress, label);
    return (struct kg_fleet_watch){ .progress = draw, .user = progress };
}
