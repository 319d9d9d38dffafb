/*
 * Every limit on what others may send or make us hold, in one place. A manifest may ask for less, never for more.
 */
#ifndef SKEP_BASE_LIMITS_H
#define SKEP_BASE_LIMITS_H

#define SKEP_LIMIT_STATEMENT_BYTES (4u << 20) /* one DSSE envelope: 32k data chunks fit */
#define SKEP_LIMIT_SIGNATURES 64u             /* in one envelope */
#define SKEP_LIMIT_JSON_DEPTH 16u
#define SKEP_LIMIT_JSON_BYTES (32u << 20) /* one JSON text, e.g. a request full of messages */
#define SKEP_LIMIT_JSON_VALUES (1u << 17) /* in one text: each costs about 100 bytes once parsed */
#define SKEP_LIMIT_UPDATE_BYTES (64u << 20) /* one update file */
#define SKEP_LIMIT_STATE_BYTES (1u << 30)   /* one shard's safetensors file */
#define SKEP_LIMIT_CHUNK_BYTES (1u << 20)   /* one chunk of state or data */
#define SKEP_LIMIT_CHUNKS 16384u            /* in one data set or shard */
#define SKEP_LIMIT_TENSORS 4096u            /* in one shard */
#define SKEP_LIMIT_TENSOR_DIMS 4u
#define SKEP_LIMIT_TENSOR_NAME 128u
#define SKEP_LIMIT_KEEPERS 64u           /* named by a manifest */
#define SKEP_LIMIT_UPDATES_PER_ROUND 64u /* merged in one version of one shard */
#define SKEP_LIMIT_FINDINGS 64u          /* of audits, in one seal */
#define SKEP_LIMIT_JOB_SHARDS 4096u      /* the trunk and the experts of one job */
#define SKEP_LIMIT_PENDING_UPDATES 256u  /* held by a keeper for one shard */
#define SKEP_LIMIT_LAYERS 64u
#define SKEP_LIMIT_GRID 256u /* rows or columns */
#define SKEP_LIMIT_DIM 16384u
#define SKEP_LIMIT_CONTEXT 65536u
#define SKEP_LIMIT_INPUTS 65536u /* bytes of one input of a classifier */
#define SKEP_LIMIT_RECORDS 1024u /* in one directory answer */
#define SKEP_LIMIT_MESSAGES 512u /* agreement messages in one request */
#define SKEP_LIMIT_HTTP_BODY (64u << 20)
#define SKEP_LIMIT_HTTP_CONNECTIONS 1024u
#define SKEP_LIMIT_HTTP_TIMEOUT_S 30u
#define SKEP_LIMIT_PROJECTS 16u     /* on one keeper */
#define SKEP_LIMIT_DONOR_FLOPS 2e14 /* operations a second: no donor is faster */
#define SKEP_LIMIT_STAMP_BITS 12u   /* of a donor's stamp: some four minutes of a core */
#define SKEP_LIMIT_STALENESS 2u     /* base versions v, v-1, v-2 */

#endif
