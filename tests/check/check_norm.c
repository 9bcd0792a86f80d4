/* SPDX-License-Identifier: MIT */
/* Generator of gated_rms_norm_rows. R rows, D channels. */
#include "harness.h"

static const struct field fields[] = {
    {"x", offsetof(seqmix_norm_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"z", offsetof(seqmix_norm_args, z), ROLE_IN, FIELD_ROWS, 1},
    {"weight", offsetof(seqmix_norm_args, weight), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"y", offsetof(seqmix_norm_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 80, 400}, FORM_ROWS},
    {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 16, 16}, FORM_ROWS},
    {CLASS_OPTIONAL, BOUND_ORDINARY, {4, 4, 4}, FORM_ROWS},
    {CLASS_KINDS, BOUND_ORDINARY, {12, 96, 96}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},
    {CLASS_PARAMS, BOUND_ORDINARY, {2, 2, 2}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},
    {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_EXTREME, BOUND_ORDINARY, {2, 6, 24}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
};

static void build(struct call *call, struct draw *draw)
{
    static const int64_t sizes[16] = {1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 151, 1134};
    static const float eps[4] = {1e-6f, 1e-5f, 1e-2f, 0.5f};
    struct rng *rng = &draw->rng;
    seqmix_norm_args *args = &call->args.gated_rms_norm_rows;
    const seqmix_dtype x = call->x;
    int64_t rest = draw->variant;
    args->norm_before_gate = (int32_t)check_digit(draw, &rest, 2);
    args->gate_act = (int32_t)check_digit(draw, &rest, 2);
    args->weight_plus_one = (int32_t)check_digit(draw, &rest, 2);
    const int64_t groups = check_digit(draw, &rest, 3), how_small = check_digit(draw, &rest, 4);
    args->eps = eps[draw->name == CLASS_DENORMAL ? 3 : how_small]; /* a tiny one would amplify roundings of denormals */

    int64_t D = draw->name == CLASS_SIZES ? sizes[draw->variant] : CHECK_PICK(rng, 4, 8, 12, 20, 48, 64, 80, 130, 256);
    int64_t R = draw->rows;
    if (R * D < 48 && R > 0) R += 48 / D;
    int64_t group = groups == 0 || D % 4 != 0 ? 0 : groups == 1 ? D / 2 : D / 4;
    args->group = (int32_t)group;
    if (group == 0) group = D;
    const bool z = !check_absent(draw, 0) || draw->name == CLASS_EXTREME || draw->name == CLASS_IN_PLACE;
    CHECK_DECLARE(call, "x", x, R, D);
    if (z) CHECK_DECLARE(call, "z", x, R, D);
    CHECK_DECLARE(call, "weight", check_param_dtype(draw, 0, x), check_chance(rng, 0.5) ? D : group);
    CHECK_DECLARE(call, "y", x, R, D);
    if (draw->name == CLASS_IN_PLACE) call->alias[3] = (int)(draw->variant % 2);
    check_place(call, draw);

    check_fill_gauss(call, draw, "x", 0, 1);
    check_fill_gauss(call, draw, "z", 0, 1);
    check_fill_gauss(call, draw, "weight", args->weight_plus_one != 0 ? 0 : 1, 0.3);
    if (draw->name == CLASS_EXTREME) check_fill_extreme(call, draw, draw->variant % 2 == 0 ? "z" : "x");
}

const struct family check_norm = {
    .name = "norm",
    .value = "x",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
