/* SPDX-License-Identifier: MIT */
/*
 * Mixture of experts. moe_route: softmax or sigmoid of the logits, the best groups, then the best experts, one after the other.
 * Task: one row. moe_experts: y (+)= sum_k weights[k] * down[e] * act(up[e] x), row by row, its products those of linear, its
 * experts in ascending order.
 */
#include "ref.h"

enum { MAX_EXPERTS = 1024, MAX_GROUPS = 64 };

/* One row on its way: probabilities, what the choice goes by, and what is no longer to be had. Where no bias is added the choice
 * goes by the logits: probabilities would make equals of what rounds or saturates to one value. */
struct route {
    real p[MAX_EXPERTS], choice[MAX_EXPERTS];
    bool taken[MAX_EXPERTS];
};

/* Whether x is to be preferred: NaN loses, equals do not win. */
static bool better(real x, real than)
{
    return x > than || (x == x && than != than);
}

/* What an expert's probability is once its bias is added, if there is one: an f32 in the oracle too, for what decides between
 * equals in f32 is the index. */
static real biased(const seqmix_route_args *a, const struct route *route, int64_t e)
{
    return (real)((float)route->p[e] + (float)ref_get_or(&a->bias, e * a->bias.stride[0], 0));
}

static void load_probabilities(const seqmix_route_args *a, int64_t row, struct route *route)
{
    const int64_t n = a->logits.shape[1];
    real top = 0, sum = 0;
    for (int64_t e = 0; e < n; e++) {
        route->choice[e] = ref_get(&a->logits, row * a->logits.stride[0] + e);
        if (e == 0 || better(route->choice[e], top)) top = route->choice[e];
        route->taken[e] = false;
    }
    for (int64_t e = 0; e < n; e++) {
        const real logit = route->choice[e];
        route->p[e] = a->kind == SEQMIX_ROUTE_SIGMOID ? ref_sigmoid(logit) : ref_exp(logit - top);
        sum += route->p[e];
    }
    for (int64_t e = 0; e < n; e++) {
        if (a->kind == SEQMIX_ROUTE_SOFTMAX) route->p[e] /= sum;
        if (seqmix_present(&a->bias)) route->choice[e] = biased(a, route, e);
    }
}

/* The best expert of [first, end) that is not taken, -1 if there is none. */
static int64_t best_expert(const struct route *route, int64_t first, int64_t end)
{
    int64_t best = -1;
    for (int64_t e = first; e < end; e++)
        if (!route->taken[e] && (best < 0 || better(route->choice[e], route->choice[best]))) best = e;
    return best;
}

static real group_score(const seqmix_route_args *a, struct route *route, int64_t first, int64_t size)
{
    const int64_t best = best_expert(route, first, first + size);
    if (a->kind == SEQMIX_ROUTE_SOFTMAX) return route->choice[best];
    if (size == 1) return biased(a, route, best);
    route->taken[best] = true;
    const int64_t second = best_expert(route, first, first + size);
    route->taken[best] = false;
    return (real)((float)biased(a, route, best) + (float)biased(a, route, second));
}

/* Takes the experts of every group that is not among the best out of the choice. */
static void keep_groups(const seqmix_route_args *a, struct route *route)
{
    const int64_t groups = a->n_group != 0 ? a->n_group : 1, size = a->logits.shape[1] / groups;
    const int64_t keep = a->topk_group != 0 ? a->topk_group : groups;
    real scores[MAX_GROUPS];
    bool kept[MAX_GROUPS] = {false};
    if (keep == groups) return;
    for (int64_t g = 0; g < groups; g++)
        scores[g] = group_score(a, route, g * size, size);
    for (int64_t i = 0; i < keep; i++) {
        int64_t best = -1;
        for (int64_t g = 0; g < groups; g++)
            if (!kept[g] && (best < 0 || better(scores[g], scores[best]))) best = g;
        kept[best] = true;
    }
    for (int64_t e = 0; e < groups * size; e++)
        route->taken[e] = !kept[e / size];
}

static void route_task(void *arg, int64_t row, int32_t worker)
{
    const seqmix_route_args *a = arg;
    const int64_t top_k = a->ids.shape[1];
    struct route route;
    real sum = 0;
    (void)worker;
    load_probabilities(a, row, &route);
    keep_groups(a, &route);
    int64_t chosen[MAX_EXPERTS];
    for (int64_t k = 0; k < top_k; k++) {
        chosen[k] = best_expert(&route, 0, a->logits.shape[1]);
        route.taken[chosen[k]] = true;
        sum += route.p[chosen[k]];
    }
    const real scale = a->scale != 0 ? (real)a->scale : 1;
    for (int64_t k = 0; k < top_k; k++) {
        ref_put_int(&a->ids, row * a->ids.stride[0] + k, (int32_t)chosen[k]);
        const real weight = a->renormalise != 0 ? route.p[chosen[k]] / sum : route.p[chosen[k]];
        ref_put(&a->weights, row * a->weights.stride[0] + k, weight * scale);
    }
}

seqmix_status REF(moe_route_plan)(const struct seqmix_context *ctx, const seqmix_route_args *args,
                                  struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    return ref_plan(plan, REF_RUNG "/moe_route", 0);
}

seqmix_status REF(moe_route)(struct seqmix_context *ctx, const seqmix_route_args *args, void *workspace)
{
    seqmix_route_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->logits.shape[0], route_task, &copy);
}

/* ---------------------------------------------------------------- the experts */

#ifdef SEQMIX_REF64
enum { REAL_DTYPE = SEQMIX_F64_INTERNAL };
#else
enum { REAL_DTYPE = SEQMIX_F32 };
#endif

/* What one expert makes of one row, in the workspace. */
struct buffers {
    real *gate, *up, *out, *sum;
};

static void layout(const seqmix_moe_args *a, struct buffers *buffers, struct seqmix_cursor *cursor)
{
    const size_t inner = (size_t)a->up.shape[1], outputs = (size_t)a->down.shape[1];
    buffers->gate = seqmix_take(cursor, inner * sizeof(real));
    buffers->up = seqmix_take(cursor, inner * sizeof(real));
    buffers->out = seqmix_take(cursor, outputs * sizeof(real));
    buffers->sum = seqmix_take(cursor, outputs * sizeof(real));
}

static seqmix_tensor row_of(real *data, int64_t n)
{
    return (seqmix_tensor){.data = data, .dtype = REAL_DTYPE, .rank = 2, .shape = {1, n}, .stride = {n, 1}};
}

static seqmix_status multiply(struct seqmix_context *ctx, const seqmix_tensor *weights, int64_t expert,
                              const seqmix_tensor *x, real *out)
{
    const seqmix_linear_args args = {.struct_size = sizeof args,
                                     .x = *x,
                                     .weight = seqmix_matrix(weights, expert),
                                     .y = row_of(out, weights->shape[1])};
    return REF(linear)(ctx, &args, NULL);
}

/* out = down[e] * act(up[e] * x). */
static seqmix_status run_expert(struct seqmix_context *ctx, const seqmix_moe_args *a, int64_t expert,
                                const seqmix_tensor *x, const struct buffers *buffers)
{
    const int64_t inner = a->up.shape[1];
    const seqmix_tensor up = row_of(buffers->up, inner), gate = row_of(buffers->gate, inner);
    const bool gated = seqmix_present(&a->gate);
    seqmix_act_args act = {.struct_size = sizeof act, .kind = a->activation, .a = gated ? gate : up, .y = up};
    if (gated) act.b = up;
    seqmix_status status = multiply(ctx, &a->up, expert, x, buffers->up);
    if (status == SEQMIX_OK && gated) status = multiply(ctx, &a->gate, expert, x, buffers->gate);
    if (status == SEQMIX_OK) status = REF(act_rows)(ctx, &act, NULL);
    return status == SEQMIX_OK ? multiply(ctx, &a->down, expert, &up, buffers->out) : status;
}

seqmix_status REF(moe_experts_plan)(const struct seqmix_context *ctx, const seqmix_moe_args *args,
                                    struct seqmix_plan *plan)
{
    struct buffers buffers;
    struct seqmix_cursor cursor = {NULL, 0};
    (void)ctx;
    layout(args, &buffers, &cursor);
    return ref_plan(plan, REF_RUNG "/moe_experts", cursor.used);
}

seqmix_status REF(moe_experts)(struct seqmix_context *ctx, const seqmix_moe_args *args, void *workspace)
{
    struct buffers buffers;
    struct seqmix_cursor cursor = {workspace, 0};
    const int64_t outputs = args->y.shape[1], experts = args->up.shape[0];
    layout(args, &buffers, &cursor);
    for (int64_t r = 0; r < args->x.shape[0]; r++) {
        seqmix_tensor x = args->x;
        x.shape[0] = 1;
        if (x.data != NULL) x.data = (char *)x.data + (size_t)(r * x.stride[0]) * seqmix_dtype_size(x.dtype);
        for (int64_t o = 0; o < outputs; o++)
            buffers.sum[o] = args->accumulate != 0 ? ref_get(&args->y, r * args->y.stride[0] + o) : 0;
        for (int64_t e = 0; e < experts; e++)
            for (int64_t k = 0; k < args->ids.shape[1]; k++) {
                if (((const int32_t *)args->ids.data)[r * args->ids.stride[0] + k] != e) continue;
                const seqmix_status status = run_expert(ctx, args, e, &x, &buffers);
                if (status != SEQMIX_OK) return status;
                const real weight = ref_get(&args->weights, r * args->weights.stride[0] + k);
                for (int64_t o = 0; o < outputs; o++)
                    buffers.sum[o] += weight * buffers.out[o];
            }
        for (int64_t o = 0; o < outputs; o++)
            ref_put(&args->y, r * args->y.stride[0] + o, buffers.sum[o]);
    }
    return SEQMIX_OK;
}
