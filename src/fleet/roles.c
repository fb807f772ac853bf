/* The roles that people and runners are members of. */
#include "fleet/internal.h"

/* Roles belong to the whole server, so that another fleet may have made them. kigo_admin owns the tables; who makes the
 * fleet becomes a member. */
static const char ROLES[] =
    "DO $$ DECLARE name text; BEGIN"
    " FOREACH name IN ARRAY ARRAY['kigo_admin', 'kigo_runner', 'kigo_reader'] LOOP"
    "  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN"
    "   EXECUTE format('CREATE ROLE %I NOLOGIN', name);"
    "  END IF;"
    " END LOOP;"
    " IF NOT pg_has_role('kigo_admin', 'MEMBER') THEN"
    "  EXECUTE format('GRANT kigo_admin TO %I', current_user);"
    " END IF;"
    /* A setting of a role holds for who logs in as it, not for its members; kigo's own statements lift it. */
    " EXECUTE format('ALTER DATABASE %I SET statement_timeout = %L', current_database(), '30s');"
    "END $$";

enum kg_status kg_fleet_make_roles(struct kg_fleet *fleet, struct kg_error *err) {
    return kg_fleet_exec(fleet, "making the roles", ROLES, err);
}
