/* SPDX-License-Identifier: MIT */
/* Gates, betas and head maps of the delta rule, row by row: shared by the recurrence and the plain chunk form. */
#ifndef SEQMIX_CPU_REF_DELTANET_GATE_H
#define SEQMIX_CPU_REF_DELTANET_GATE_H

#include "ref.h"

/* Key head of value head h. */
static inline int64_t ref_key_head(const seqmix_deltanet_args *a, int64_t h)
{
    const int64_t key_heads = a->k.shape[1], value_heads = a->v.shape[1];
    return a->head_map == SEQMIX_HEADS_TILED ? h % key_heads : h / (value_heads / key_heads);
}

/* The log decay of row t, value head h, channel d (0 unless the gate is per channel), for every kind but NONE and ALPHA. */
static inline real ref_log_gate(const seqmix_deltanet_args *a, int64_t t, int64_t h, int64_t d)
{
    const int64_t channel = a->gate.rank == 3 ? d * a->gate.stride[2] : 0;
    const real gate = ref_get(&a->gate, t * a->gate.stride[0] + h * a->gate.stride[1] + channel);
    if (a->gate_kind == SEQMIX_GATE_LOG) return gate;
    real raw = gate;
    if (seqmix_present(&a->dt_bias))
        raw += ref_get(&a->dt_bias, h * a->dt_bias.stride[0] + (a->dt_bias.rank == 2 ? d * a->dt_bias.stride[1] : 0));
    const real rate = ref_get(&a->A, h * a->A.stride[0]);
    if (a->gate_kind == SEQMIX_GATE_SOFTPLUS) return rate * ref_softplus(raw);
    return (real)a->gate_lower_bound * ref_sigmoid(-rate * raw);
}

/* A linear gate, cut to [0, 1]; NaN stays. */
static inline real ref_alpha(const seqmix_deltanet_args *a, int64_t t, int64_t h, int64_t d)
{
    const int64_t channel = a->gate.rank == 3 ? d * a->gate.stride[2] : 0;
    const real alpha = ref_get(&a->gate, t * a->gate.stride[0] + h * a->gate.stride[1] + channel);
    return alpha > 1 ? 1 : alpha < 0 ? 0 : alpha;
}

/* The factor that a row's decay puts on channel d of the state. */
static inline real ref_gate_decay(const seqmix_deltanet_args *a, int64_t t, int64_t h, int64_t d)
{
    switch (a->gate_kind) {
    case SEQMIX_GATE_NONE:
        return 1;
    case SEQMIX_GATE_ALPHA:
        return ref_alpha(a, t, h, d);
    default:
        return ref_decay(ref_log_gate(a, t, h, d));
    }
}

static inline real ref_beta(const seqmix_deltanet_args *a, int64_t t, int64_t h)
{
    const real beta = ref_get(&a->beta, t * a->beta.stride[0] + h * a->beta.stride[1]);
    switch (a->beta_kind) {
    case SEQMIX_BETA_SIGMOID:
        return ref_sigmoid(beta);
    case SEQMIX_BETA_SIGMOID2:
        return 2 * ref_sigmoid(beta);
    default:
        return beta;
    }
}

static inline real ref_scale(const seqmix_deltanet_args *a)
{
    return a->scale > 0 ? (real)a->scale : 1 / REF_MATH(sqrt)((real)a->q.shape[2]);
}

/* Loads head `head` of row t of q or k, L2-normalised if the options say so. */
static inline void ref_load_key(const seqmix_deltanet_args *a, const seqmix_tensor *rows, int64_t t, int64_t head,
                                real *out)
{
    const int64_t dim = rows->shape[2], base = t * rows->stride[0] + head * rows->stride[1];
    for (int64_t d = 0; d < dim; d++)
        out[d] = ref_get(rows, base + d);
    if (!a->qk_l2norm) return;
    const real factor = 1 / REF_MATH(sqrt)(ref_dot(out, out, dim) + (real)a->eps);
    for (int64_t d = 0; d < dim; d++)
        out[d] *= factor;
}

#endif
