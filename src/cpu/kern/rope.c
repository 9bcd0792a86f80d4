/* SPDX-License-Identifier: MIT */
/*
 * Rotary position embedding (equation: seqmix.h). An angle is a fraction of a turn in 64 bits: frequencies are rounded to
 * 2^-64 turns once a call, and position * frequency modulo a turn is one multiplication of integers, exact. What is left of
 * the eighth of a turn nearest to it goes through two polynomials in f32. Task: one row, its angles once for all heads. y may be x.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

#include <math.h>

struct rope {
    const seqmix_rope_args *args;
    int64_t n;                             /* channels that turn */
    uint64_t turns[TUNE_MAX_HEAD_DIM / 2]; /* 2^-64 turns per position */
};

/* cos and sin of phase * 2^-64 turns: within 1.5 ulp of 1. */
static void phase_cos_sin(uint64_t phase, float *c, float *s)
{
    const uint64_t eighth = (uint64_t)1 << 61;
    const unsigned quarter = (unsigned)((phase + eighth) >> 62) & 3u;
    const int64_t rest = (int64_t)((phase + eighth) & (((uint64_t)1 << 62) - 1)) - (int64_t)eighth;
    const float x = (float)rest * (0x1p-64f * 6.28318530718f), z = x * x;
    const float sine = x + x * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
    const float cosine =
        1 - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
    const float u = (quarter & 1u) != 0 ? sine : cosine, v = (quarter & 1u) != 0 ? cosine : sine;
    *c = quarter == 1 || quarter == 2 ? -u : u;
    *s = quarter >= 2 ? -v : v;
}

/* Pairs half a head apart: lanes of first halves meet lanes of second halves. */
static void rotate_halves(const struct rope *rope, int64_t x, int64_t y, const float *c, const float *s)
{
    const seqmix_rope_args *a = rope->args;
    const int64_t half = rope->n / 2;
    for (int64_t i = 0; i < half; i += V_LANES) {
        const int n = lanes_left(half, i);
        const vf u = row_lanes(&a->x, x + i, n), v = row_lanes(&a->x, x + half + i, n);
        const vf cosine = v_load_n(c + i, n), sine = v_load_n(s + i, n);
        row_put_lanes(&a->y, y + i, v_fnma(v, sine, v_mul(u, cosine)), n);
        row_put_lanes(&a->y, y + half + i, v_fma(u, sine, v_mul(v, cosine)), n);
    }
}

static void rotate_neighbours(const struct rope *rope, int64_t x, int64_t y, const float *c, const float *s)
{
    const seqmix_rope_args *a = rope->args;
    float row[TUNE_MAX_HEAD_DIM];
    row_load(&a->x, x, rope->n, row);
    for (int64_t i = 0; i < rope->n / 2; i++) {
        const float u = row[2 * i], v = row[2 * i + 1];
        row[2 * i] = u * c[i] - v * s[i];
        row[2 * i + 1] = v * c[i] + u * s[i];
    }
    row_store(&a->y, y, rope->n, row);
}

static void rope_task(void *arg, int64_t r, int32_t worker)
{
    const struct rope *rope = arg;
    const seqmix_rope_args *a = rope->args;
    const int64_t channels = a->x.shape[2];
    float c[TUNE_MAX_HEAD_DIM / 2], s[TUNE_MAX_HEAD_DIM / 2];
    (void)worker;
    for (int64_t i = 0; i < rope->n / 2; i++)
        phase_cos_sin((uint64_t)a->positions[r] * rope->turns[i], &c[i], &s[i]);
    for (int64_t h = 0; h < a->x.shape[1]; h++) {
        const int64_t x = r * a->x.stride[0] + h * a->x.stride[1], y = r * a->y.stride[0] + h * a->y.stride[1];
        if (a->pairing == SEQMIX_ROPE_NEOX)
            rotate_halves(rope, x, y, c, s);
        else
            rotate_neighbours(rope, x, y, c, s);
        for (int64_t d = rope->n; d < channels; d += V_LANES) {
            const int n = lanes_left(channels, d);
            row_put_lanes(&a->y, y + d, row_lanes(&a->x, x + d, n), n);
        }
    }
}

/* freq_scale * theta^(-2i/n) / (2 pi) turns; what exceeds whole turns does not count. */
static uint64_t turns_of(const seqmix_rope_args *a, int64_t i, int64_t n)
{
    const double scale = a->freq_scale != 0 ? (double)a->freq_scale : 1;
    const double turns = scale * pow((double)a->theta, -2.0 * (double)i / (double)n) * 0.15915494309189533577;
    const double part = turns - floor(turns);
    return part < 1 ? (uint64_t)(part * 0x1p64) : 0; /* not a number: no turn */
}

seqmix_status KERN(rope_rows_plan)(const struct seqmix_context *ctx, const seqmix_rope_args *args,
                                   struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("rope");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(rope_rows)(struct seqmix_context *ctx, const seqmix_rope_args *args, void *workspace)
{
    struct rope rope = {.args = args, .n = args->n_dims != 0 ? args->n_dims : args->x.shape[2]};
    (void)workspace;
    for (int64_t i = 0; i < rope.n / 2; i++)
        rope.turns[i] = turns_of(args, i, rope.n);
    return seqmix_parallel_for(ctx, args->x.shape[0], rope_task, &rope);
}
