/* SPDX-License-Identifier: MIT */
/*
 * The block of Mamba-2 and Nemotron-H (arXiv:2405.21060). With H heads of P channels, G groups of N states, DI = H P:
 *   [z | x B C | dt] = W_in n (+ bias);  [x B C] = silu(conv(x B C))
 *   y = ssd(x, softplus(dt + b_dt), A, B, C) + skip x;  y = norm of each group (y silu(z));  h = h + W_out y (+ bias)
 * or, norm before gate, y = norm(y) silu(z). Everything is used as column slices where the products left it.
 */
#include "layers.h"

static int64_t conv_channels(const seqmix_config *c)
{
    return c->ssd.heads * c->ssd.head_dim + 2 * c->ssd.groups * c->ssd.state;
}

void seqmix_bind_ssd(seqmix_binder *b, const seqmix_config *c, seqmix_ssd_block *l)
{
    int64_t D = c->hidden, H = c->ssd.heads, DI = H * c->ssd.head_dim, C = conv_channels(c);
    l->in_proj = seqmix_bind_matrix(b, "in_proj.weight", "ssm_in.weight", DI + C + H, D);
    l->in_bias = seqmix_bind_bias(b, "in_proj.bias", "ssm_in.bias", DI + C + H, c->ssd.bias);
    l->conv = seqmix_bind_wide(b, "conv1d.weight", "ssm_conv1d.weight", C, c->ssd.conv, SEQMIX_WIDEN_PLAIN);
    l->conv_bias = seqmix_bind_bias(b, "conv1d.bias", "ssm_conv1d.bias", C, c->ssd.conv_bias);
    l->dt_bias = seqmix_bind_vector(b, "dt_bias", "ssm_dt.bias", H, SEQMIX_WIDEN_PLAIN);
    l->A = seqmix_bind_vector(b, "A_log", "ssm_a", H, SEQMIX_WIDEN_NEG_EXP);
    l->skip = seqmix_bind_vector(b, "D", "ssm_d", H, SEQMIX_WIDEN_PLAIN);
    l->norm = seqmix_bind_vector(b, "norm.weight", "ssm_norm.weight", DI, SEQMIX_WIDEN_PLAIN);
    l->out_proj = seqmix_bind_matrix(b, "out_proj.weight", "ssm_out.weight", D, DI);
    l->out_bias = seqmix_bind_bias(b, "out_proj.bias", "ssm_out.bias", D, c->ssd.bias);
}

static seqmix_status ssd(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, float *zxbcdt, float *xbc,
                         float *y)
{
    const seqmix_ssd_block *l = &block->u.ssd;
    int64_t R = p->rows, H = c->ssd.heads, DI = H * c->ssd.head_dim, G = c->ssd.groups, GN = G * c->ssd.state;
    int64_t C = conv_channels(c), width = DI + C + H;
    seqmix_ssd_args args = {.struct_size = sizeof args,
                            .dt_softplus = 1,
                            .dt_min = c->ssd.dt_min,
                            .dt_max = c->ssd.dt_max,
                            .x = seqmix_view3(xbc, R, C, 0, H, DI),
                            .dt = seqmix_view2(zxbcdt, R, width, DI + C, H),
                            .A = l->A,
                            .B = seqmix_view3(xbc, R, C, DI, G, GN),
                            .C = seqmix_view3(xbc, R, C, DI + GN, G, GN),
                            .skip = l->skip,
                            .dt_bias = l->dt_bias,
                            .state = seqmix_layer_state(p, block->state_at, H, c->ssd.head_dim, c->ssd.state),
                            .y = seqmix_view3(y, R, DI, 0, H, DI)};
    seqmix_mixer_call call = {.rows_op = SEQMIX_OP_SSD_CHUNK_FORWARD,
                              .step_op = SEQMIX_OP_SSD_STEP,
                              .args = &args,
                              .batch = &args.batch,
                              .tensors = {&args.x, &args.dt, &args.B, &args.C, &args.y}};
    return seqmix_layer_mix(p, &call);
}

seqmix_status seqmix_forward_ssd(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, seqmix_tensor n,
                                 seqmix_tensor h)
{
    const seqmix_ssd_block *l = &block->u.ssd;
    int64_t R = p->rows, DI = c->ssd.heads * c->ssd.head_dim, C = conv_channels(c), width = DI + C + c->ssd.heads;
    float *zxbcdt = seqmix_take(p, R, width), *xbc = seqmix_take(p, R, C), *y = seqmix_take(p, R, DI);
    seqmix_status s =
        seqmix_layer_linear(p, n, l->in_proj, l->in_bias, (seqmix_tensor){0}, seqmix_view2(zxbcdt, R, width, 0, width));
    if (s == SEQMIX_OK)
        s = seqmix_layer_conv(p, block, l->conv, l->conv_bias, seqmix_view2(zxbcdt, R, width, DI, C),
                              seqmix_view2(xbc, R, C, 0, C));
    if (s == SEQMIX_OK) s = ssd(p, c, block, zxbcdt, xbc, y);
    seqmix_norm_args gate = {.struct_size = sizeof gate,
                             .group = (int32_t)(DI / c->ssd.groups),
                             .norm_before_gate = c->ssd.norm_before_gate,
                             .eps = c->eps,
                             .x = seqmix_view2(y, R, DI, 0, DI),
                             .z = seqmix_view2(zxbcdt, R, width, 0, DI),
                             .weight = l->norm,
                             .y = seqmix_view2(y, R, DI, 0, DI)};
    if (s == SEQMIX_OK) s = seqmix_call(p->caller, SEQMIX_OP_GATED_RMS_NORM_ROWS, &gate);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, gate.y, l->out_proj, l->out_bias, h, h);
    return s;
}
