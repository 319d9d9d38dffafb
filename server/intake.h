/*
 * The way of an update file into the keeper, whoever brought it: the steps of intake.c, the cheap ones first; then durable storage,
 * then the agreement machine.
 */
#ifndef SKEP_SERVER_INTAKE_H
#define SKEP_SERVER_INTAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_project;

/* On success the update is stored and either waits or was merged already; *ret_new tells whether it came for the first time.
 * Each refusal has its own reason and sentence (base/refusal.h) and is counted; SKEP_ERR_FULL when the disk is full. Nothing was kept
 * then. */
int skep_intake_update(struct skep_project *project, const void *file, size_t size,
                       struct skep_hash *ret_hash, bool *ret_new, struct skep_error *err);

/* The same for a file that another keeper has and the agreement asked for. A donor may have given each keeper another update, or
 * filled ours up with what others have not seen: a list under agreement must not fail for that, so the donor's other update is no
 * reason to refuse it, and there is room kept for it. What depends on this keeper's clock was the other's to check. */
int skep_intake_fetched(struct skep_project *project, const void *file, size_t size,
                        struct skep_error *err);

#endif
