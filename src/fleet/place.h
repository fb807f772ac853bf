/* Which fleet is meant, without libpq. */
#ifndef KIGO_FLEET_PLACE_H
#define KIGO_FLEET_PLACE_H

#include <kigo/status.h>
#include <stdbool.h>

/* The URL given on the command line, or $KIGO_HISTORY. KG_ERR_USAGE if neither says one, if it is no postgresql:// URL,
 * or if the one of the command line, which other users can read, holds a password. No message shows the URL. */
KG_WARN_UNUSED enum kg_status kg_fleet_url(const char *given, const char **url, struct kg_error *err);

/* Whether a URL has a password, before the host or as a parameter. */
bool kg_fleet_url_has_password(const char *url);

#endif
