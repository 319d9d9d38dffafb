/*
 * Audits and bans in the attack laboratory: the real rules (common/swarm/reputation.h) on the laboratory's rounds. Each round is a
 * trunk version. Donors that are not trusted are audited before they are merged, the others afterwards when the lot or suspicion falls
 * on them; what an audit finds stands in the seal of its version, or in the next one's.
 */
#ifndef SKEP_TESTS_BENCH_ATTACK_COURT_H
#define SKEP_TESTS_BENCH_ATTACK_COURT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/swarm/reputation.h"
#include "common/wire/statements.h"

/* One donor's update of this version. */
struct court_case {
    struct skep_peer_id donor;
    struct skep_hash update;
    /* what the merge saw of it */
    bool copy;
    int32_t agreement_permille;
    size_t number; /* for whoever repeats the job */
};

/* Repeats the job of case `number` and says whether the update is what comes of it. */
typedef bool (*court_repeat)(void *user, size_t number);

struct court {
    struct skep_reputations *table;
    struct skep_finding findings[SKEP_LIMIT_UPDATES_PER_ROUND]; /* for the next seal */
    size_t finding_count;
    uint64_t audits;
    court_repeat repeat;
    void *user;
};

/* Every donor has passed `passed` audits before the first round. `repeat` and `user` are the caller's to set. */
int court_open(struct court *court, const struct skep_peer_id *donors, size_t count,
               uint64_t passed, struct skep_error *err);
void court_close(struct court *court);
bool court_banned(const struct court *court, const struct skep_peer_id *donor);
/* Whether the update may be merged; audits it if that must be known before. *ret_audited says whether it was. */
bool court_admits(struct court *court, const struct court_case *one, bool *ret_audited);
/* The seal of a version that merged these updates; then draws the audits that it calls for. */
int court_seal(struct court *court, const struct court_case *cases, const bool *audited,
               size_t count, struct skep_error *err);

#endif
