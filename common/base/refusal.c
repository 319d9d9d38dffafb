#include "common/base/refusal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/error.h"

static const struct {
    const char *name;
    enum skep_err code;
} REASONS[SKEP_REFUSALS] = {
    [SKEP_REFUSAL_NONE] = {"", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_FILE_SIZE] = {"file-size", SKEP_ERR_TOO_LARGE},
    [SKEP_REFUSAL_MAGIC] = {"magic", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_FORMAT_VERSION] = {"format-version", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_RESERVED] = {"reserved", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_TRUNCATED] = {"truncated", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_ENVELOPE_SIZE] = {"envelope-size", SKEP_ERR_TOO_LARGE},
    [SKEP_REFUSAL_ENVELOPE] = {"envelope", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_SIGNATURE] = {"signature", SKEP_ERR_SIGNATURE},
    [SKEP_REFUSAL_STATEMENT] = {"statement", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_BODY_HASH] = {"body-hash", SKEP_ERR_HASH},
    [SKEP_REFUSAL_OTHER_PROJECT] = {"other-project", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_NO_SUCH_SHARD] = {"no-such-shard", SKEP_ERR_NOT_FOUND},
    [SKEP_REFUSAL_NOT_HERE] = {"not-here", SKEP_ERR_NOT_FOUND},
    [SKEP_REFUSAL_BASE_AHEAD] = {"base-ahead", SKEP_ERR_STATE},
    [SKEP_REFUSAL_BASE_STALE] = {"base-stale", SKEP_ERR_STALE},
    [SKEP_REFUSAL_BASE_STATE] = {"base-state", SKEP_ERR_HASH},
    [SKEP_REFUSAL_TRUNK_AHEAD] = {"trunk-ahead", SKEP_ERR_STATE},
    [SKEP_REFUSAL_TRUNK_STALE] = {"trunk-stale", SKEP_ERR_STALE},
    [SKEP_REFUSAL_TICKET] = {"ticket", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_TOKENS] = {"tokens", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_REMOTE] = {"remote", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_DUPLICATE] = {"duplicate", SKEP_ERR_DUPLICATE},
    [SKEP_REFUSAL_REPLAY] = {"replay", SKEP_ERR_DUPLICATE},
    [SKEP_REFUSAL_BANNED] = {"banned", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_STAMP] = {"stamp", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_BUSY] = {"busy", SKEP_ERR_STATE},
    [SKEP_REFUSAL_TOO_FAST] = {"too-fast", SKEP_ERR_STATE},
    [SKEP_REFUSAL_RATE] = {"rate", SKEP_ERR_STATE},
    [SKEP_REFUSAL_HISTORY] = {"history", SKEP_ERR_REFUSED},
    [SKEP_REFUSAL_WAITING] = {"waiting", SKEP_ERR_STATE},
    [SKEP_REFUSAL_TENSOR_COUNT] = {"tensor-count", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_BLOCK_COUNT] = {"block-count", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_VALUE_COUNT] = {"value-count", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_INDEX_RANGE] = {"index-range", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_CODEBOOK_NOT_FINITE] = {"codebook-not-finite", SKEP_ERR_NUMERIC},
    [SKEP_REFUSAL_CODEBOOK_CEILING] = {"codebook-ceiling", SKEP_ERR_NUMERIC},
    [SKEP_REFUSAL_CODEBOOK_ORDER] = {"codebook-order", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_NOT_CANONICAL] = {"not-canonical", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_TRAILING_BYTES] = {"trailing-bytes", SKEP_ERR_FORMAT},
    [SKEP_REFUSAL_MASK] = {"mask", SKEP_ERR_REFUSED},
};

const char *skep_refusal_name(enum skep_refusal reason)
{
    return reason < SKEP_REFUSALS ? REASONS[reason].name : "";
}

enum skep_err skep_refusal_code(enum skep_refusal reason)
{
    return reason < SKEP_REFUSALS ? REASONS[reason].code : SKEP_ERR_REFUSED;
}

int skep_refuse(struct skep_error *err, enum skep_refusal reason, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = skep_refusal_code(reason);
        err->reason = reason;
    }
    return skep_refusal_code(reason);
}

int skep_error_reason(struct skep_error *err, int code, enum skep_refusal reason)
{
    if (code == SKEP_OK || code == SKEP_ERR_MEMORY) {
        return code;
    }
    if (err == NULL) {
        return skep_refusal_code(reason);
    }
    if (err->reason == SKEP_REFUSAL_NONE) {
        err->reason = reason;
        err->code = skep_refusal_code(reason);
    }
    return err->code;
}
