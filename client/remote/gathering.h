/*
 * The trunk's side of remote mode: trainers that share a donor's key bring the gradients of their batches here, and now and then what
 * was gathered becomes one ordinary update of the trunk.
 *
 *   trainer -- add() --> sum of gradients, their number, records, losses        (any thread)
 *   trainer -- step() -> one AdamW step (model/train.h) along their mean, on the newest sealed trunk; its difference compressed with
 *                        the residual of what was not sent before (merge/compress.h), as a donor does with a whole job
 *
 * The gradients are stale: each was computed on the trunk that was newest when its batch began (arXiv 2002.04013, section 3.3). The
 * experts' gradients take the same way at their keepers (server/experts-pass.h). Moments and residual live as long as the gathering.
 */
#ifndef SKEP_CLIENT_REMOTE_GATHERING_H
#define SKEP_CLIENT_REMOTE_GATHERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/model/model.h"
#include "common/wire/manifest.h"

struct skep_gathering;

/* `manifest` is borrowed. SKEP_ERR_MEMORY. */
int skep_gathering_new(const struct skep_manifest *manifest, struct skep_gathering **ret_gathering,
                       struct skep_error *err);
void skep_gathering_free(struct skep_gathering *gathering);

/* Adds the trunk's gradients of the model's last backward pass; `loss` is that of the forward pass before it. */
void skep_gathering_add(struct skep_gathering *gathering, const struct skep_model *model,
                        const struct skep_model_loss *loss);

/* What came with the gradients of one step. */
struct skep_gathered {
    uint64_t passes;
    uint64_t tokens;
    double loss_first; /* mean nats per token of the first pass and of the last */
    double loss_last;
};

/* Is there a gradient, and no update from this version of the trunk yet? */
bool skep_gathering_ready(struct skep_gathering *gathering, uint64_t version);
/* Takes the step from `trunk`, which is version `version`, and writes the update's body. The arithmetic is done on `model`, whose last
 * batch also tells the loads that move the balancing biases; afterwards it holds the trunk after the step. SKEP_ERR_STATE if not ready;
 * SKEP_ERR_NUMERIC if the gradients were not finite, which are then dropped. */
int skep_gathering_step(struct skep_gathering *gathering, struct skep_model *model,
                        const float *trunk, uint64_t version, struct skep_gathered *ret_gathered,
                        struct skep_buffer *ret_body, struct skep_error *err);

/* Mean losses of the newest passes, for the statements of the experts' updates; false before the first. */
bool skep_gathering_losses(struct skep_gathering *gathering, double *ret_first, double *ret_last);

#endif
