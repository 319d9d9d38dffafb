/*
 * Errors: a code for the program, one sentence for the person.
 *
 * Functions return 0 on success or a negative `enum skep_err`. Those that can fail for more than one reason also take a
 * last `struct skep_error *err` (NULL is allowed) and say it there once, where the reason is known: the thing, the value
 * found and the value expected. Callers pass it on unchanged, or put their own context before it with
 * skep_error_prefix().
 */
#ifndef SKEP_BASE_ERROR_H
#define SKEP_BASE_ERROR_H

#include <stddef.h>

#include "common/base/refusal.h"

enum skep_err {
    SKEP_OK = 0,
    SKEP_ERR_ARGUMENT = -1,   /* what the user asked for makes no sense */
    SKEP_ERR_FORMAT = -2,     /* bytes that are not what they should be */
    SKEP_ERR_SIGNATURE = -3,  /* a signature is missing or does not verify */
    SKEP_ERR_HASH = -4,       /* bytes whose hash is not the one promised */
    SKEP_ERR_TOO_LARGE = -5,  /* above a limit of base/limits.h or of the manifest */
    SKEP_ERR_NOT_FOUND = -6,  /* no such project, shard, version, file */
    SKEP_ERR_STALE = -7,      /* a base version too old to be merged */
    SKEP_ERR_DUPLICATE = -8,  /* already have one of these */
    SKEP_ERR_IO = -9,         /* the operating system refused a file or socket */
    SKEP_ERR_FULL = -10,      /* no space left on the disk */
    SKEP_ERR_NETWORK = -11,   /* a peer did not answer, or not in time */
    SKEP_ERR_IN_USE = -12,    /* a port or lock that another process holds */
    SKEP_ERR_NUMERIC = -13,   /* NaN or infinity where a number should be */
    SKEP_ERR_MEMORY = -14,    /* an allocation whose size came from outside failed */
    SKEP_ERR_STATE = -15,     /* right, but not now */
    SKEP_ERR_REFUSED = -16,   /* understood and not allowed */
    SKEP_ERR_CANCELLED = -17, /* stopped on request */
};

/* One reason. Plain value; zero-initialise it. */
struct skep_error {
    enum skep_err code;
    char text[512];
    enum skep_refusal reason; /* of an update's refusal; SKEP_REFUSAL_NONE for all other errors */
};

/* Sets *err (if not NULL) to `code` and the formatted sentence, and returns `code`. */
int skep_error_set(struct skep_error *err, enum skep_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an update that is refused: the code is the reason's class. */
int skep_refuse(struct skep_error *err, enum skep_refusal reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum skep_err skep_refusal_code(enum skep_refusal reason);
/* Gives an error that has no reason yet this one and its class, which is returned. `code` is what failed: if nothing did, or there was no
 * memory, this is no refusal and `code` is returned. */
int skep_error_reason(struct skep_error *err, int code, enum skep_refusal reason);

/* Puts formatted context and ": " before the sentence already in *err, and returns its code. */
int skep_error_prefix(struct skep_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The short stable name of a code, e.g. "stale"; used in HTTP error bodies and logs. */
const char *skep_err_name(enum skep_err code);

/* The code of errno value `number`: SKEP_ERR_FULL for ENOSPC and EDQUOT, SKEP_ERR_NOT_FOUND for ENOENT, SKEP_ERR_IN_USE
 * for EADDRINUSE, else SKEP_ERR_IO. */
enum skep_err skep_err_from_errno(int number);

/* Process exit status of a code: 0 ok, 2 argument, 3 network, 4 format/signature/hash, 5 full or io, 6 not found,
 * 7 in use, 1 everything else. Written down in the man pages. */
int skep_err_exit_status(enum skep_err code);

#endif
