/* SPDX-License-Identifier: MIT */
/* Generators of the experimental moe_route (R rows, E experts, K chosen) and moe_experts (D inputs, F inner, O outputs). */
#include <math.h>

#include "harness.h"

/* ---------------------------------------------------------------- moe_route */

static const struct field route_fields[] = {
    {"logits", offsetof(seqmix_route_args, logits), ROLE_IN, FIELD_ROWS, 1},
    {"bias", offsetof(seqmix_route_args, bias), ROLE_IN, FIELD_PARAM, 1},
    {"ids", offsetof(seqmix_route_args, ids), ROLE_OUT, FIELD_ROWS | FIELD_EXACT, 1},
    {"weights", offsetof(seqmix_route_args, weights), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use route_classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 80, 400}, FORM_ROWS},     {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {4, 16, 40}, FORM_ROWS},      {CLASS_KINDS, BOUND_ORDINARY, {12, 48, 48}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {4, 32, 32}, FORM_ROWS},     {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},     {CLASS_EXTREME, BOUND_ORDINARY, {4, 16, 60}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
};

static void build_route(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_route_args *args = &call->args.moe_route;
    int64_t rest = draw->variant;
    args->kind = (int32_t)check_digit(draw, &rest, 2);
    args->renormalise = (int32_t)check_digit(draw, &rest, 2);
    if (draw->name == CLASS_EXTREME) args->renormalise = 0; /* sigmoids that underflow have no ratio */
    args->scale = check_digit(draw, &rest, 2) != 0 ? 2.5f : 0;
    const int64_t groups = (int64_t[]){1, 2, 8}[check_digit(draw, &rest, 3)];
    const bool biased = check_digit(draw, &rest, 2) != 0 && args->kind == SEQMIX_ROUTE_SIGMOID;
    const int64_t size = draw->name == CLASS_SIZES ? CHECK_PICK(rng, 64, 128) : CHECK_PICK(rng, 1, 2, 3, 8, 16);
    args->n_group = (int32_t)(groups == 1 && check_chance(rng, 0.5) ? 0 : groups);
    args->topk_group = check_chance(rng, 0.3) ? 0 : (int32_t)(1 + check_below(rng, groups));
    const int64_t E = groups * size, most = (args->topk_group != 0 ? args->topk_group : groups) * size;
    const int64_t R = draw->rows, K = 1 + check_below(rng, most < 10 ? most : 10);
    CHECK_DECLARE(call, "logits", SEQMIX_F32, R, E);
    if (biased) CHECK_DECLARE(call, "bias", SEQMIX_F32, E);
    CHECK_DECLARE(call, "ids", SEQMIX_I32, R, K);
    CHECK_DECLARE(call, "weights", SEQMIX_F32, R, K);
    check_place(call, draw);
    check_fill_gauss(call, draw, "logits", 0, 2);
    check_fill_gauss(call, draw, "bias", 0, 0.3);
    if (draw->name == CLASS_EXTREME) check_fill_extreme(call, draw, "logits");
}

const struct family check_route = {
    .name = "route",
    .value = "logits",
    .fields = route_fields,
    .n_fields = sizeof route_fields / sizeof route_fields[0],
    .classes = route_classes,
    .n_classes = sizeof route_classes / sizeof route_classes[0],
    .build = build_route,
};

/* ---------------------------------------------------------------- moe_experts */

static const struct field moe_fields[] = {
    {"x", offsetof(seqmix_moe_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"ids", offsetof(seqmix_moe_args, ids), ROLE_IN, FIELD_ROWS, 1},
    {"weights", offsetof(seqmix_moe_args, weights), ROLE_IN, FIELD_ROWS, 1},
    {"gate", offsetof(seqmix_moe_args, gate), ROLE_IN, 0, 1},
    {"up", offsetof(seqmix_moe_args, up), ROLE_IN, 0, 1},
    {"down", offsetof(seqmix_moe_args, down), ROLE_IN, 0, 1},
    {"y", offsetof(seqmix_moe_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use moe_classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 60, 300}, FORM_ROWS},     {CLASS_ROWS, BOUND_ORDINARY, {3, 20, 60}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {1, 4, 8}, FORM_ROWS},        {CLASS_KINDS, BOUND_ORDINARY, {6, 18, 18}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},     {CLASS_PARAMS, BOUND_ORDINARY, {4, 12, 12}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},         {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
};

/* Different experts in every row; E is odd or a power of two. */
static void choose(struct call *call, struct draw *draw, int64_t E)
{
    const seqmix_tensor *ids = check_named(call, "ids");
    for (int64_t r = 0; r < ids->shape[0]; r++) {
        const int64_t first = check_below(&draw->rng, E), step = E % 2 == 0 ? 1 + 2 * check_below(&draw->rng, E) : 1;
        for (int64_t k = 0; k < ids->shape[1]; k++)
            check_put(ids, r * ids->stride[0] + k, (double)((first + k * step) % E));
    }
}

static void build_moe(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_moe_args *args = &call->args.moe_experts;
    const bool big = draw->name == CLASS_SIZES, property = draw->name >= CLASS_FIRST_PROPERTY;
    int64_t rest = draw->variant;
    args->activation = (int32_t)check_digit(draw, &rest, 3);
    args->accumulate = (int32_t)check_digit(draw, &rest, 2);
    args->invariant = property ? 1 : (int32_t)check_below(rng, 2);
    const int64_t R = draw->rows < 200 ? draw->rows : 200, E = big ? 16 : CHECK_PICK(rng, 1, 2, 4, 5, 9);
    const int64_t D = big ? 160 : CHECK_PICK(rng, 1, 3, 8, 17, 32, 65), F = big ? 96 : CHECK_PICK(rng, 1, 7, 16, 33);
    const int64_t O = check_chance(rng, 0.5) ? D : CHECK_PICK(rng, 1, 9, 40), K = 1 + check_below(rng, E < 8 ? E : 8);
    const seqmix_dtype y = check_chance(rng, 0.5) ? call->x : SEQMIX_F32;
    CHECK_DECLARE(call, "x", call->x, R, D);
    CHECK_DECLARE(call, "ids", SEQMIX_I32, R, K);
    CHECK_DECLARE(call, "weights", SEQMIX_F32, R, K);
    if (args->activation == SEQMIX_ACT_ROWS_SILU_MUL)
        CHECK_DECLARE(call, "gate", (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3), E, F, D);
    CHECK_DECLARE(call, "up", (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3), E, F, D);
    CHECK_DECLARE(call, "down", (seqmix_dtype)CHECK_PICK(rng, 1, 2, 3), E, O, F);
    CHECK_DECLARE(call, "y", y, R, O);
    check_place(call, draw);
    check_fill_gauss(call, draw, "x", 0, 1);
    choose(call, draw, E);
    check_fill_uniform(call, draw, "weights", 0.1, 1);
    check_fill_gauss(call, draw, "gate", 0, 1 / sqrt((double)D));
    check_fill_gauss(call, draw, "up", 0, 1 / sqrt((double)D));
    check_fill_gauss(call, draw, "down", 0, 1 / sqrt((double)F));
    if (args->accumulate != 0) check_fill_gauss(call, draw, "y", 0, 1);
}

const struct family check_moe = {
    .name = "moe",
    .value = "x",
    .fields = moe_fields,
    .n_fields = sizeof moe_fields / sizeof moe_fields[0],
    .classes = moe_classes,
    .n_classes = sizeof moe_classes / sizeof moe_classes[0],
    .build = build_moe,
};
