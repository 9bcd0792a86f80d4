/* SPDX-License-Identifier: MIT */
/* Generator of the experimental argmax: R rows of V numbers, many of them equal, some NaN or infinite. */
#include <math.h>

#include "harness.h"

static const struct field fields[] = {
    {"x", offsetof(seqmix_argmax_args, x), ROLE_IN, FIELD_ROWS, 1},
    {"index", offsetof(seqmix_argmax_args, index), ROLE_OUT, FIELD_ROWS | FIELD_SCALAR | FIELD_EXACT, 0},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 60, 300}, FORM_ROWS},  {CLASS_ROWS, BOUND_ORDINARY, {4, 40, 131}, FORM_ROWS},
    {CLASS_SIZES, BOUND_ORDINARY, {2, 8, 20}, FORM_ROWS},    {CLASS_LAYOUT, BOUND_ORDINARY, {4, 32, 32}, FORM_ROWS},
    {CLASS_KINDS, BOUND_ORDINARY, {8, 24, 100}, FORM_ROWS},  {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_ROWS},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_ROWS},  {CLASS_NEIGHBOURS, BOUND_ORDINARY, {2, 12, 40}, FORM_ROWS},
    {CLASS_EXTREME, BOUND_ORDINARY, {4, 16, 60}, FORM_ROWS},
};

/* NaN, infinities and equals, down to rows of nothing else. */
static void break_up(struct call *call, struct draw *draw)
{
    const seqmix_tensor *x = check_named(call, "x");
    const double odd[4] = {(double)NAN, (double)-INFINITY, (double)INFINITY, 1};
    for (int64_t r = 0; r < x->shape[0]; r++) {
        const double often = (double)check_below(&draw->rng, 5) / 4;
        const int64_t kinds = 1 + check_below(&draw->rng, 4);
        for (int64_t i = 0; i < x->shape[1]; i++)
            if (check_chance(&draw->rng, often))
                check_put(x, r * x->stride[0] + i, odd[check_below(&draw->rng, kinds)]);
    }
}

static void build(struct call *call, struct draw *draw)
{
    const int64_t R = draw->rows;
    const int64_t V = draw->name == CLASS_SIZES ? CHECK_PICK(&draw->rng, 511, 512, 513, 1024, 5000)
                                                : CHECK_PICK(&draw->rng, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 151);
    CHECK_DECLARE(call, "x", call->x, R, V);
    CHECK_DECLARE(call, "index", SEQMIX_I32, R);
    check_place(call, draw);
    check_fill_gauss(call, draw, "x", draw->variant % 2 == 0 ? 0 : -3, 1);
    if (draw->name == CLASS_EXTREME) check_fill_extreme(call, draw, "x");
    if (draw->name == CLASS_KINDS) break_up(call, draw);
}

const struct family check_argmax = {
    .name = "argmax",
    .value = "x",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
