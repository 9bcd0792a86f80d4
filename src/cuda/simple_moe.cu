/* SPDX-License-Identifier: MIT */
/*
 * Rung cuda-simple, the mixture of experts. moe_route: a warp per row, whose lanes share the experts. moe_experts, per row r and
 * choice k of expert e:
 *
 *     inner[r,k,:] = act(gate[e] x[r], up[e] x[r])          y[r,:] (+)= sum_k weights[r,k] * down[e] inner[r,k]
 *
 * a warp per number, inner in the workspace, the sum in ascending order of expert. An id that is no expert, which the host
 * cannot see, adds nothing.
 */
#include <math.h>

#include "blocks.cuh"
#include "cuda.h"
#include "workspace.h"

constexpr int THREADS = 128, WARPS = THREADS / 32, ROUTE_WARPS = 2, MAX_EXPERTS = 1024, MAX_GROUPS = 64;

/* ---------------------------------------------------------------- moe_route */

/* A row on its way, in shared memory. Where no bias is added the choice goes by the logits: probabilities would make equals of
 * what rounds or saturates to one value. */
struct route_row {
    float p[MAX_EXPERTS], choice[MAX_EXPERTS], score[MAX_GROUPS];
    int32_t ids[MAX_EXPERTS];
    bool taken[MAX_EXPERTS], kept[MAX_GROUPS];
};

/* Whether x is to be preferred: NaN loses, equals do not win. */
DV_DEV bool better(float x, float than)
{
    return x > than || (x == x && than != than);
}

/* The best of values[first, end) that is not taken, of equals the first, in every lane; -1 if all are. */
DV_DEV int best_of(const float *values, const bool *taken, int first, int end)
{
    int best = -1;
    for (int i = first + (int)threadIdx.x % 32; i < end; i += 32)
        if (!taken[i] && (best < 0 || better(values[i], values[best]))) best = i;
    for (int bits = 16; bits > 0; bits /= 2) {
        const int other = __shfl_xor_sync(ALL_LANES, best, bits);
        if (other < 0) continue;
        const bool wins = best < 0 || better(values[other], values[best]);
        if (wins || (!better(values[best], values[other]) && other < best)) best = other;
    }
    return best;
}

DV_DEV void take(bool *taken, int i, bool value)
{
    __syncwarp(); /* all have looked */
    if (threadIdx.x % 32 == 0) taken[i] = value;
    __syncwarp();
}

DV_DEV void load_probabilities(const seqmix_route_args &a, int64_t r, route_row &row)
{
    const int lane = (int)threadIdx.x % 32, experts = (int)a.logits.shape[1];
    __syncwarp(); /* the row before is done with */
    for (int e = lane; e < experts; e += 32) {
        row.choice[e] = get(a.logits, r * a.logits.stride[0] + e);
        row.taken[e] = false;
    }
    __syncwarp();
    const int best = best_of(row.choice, row.taken, 0, experts);
    const float top = best < 0 ? 0 : row.choice[best];
    float sum = 0;
    __syncwarp();
    for (int e = lane; e < experts; e += 32) {
        row.p[e] = a.kind == SEQMIX_ROUTE_SIGMOID ? sigmoid(row.choice[e]) : expf(row.choice[e] - top);
        sum += row.p[e];
    }
    sum = sum_lanes(sum);
    for (int e = lane; e < experts; e += 32) {
        if (a.kind == SEQMIX_ROUTE_SOFTMAX) row.p[e] /= sum;
        if (present(a.bias)) row.choice[e] = row.p[e] + get(a.bias, e * a.bias.stride[0]);
    }
    __syncwarp();
}

DV_DEV float group_score(const seqmix_route_args &a, int first, int size, route_row &row)
{
    const int best = best_of(row.choice, row.taken, first, first + size);
    if (a.kind == SEQMIX_ROUTE_SOFTMAX) return row.choice[best];
    const float bias = get_or(a.bias, best * a.bias.stride[0], 0);
    if (size == 1) return row.p[best] + bias;
    take(row.taken, best, true);
    const int second = best_of(row.choice, row.taken, first, first + size);
    take(row.taken, best, false);
    return (row.p[best] + bias) + (row.p[second] + get_or(a.bias, second * a.bias.stride[0], 0));
}

/* Takes the experts of every group that is not among the best out of the choice. */
DV_DEV void keep_groups(const seqmix_route_args &a, route_row &row)
{
    const int lane = (int)threadIdx.x % 32, groups = a.n_group != 0 ? a.n_group : 1;
    const int size = (int)a.logits.shape[1] / groups, keep = a.topk_group != 0 ? a.topk_group : groups;
    if (keep == groups || size == 0) return;
    for (int g = 0; g < groups; g++) {
        const float score = group_score(a, g * size, size, row);
        if (lane == 0) row.score[g] = score;
        if (lane == 0) row.kept[g] = false;
    }
    __syncwarp();
    for (int i = 0; i < keep; i++)
        take(row.kept, best_of(row.score, row.kept, 0, groups), true);
    for (int e = lane; e < groups * size; e += 32)
        row.taken[e] = !row.kept[e / size];
    __syncwarp();
}

static __global__ void route_kernel(seqmix_route_args a)
{
    DV_SHARED(route_row, of_warp, [ROUTE_WARPS]);
    const int lane = (int)threadIdx.x % 32, top_k = (int)a.ids.shape[1];
    route_row &row = of_warp[threadIdx.x / 32];
    for (int64_t r = blockIdx.x * (int64_t)ROUTE_WARPS + threadIdx.x / 32; r < a.logits.shape[0];
         r += gridDim.x * (int64_t)ROUTE_WARPS) {
        load_probabilities(a, r, row);
        keep_groups(a, row);
        float sum = 0;
        for (int k = 0; k < top_k; k++) {
            const int best = best_of(row.choice, row.taken, 0, (int)a.logits.shape[1]);
            sum += row.p[best];
            if (lane == 0) row.ids[k] = best;
            take(row.taken, best, true);
        }
        const float scale = a.scale != 0 ? a.scale : 1;
        for (int k = lane; k < top_k; k += 32) {
            const float p = row.p[row.ids[k]];
            static_cast<int32_t *>(a.ids.data)[r * a.ids.stride[0] + k] = row.ids[k];
            put(a.weights, r * a.weights.stride[0] + k, (a.renormalise != 0 ? p / sum : p) * scale);
        }
    }
}

extern "C" int seqmix_route__cuda_simple(const seqmix_route_args *a, void *, void *stream)
{
    const int64_t rows = a->logits.shape[0];
    if (rows == 0) return cudaSuccess;
    return dv_launch(route_kernel, blocks_for((rows + ROUTE_WARPS - 1) / ROUTE_WARPS), dim3(32 * ROUTE_WARPS), 0,
                     static_cast<cudaStream_t>(stream), *a);
}

/* ---------------------------------------------------------------- moe_experts */

DV_DEV int32_t expert_of(const seqmix_moe_args &a, int64_t r, int64_t k)
{
    return static_cast<const int32_t *>(a.ids.data)[r * a.ids.stride[0] + k];
}

DV_DEV bool is_expert(const seqmix_moe_args &a, int32_t e)
{
    return e >= 0 && e < a.up.shape[0];
}

/* order[r, n]: the choice whose expert is the n-th in ascending order. */
static __global__ void order_kernel(seqmix_moe_args a, int32_t *order)
{
    const int64_t top_k = a.ids.shape[1], n_tasks = a.ids.shape[0] * top_k;
    for (int64_t task = blockIdx.x * (int64_t)THREADS + threadIdx.x; task < n_tasks;
         task += gridDim.x * (int64_t)THREADS) {
        const int64_t r = task / top_k, k = task % top_k;
        const int32_t e = expert_of(a, r, k);
        int64_t before = 0;
        for (int64_t j = 0; j < top_k; j++) {
            const int32_t other = expert_of(a, r, j);
            before += other < e || (other == e && j < k);
        }
        order[r * top_k + before] = (int32_t)k;
    }
}

static __global__ void inner_kernel(seqmix_moe_args a, float *inner)
{
    const int64_t top_k = a.ids.shape[1], width = a.up.shape[1], inputs = a.x.shape[1];
    const int64_t n_tasks = a.x.shape[0] * top_k * width;
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        const int64_t f = task % width, r = task / width / top_k, x = r * a.x.stride[0];
        const int32_t e = expert_of(a, r, task / width % top_k);
        if (!is_expert(a, e)) continue;
        const float up = dot_lanes(a.x, x, a.up, e * a.up.stride[0] + f * a.up.stride[1], inputs);
        float gate = up;
        if (present(a.gate)) gate = dot_lanes(a.x, x, a.gate, e * a.gate.stride[0] + f * a.gate.stride[1], inputs);
        if (threadIdx.x % 32 == 0) inner[task] = activation(a.activation, gate, up);
    }
}

static __global__ void outputs_kernel(seqmix_moe_args a, const int32_t *order, float *inner)
{
    const int64_t top_k = a.ids.shape[1], outputs = a.y.shape[1], width = a.up.shape[1];
    const int64_t n_tasks = a.y.shape[0] * outputs;
    const seqmix_tensor from = {inner, SEQMIX_F32, 1, {}, {}};
    for (int64_t task = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; task < n_tasks;
         task += gridDim.x * (int64_t)WARPS) {
        const int64_t r = task / outputs, o = task % outputs, at = r * a.y.stride[0] + o;
        float sum = a.accumulate != 0 ? get(a.y, at) : 0;
        __syncwarp(); /* all have read it */
        for (int64_t n = 0; n < top_k; n++) {
            const int64_t k = order[r * top_k + n];
            const int32_t e = expert_of(a, r, k);
            if (!is_expert(a, e)) continue;
            const float out =
                dot_lanes(from, (r * top_k + k) * width, a.down, e * a.down.stride[0] + o * a.down.stride[1], width);
            sum += get(a.weights, r * a.weights.stride[0] + k) * out;
        }
        if (threadIdx.x % 32 == 0) put(a.y, at, sum);
    }
}

struct moe_memory {
    float *inner;   /* [R,K,F] */
    int32_t *order; /* [R,K] */
};

static moe_memory lay_out(const seqmix_moe_args *a, seqmix_cursor *cursor)
{
    const size_t choices = (size_t)a->ids.shape[0] * (size_t)a->ids.shape[1];
    moe_memory m;
    m.inner = static_cast<float *>(seqmix_take(cursor, choices * (size_t)a->up.shape[1] * sizeof(float)));
    m.order = static_cast<int32_t *>(seqmix_take(cursor, choices * sizeof(int32_t)));
    return m;
}

extern "C" size_t seqmix_moe_workspace__cuda_simple(const seqmix_moe_args *a)
{
    seqmix_cursor cursor = {nullptr, 0};
    (void)lay_out(a, &cursor);
    return cursor.used;
}

extern "C" int seqmix_moe__cuda_simple(const seqmix_moe_args *a, void *workspace, void *on)
{
    seqmix_cursor cursor = {static_cast<char *>(workspace), 0};
    const moe_memory m = lay_out(a, &cursor);
    const cudaStream_t stream = static_cast<cudaStream_t>(on);
    const int64_t choices = a->ids.shape[0] * a->ids.shape[1], numbers = choices * a->up.shape[1];
    const int64_t n_outputs = a->y.shape[0] * a->y.shape[1];
    cudaError_t error = cudaSuccess;
    if (n_outputs == 0) return error;
    if (choices > 0)
        error = dv_launch(order_kernel, blocks_for((choices + THREADS - 1) / THREADS), dim3(THREADS), 0, stream, *a,
                          m.order);
    if (error == cudaSuccess && numbers > 0)
        error =
            dv_launch(inner_kernel, blocks_for((numbers + WARPS - 1) / WARPS), dim3(THREADS), 0, stream, *a, m.inner);
    if (error != cudaSuccess) return error;
    return dv_launch(outputs_kernel, blocks_for((n_outputs + WARPS - 1) / WARPS), dim3(THREADS), 0, stream, *a,
                     static_cast<const int32_t *>(m.order), m.inner);
}
