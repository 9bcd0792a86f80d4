/* SPDX-License-Identifier: MIT */
/*
 * Gated RMSNorm over groups of each row: n(x) = x / sqrt(mean(x^2) + eps) * w, w or 1+w;
 * y = n(x)*act(z) (norm before gate) or n(x*act(z)). Task: one row. y may be x or z: an element is read before it is written.
 */
#include "ref.h"

static real gate(const seqmix_norm_args *a, int64_t t, int64_t i)
{
    const real z = ref_get(&a->z, t * a->z.stride[0] + i);
    return a->gate_act == SEQMIX_NORM_GATE_SIGMOID ? ref_sigmoid(z) : ref_silu(z);
}

/* What the norm sees at element i of row t. */
static real norm_input(const seqmix_norm_args *a, int64_t t, int64_t i)
{
    const real x = ref_get(&a->x, t * a->x.stride[0] + i);
    return seqmix_present(&a->z) && !a->norm_before_gate ? x * gate(a, t, i) : x;
}

/* 1/sqrt(mean square + eps) of a group; the squares are summed in pieces, so that long groups lose little. */
static real norm_factor(const seqmix_norm_args *a, int64_t t, int64_t first, int64_t group)
{
    enum { PIECE = 64 };
    real piece[PIECE], sum = 0;
    for (int64_t i = 0; i < group; i += PIECE) {
        const int64_t n = group - i < PIECE ? group - i : PIECE;
        for (int64_t j = 0; j < n; j++)
            piece[j] = norm_input(a, t, first + i + j);
        sum += ref_dot(piece, piece, n);
    }
    return 1 / REF_MATH(sqrt)(sum / (real)group + (real)a->eps);
}

static void norm_task(void *arg, int64_t t, int32_t worker)
{
    const seqmix_norm_args *a = arg;
    const int64_t channels = a->x.shape[1], group = a->group > 0 ? a->group : channels;
    (void)worker;
    for (int64_t first = 0; first < channels; first += group) {
        const real factor = norm_factor(a, t, first, group);
        for (int64_t i = first; i < first + group; i++) {
            real y = norm_input(a, t, i) * factor;
            if (seqmix_present(&a->weight)) {
                const real weight = ref_get(&a->weight, i % a->weight.shape[0] * a->weight.stride[0]);
                y *= a->weight_plus_one ? 1 + weight : weight;
            }
            if (seqmix_present(&a->z) && a->norm_before_gate) y *= gate(a, t, i);
            ref_put(&a->y, t * a->y.stride[0] + i, y);
        }
    }
}

seqmix_status REF(gated_rms_norm_rows_plan)(const struct seqmix_context *ctx, const seqmix_norm_args *args,
                                            struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/gated_rms_norm", 0);
}

seqmix_status REF(gated_rms_norm_rows)(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    seqmix_norm_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->x.shape[0], norm_task, &copy);
}
