#include "fleet/place.h"
#include "base/buffer.h"
#include "fleet/fleet.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* After "postgresql://" or "postgres://"; NULL for anything else. */
static const char *after_scheme(const char *url) {
    static const char *const SCHEMES[] = { "postgresql://", "postgres://" };
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++)
        if (strncmp(url, SCHEMES[i], strlen(SCHEMES[i])) == 0) return url + strlen(SCHEMES[i]);
    return NULL;
}

bool kg_fleet_url_has_password(const char *url) {
    const char *rest = after_scheme(url);
    if (!rest) return false;
    const char *at = strchr(rest, '@'), *colon = strchr(rest, ':');
    const size_t authority = strcspn(rest, "/?");
    if (at && at < rest + authority && colon && colon < at) return true;
    return strstr(rest, "?password=") || strstr(rest, "&password=");
}

enum kg_status kg_fleet_url(const char *given, const char **url, struct kg_error *err) {
    const char *from_environment = getenv("KIGO_HISTORY");
    const char *chosen = given ? given : from_environment && *from_environment ? from_environment : NULL;
    const char *who = given ? "--history" : "$KIGO_HISTORY";
    if (!chosen) return kg_fail(err, KG_ERR_USAGE, "no fleet is named: --history URL or $KIGO_HISTORY");
    if (!after_scheme(chosen)) return kg_fail(err, KG_ERR_USAGE, "%s is no postgresql:// URL", who);
    if (given && kg_fleet_url_has_password(given))
        return kg_fail(err, KG_ERR_USAGE,
                       "%s holds a password, which other users of this machine can read: put it into ~/.pgpass, "
                       "$PGPASSWORD or $KIGO_HISTORY",
                       who);
    *url = chosen;
    return KG_OK;
}

const char *kg_push_state_name(enum kg_push_state state) {
    static const char *const NAMES[] = { [KG_PUSH_ABSENT] = "absent",
                                         [KG_PUSH_PUSHED] = "pushed",
                                         [KG_PUSH_THERE] = "there",
                                         [KG_PUSH_UNKNOWN] = "unknown",
                                         [KG_PUSH_PRUNED] = "pruned" };
    return NAMES[state];
}

enum kg_status kg_fleet_scratch(char **dir, struct kg_error *err) {
    const char *tmp = getenv("TMPDIR");
    char *path = kg_xasprintf("%s/kigo-fleet-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(path)) {
        *dir = path;
        return KG_OK;
    }
    const enum kg_status status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", path, strerror(errno));
    free(path);
    return status;
}
