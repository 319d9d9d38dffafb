/*
 * The inside of the round machine, shared by its files only.
 *
 *   round.c          events in, deadlines out, sealing; the order in which things are tried
 *   round-hear.c     what other keepers say
 *   round-agree.c    the steps: leading, voting, committing, saying again
 *   round-proposal.c what may be voted for, and what is remembered of it
 *   round-verdicts.c what audits found, and what seals may say of it
 *   round-lists.c    updates held, lists chosen, merges and fetches asked for
 *   round-actions.c  the queue of actions and the messages in them
 *
 * After every event skep_round_advance() tries each thing that could now be done. So no order of arrival is special: a handler only
 * notes what it was told.
 */
#ifndef SKEP_SWARM_ROUND_INTERNAL_H
#define SKEP_SWARM_ROUND_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/swarm/round.h"

#define SKEP_ROUND_MERGES                                                                          \
    16 /* results remembered for one base; a round needs one, and one more for each other list */
#define SKEP_ROUND_AHEAD_TRIES 20
#define SKEP_ROUND_FETCHES (2ul * SKEP_LIMIT_UPDATES_PER_ROUND)

#define SKEP_ROUND_CLAIMS ((size_t)SKEP_LIMIT_FINDINGS + SKEP_LIMIT_UPDATES_PER_ROUND)
#define SKEP_ROUND_LONGEST_PAUSE 63u /* versions without claims of a leader that failed with them */

/* An update in hand. `bad`: its merge failed here, its donor is banned or it was found invalid; we do not propose it. */
struct skep_round_held {
    struct skep_round_update update;
    bool bad;
    bool banned;
};

/* A verdict of ours that no seal holds yet. */
struct skep_round_found {
    struct skep_round_update update;
    bool valid;
    uint64_t since_ms;
    uint32_t failures; /* of our proposals with it */
};

/* The verdicts in a seal. */
struct skep_round_claims {
    bool audited[SKEP_LIMIT_UPDATES_PER_ROUND]; /* in the list's order */
    size_t finding_count;
    struct skep_finding findings[SKEP_LIMIT_FINDINGS];
};

struct skep_round_list {
    size_t count;
    struct skep_round_update items[SKEP_LIMIT_UPDATES_PER_ROUND]; /* by hash, rising */
};

enum skep_round_merge_state {
    SKEP_ROUND_MISSING, /* updates are not here yet; they are being fetched */
    SKEP_ROUND_MERGING, /* the host was asked */
    SKEP_ROUND_MERGED,
    SKEP_ROUND_FAILED, /* cannot be merged, or says of an update what is not so */
};

struct skep_round_merge {
    struct skep_hash list; /* SHA-256 over the update hashes */
    enum skep_round_merge_state state;
    struct skep_round_outcome outcome;
    uint64_t asked_ms;
};

struct skep_round_fetch {
    struct skep_hash hash;
    uint64_t again_ms;
    uint32_t tries;
};

/* A seal payload that was proposed or voted for in an attempt, checked against everything but the merge (skep_round_is_ours()) and our
 * verdicts (skep_round_claims_known()). */
struct skep_round_proposal {
    bool known;
    bool judged; /* compared with what the merge gave here: `ours` if it says the same */
    bool ours;
    uint32_t attempt;
    struct skep_buffer payload;
    struct skep_hash hash; /* of the payload */
    struct skep_hash link; /* skep_seal_hash() */
    struct skep_hash state;
    struct skep_round_list list;
    struct skep_round_claims claims;
};

/* The newest vote of one keeper. Its signature can be checked once the payload is known. */
struct skep_round_ballot {
    bool given;
    uint32_t attempt;
    struct skep_hash seal;
    struct skep_signature signature;
};

/* What the leader of `attempt` has gathered. */
struct skep_round_lead {
    bool prepared;
    bool promised[SKEP_LIMIT_KEEPERS];
    bool has_own;         /* our own vote, */
    struct skep_hash own; /* for this seal */
    size_t promise_count;
    bool has_refused; /* promises that tell of this vote are set aside */
    struct skep_hash refused;
    struct skep_round_proposal best; /* vote of the highest attempt among the promises, if any */
    size_t best_from;
    bool has_list;
    struct skep_round_list list;
};

/* A seal of our next version that someone else assembled. */
struct skep_round_news {
    bool known;
    size_t from;
    uint32_t tries; /* of catching up */
    uint64_t since_ms;
    struct skep_envelope envelope;
    struct skep_hash link;
    struct skep_hash state;
    struct skep_round_list list;
};

struct skep_round {
    const struct skep_manifest *manifest;
    struct skep_shard shard;
    const struct skep_key *key;
    struct skep_replicas replicas;
    size_t me; /* place in replicas */
    size_t leaders
        [SKEP_LIMIT_KEEPERS]; /* of attempts 0, 1, ... of this version; SIZE_MAX: not asked yet */
    struct skep_round_memory memory;

    struct skep_round_held *held;
    size_t held_count;
    struct skep_round_update *recent; /* in the last versions' lists */
    size_t recent_count;
    struct skep_round_found *found; /* what audits found here */
    size_t found_count;
    size_t claims_most;    /* in our next proposal; 0: as many as there is room for */
    uint64_t claims_pause; /* versions without any after our last failure */
    uint64_t claims_after; /* none before this version is the head */
    struct skep_round_merge merges[SKEP_ROUND_MERGES]; /* onto memory.version */
    size_t merge_count;
    struct skep_round_fetch fetches[SKEP_ROUND_FETCHES];
    size_t fetch_count;
    bool hurried; /* the window ends without its time */
    size_t most;  /* longest list we propose: smaller after a merge that failed */

    bool window_open;
    uint64_t window_ms; /* when it opened */
    uint64_t wake_ms;   /* when it ends; UINT64_MAX once it has */
    bool agreeing;
    bool timed; /* attempt_ms and resend_ms are set: not yet after a restart, which knows no time */
    uint32_t attempt;
    uint64_t attempt_ms; /* when we entered it */
    uint64_t merge_ms;   /* how long merges take here, of late */
    bool heard;          /* its leader has said something */
    uint64_t resend_ms;  /* when to resend */
    bool due;            /* something may be done as soon as tick is called */

    struct skep_round_lead lead;
    struct skep_round_proposal proposal; /* of the highest attempt seen */
    struct skep_round_ballot ballots[SKEP_LIMIT_KEEPERS];
    struct skep_round_news news;
    bool committing; /* COMMIT was asked; nothing moves until skep_round_sealed() */
    bool announce;   /* we led: tell the others once it is stored */
    struct skep_envelope announcement;

    uint64_t sealed_ms;                           /* when the newest version was */
    uint64_t answer_after_ms[SKEP_LIMIT_KEEPERS]; /* not to answer a peer too often */
    uint64_t catch_up_after_ms;
    uint64_t ahead; /* newest version that others say is sealed */
    size_t ahead_from;
    uint32_t ahead_tries; /* left: a peer that only boasts is forgotten */
    size_t disagreements;

    struct skep_round_action *actions; /* queue: actions[first .. first + count) */
    size_t action_first;
    size_t action_count;
    size_t action_capacity;
};

/* round.c */
void skep_round_advance(struct skep_round *round, uint64_t now_ms);
/* Joins the agreement on version + 1 if we are not in it, and in attempt `attempt` at least. */
void skep_round_follow(struct skep_round *round, uint32_t attempt, uint64_t now_ms);

/* round-lists.c */
size_t skep_round_least(const struct skep_round *round);
/* The list we would propose now, sorted by hash; empty if there is nothing to merge. */
void skep_round_select(const struct skep_round *round, struct skep_round_list *ret_list);
/* Whether an update of this donor for this base was in a list lately. */
bool skep_round_is_recent(const struct skep_round *round, const struct skep_peer_id *donor,
                          uint64_t base_version);
const struct skep_round_held *skep_round_find(const struct skep_round *round,
                                              const struct skep_hash *hash);
void skep_round_hold(struct skep_round *round, const struct skep_round_update *update);
/* Forgets updates that were in a list or have become too old. */
void skep_round_prune(struct skep_round *round);
/* Adds a seal's receipts to `recent` and drops those that no admissible update could repeat. */
void skep_round_remember(struct skep_round *round, const struct skep_seal *seal);
/* Where the merge of `list` onto the head stands; asks for what it lacks (missing updates from keeper `from` first). *ret_outcome is set
 * once it is SKEP_ROUND_MERGED, and borrowed until the next event. */
enum skep_round_merge_state skep_round_ensure(struct skep_round *round,
                                              const struct skep_round_list *list, size_t from,
                                              uint64_t now_ms,
                                              const struct skep_round_outcome **ret_outcome);
struct skep_round_merge *skep_round_merge_of(struct skep_round *round,
                                             const struct skep_round_update *list, size_t count);
struct skep_round_merge *skep_round_merge_add(struct skep_round *round,
                                              const struct skep_round_update *list, size_t count,
                                              uint64_t now_ms);
/* Our own list could not be merged: propose a shorter one, or without its first update. */
void skep_round_shrink(struct skep_round *round, const struct skep_round_list *list);

/* round-proposal.c */
size_t skep_round_place(const struct skep_round *round, const struct skep_peer_id *keeper);
size_t skep_round_leader(struct skep_round *round, uint32_t attempt);
/* Replaces *proposal by this payload once it is checked against all but the merge, or leaves it alone: SKEP_ERR_STATE if it follows
 * another version than our head, SKEP_ERR_REFUSED or SKEP_ERR_FORMAT if it is never to be voted for. */
int skep_round_read_proposal(const struct skep_round *round, const void *payload, size_t size,
                             uint32_t attempt, struct skep_round_proposal *proposal);
void skep_round_proposal_done(struct skep_round_proposal *proposal);
/* The payload that proposes this list with what its merge gave and these claims; the caller frees. */
char *skep_round_payload(const struct skep_round *round, uint32_t attempt,
                         const struct skep_round_list *list,
                         const struct skep_round_outcome *outcome,
                         const struct skep_round_claims *claims);
/* Whether a proposal says, besides its claims, exactly what the merge of its list gave here. If not, that is counted, once. */
bool skep_round_is_ours(struct skep_round *round, struct skep_round_proposal *proposal,
                        const struct skep_round_outcome *outcome);
/* The receipts as a list; there are at most SKEP_LIMIT_UPDATES_PER_ROUND. */
void skep_round_list_of(const struct skep_seal *seal, struct skep_round_list *ret_list);
/* Our vote for the proposal as a ballot, signed. Ed25519 is deterministic: after a restart it is the same again. */
void skep_round_sign_ballot(struct skep_round *round);
void skep_round_enter(struct skep_round *round, uint32_t attempt, uint64_t now_ms);
/* Forgets all that belongs to one version's agreement. */
void skep_round_forget(struct skep_round *round);
/* Takes up our last vote after a restart; one for a version that is sealed by now is dropped. */
void skep_round_restore(struct skep_round *round);

/* round-verdicts.c */
bool skep_round_claims_any(const struct skep_round_claims *claims);
void skep_round_claims_of(const struct skep_seal *seal, struct skep_round_claims *ret_claims);
/* Whether a seal of this shard may say such things at all. */
bool skep_round_claims_allowed(const struct skep_round *round, const struct skep_seal *seal);
/* Whether each claim is what we found, too. */
bool skep_round_claims_known(const struct skep_round *round,
                             const struct skep_round_proposal *proposal);
bool skep_round_found_invalid(const struct skep_round *round, const struct skep_hash *update);
/* Does the list name an update that was found invalid here, and that the host has not given us (yet)? */
bool skep_round_is_against(const struct skep_round *round, const struct skep_round_list *list);
/* What we would claim now beside this list. */
void skep_round_claims_choose(const struct skep_round *round, const struct skep_round_list *list,
                              uint64_t now_ms, struct skep_round_claims *ret_claims);
/* The attempt ends. If its proposal was ours and claimed something, that is noted. */
void skep_round_claims_failed(struct skep_round *round);
void skep_round_claims_sealed(struct skep_round *round, const struct skep_seal *seal);

/* round-agree.c */
void skep_round_lead(struct skep_round *round, uint64_t now_ms);
void skep_round_vote(struct skep_round *round, uint64_t now_ms);
void skep_round_commit(struct skep_round *round, uint64_t now_ms);
void skep_round_resend(struct skep_round *round);
/* Asks the host to fetch newer seals from that keeper; false if it was asked just before. */
bool skep_round_catch_up(struct skep_round *round, size_t from, uint64_t now_ms);

/* round-hear.c */
void skep_round_on_prepare(struct skep_round *round, const struct skep_message *message,
                           size_t from, uint64_t now_ms);
void skep_round_on_promise(struct skep_round *round, const struct skep_message *message,
                           size_t from);
void skep_round_on_propose(struct skep_round *round, const struct skep_message *message,
                           size_t from, uint64_t now_ms);
void skep_round_on_vote(struct skep_round *round, const struct skep_message *message, size_t from,
                        uint64_t now_ms);
void skep_round_on_sealed(struct skep_round *round, const struct skep_message *message, size_t from,
                          uint64_t now_ms);

/* round-actions.c */
struct skep_round_action *skep_round_push(struct skep_round *round,
                                          enum skep_round_action_kind kind);
void skep_round_push_persist(struct skep_round *round);
struct skep_round_action *skep_round_push_list(struct skep_round *round,
                                               enum skep_round_action_kind kind,
                                               const struct skep_round_list *list);
/* `to` is a place in the replica set, or SIZE_MAX for all others. The queued message, to be filled in; NULL if nobody is there. */
struct skep_message *skep_round_push_send(struct skep_round *round, enum skep_message_kind kind,
                                          uint32_t attempt, size_t to);
void skep_round_send_proposal(struct skep_round *round, size_t to);
/* The promise on the disk, with the vote it tells of. */
void skep_round_send_promise(struct skep_round *round, size_t to);
void skep_round_send_vote(struct skep_round *round, size_t to);
void skep_round_copy_envelope(const struct skep_envelope *from, struct skep_envelope *to);

#endif
