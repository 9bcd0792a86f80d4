/* SPDX-License-Identifier: MIT */
/* The steps that blocks share: norm, product, convolution, and how a mixer with state is called. */
#ifndef SEQMIX_MODEL_LAYERS_H
#define SEQMIX_MODEL_LAYERS_H

#include "blocks.h"

/* Scratch of [rows, width] f32. */
float *seqmix_take(seqmix_pass *p, int64_t rows, int64_t width);

seqmix_status seqmix_layer_norm(seqmix_pass *p, float eps, seqmix_tensor x, seqmix_tensor weight, seqmix_tensor y);
/* Absent bias and residual count as zeros. */
seqmix_status seqmix_layer_linear(seqmix_pass *p, seqmix_tensor x, seqmix_tensor weight, seqmix_tensor bias,
                                  seqmix_tensor residual, seqmix_tensor y);
/* y = a * b, or of a alone; SEQMIX_ACT_ROWS_*. */
seqmix_status seqmix_layer_act(seqmix_pass *p, int32_t kind, seqmix_tensor a, seqmix_tensor b, seqmix_tensor y);
/* The short convolution with SiLU on the block's window. */
seqmix_status seqmix_layer_conv(seqmix_pass *p, const seqmix_block *block, seqmix_tensor weight, seqmix_tensor bias,
                                seqmix_tensor x, seqmix_tensor y);

/* A part of every slot of the state pool, as [slots, a, b, c] or, with c 0, [slots, a, b]; absent when there is no such
 * part. */
seqmix_tensor seqmix_layer_state(const seqmix_pass *p, int64_t at, int64_t a, int64_t b, int64_t c);
/* The batch of a pass, for ops with state. */
seqmix_batch seqmix_layer_batch(const seqmix_pass *p);

/*
 * A mixer that has a form for many rows and one for few. `args` are given for all rows of the pass; `tensors` are those of
 * them that go by rows. When no sequence has more than one row the step form runs. In an invariant pass it runs always, on up
 * to SEQMIX_STEP_MAX rows of a sequence at a time, because its rows have the bits of single ones.
 */
typedef struct seqmix_mixer_call {
    int32_t rows_op, step_op; /* SEQMIX_OP_* */
    void *args;
    const seqmix_batch **batch; /* args->batch */
    seqmix_tensor *tensors[8];  /* of args; NULL-ended unless full */
} seqmix_mixer_call;
seqmix_status seqmix_layer_mix(seqmix_pass *p, const seqmix_mixer_call *call);

#endif
