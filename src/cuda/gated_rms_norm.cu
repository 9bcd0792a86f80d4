/* SPDX-License-Identifier: MIT */
/*
 * gated_rms_norm_rows on cuda-sm80. A team of lanes, a warp or a block by the size of the group, has one group of one row: x and z
 * are read once, eight elements a lane at a time, and stay in registers between the sum of squares and the result, so y may be
 * either. Sums go over a lane's elements, a warp's lanes, a block's warps, in fixed order. Groups beyond 8192: cuda-simple.
 */
#include "ctx.h"
#include "cuda.h"
#include "lanes.cuh"

namespace
{

constexpr int THREADS = 256, UNITS = 4; /* eights of a lane */

struct norm_call {
    int64_t group, n_tasks;
    bool eights, weights;
};

template <int TEAM> DV_DEV float sum_team(float value, float *parts)
{
    value = sum_lanes(value);
    if (TEAM == 32) return value;
    __syncthreads(); /* the parts of the task before are read */
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < TEAM / 32; i++)
        sum += parts[i];
    return sum;
}

DV_DEV float norm_gate(const seqmix_norm_args &a, float z)
{
    return a.gate_act == SEQMIX_NORM_GATE_SIGMOID ? sigmoid(z) : silu(z);
}

/* y from the gated or plain x, in place. */
DV_DEV void finish_eight(const seqmix_norm_args &a, const norm_call &call, int64_t i, int n, float factor,
                         const float (&z)[8], float (&v)[8])
{
    float weight[8];
    const int64_t first = present(a.weight) ? i % a.weight.shape[0] : 0;
    if (present(a.weight) && call.weights) {
        if (a.weight.dtype == SEQMIX_F32)
            load_eight<as_f32>(elements<as_f32>(a.weight) + first, weight);
        else if (a.weight.dtype == SEQMIX_BF16)
            load_eight<as_bf16>(elements<as_bf16>(a.weight) + first, weight);
        else
            load_eight<as_f16>(elements<as_f16>(a.weight) + first, weight);
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++)
            weight[e] =
                present(a.weight) && e < n ? get(a.weight, (i + e) % a.weight.shape[0] * a.weight.stride[0]) : 1;
    }
#pragma unroll
    for (int e = 0; e < 8; e++) {
        v[e] *= factor;
        if (present(a.weight)) v[e] *= a.weight_plus_one != 0 ? 1 + weight[e] : weight[e];
        if (present(a.z) && a.norm_before_gate != 0) v[e] *= norm_gate(a, z[e]);
    }
}

template <class X, int TEAM>
DV_DEV void norm_group(const seqmix_norm_args &a, const norm_call &call, int64_t task, float *parts)
{
    typedef typename X::storage storage;
    const int64_t groups = a.x.shape[1] / call.group, t = task / groups, first = task % groups * call.group;
    const int lane = (int)(threadIdx.x % TEAM);
    const storage *x_row = elements<X>(a.x) + t * a.x.stride[0] + first;
    const storage *z_row = present(a.z) ? elements<X>(a.z) + t * a.z.stride[0] + first : nullptr;
    float v[UNITS][8], z[UNITS][8] = {}, sum = 0;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const int64_t i = (lane + u * (int64_t)TEAM) * 8;
        const int n = (int)(call.group - i < 8 ? call.group - i : 8);
        if (n <= 0) continue;
        load_some<X>(x_row + i, n, call.eights, v[u]);
        if (z_row != nullptr) load_some<X>(z_row + i, n, call.eights, z[u]);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            if (z_row != nullptr && a.norm_before_gate == 0) v[u][e] *= norm_gate(a, z[u][e]);
            sum += e < n ? v[u][e] * v[u][e] : 0;
        }
    }
    const float factor = 1 / sqrtf(sum_team<TEAM>(sum, parts) / (float)call.group + a.eps);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const int64_t i = (lane + u * (int64_t)TEAM) * 8;
        const int n = (int)(call.group - i < 8 ? call.group - i : 8);
        if (n <= 0) continue;
        finish_eight(a, call, first + i, n, factor, z[u], v[u]);
        store_some<X>(elements<X>(a.y) + t * a.y.stride[0] + first + i, n, call.eights, v[u]);
    }
}

template <class X, int TEAM>
__global__ void __launch_bounds__(THREADS) gated_rms_norm_kernel(seqmix_norm_args a, norm_call call)
{
    DV_SHARED(float, parts, [THREADS / 32]);
    constexpr int TEAMS = THREADS / TEAM;
    for (int64_t task = blockIdx.x * (int64_t)TEAMS + threadIdx.x / TEAM; task < call.n_tasks;
         task += gridDim.x * (int64_t)TEAMS)
        norm_group<X, TEAM>(a, call, task, parts);
}

/* Whether weights of the group's elements may be taken eight at a time, wherever the group begins. */
static bool weights_in_eights(const seqmix_norm_args &a, int64_t group)
{
    return a.weight.rank > 0 && in_eights(a.weight) && a.weight.stride[0] == 1 && group % 8 == 0;
}

template <class X, int TEAM> static int launch_norm(const seqmix_norm_args &a, int64_t group, void *stream)
{
    norm_call call = {};
    call.group = group;
    call.n_tasks = a.x.shape[0] * (a.x.shape[1] / group);
    call.eights = in_eights(a.x) && in_eights(a.z) && in_eights(a.y) && group % 8 == 0;
    call.weights = weights_in_eights(a, group);
    constexpr int TEAMS = THREADS / TEAM;
    return dv_launch(gated_rms_norm_kernel<X, TEAM>, blocks_for((call.n_tasks + TEAMS - 1) / TEAMS), dim3(THREADS), 0,
                     static_cast<cudaStream_t>(stream), a, call);
}

template <class X> static int launch_team(const seqmix_norm_args &a, int64_t group, void *stream)
{
    return group <= 32 * 8 * UNITS ? launch_norm<X, 32>(a, group, stream) : launch_norm<X, THREADS>(a, group, stream);
}

static int64_t group_of(const seqmix_norm_args &a)
{
    return a.group > 0 ? a.group : a.x.shape[1];
}

} /* namespace */

extern "C" seqmix_status seqmix_gated_rms_norm_rows_plan__cuda_sm80(const struct seqmix_context *,
                                                                    const seqmix_norm_args *a, struct seqmix_plan *plan)
{
    if (group_of(*a) > THREADS * 8 * UNITS) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/gated_rms_norm";
    plan->grain = 1;
    return SEQMIX_OK;
}

extern "C" int seqmix_gated_rms_norm_rows__cuda_sm80(const struct seqmix_context *ctx, const seqmix_norm_args *a,
                                                     void *)
{
    const int64_t group = group_of(*a);
    if (a->x.shape[0] == 0 || group == 0) return cudaSuccess;
    switch (a->x.dtype) {
    case SEQMIX_BF16:
        return launch_team<as_bf16>(*a, group, ctx->stream);
    case SEQMIX_F16:
        return launch_team<as_f16>(*a, group, ctx->stream);
    default:
        return launch_team<as_f32>(*a, group, ctx->stream);
    }
}
