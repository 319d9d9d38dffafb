/*
 * A job for skep-worker without any swarm: version 0 of the trunk and the first donor_rows rows of experts of a task's model, the data it names, and FOLDER/job/job.json. Key,
 * seed and ticket are always the same, so two calls make the same job. No checkpoints but when stopped, one thread, on the CPU.
 */
#ifndef SKEP_TESTS_JOB_MAKER_H
#define SKEP_TESTS_JOB_MAKER_H

#include "common/base/error.h"

int skep_make_job(const char *folder, const char *task_path, struct skep_error *err);

#endif
