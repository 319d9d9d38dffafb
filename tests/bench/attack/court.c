#include "tests/bench/attack/court.h"

#include "common/crypto/hash.h"

static int seal(struct court *court, struct skep_receipt *receipts, size_t count,
                struct skep_hash *ret_beacon, struct skep_error *err)
{
    struct skep_seal seal = {.shard = {.kind = SKEP_SHARD_TRUNK},
                             .version = skep_reputation_version(court->table) + 1,
                             .receipt_count = count,
                             .receipts = receipts,
                             .finding_count = court->finding_count,
                             .findings = court->findings};
    *ret_beacon = skep_hash_of(&seal.version, sizeof seal.version);
    int rc = skep_reputation_apply(court->table, &seal, err);
    court->finding_count = 0;
    return rc;
}

int court_open(struct court *court, const struct skep_peer_id *donors, size_t count,
               uint64_t passed, struct skep_error *err)
{
    struct skep_receipt receipts[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_hash beacon;
    court->table = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    int rc = SKEP_OK;
    for (uint64_t i = 0; i < passed && rc == SKEP_OK; i++) {
        for (size_t d = 0; d < count; d++) {
            receipts[d] =
                (struct skep_receipt){.donor = donors[d], .merged = true, .audited = true};
        }
        rc = seal(court, receipts, count, &beacon, err);
    }
    return rc;
}

void court_close(struct court *court)
{
    skep_reputations_free(court->table);
}

bool court_banned(const struct court *court, const struct skep_peer_id *donor)
{
    return skep_reputation_find(court->table, donor).banned;
}

static void find(struct court *court, const struct court_case *one, bool valid)
{
    if (court->finding_count < SKEP_LIMIT_UPDATES_PER_ROUND) {
        court->findings[court->finding_count++] =
            (struct skep_finding){.update = one->update,
                                  .donor = one->donor,
                                  .verdict = valid ? SKEP_VERDICT_VALID : SKEP_VERDICT_INVALID};
    }
}

static bool audit(struct court *court, const struct court_case *one)
{
    court->audits++;
    return court->repeat(court->user, one->number);
}

bool court_admits(struct court *court, const struct court_case *one, bool *ret_audited)
{
    struct skep_reputation reputation = skep_reputation_find(court->table, &one->donor);
    *ret_audited = false;
    if (reputation.banned || skep_reputation_may_merge(&reputation, false)) {
        return !reputation.banned;
    }
    *ret_audited = audit(court, one);
    if (!*ret_audited) {
        find(court, one, false);
    }
    return *ret_audited;
}

int court_seal(struct court *court, const struct court_case *cases, const bool *audited,
               size_t count, struct skep_error *err)
{
    struct skep_receipt receipts[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool suspect[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_hash beacon;
    for (size_t i = 0; i < count; i++) {
        receipts[i] = (struct skep_receipt){.update = cases[i].update,
                                            .donor = cases[i].donor,
                                            .merged = true,
                                            .copy = cases[i].copy,
                                            .agreement_permille = cases[i].agreement_permille,
                                            .audited = audited[i]};
    }
    int rc = seal(court, receipts, count, &beacon, err);
    skep_audit_suspects(receipts, count, false, suspect);
    for (size_t i = 0; i < count; i++) {
        struct skep_reputation reputation = skep_reputation_find(court->table, &cases[i].donor);
        bool drawn = skep_audit_drawn(&beacon, &cases[i].update, skep_audit_permille(&reputation));
        if ((drawn || suspect[i]) && !audited[i] && !reputation.banned) {
            find(court, &cases[i], audit(court, &cases[i]));
        }
    }
    return rc;
}
