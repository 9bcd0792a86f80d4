/* SPDX-License-Identifier: MIT */
/*
 * The first greatest element of every row. Pieces of a row go through the lanes for their maximum alone; only the piece that
 * holds the greatest is searched for its place. A NaN never wins: v_max passes over it. Task: one row.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

#include <math.h>

static float greatest(const seqmix_tensor *x, int64_t at, int64_t n)
{
    float lanes[V_LANES];
    vf top = v_set1(-INFINITY);
    for (int64_t i = 0; i < n; i += V_LANES) {
        const int left = lanes_left(n, i);
        top = v_max(v_select(v_mask_first(left), row_lanes(x, at + i, left), v_set1(-INFINITY)), top);
    }
    v_store(lanes, top);
    for (int i = 1; i < V_LANES; i++)
        lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}

static void argmax_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_argmax_args *a = arg;
    const int64_t n = a->x.shape[1], at = row * a->x.stride[0];
    int64_t piece = 0; /* a row of nothing but -inf and NaN is searched from its start */
    float top = -INFINITY;
    (void)worker;
    for (int64_t i = 0; i < n; i += TUNE_ARGMAX_PIECE) {
        const float best = greatest(&a->x, at + i, n - i < TUNE_ARGMAX_PIECE ? n - i : TUNE_ARGMAX_PIECE);
        if (best > top) {
            top = best;
            piece = i;
        }
    }
    while (piece < n && !(seqmix_load_f32(&a->x, at + piece) == top))
        piece++;
    ((int32_t *)a->index.data)[row * a->index.stride[0]] = piece < n ? (int32_t)piece : -1;
}

seqmix_status KERN(argmax_plan)(const struct seqmix_context *ctx, const seqmix_argmax_args *args,
                                struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("argmax");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(argmax)(struct seqmix_context *ctx, const seqmix_argmax_args *args, void *workspace)
{
    seqmix_argmax_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->x.shape[0], argmax_task, &copy);
}
