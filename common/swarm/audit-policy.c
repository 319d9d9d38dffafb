/* Whose work is looked at: the policy half of reputation.h. */
#include <string.h>

#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/swarm/reputation.h"

#define ALWAYS 1000u
/* Rounds in which the least alike is audited, and the next too. */
#define LEAST_OF 8u
#define LEAST_TWO_OF 32u

_Static_assert(SKEP_PROBATION == SKEP_TURN_COST * (1 + SKEP_AUDIT_DELAY),
               "where the curve leaves 1");

bool skep_reputation_trusted(const struct skep_reputation *reputation)
{
    return reputation->n >= SKEP_PROBATION && !reputation->away && !reputation->banned;
}

bool skep_reputation_may_merge(const struct skep_reputation *reputation, bool audited)
{
    return !reputation->banned && (audited || skep_reputation_trusted(reputation));
}

int skep_reputation_before(const struct skep_reputation *a, const struct skep_hash *update_a,
                           const struct skep_reputation *b, const struct skep_hash *update_b)
{
    bool trusted_a = skep_reputation_trusted(a);
    if (trusted_a != skep_reputation_trusted(b)) {
        return trusted_a ? -1 : 1;
    }
    if (a->n != b->n) {
        return a->n > b->n ? -1 : 1;
    }
    return skep_hash_compare(update_a, update_b);
}

uint32_t skep_audit_permille(const struct skep_reputation *reputation)
{
    if (!skep_reputation_trusted(reputation)) {
        return ALWAYS;
    }
    /* a(n) = J(n) / TURN_COST - DELAY by its sums, in units of 2^-20 jobs. */
    const uint64_t one = UINT64_C(1) << 20;
    uint64_t jobs = SKEP_PROBATION * one;
    uint64_t permille = ALWAYS;
    for (uint32_t n = SKEP_PROBATION; n < reputation->n && permille > SKEP_AUDIT_FLOOR_PERMILLE;
         n++) {
        jobs += ALWAYS * one / permille;
        uint64_t apart = jobs / SKEP_TURN_COST - SKEP_AUDIT_DELAY * one;
        permille = (ALWAYS * one + apart - 1) / apart;
    }
    return permille > SKEP_AUDIT_FLOOR_PERMILLE ? (uint32_t)permille : SKEP_AUDIT_FLOOR_PERMILLE;
}

bool skep_audit_drawn(const struct skep_hash *beacon, const struct skep_hash *update,
                      uint32_t permille)
{
    static const char label[] = {'s', 'k', 'e', 'p', '-', 'a', 'u', 'd', 'i', 't'};
    uint8_t bytes[sizeof label + sizeof beacon->bytes + sizeof update->bytes];
    memcpy(bytes, label, sizeof label);
    memcpy(bytes + sizeof label, beacon->bytes, SKEP_ID_SIZE);
    memcpy(bytes + sizeof label + sizeof beacon->bytes, update->bytes, SKEP_ID_SIZE);
    struct skep_hash hash = skep_hash_of(bytes, sizeof bytes);
    return skep_get_u64(hash.bytes) % ALWAYS < permille;
}

static bool strange(const struct skep_receipt *receipt)
{
    return receipt->copy || receipt->agreement_permille < 0;
}

/* The update that agreed least among those not yet picked; `count` if all are. */
static size_t least_alike(const struct skep_receipt *receipts, size_t count, const bool *picked)
{
    size_t least = count;
    for (size_t i = 0; i < count; i++) {
        if (!picked[i] && (least == count ||
                           receipts[i].agreement_permille < receipts[least].agreement_permille)) {
            least = i;
        }
    }
    return least;
}

size_t skep_audit_suspects(const struct skep_receipt *receipts, size_t count, bool alarm,
                           bool *ret_audit)
{
    size_t strange_count = 0;
    for (size_t i = 0; i < count; i++) {
        strange_count += strange(&receipts[i]);
        ret_audit[i] = receipts[i].copy;
    }
    bool all = alarm || strange_count > count / 4;
    size_t least = count < LEAST_OF ? 0 : count < LEAST_TWO_OF ? 1 : 2;
    for (size_t picks = 0; picks < least; picks++) {
        size_t i = least_alike(receipts, count, ret_audit);
        if (i < count) {
            ret_audit[i] = true;
        }
    }
    size_t set = 0;
    for (size_t i = 0; i < count; i++) {
        ret_audit[i] = ret_audit[i] || all;
        set += ret_audit[i];
    }
    return set;
}
