/*
 * Why an update was refused: beside the class of an error (enum skep_err, for programs) and its sentence (for people), one reason for each
 * rule, with a stable name for answers, logs and metrics. Each reason has one class.
 */
#ifndef SKEP_BASE_REFUSAL_H
#define SKEP_BASE_REFUSAL_H

enum skep_refusal {
    SKEP_REFUSAL_NONE, /* not a refusal of an update, or one without a reason of its own */

    /* the file */
    SKEP_REFUSAL_FILE_SIZE,      /* larger than SKEP_LIMIT_UPDATE_BYTES */
    SKEP_REFUSAL_MAGIC,          /* does not begin as an update file does */
    SKEP_REFUSAL_FORMAT_VERSION, /* a format that is not known */
    SKEP_REFUSAL_RESERVED,       /* bytes that must be zero are not */
    SKEP_REFUSAL_TRUNCATED,      /* the file, or its body, ends too soon */
    SKEP_REFUSAL_ENVELOPE_SIZE,  /* the envelope's size is 0 or above its limit */
    SKEP_REFUSAL_ENVELOPE,       /* the envelope is not one, or is of another type */
    SKEP_REFUSAL_SIGNATURE,      /* not signed by its donor, or not by it alone */
    SKEP_REFUSAL_STATEMENT,      /* a field is missing, unknown or out of range */
    SKEP_REFUSAL_BODY_HASH,      /* the body is not the one signed for */

    /* the statement */
    SKEP_REFUSAL_OTHER_PROJECT,
    SKEP_REFUSAL_NO_SUCH_SHARD, /* the model has none of this name */
    SKEP_REFUSAL_NOT_HERE,      /* another keeper has this shard */
    SKEP_REFUSAL_BASE_AHEAD,    /* the base version is not known here yet: try again */
    SKEP_REFUSAL_BASE_STALE,    /* the base version is too old to be merged */
    SKEP_REFUSAL_BASE_STATE,    /* the base state is not the one sealed */
    SKEP_REFUSAL_TRUNK_AHEAD,   /* the trunk's version is not known here yet: try again */
    SKEP_REFUSAL_TRUNK_STALE,   /* the ticket is of a trunk version that is too old */
    SKEP_REFUSAL_TICKET,        /* not the ticket of this donor and version */
    SKEP_REFUSAL_TOKENS,        /* not what a job trains on */
    SKEP_REFUSAL_REMOTE,        /* of remote calls, which this project does not merge */
    SKEP_REFUSAL_DUPLICATE,     /* another update of the same donor, shard and base version waits */
    SKEP_REFUSAL_REPLAY,   /* another update of the same donor, shard and base version was merged */
    SKEP_REFUSAL_BANNED,   /* the donor was found to have lied */
    SKEP_REFUSAL_STAMP,    /* the donor's key has no stamp for this project */
    SKEP_REFUSAL_BUSY,     /* too many stamps to check: try again */
    SKEP_REFUSAL_TOO_FAST, /* sooner than the job can be computed */
    SKEP_REFUSAL_RATE,     /* more updates than a donor can make */
    SKEP_REFUSAL_HISTORY,  /* does not begin with what the donor ended with */
    SKEP_REFUSAL_WAITING,  /* too many updates wait already: try again */

    /* the body */
    SKEP_REFUSAL_TENSOR_COUNT,
    SKEP_REFUSAL_BLOCK_COUNT,
    SKEP_REFUSAL_VALUE_COUNT, /* fewer bits than so many values take: not exactly k in each block */
    SKEP_REFUSAL_INDEX_RANGE, /* a place beyond its block */
    SKEP_REFUSAL_CODEBOOK_NOT_FINITE,
    SKEP_REFUSAL_CODEBOOK_CEILING,
    SKEP_REFUSAL_CODEBOOK_ORDER,
    SKEP_REFUSAL_NOT_CANONICAL,  /* bytes that an encoder would not have written */
    SKEP_REFUSAL_TRAILING_BYTES, /* something follows the body */
    SKEP_REFUSAL_MASK,           /* places that are not those of the common mask */

    SKEP_REFUSALS /* how many */
};

/* The stable name, e.g. "base-stale"; "" for none. */
const char *skep_refusal_name(enum skep_refusal reason);

#endif
