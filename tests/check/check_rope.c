/* SPDX-License-Identifier: MIT */
/* Generator of the experimental rope_rows: R rows, H heads, D channels of which some turn, positions up to 2^20. */
#include "harness.h"

static const struct field fields[] = {
    {"x", offsetof(seqmix_rope_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"y", offsetof(seqmix_rope_args, y), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 60, 300}, FORM_ROWS},
    {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 8, 20}, FORM_ROWS},
    {CLASS_KINDS, BOUND_ORDINARY, {8, 16, 16}, FORM_ROWS},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_ROWS},
    {CLASS_IN_PLACE, BOUND_ORDINARY, {4, 16, 40}, FORM_ROWS},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},
    {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_ROWS},
    {CLASS_LONG, BOUND_ORDINARY, {4, 16, 40}, FORM_ROWS},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
};

static void build(struct call *call, struct draw *draw)
{
    struct rng *rng = &draw->rng;
    seqmix_rope_args *args = &call->args.rope_rows;
    const bool big = draw->name == CLASS_SIZES;
    int64_t rest = draw->variant;
    const int64_t R = draw->rows, H = CHECK_PICK(rng, 1, 2, 3, 8);
    const int64_t D = big ? CHECK_PICK(rng, 128, 256) : 2 * CHECK_PICK(rng, 1, 2, 3, 7, 8, 9, 16, 31, 32, 40);
    static const float bases[4] = {1e4f, 1e6f, 1e7f, 2.5f};
    args->pairing = (int32_t)check_digit(draw, &rest, 2);
    args->theta = bases[check_digit(draw, &rest, 4)];
    args->freq_scale = check_digit(draw, &rest, 2) != 0 ? 0.25f : 0;
    args->n_dims = check_chance(rng, 0.5) ? 0 : (int32_t)(2 * (1 + check_below(rng, D / 2)));
    const int64_t last = draw->name == CLASS_LONG ? 1 << 20 : CHECK_PICK(rng, 4, 1000, 262144);
    for (int64_t i = 0; i < R; i++)
        call->ints[i] = (int32_t)(draw->name == CLASS_LONG ? last - check_below(rng, 1000) : check_below(rng, last));
    CHECK_DECLARE(call, "x", call->x, R, H, D);
    CHECK_DECLARE(call, "y", call->x, R, H, D);
    if (draw->name == CLASS_IN_PLACE) call->alias[1] = 0;
    check_place(call, draw);
    check_fill_gauss(call, draw, "x", 0, 1);
}

const struct family check_rope = {
    .name = "rope",
    .ints_offset = offsetof(seqmix_rope_args, positions),
    .value = "x",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
