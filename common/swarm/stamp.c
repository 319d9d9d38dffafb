#include "common/swarm/stamp.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/crypto/scrypt.h"
#include "common/swarm/donors.h"

#define NONCE_MASK (((uint64_t)1 << 53) - 1)

static const char label[10] = {'s', 'k', 'e', 'p', '-', 's', 't', 'a', 'm', 'p'};

#define PASSWORD_SIZE (sizeof label + 2ul * SKEP_ID_SIZE)

static void password_of(const struct skep_project_id *project, const struct skep_peer_id *donor,
                        uint8_t ret_password[PASSWORD_SIZE])
{
    memcpy(ret_password, label, sizeof label);
    memcpy(ret_password + sizeof label, project->bytes, SKEP_ID_SIZE);
    memcpy(ret_password + sizeof label + SKEP_ID_SIZE, donor->bytes, SKEP_ID_SIZE);
}

/* How many zero bits the stamp of this nonce begins with, counted up to 32. */
static int count_zeros(const struct skep_project_id *project, const struct skep_peer_id *donor,
                       uint64_t nonce, uint32_t *ret_zeros, struct skep_error *err)
{
    uint8_t password[PASSWORD_SIZE];
    uint8_t salt[8];
    uint8_t stamp[32];
    password_of(project, donor, password);
    skep_put_u64(salt, nonce);
    int rc = skep_scrypt(password, sizeof password, salt, sizeof salt, stamp, err);
    if (rc == SKEP_OK) {
        uint32_t zeros = 0;
        while (zeros < 32 && (stamp[zeros / 8] >> (7 - zeros % 8) & 1) == 0) {
            zeros++;
        }
        *ret_zeros = zeros;
    }
    return rc;
}

void skep_stamp_begin(struct skep_stamp_search *search, const struct skep_project_id *project,
                      const struct skep_peer_id *donor, uint32_t bits)
{
    uint8_t password[PASSWORD_SIZE];
    password_of(project, donor, password);
    struct skep_hash start = skep_hash_of(password, sizeof password);
    *search = (struct skep_stamp_search){.project = *project,
                                         .donor = *donor,
                                         .bits = bits,
                                         .nonce = skep_get_u64(start.bytes) & NONCE_MASK};
    if (bits == 0) {
        search->nonce = 0;
        search->found = true;
    }
}

int skep_stamp_try(struct skep_stamp_search *search, struct skep_error *err)
{
    uint32_t zeros = 0;
    if (search->found) {
        return SKEP_OK;
    }
    int rc = count_zeros(&search->project, &search->donor, search->nonce, &zeros, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    search->tries++;
    if (zeros >= search->bits) {
        search->found = true;
    } else {
        search->nonce = (search->nonce + 1) & NONCE_MASK;
    }
    return SKEP_OK;
}

int skep_stamp_find(struct skep_stamp_search *search, bool (*stopped)(void *user), void *user,
                    struct skep_error *err)
{
    int rc = SKEP_OK;
    while (!search->found && rc == SKEP_OK) {
        if (stopped != NULL && stopped(user)) {
            return skep_error_set(err, SKEP_ERR_CANCELLED,
                                  "the search for a stamp was stopped after %llu tries",
                                  (unsigned long long)search->tries);
        }
        rc = skep_stamp_try(search, err);
    }
    return rc;
}

int skep_stamp_check(const struct skep_project_id *project, const struct skep_peer_id *donor,
                     uint32_t bits, uint64_t nonce, struct skep_error *err)
{
    uint32_t zeros = 0;
    if (bits == 0) {
        return SKEP_OK;
    }
    int rc = count_zeros(project, donor, nonce, &zeros, err);
    if (rc == SKEP_OK && zeros < bits) {
        return skep_refuse(err, SKEP_REFUSAL_STAMP,
                           "the stamp of donor %.12s with nonce %llu begins with %u zero bits; "
                           "this project asks for %u",
                           skep_id_text(donor->bytes), (unsigned long long)nonce, zeros, bits);
    }
    return rc;
}

/* ---- stamps that were checked ---- */

struct skep_stamps {
    struct skep_donors *good; /* by project and donor; their values are of no interest */
    uint64_t
        paid_until_ms; /* each check takes its gap of time; the next may begin while this is less than a burst ahead */
};

struct skep_stamps *skep_stamps_new(uint64_t seed)
{
    struct skep_stamps *stamps = skep_alloc(1, sizeof *stamps);
    stamps->good = skep_donors_new(SKEP_STAMPS_KNOWN, 1, seed);
    return stamps;
}

void skep_stamps_free(struct skep_stamps *stamps)
{
    if (stamps != NULL) {
        skep_donors_free(stamps->good);
        free(stamps);
    }
}

/* May one more stamp be checked now? */
static bool pay(struct skep_stamps *stamps, uint64_t now_ms)
{
    uint64_t from = stamps->paid_until_ms > now_ms ? stamps->paid_until_ms : now_ms;
    if (from - now_ms > (uint64_t)SKEP_STAMP_GAP_MS * (SKEP_STAMP_BURST - 1)) {
        return false;
    }
    stamps->paid_until_ms = from + SKEP_STAMP_GAP_MS;
    return true;
}

/* One name for a donor of a project. */
static struct skep_peer_id name_of(const struct skep_manifest *manifest,
                                   const struct skep_peer_id *donor)
{
    uint8_t password[PASSWORD_SIZE];
    struct skep_peer_id name;
    password_of(&manifest->project, donor, password);
    struct skep_hash hash = skep_hash_of(password, sizeof password);
    memcpy(name.bytes, hash.bytes, SKEP_ID_SIZE);
    return name;
}

int skep_stamps_admit(struct skep_stamps *stamps, const struct skep_manifest *manifest,
                      const struct skep_update_statement *statement, uint64_t now_ms,
                      struct skep_error *err)
{
    struct skep_peer_id name = name_of(manifest, &statement->donor);
    if (manifest->trust.stamp_bits == 0 || skep_donors_find(stamps->good, &name) != NULL) {
        return SKEP_OK;
    }
    if (now_ms != UINT64_MAX && !pay(stamps, now_ms)) {
        return skep_refuse(err, SKEP_REFUSAL_BUSY,
                           "too many stamps of new donors are to be checked; try again later");
    }
    int rc = skep_stamp_check(&manifest->project, &statement->donor, manifest->trust.stamp_bits,
                              statement->stamp, err);
    if (rc == SKEP_OK) {
        (void)skep_donors_take(stamps->good, &name);
    }
    return rc;
}

void skep_stamps_know(struct skep_stamps *stamps, const struct skep_manifest *manifest,
                      const struct skep_peer_id *donor)
{
    struct skep_peer_id name = name_of(manifest, donor);
    (void)skep_donors_take(stamps->good, &name);
}
