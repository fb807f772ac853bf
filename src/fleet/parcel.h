/* A bundle on its way into a fleet. While the server takes what the folder holds, the folder is verified: the caller
 * commits nothing before kg_parcel_wait has said that it is sound. */
#ifndef KIGO_FLEET_PARCEL_H
#define KIGO_FLEET_PARCEL_H

#include "base/file.h"
#include "bundle/chain.h"
#include "bundle/stamps.h"
#include "bundle/transfer.h"
#include "fleet/internal.h"
#include <kigo/history.h>
#include <pthread.h>

/* Work beside the caller's. */
struct kg_parcel_work {
    pthread_t thread;
    bool begun; /* in a thread, which was not waited for yet */
    enum kg_status status;
    struct kg_error err;
};

struct kg_parcel {
    char *root, *id; /* of the folder */
    char *dir;
    bool is_signed;
    bool pruned_too;         /* it is pushed though it was pruned from the fleet */
    struct kg_stamps before; /* of the folder, before any of it was read for the fleet */
    char *scratch, *path;    /* holds the archive; the archive */
    struct kg_file_map archive;
    struct kg_history *index; /* its rows */
    struct kg_chain_link previous;
    struct kg_fleet_place place; /* runner_no: the caller's */
    struct kg_parcel_work verifying, packing;
    bool is_verified; /* kg_parcel_wait has its answer */
};

/* Fills in the id and the tag manifest's SHA-256 of *pushed. Close it in either case. */
KG_WARN_UNUSED enum kg_status kg_parcel_open(const char *dir, struct kg_parcel *parcel, struct kg_pushed *pushed,
                                             struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_parcel_check_signature(const struct kg_parcel *parcel, const struct kg_policy *policy,
                                                        struct kg_error *err);
/* Begins to verify, and makes archive and rows, once however often the push is tried. */
KG_WARN_UNUSED enum kg_status kg_parcel_pack(struct kg_parcel *parcel, struct kg_pushed *pushed, struct kg_error *err);
/* Waits until it is verified. KG_ERR_INTEGRITY if it is not sound, or if anybody changed it since it was opened. */
KG_WARN_UNUSED enum kg_status kg_parcel_wait(struct kg_parcel *parcel, struct kg_error *err);
void kg_parcel_close(struct kg_parcel *parcel);

#endif
