/* SPDX-License-Identifier: MIT */
/* Generator of the experimental act_rows: R rows, D channels. */
#include "harness.h"

enum { KINDS = 4 };

static const struct field fields[] = {
    {"a", offsetof(seqmix_act_args, a), ROLE_IN, FIELD_ROWS, 1},
    {"b", offsetof(seqmix_act_args, b), ROLE_IN, FIELD_ROWS, 1},
    {"y", offsetof(seqmix_act_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 60, 300}, FORM_ROWS},
    {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_KINDS, BOUND_ORDINARY, {8, 8, 8}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {4, 16, 40}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
    {CLASS_EXTREME, BOUND_ORDINARY, {4, 16, 60}, FORM_ROWS},
};

static void build(struct call *call, struct draw *draw)
{
    seqmix_act_args *args = &call->args.act_rows;
    int64_t rest = draw->variant;
    args->kind = (int32_t)check_digit(draw, &rest, KINDS);
    const bool binary = args->kind == SEQMIX_ACT_ROWS_SILU_MUL || args->kind == SEQMIX_ACT_ROWS_SIGMOID_MUL;
    const int64_t R = draw->rows, D = CHECK_PICK(&draw->rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 151);
    const bool one = check_digit(draw, &rest, 2) != 0 && binary && draw->name != CLASS_IN_PLACE;
    CHECK_DECLARE(call, "a", call->x, R, one ? 1 : D);
    if (binary) CHECK_DECLARE(call, "b", call->x, R, D);
    CHECK_DECLARE(call, "y", call->x, R, D);
    if (draw->name == CLASS_IN_PLACE) call->alias[2] = binary ? (int)(draw->variant % 2) : 0;
    check_place(call, draw);
    check_fill_gauss(call, draw, "a", 0, 2);
    check_fill_gauss(call, draw, "b", 0, 1);
    if (draw->name == CLASS_EXTREME) check_fill_extreme(call, draw, "a");
}

const struct family check_act = {
    .name = "act",
    .value = "b",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
