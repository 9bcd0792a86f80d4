/* SPDX-License-Identifier: MIT */
/*
 * Gated RMSNorm (equation: seqmix.h). Task: one row. What the norm sees of a group, x or x*act(z), is kept between the two
 * passes, so that the gate is evaluated once; past the room for it, it is evaluated again. Large outputs are written past the
 * caches. y may be x or z.
 */
#include "../vec/vec_math.h"
#include "isa.h"
#include "parallel.h"
#include "stream.h"

#include <math.h>

enum { TOGETHER = V_TOGETHER * V_LANES, KEPT = TUNE_NORM_KEPT };

struct norm {
    const seqmix_norm_args *args;
    int64_t group;
    bool stream;
};

/* The gate at `offset` of z, for the vectors of n channels. */
static inline __attribute__((always_inline)) void gates(const seqmix_norm_args *a, int64_t offset, int64_t n,
                                                        int vectors, vf *gate)
{
    for (int v = 0; v < vectors; v++)
        gate[v] = row_lanes(&a->z, offset + v * V_LANES, lanes_left(n, v * V_LANES));
    if (a->gate_act == SEQMIX_NORM_GATE_SIGMOID)
        v_sigmoid_each(gate, vectors);
    else
        v_silu_each(gate, vectors);
}

static vf weight_lanes(const seqmix_norm_args *a, int64_t i, int n)
{
    const int64_t stride = a->weight.stride[0];
    vf weight;
    if (stride == 1) {
        weight = row_lanes(&a->weight, i, n);
    } else {
        float lanes[V_LANES] = {0};
        vector_load(&a->weight, i * stride, stride, n, 0, lanes);
        weight = v_load(lanes);
    }
    return a->weight_plus_one ? v_add(v_set1(1), weight) : weight;
}

/* What the norm sees of channels [i, i+n) of row t: x, or x*act(z) where the gate comes first. */
static inline __attribute__((always_inline)) void inputs(const seqmix_norm_args *a, int64_t t, int64_t i, int64_t n,
                                                         int vectors, vf *u)
{
    const bool gate_first = seqmix_present(&a->z) && !a->norm_before_gate;
    vf gate[V_TOGETHER];
    if (gate_first) gates(a, t * a->z.stride[0] + i, n, vectors, gate);
    for (int v = 0; v < vectors; v++) {
        u[v] = row_lanes(&a->x, t * a->x.stride[0] + i + v * V_LANES, lanes_left(n, v * V_LANES));
        if (gate_first) u[v] = v_mul(u[v], gate[v]);
    }
}

/* Adds the squares of channels [i, i+n), whose inputs go to `kept`, or nowhere if that is NULL. */
static inline __attribute__((always_inline)) void add_squares(const seqmix_norm_args *a, int64_t t, int64_t i,
                                                              int64_t n, int vectors, vf *squares, float *kept)
{
    vf u[V_TOGETHER];
    inputs(a, t, i, n, vectors, u);
    for (int v = 0; v < vectors; v++) {
        if (kept != NULL) v_store(kept + v * V_LANES, u[v]);
        squares[v] = v_fma(u[v], u[v], squares[v]);
    }
}

/* Norm, weight from `w` on, and the gate where it comes last, for channels [i, i+n) of row t. */
static inline __attribute__((always_inline)) void put_norm(const struct norm *norm, int64_t t, int64_t i, int64_t n,
                                                           int64_t w, int vectors, vf factor, const float *kept)
{
    const seqmix_norm_args *a = norm->args;
    const bool gate_last = seqmix_present(&a->z) && a->norm_before_gate;
    vf u[V_TOGETHER], gate[V_TOGETHER];
    if (gate_last) gates(a, t * a->z.stride[0] + i, n, vectors, gate);
    if (kept == NULL) inputs(a, t, i, n, vectors, u);
    for (int v = 0; v < vectors; v++) {
        const int lanes = lanes_left(n, v * V_LANES);
        vf y = v_mul(kept != NULL ? v_load(kept + v * V_LANES) : u[v], factor);
        if (seqmix_present(&a->weight)) y = v_mul(y, weight_lanes(a, w + v * V_LANES, lanes));
        if (gate_last) y = v_mul(y, gate[v]);
        row_put_stream(&a->y, t * a->y.stride[0] + i + v * V_LANES, y, lanes, norm->stream);
    }
}

static void norm_task(void *arg, int64_t t, int32_t worker)
{
    const struct norm *norm = arg;
    const seqmix_norm_args *a = norm->args;
    const int64_t channels = a->x.shape[1], group = norm->group, whole = group / TOGETHER * TOGETHER;
    float kept[KEPT];
    (void)worker;
    for (int64_t first = 0; first < channels; first += group) {
        const int64_t w = a->weight.shape[0] == channels ? first : 0;
        vf squares[V_TOGETHER] = {v_zero(), v_zero(), v_zero(), v_zero()};
        int64_t i = 0;
        for (; i < whole; i += TOGETHER)
            add_squares(a, t, first + i, TOGETHER, V_TOGETHER, squares, i < KEPT ? kept + i : NULL);
        for (; i < group; i += V_LANES)
            add_squares(a, t, first + i, group - i, 1, squares, i < KEPT ? kept + i : NULL);
        const vf sum = v_add(v_add(squares[0], squares[1]), v_add(squares[2], squares[3]));
        const vf factor = v_set1(1 / sqrtf(v_sum(sum) / (float)group + a->eps));
        for (i = 0; i < whole; i += TOGETHER)
            put_norm(norm, t, first + i, TOGETHER, w + i, V_TOGETHER, factor, i < KEPT ? kept + i : NULL);
        for (; i < group; i += V_LANES)
            put_norm(norm, t, first + i, group - i, w + i, 1, factor, i < KEPT ? kept + i : NULL);
    }
    if (norm->stream) v_stream_end();
}

seqmix_status KERN(gated_rms_norm_rows_plan)(const struct seqmix_context *ctx, const seqmix_norm_args *args,
                                             struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("gated_rms_norm");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(gated_rms_norm_rows)(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    struct norm norm = {args, args->group > 0 ? args->group : args->x.shape[1], false};
    (void)workspace;
    if (norm.group % V_LANES == 0 && args->y.data != args->z.data) norm.stream = streams(&args->y, &args->x);
    return seqmix_parallel_for(ctx, args->x.shape[0], norm_task, &norm);
}
