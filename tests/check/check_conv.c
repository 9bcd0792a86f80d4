/* SPDX-License-Identifier: MIT */
/* Generator of short_conv_rows and short_conv_step. R rows, D channels, K width. */
#include "harness.h"

static const struct field fields[] = {
    {"x", offsetof(seqmix_conv_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"weight", offsetof(seqmix_conv_args, weight), ROLE_IN, FIELD_PARAM, 1},
    {"bias", offsetof(seqmix_conv_args, bias), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"state", offsetof(seqmix_conv_args, state), ROLE_POOL, FIELD_ANY_ORDER | FIELD_EXACT, 1},
    {"y", offsetof(seqmix_conv_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {6, 60, 400}, FORM_BOTH},     {CLASS_ROWS, BOUND_ORDINARY, {6, 40, 131}, FORM_BOTH},
    {CLASS_SIZES, BOUND_ORDINARY, {1, 4, 16}, FORM_BOTH},       {CLASS_OPTIONAL, BOUND_ORDINARY, {4, 4, 4}, FORM_BOTH},
    {CLASS_KINDS, BOUND_ORDINARY, {4, 32, 32}, FORM_BOTH},      {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_BOTH},
    {CLASS_PARAMS, BOUND_ORDINARY, {2, 4, 4}, FORM_BOTH},       {CLASS_POOL, BOUND_ORDINARY, {3, 12, 12}, FORM_BOTH},
    {CLASS_BATCH, BOUND_ORDINARY, {9, 40, 180}, FORM_BOTH},     {CLASS_IN_PLACE, BOUND_ORDINARY, {2, 8, 40}, FORM_STEP},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_BOTH},         {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_BOTH},
    {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_BOTH},     {CLASS_EXTREME, BOUND_ORDINARY, {1, 4, 16}, FORM_BOTH},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {4, 18, 90}, FORM_BOTH},
};

static void build(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_conv_args *args = &call->args.short_conv_rows;
    const seqmix_dtype x = call->x;
    const bool big = draw->name == CLASS_SIZES;
    int64_t rest = draw->variant;
    const int64_t R = draw->rows;
    int64_t D =
        big ? CHECK_PICK(rng, 256, 384, 1024, 1134) : CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 129);
    if (R * D < 48 && R > 0) D += 48 / R;
    args->activation = (int32_t)check_digit(draw, &rest, 2);
    int64_t K = draw->name == CLASS_KINDS ? 1 + check_digit(draw, &rest, 16)
                : check_chance(rng, 0.5)  ? 4
                                          : 1 + check_below(rng, 16);

    CHECK_DECLARE(call, "x", x, R, D);
    CHECK_DECLARE(call, "weight", check_param_dtype(draw, 0, x), D, K);
    if (!check_absent(draw, 0)) CHECK_DECLARE(call, "bias", check_param_dtype(draw, 1, x), D);
    if (draw->pool) CHECK_DECLARE(call, "state", draw->pool_dtype == SEQMIX_F32 ? SEQMIX_F32 : x, 0, D, K - 1);
    CHECK_DECLARE(call, "y", x, R, D);
    if (draw->name == CLASS_IN_PLACE) call->alias[4] = 0;
    check_place(call, draw);

    check_fill_gauss(call, draw, "x", 0, 1);
    check_fill_gauss(call, draw, "weight", 0, 0.5);
    check_fill_gauss(call, draw, "bias", 0, 0.5);
    check_fill_pool(call, draw, 1);
    if (draw->name == CLASS_EXTREME) check_fill_extreme(call, draw, "x");
}

const struct family check_conv = {
    .name = "conv",
    .batch_offset = offsetof(seqmix_conv_args, batch),
    .value = "x",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
