#include "common/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int skep_error_set(struct skep_error *err, enum skep_err code, const char *format, ...)
{
    if (err == NULL) {
        return code;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->code = code;
    err->reason = SKEP_REFUSAL_NONE;
    return code;
}

int skep_error_prefix(struct skep_error *err, const char *format, ...)
{
    if (err == NULL) {
        return SKEP_ERR_STATE;
    }
    char context[200];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    snprintf(err->text, sizeof err->text, "%.200s: %.300s", context, old);
    return err->code;
}

static const struct {
    enum skep_err code;
    const char *name;
    int exit_status;
} CODES[] = {
    {SKEP_OK, "ok", 0},
    {SKEP_ERR_ARGUMENT, "argument", 2},
    {SKEP_ERR_FORMAT, "format", 4},
    {SKEP_ERR_SIGNATURE, "signature", 4},
    {SKEP_ERR_HASH, "hash", 4},
    {SKEP_ERR_TOO_LARGE, "too-large", 4},
    {SKEP_ERR_NOT_FOUND, "not-found", 6},
    {SKEP_ERR_STALE, "stale", 1},
    {SKEP_ERR_DUPLICATE, "duplicate", 1},
    {SKEP_ERR_IO, "io", 5},
    {SKEP_ERR_FULL, "full", 5},
    {SKEP_ERR_NETWORK, "network", 3},
    {SKEP_ERR_IN_USE, "in-use", 7},
    {SKEP_ERR_NUMERIC, "numeric", 4},
    {SKEP_ERR_MEMORY, "memory", 5},
    {SKEP_ERR_STATE, "state", 1},
    {SKEP_ERR_REFUSED, "refused", 1},
    {SKEP_ERR_CANCELLED, "cancelled", 1},
};

const char *skep_err_name(enum skep_err code)
{
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (CODES[i].code == code) {
            return CODES[i].name;
        }
    }
    return "unknown";
}

enum skep_err skep_err_from_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return SKEP_ERR_FULL;
    case ENOENT:
        return SKEP_ERR_NOT_FOUND;
    case EADDRINUSE:
        return SKEP_ERR_IN_USE;
    case ENOMEM:
        return SKEP_ERR_MEMORY;
    default:
        return SKEP_ERR_IO;
    }
}

int skep_err_exit_status(enum skep_err code)
{
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (CODES[i].code == code) {
            return CODES[i].exit_status;
        }
    }
    return 1;
}
