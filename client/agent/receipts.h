/*
 * Receipts: seals that name this donor. Keepers are asked for those newer than what was seen of them; each is checked (signatures of
 * a majority of the shard's replica set under the manifest) before it is kept. Checking needs nothing but the manifest, so
 * `skep credit` does it again offline.
 */
#ifndef SKEP_CLIENT_AGENT_RECEIPTS_H
#define SKEP_CLIENT_AGENT_RECEIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/store/donor-db.h"
#include "common/wire/envelope.h"
#include "common/wire/manifest.h"

struct skep_receipt_facts {
    struct skep_shard shard;
    uint64_t version;
    uint64_t credit_micro; /* of this donor in this seal */
    uint64_t updates;      /* of this donor in this seal: at least 1 */
    uint64_t merged;       /* of these; the others stand in it without credit */
    bool copy;             /* one was a near-copy of another update */
    int64_t
        agreement_permille; /* of the last of them, with the others of the round: -1000 .. 1000 */
};

/* Why an update of a seal was not merged, in words; NULL if all were. */
const char *skep_receipt_reason(const struct skep_receipt_facts *facts);

/* SKEP_ERR_SIGNATURE, SKEP_ERR_FORMAT, or SKEP_ERR_REFUSED if the seal is of another project, does not name the donor, or
 * grants another credit than its update earns: the job's if it was merged, else none. */
int skep_receipt_check(const struct skep_manifest *manifest, const struct skep_peer_id *donor,
                       const struct skep_envelope *envelope, struct skep_receipt_facts *ret_facts,
                       struct skep_error *err);
/* The same from text as it is stored. */
int skep_receipt_check_text(const struct skep_manifest *manifest, const struct skep_peer_id *donor,
                            const char *text, struct skep_receipt_facts *ret_facts,
                            struct skep_error *err);

/* Asks all reachable keepers; done when all have answered or failed. */
void skep_receipts_fetch(struct skep_session *session, struct skep_donor_db *db,
                         const struct skep_peer_id *donor, skep_session_done done, void *user);

#endif
