/* SPDX-License-Identifier: MIT */
/*
 * Rotary position embedding: a pair (a, b) of channels of every head turns by positions[r] * freq_scale * theta^(-2i/n).
 * The angle is formed in double whatever `real` is: in f32 it would be lost at large positions. Task: one row. y may be x.
 */
#include "ref.h"

static void rotate_pair(const seqmix_rope_args *a, int64_t x, int64_t y, int64_t second, real c, real s)
{
    const real u = ref_get(&a->x, x), v = ref_get(&a->x, x + second);
    ref_put(&a->y, y, u * c - v * s);
    ref_put(&a->y, y + second, v * c + u * s);
}

static void rope_task(void *arg, int64_t r, int32_t worker)
{
    const seqmix_rope_args *a = arg;
    const int64_t heads = a->x.shape[1], channels = a->x.shape[2], n = a->n_dims != 0 ? a->n_dims : channels;
    const bool neox = a->pairing == SEQMIX_ROPE_NEOX;
    const double scale = a->freq_scale != 0 ? (double)a->freq_scale : 1;
    (void)worker;
    for (int64_t i = 0; i < n / 2; i++) {
        const double angle = a->positions[r] * scale * pow((double)a->theta, -2.0 * (double)i / (double)n);
        const real c = (real)cos(angle), s = (real)sin(angle);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t at = neox ? i : 2 * i;
            rotate_pair(a, r * a->x.stride[0] + h * a->x.stride[1] + at, r * a->y.stride[0] + h * a->y.stride[1] + at,
                        neox ? n / 2 : 1, c, s);
        }
    }
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = n; d < channels; d++)
            ref_put(&a->y, r * a->y.stride[0] + h * a->y.stride[1] + d,
                    ref_get(&a->x, r * a->x.stride[0] + h * a->x.stride[1] + d));
}

seqmix_status REF(rope_rows_plan)(const struct seqmix_context *ctx, const seqmix_rope_args *args,
                                  struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/rope", 0);
}

seqmix_status REF(rope_rows)(struct seqmix_context *ctx, const seqmix_rope_args *args, void *workspace)
{
    seqmix_rope_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->x.shape[0], rope_task, &copy);
}
