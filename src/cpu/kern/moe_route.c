/* SPDX-License-Identifier: MIT */
/*
 * Choice of experts (equations: seqmix.h). Where no bias is added the logits themselves are compared: probabilities would make
 * equals of what rounds or saturates to one value. Task: one row.
 */
#include "../vec/vec_math.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"

#include <math.h>

struct route {
    float p[TUNE_MAX_EXPERTS], choice[TUNE_MAX_EXPERTS], bias[TUNE_MAX_EXPERTS];
    bool taken[TUNE_MAX_EXPERTS];
};

/* Whether x is to be preferred: NaN loses, equals do not win. */
static bool better(float x, float than)
{
    return x > than || (x == x && than != than);
}

static void load_probabilities(const seqmix_route_args *a, int64_t row, struct route *route)
{
    const int64_t n = a->logits.shape[1];
    const bool softmax = a->kind == SEQMIX_ROUTE_SOFTMAX, biased = seqmix_present(&a->bias);
    float top = -INFINITY;
    vf sum = v_zero();
    row_load(&a->logits, row * a->logits.stride[0], n, route->choice);
    vector_load(&a->bias, 0, a->bias.stride[0], n, 0, route->bias);
    for (int64_t e = 0; e < n; e++) {
        top = route->choice[e] > top ? route->choice[e] : top;
        route->taken[e] = false;
    }
    for (int64_t e = 0; e < n; e += V_LANES) {
        const int lanes = lanes_left(n, e);
        const vf logit = v_load_n(route->choice + e, lanes);
        vf p = softmax ? v_exp_neg(v_sub(logit, v_set1(top))) : v_sigmoid(logit);
        p = v_select(v_mask_first(lanes), p, v_zero());
        sum = v_add(sum, p);
        v_store_n(route->p + e, p, lanes);
    }
    const float total = v_sum(sum);
    for (int64_t e = 0; e < n; e++) {
        if (softmax) route->p[e] /= total;
        if (biased) route->choice[e] = route->p[e] + route->bias[e];
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

static float group_score(const seqmix_route_args *a, struct route *route, int64_t first, int64_t size)
{
    const int64_t best = best_expert(route, first, first + size);
    if (a->kind == SEQMIX_ROUTE_SOFTMAX) return route->choice[best];
    const float score = route->p[best] + route->bias[best];
    if (size == 1) return score;
    route->taken[best] = true;
    const int64_t second = best_expert(route, first, first + size);
    route->taken[best] = false;
    return score + (route->p[second] + route->bias[second]);
}

/* Takes the experts of every group that is not among the best out of the choice. */
static void keep_groups(const seqmix_route_args *a, struct route *route)
{
    const int64_t groups = a->n_group != 0 ? a->n_group : 1, size = a->logits.shape[1] / groups;
    const int64_t keep = a->topk_group != 0 ? a->topk_group : groups;
    float scores[TUNE_MAX_GROUPS];
    bool kept[TUNE_MAX_GROUPS] = {false};
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
    float sum = 0;
    (void)worker;
    if (top_k == 0) return; /* data may be NULL then */
    int32_t *ids = (int32_t *)a->ids.data + row * a->ids.stride[0];
    float *weights = (float *)a->weights.data + row * a->weights.stride[0];
    load_probabilities(a, row, &route);
    keep_groups(a, &route);
    for (int64_t k = 0; k < top_k; k++) {
        const int64_t chosen = best_expert(&route, 0, a->logits.shape[1]);
        route.taken[chosen] = true;
        ids[k] = (int32_t)chosen;
        weights[k] = route.p[chosen];
        sum += weights[k];
    }
    const float scale = a->scale != 0 ? a->scale : 1;
    for (int64_t k = 0; k < top_k; k++)
        weights[k] = (a->renormalise != 0 ? weights[k] / sum : weights[k]) * scale;
}

seqmix_status KERN(moe_route_plan)(const struct seqmix_context *ctx, const seqmix_route_args *args,
                                   struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("moe_route");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(moe_route)(struct seqmix_context *ctx, const seqmix_route_args *args, void *workspace)
{
    seqmix_route_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->logits.shape[0], route_task, &copy);
}
