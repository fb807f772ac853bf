/* What a run of a store counts for: by its times, by where it came from, by who signed it (policy.h). */
#ifndef KIGO_BUNDLE_STANDING_H
#define KIGO_BUNDLE_STANDING_H

#include "bundle/policy.h"
#include <kigo/bundle.h>

/* Clocks of machines differ, and a bundle's time of sealing is taken before its exports are written. */
enum { KG_TIME_SLACK_S = 600 };

/* What is wrong with a bundle's times, as text; false if nothing is. They make no sense if they are after now_us, if
 * it was sealed before it started, or if its id names another time. */
bool kg_times_wrong(const char *id, int64_t started_us, int64_t sealed_us, int64_t now_us, char why[256]);

struct kg_standing; /* of one store, while it lasts */

KG_WARN_UNUSED enum kg_status kg_standing_open(const char *root, int64_t now_us, struct kg_standing **standing,
                                               struct kg_error *err);
/* The same by the policy of another folder. */
KG_WARN_UNUSED enum kg_status kg_standing_open_by(const char *root, const char *policy_root, int64_t now_us,
                                                  struct kg_standing **standing, struct kg_error *err);
void kg_standing_close(struct kg_standing *standing);
const struct kg_policy *kg_standing_policy(const struct kg_standing *standing);

/* Whether the run counts; `why` says why not. It does not if its times are wrong, if it says that it was sealed before
 * the run that it names as its predecessor, or if the policy does not take it. A signature that cannot be checked is
 * none. */
bool kg_standing_counts(struct kg_standing *standing, enum kg_role role, const char *bundle_id, char why[256]);

#endif
