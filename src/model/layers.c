/* SPDX-License-Identifier: MIT */
/* The steps that blocks share (see layers.h). */
#include "layers.h"

float *seqmix_take(seqmix_pass *p, int64_t rows, int64_t width)
{
    return seqmix_arena_take(&p->buffers, (size_t)rows * (size_t)width * sizeof(float));
}

seqmix_status seqmix_layer_norm(seqmix_pass *p, float eps, seqmix_tensor x, seqmix_tensor weight, seqmix_tensor y)
{
    seqmix_norm_args args = {.struct_size = sizeof args, .eps = eps, .x = x, .weight = weight, .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_GATED_RMS_NORM_ROWS, &args);
}

seqmix_status seqmix_layer_linear(seqmix_pass *p, seqmix_tensor x, seqmix_tensor weight, seqmix_tensor bias,
                                  seqmix_tensor residual, seqmix_tensor y)
{
    seqmix_linear_args args = {.struct_size = sizeof args,
                               .invariant = p->invariant,
                               .x = x,
                               .weight = weight,
                               .bias = bias,
                               .residual = residual,
                               .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_LINEAR, &args);
}

seqmix_status seqmix_layer_act(seqmix_pass *p, int32_t kind, seqmix_tensor a, seqmix_tensor b, seqmix_tensor y)
{
    seqmix_act_args args = {.struct_size = sizeof args, .kind = kind, .a = a, .b = b, .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_ACT_ROWS, &args);
}

seqmix_batch seqmix_layer_batch(const seqmix_pass *p)
{
    return (seqmix_batch){.struct_size = sizeof(seqmix_batch),
                          .n_seqs = p->n_seqs,
                          .max_rows = p->longest,
                          .row_begin = p->ops.row_begin,
                          .read_slot = p->ops.read_slot,
                          .write_slot = p->ops.write_slot};
}

seqmix_tensor seqmix_layer_state(const seqmix_pass *p, int64_t at, int64_t a, int64_t b, int64_t c)
{
    if (a * b == 0) return (seqmix_tensor){0};
    seqmix_tensor t = {.data = p->state != NULL ? (float *)(void *)p->state + at : NULL,
                       .dtype = SEQMIX_F32,
                       .rank = c > 0 ? 4 : 3,
                       .shape = {p->n_slots, a, b, c},
                       .stride = {(int64_t)(p->state_bytes / sizeof(float)), b, 1, 1}};
    if (c > 0) {
        t.stride[1] = b * c;
        t.stride[2] = c;
    }
    return t;
}

/* The convolution's many-row form gives every row the same bits however it is cut, so an invariant pass always takes it. */
seqmix_status seqmix_layer_conv(seqmix_pass *p, const seqmix_block *block, seqmix_tensor weight, seqmix_tensor bias,
                                seqmix_tensor x, seqmix_tensor y)
{
    seqmix_batch batch = seqmix_layer_batch(p);
    seqmix_conv_args args = {.struct_size = sizeof args,
                             .activation = SEQMIX_ACT_SILU,
                             .batch = &batch,
                             .x = x,
                             .weight = weight,
                             .bias = bias,
                             .state = seqmix_layer_state(p, block->window_at, weight.shape[0], weight.shape[1] - 1, 0),
                             .y = y};
    bool step = p->longest <= 1 && !p->invariant;
    return seqmix_call(p->caller, step ? SEQMIX_OP_SHORT_CONV_STEP : SEQMIX_OP_SHORT_CONV_ROWS, &args);
}

/* ---- many rows or few ---- */

static void move_rows(const seqmix_mixer_call *call, const seqmix_tensor *whole, int64_t from, int64_t n)
{
    for (int i = 0; i < 8 && call->tensors[i] != NULL; i++) {
        seqmix_tensor *t = call->tensors[i];
        *t = whole[i];
        if (t->rank == 0) continue;
        if (t->data != NULL) t->data = (float *)t->data + from * t->stride[0];
        t->shape[0] = n;
    }
}

/* Cut by cut: a sequence's first reads the slot that counts, the later ones what was written. */
static seqmix_status step_by_step(seqmix_pass *p, const seqmix_mixer_call *call)
{
    seqmix_tensor whole[8];
    seqmix_status status = SEQMIX_OK;
    for (int i = 0; i < 8 && call->tensors[i] != NULL; i++)
        whole[i] = *call->tensors[i];
    for (int64_t i = 0; status == SEQMIX_OK && i < p->n_cuts; i++) {
        const seqmix_cut *cut = &p->host.cuts[i], *on = &p->ops.cuts[i];
        seqmix_batch batch = {.struct_size = sizeof batch,
                              .n_seqs = 1,
                              .max_rows = cut->begin[1],
                              .row_begin = on->begin,
                              .read_slot = &on->read,
                              .write_slot = &on->write};
        move_rows(call, whole, cut->from, cut->begin[1]);
        *call->batch = &batch;
        status = seqmix_call(p->caller, call->step_op, call->args);
        *call->batch = NULL;
    }
    return status;
}

seqmix_status seqmix_layer_mix(seqmix_pass *p, const seqmix_mixer_call *call)
{
    if (p->n_cuts > 0) return step_by_step(p, call);
    seqmix_batch batch = seqmix_layer_batch(p);
    *call->batch = &batch;
    int32_t op = p->longest <= 1 || p->invariant ? call->step_op : call->rows_op;
    seqmix_status status = seqmix_call(p->caller, op, call->args);
    *call->batch = NULL;
    return status;
}
