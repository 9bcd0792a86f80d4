/* SPDX-License-Identifier: MIT */
/* What belongs to one row of the delta rule: decays, beta, keys. Shared by the sequence form and the step. */
#ifndef SEQMIX_CPU_KERN_DELTANET_ROW_H
#define SEQMIX_CPU_KERN_DELTANET_ROW_H

#include <math.h>

#include "../vec/vec_math.h"
#include "batch.h"
#include "rows.h"

enum { DELTA_DIM = 256 }; /* limit of DK and DV */

static inline int64_t delta_key_head(const seqmix_deltanet_args *a, int64_t h)
{
    const int64_t key_heads = a->k.shape[1], value_heads = a->v.shape[1];
    return a->head_map == SEQMIX_HEADS_TILED ? h % key_heads : h / (value_heads / key_heads);
}

/* Logarithms of decays from the gate's values, of one kind for all lanes but SEQMIX_GATE_ALPHA. */
static inline vf delta_log_lanes(const seqmix_deltanet_args *a, vf gate, vf dt_bias, vf rate)
{
    const vf zero = v_zero(), raw = v_add(gate, dt_bias);
    vf g = gate;
    if (a->gate_kind == SEQMIX_GATE_SOFTPLUS) g = v_mul(rate, v_softplus(raw));
    if (a->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID)
        g = v_mul(v_set1(a->gate_lower_bound), v_sigmoid(v_mul(v_sub(zero, rate), raw)));
    return v_min(zero, g); /* NaN comes through, here and below */
}

/* Decay factors. */
static inline vf delta_decay_lanes(const seqmix_deltanet_args *a, vf gate, vf dt_bias, vf rate)
{
    if (a->gate_kind == SEQMIX_GATE_ALPHA) return v_max(v_zero(), v_min(v_set1(1), gate));
    return v_exp_neg(delta_log_lanes(a, gate, dt_bias, rate));
}

/* decay[0..DK) of row t, value head h. */
static inline void delta_decays(const seqmix_deltanet_args *a, int64_t t, int64_t h, float *decay)
{
    const int64_t dim = a->k.shape[2], count = a->gate.rank == 3 ? dim : 1;
    float gate[DELTA_DIM] = {0}, bias[DELTA_DIM] = {0};
    if (a->gate_kind == SEQMIX_GATE_NONE) {
        for (int64_t d = 0; d < dim; d++)
            decay[d] = 1;
        return;
    }
    const int64_t gate_stride = count > 1 ? a->gate.stride[2] : 1, bias_row = h * a->dt_bias.stride[0];
    vector_load(&a->gate, t * a->gate.stride[0] + h * a->gate.stride[1], gate_stride, count, 0, gate);
    if (a->dt_bias.rank == 2)
        vector_load(&a->dt_bias, bias_row, a->dt_bias.stride[1], count, 0, bias);
    else if (a->dt_bias.rank == 1)
        for (int64_t d = 0; d < count; d++)
            bias[d] = seqmix_load_f32(&a->dt_bias, bias_row);
    const vf rate = v_set1(seqmix_present(&a->A) ? seqmix_load_f32(&a->A, h * a->A.stride[0]) : 0);
    for (int64_t d = 0; d < count; d += V_LANES)
        v_store_n(decay + d, delta_decay_lanes(a, v_load(gate + d), v_load(bias + d), rate), lanes_left(count, d));
    for (int64_t d = count; d < dim; d++)
        decay[d] = decay[0];
}

static inline float delta_beta(const seqmix_deltanet_args *a, int64_t t, int64_t h)
{
    const float beta = seqmix_load_f32(&a->beta, t * a->beta.stride[0] + h * a->beta.stride[1]);
    float lanes[V_LANES];
    if (a->beta_kind == SEQMIX_BETA_VALUE) return beta;
    v_store(lanes, v_sigmoid(v_set1(beta)));
    return a->beta_kind == SEQMIX_BETA_SIGMOID2 ? 2 * lanes[0] : lanes[0];
}

/* beta and, where one serves all channels, the decay of the rows [t, t+n), value head h, and its logarithm unless the gate is
 * an alpha. */
static inline void delta_row_gates(const seqmix_deltanet_args *a, int64_t t, int64_t n, int64_t h, float *decay,
                                   float *logs, float *beta)
{
    const bool scalar = a->gate_kind != SEQMIX_GATE_NONE && a->gate.rank == 2;
    const vf rate = v_set1(seqmix_present(&a->A) ? seqmix_load_f32(&a->A, h * a->A.stride[0]) : 0);
    const vf bias = v_set1(a->dt_bias.rank == 1 ? seqmix_load_f32(&a->dt_bias, h * a->dt_bias.stride[0]) : 0);
    for (int64_t i = 0; i < n; i += V_LANES) {
        const int lanes = lanes_left(n, i);
        float gate_lanes[V_LANES] = {0}, beta_lanes[V_LANES] = {0};
        vector_load(&a->beta, (t + i) * a->beta.stride[0] + h * a->beta.stride[1], a->beta.stride[0], lanes, 0,
                    beta_lanes);
        vf b = v_load(beta_lanes);
        if (a->beta_kind != SEQMIX_BETA_VALUE) b = v_sigmoid(b);
        if (a->beta_kind == SEQMIX_BETA_SIGMOID2) b = v_add(b, b);
        v_store_n(beta + i, b, lanes);
        if (scalar)
            vector_load(&a->gate, (t + i) * a->gate.stride[0] + h * a->gate.stride[1], a->gate.stride[0], lanes, 0,
                        gate_lanes);
        v_store_n(decay + i, scalar ? delta_decay_lanes(a, v_load(gate_lanes), bias, rate) : v_set1(1), lanes);
        v_store_n(logs + i, scalar ? delta_log_lanes(a, v_load(gate_lanes), bias, rate) : v_zero(), lanes);
    }
}

/* Row t of q or k at a key head, L2-normalised if the options say so. */
static inline void delta_key(const seqmix_deltanet_args *a, const seqmix_tensor *rows, int64_t t, int64_t head,
                             float *out)
{
    const int64_t dim = rows->shape[2];
    row_load(rows, t * rows->stride[0] + head * rows->stride[1], dim, out);
    if (!a->qk_l2norm) return;
    const vf factor = v_set1(1 / sqrtf(row_dot(out, out, dim) + a->eps));
    int64_t d = 0;
    for (; d + V_LANES <= dim; d += V_LANES)
        v_store(out + d, v_mul(v_load(out + d), factor));
    if (d < dim) v_store_n(out + d, v_mul(v_load_n(out + d, (int)(dim - d)), factor), (int)(dim - d));
}

static inline float delta_scale(const seqmix_deltanet_args *a)
{
    return a->scale > 0 ? a->scale : 1 / sqrtf((float)a->q.shape[2]);
}

#endif
