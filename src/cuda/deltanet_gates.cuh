/* SPDX-License-Identifier: MIT */
/* What a row of the delta rule is multiplied with: decays, beta; and whose keys a value head uses. */
#ifndef SEQMIX_CUDA_DELTANET_GATES_CUH
#define SEQMIX_CUDA_DELTANET_GATES_CUH

#include "rows.cuh"

DV_DEV int64_t key_head_of(const seqmix_deltanet_args &a, int64_t h)
{
    const int64_t key_heads = a.k.shape[1];
    return a.head_map == SEQMIX_HEADS_TILED ? h % key_heads : h / (a.v.shape[1] / key_heads);
}

/* The log decay of row t, head h on channel d of the state, from the gate's value; not for SEQMIX_GATE_ALPHA. */
DV_DEV float log_decay(const seqmix_deltanet_args &a, float gate, int64_t h, int64_t d)
{
    if (a.gate_kind == SEQMIX_GATE_LOG) return gate;
    if (present(a.dt_bias))
        gate += get(a.dt_bias, h * a.dt_bias.stride[0] + (a.dt_bias.rank == 2 ? d * a.dt_bias.stride[1] : 0));
    const float rate = get(a.A, h * a.A.stride[0]);
    return a.gate_kind == SEQMIX_GATE_SOFTPLUS ? rate * softplus(gate) : a.gate_lower_bound * sigmoid(-rate * gate);
}

DV_DEV float gate_value(const seqmix_deltanet_args &a, int64_t t, int64_t h, int64_t d)
{
    return get(a.gate, t * a.gate.stride[0] + h * a.gate.stride[1] + (a.gate.rank == 3 ? d * a.gate.stride[2] : 0));
}

/* The factor of row t, head h on channel d of the state. */
DV_DEV float gate_decay(const seqmix_deltanet_args &a, int64_t t, int64_t h, int64_t d)
{
    if (a.gate_kind == SEQMIX_GATE_NONE) return 1;
    const float gate = gate_value(a, t, h, d);
    if (a.gate_kind == SEQMIX_GATE_ALPHA) return gate > 1 ? 1 : gate < 0 ? 0 : gate;
    return decay_of(log_decay(a, gate, h, d));
}

/* The same as a logarithm in [-1e4, 0]; NaN stays. */
DV_DEV float gate_log(const seqmix_deltanet_args &a, int64_t t, int64_t h, int64_t d)
{
    if (a.gate_kind == SEQMIX_GATE_NONE) return 0;
    const float gate = gate_value(a, t, h, d);
    const float g = a.gate_kind == SEQMIX_GATE_ALPHA ? logf(gate < 0 ? 0 : gate) : log_decay(a, gate, h, d);
    return g > 0 ? 0 : g < -1e4f ? -1e4f : g;
}

DV_DEV float beta_of(const seqmix_deltanet_args &a, int64_t t, int64_t h)
{
    const float beta = get(a.beta, t * a.beta.stride[0] + h * a.beta.stride[1]);
    if (a.beta_kind == SEQMIX_BETA_VALUE) return beta;
    return (a.beta_kind == SEQMIX_BETA_SIGMOID2 ? 2 : 1) * sigmoid(beta);
}

DV_DEV float delta_scale(const seqmix_deltanet_args &a)
{
    return a.scale > 0 ? a.scale : 1 / sqrtf((float)a.k.shape[2]);
}

#endif
