/*
 * The manifest: a project's whole description, signed by its admin, as JSON (schemas/manifest.schema.json). Its seed gives
 * every shard's initial weights, so that nothing large is uploaded but the data.
 *
 * Numbers that decide merged bits are integers (permille); training numbers may be real.
 */
#ifndef SKEP_WIRE_MANIFEST_H
#define SKEP_WIRE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/model-config.h"

#define SKEP_TYPE_MANIFEST "application/vnd.skep.manifest+json"

/* How a round's updates become one step; common/merge/merge.h says what each is. */
enum skep_merge_rule {
    SKEP_MERGE_MEAN,
    SKEP_MERGE_COORDINATE_MEDIAN,
    SKEP_MERGE_TRIMMED_MEAN,
    SKEP_MERGE_KRUM,
    SKEP_MERGE_MULTI_KRUM,
    SKEP_MERGE_GEOMETRIC_MEDIAN,
    SKEP_MERGE_CENTERED_CLIP,
    SKEP_MERGE_NNM_TRIMMED_MEAN,
    SKEP_MERGE_NNM_GEOMETRIC_MEDIAN,
    SKEP_MERGE_RULES, /* their number */
};

struct skep_training_config {
    uint32_t steps;         /* H, local AdamW steps in one job */
    uint32_t batch;         /* sequences (records) in one step */
    uint32_t donor_rows;    /* rows of each layer a donor fetches for one job */
    uint32_t slice_chunks;  /* data chunks in one slice */
    uint32_t warmup_rounds; /* the learning rate rises linearly over these trunk versions */
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double clip;         /* largest global gradient norm */
    double z_loss;       /* weight of the router's z-loss */
    double balance_step; /* u of the balancing bias, arXiv 2408.15664 */
};

/* Which places of a block are sent. */
enum skep_mask {
    SKEP_MASK_OWN, /* each donor's own largest (arXiv 2508.15706) */
    SKEP_MASK_COMMON, /* the same for all donors of a base version (merge/mask.h; RoSDHB, arXiv 2508.17129) */
};

struct skep_update_config {
    uint32_t keep; /* values sent of each 4096 (block of 64x64) */
    enum skep_mask mask;
    uint32_t error_decay_permille; /* beta of the error feedback */
    double scale_ceiling;          /* largest |codebook value| that is admissible */
};

struct skep_merge_config {
    enum skep_merge_rule rule;
    uint32_t liars_permille; /* share of liars to withstand; merge.h says what becomes of small n */
    uint32_t
        clip_permille; /* norms are clipped to this much of the round's median; 0: not at all */
    /* near-copies share this much of their places; 0: nobody looks, as it must be with the common mask, where all honest updates do */
    uint32_t overlap_permille;
    uint32_t step_permille; /* alpha, the outer step */
    uint32_t window_ms;     /* a round closes this long after its first update at the latest */
    uint32_t least_updates; /* and never with fewer than these */
    uint32_t most_updates;
};

/* What is asked of donors beside their work. */
struct skep_trust_config {
    uint32_t
        stamp_bits; /* zero bits that a donor's stamp must begin with (swarm/stamp.h); 0: no stamp */
    bool remote;    /* updates of remote calls are merged, though nobody can repeat them */
    bool
        audits; /* keepers repeat jobs: of new donors before their updates are merged, of others now and then (server/audit.h) */
};

/* A data set cut into chunks of `chunk_bytes` (the last may be shorter), each named by its SHA-256. */
struct skep_data_set {
    uint64_t size_bytes;
    size_t chunk_count;
    struct skep_hash *chunks;
};

/* Zero-initialise; free with skep_manifest_done(). */
struct skep_manifest {
    char *name;
    struct skep_project_id project;
    int64_t created_s; /* Unix time */
    struct skep_hash seed;
    struct skep_model_config model;
    struct skep_training_config training;
    struct skep_update_config update;
    struct skep_merge_config merge;
    struct skep_trust_config trust;
    uint32_t chunk_bytes; /* of data sets and of shard states */
    struct skep_data_set train;
    struct skep_data_set heldout;
    uint32_t replicas; /* r: keepers of each shard, capped by the number of keepers */
    size_t keeper_count;
    struct skep_peer_id *keepers; /* the genesis keepers */
};

/* Sensible values for a model of the kind that manifest->model.kind says, for everything but name, project, seed, data and keepers. */
void skep_manifest_defaults(struct skep_manifest *manifest);
/* Of them chunk_bytes depends on the model's shape: a classifier's is the largest multiple of its record below an lm's. */
uint32_t skep_manifest_default_chunk_bytes(const struct skep_model_config *model);
/* And donor_rows: as many as a token of an lm may use; half of a classifier's, and enough for one record's experts. */
uint32_t skep_manifest_default_donor_rows(const struct skep_model_config *model);
void skep_manifest_done(struct skep_manifest *manifest);
/* Checks ranges and relations of all fields. */
int skep_manifest_check(const struct skep_manifest *manifest, struct skep_error *err);
/* The part that a task file decides: name, model, training, update, merge, trust, chunk_bytes and replicas. */
int skep_manifest_check_settings(const struct skep_manifest *manifest, struct skep_error *err);
/* JSON payload; unknown, missing or out-of-range fields are refused by name. */
int skep_manifest_decode(const void *payload, size_t size, struct skep_manifest *ret_manifest,
                         struct skep_error *err);
char *skep_manifest_encode(const struct skep_manifest *manifest);

/* The table (fields.h) of a section's settings: training, update, merge or trust; any other name: the manifest's own fields. Task files are
 * read by the same tables. */
const struct skep_field *skep_manifest_fields(const char *section, size_t *ret_count);

/* Number of shards (trunk and all experts), and shard i in the fixed order: trunk, then layer, row, column. */
size_t skep_manifest_shard_count(const struct skep_manifest *manifest);
struct skep_shard skep_manifest_shard(const struct skep_manifest *manifest, size_t i);
/* Its place in that order, or SIZE_MAX for a shard the model does not have. */
size_t skep_manifest_shard_index(const struct skep_manifest *manifest,
                                 const struct skep_shard *shard);

#endif
