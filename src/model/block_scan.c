/* SPDX-License-Identifier: MIT */
/*
 * The block of Mamba-1 (arXiv:2312.00752). On rows of width D, with DI inner channels, N states, rank RK:
 *   [x | z] = W_in n (+ bias);  x = silu(conv(x));  [dt | B | C] = W_x x;  dt = W_dt dt
 *   y = scan(x, softplus(dt + b_dt), A, B, C) + skip x, times silu(z);  h = h + W_out y (+ bias)
 * x, z, dt, B and C are used as column slices where the products left them.
 */
#include "layers.h"

void seqmix_bind_scan(seqmix_binder *b, const seqmix_config *c, seqmix_scan_block *l)
{
    int64_t D = c->hidden, DI = c->mamba.inner, N = c->mamba.state, RK = c->mamba.dt_rank;
    l->in_proj = seqmix_bind_matrix(b, "in_proj.weight", "ssm_in.weight", 2 * DI, D);
    l->in_bias = seqmix_bind_bias(b, "in_proj.bias", "ssm_in.bias", 2 * DI, c->mamba.bias);
    l->conv = seqmix_bind_wide(b, "conv1d.weight", "ssm_conv1d.weight", DI, c->mamba.conv, SEQMIX_WIDEN_PLAIN);
    l->conv_bias = seqmix_bind_bias(b, "conv1d.bias", "ssm_conv1d.bias", DI, c->mamba.conv_bias);
    l->x_proj = seqmix_bind_delicate(b, "x_proj.weight", "ssm_x.weight", RK + 2 * N, DI);
    l->dt_proj = seqmix_bind_delicate(b, "dt_proj.weight", "ssm_dt.weight", DI, RK);
    l->dt_bias = seqmix_bind_vector(b, "dt_proj.bias", "ssm_dt.bias", DI, SEQMIX_WIDEN_PLAIN);
    l->A = seqmix_bind_wide(b, "A_log", "ssm_a", DI, N, SEQMIX_WIDEN_NEG_EXP);
    l->skip = seqmix_bind_vector(b, "D", "ssm_d", DI, SEQMIX_WIDEN_PLAIN);
    l->out_proj = seqmix_bind_matrix(b, "out_proj.weight", "ssm_out.weight", D, DI);
    l->out_bias = seqmix_bind_bias(b, "out_proj.bias", "ssm_out.bias", D, c->mamba.bias);
}

typedef struct buffers {
    float *xz, *x, *dbc, *dt, *y;
} buffers;

static seqmix_status scan(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, const buffers *a)
{
    const seqmix_scan_block *l = &block->u.scan;
    int64_t R = p->rows, DI = c->mamba.inner, N = c->mamba.state, RK = c->mamba.dt_rank, width = RK + 2 * N;
    seqmix_scan_args args = {.struct_size = sizeof args,
                             .dt_softplus = 1,
                             .x = seqmix_view2(a->x, R, DI, 0, DI),
                             .dt = seqmix_view2(a->dt, R, DI, 0, DI),
                             .A = l->A,
                             .B = seqmix_view3(a->dbc, R, width, RK, 1, N),
                             .C = seqmix_view3(a->dbc, R, width, RK + N, 1, N),
                             .skip = l->skip,
                             .dt_bias = l->dt_bias,
                             .z = seqmix_view2(a->xz, R, 2 * DI, DI, DI),
                             .state = seqmix_layer_state(p, block->state_at, DI, N, 0),
                             .y = seqmix_view2(a->y, R, DI, 0, DI)};
    seqmix_mixer_call call = {.rows_op = SEQMIX_OP_SELECTIVE_SCAN_ROWS,
                              .step_op = SEQMIX_OP_SELECTIVE_SCAN_STEP,
                              .args = &args,
                              .batch = &args.batch,
                              .tensors = {&args.x, &args.dt, &args.B, &args.C, &args.z, &args.y}};
    return seqmix_layer_mix(p, &call);
}

seqmix_status seqmix_forward_scan(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, seqmix_tensor n,
                                  seqmix_tensor h)
{
    const seqmix_scan_block *l = &block->u.scan;
    const seqmix_tensor none = {0};
    int64_t R = p->rows, DI = c->mamba.inner, RK = c->mamba.dt_rank, width = RK + 2 * c->mamba.state;
    buffers a;
    a.xz = seqmix_take(p, R, 2 * DI);
    a.x = seqmix_take(p, R, DI);
    a.dbc = seqmix_take(p, R, width);
    a.dt = seqmix_take(p, R, DI);
    a.y = seqmix_take(p, R, DI);
    seqmix_tensor xz = seqmix_view2(a.xz, R, 2 * DI, 0, 2 * DI), x = seqmix_view2(a.x, R, DI, 0, DI);
    seqmix_tensor dbc = seqmix_view2(a.dbc, R, width, 0, width), low = seqmix_view2(a.dbc, R, width, 0, RK);
    seqmix_tensor dt = seqmix_view2(a.dt, R, DI, 0, DI), y = seqmix_view2(a.y, R, DI, 0, DI);
    seqmix_status s = seqmix_layer_linear(p, n, l->in_proj, l->in_bias, none, xz);
    if (s == SEQMIX_OK) s = seqmix_layer_conv(p, block, l->conv, l->conv_bias, seqmix_view2(a.xz, R, 2 * DI, 0, DI), x);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, x, l->x_proj, none, none, dbc);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, low, l->dt_proj, none, none, dt);
    if (s == SEQMIX_OK) s = scan(p, c, block, &a);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, y, l->out_proj, l->out_bias, h, h);
    return s;
}
