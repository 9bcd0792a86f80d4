/* SPDX-License-Identifier: MIT */
/* Generator of deltanet_chunk_forward and deltanet_step. R rows, HK/HV key/value heads, DK/DV their dims. */
#include <math.h>

#include "harness.h"

static const struct field fields[] = {
    {"q", offsetof(seqmix_deltanet_args, q), ROLE_IN, FIELD_ROWS | FIELD_BROADCAST, 1},
    {"k", offsetof(seqmix_deltanet_args, k), ROLE_IN, FIELD_ROWS, 1},
    {"v", offsetof(seqmix_deltanet_args, v), ROLE_IN, FIELD_ROWS, 1},
    {"gate", offsetof(seqmix_deltanet_args, gate), ROLE_IN, FIELD_ROWS | FIELD_SCALAR, 1},
    {"beta", offsetof(seqmix_deltanet_args, beta), ROLE_IN, FIELD_ROWS | FIELD_SCALAR | FIELD_BROADCAST, 1},
    {"A", offsetof(seqmix_deltanet_args, A), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"dt_bias", offsetof(seqmix_deltanet_args, dt_bias), ROLE_IN, FIELD_PARAM | FIELD_BROADCAST, 1},
    {"state", offsetof(seqmix_deltanet_args, state), ROLE_POOL, FIELD_ANY_ORDER, 2},
    {"o", offsetof(seqmix_deltanet_args, o), ROLE_OUT, FIELD_ROWS, 1},
};

static const struct class_use classes[] = {
    {CLASS_GAUSS, BOUND_ORDINARY, {8, 80, 400}, FORM_BOTH},
    {CLASS_ROWS, BOUND_ORDINARY, {6, 40, 131}, FORM_BOTH},
    {CLASS_SIZES, BOUND_ORDINARY, {1, 3, 12}, FORM_BOTH},
    {CLASS_OPTIONAL, BOUND_ORDINARY, {8, 8, 8}, FORM_BOTH},
    {CLASS_KINDS, BOUND_ORDINARY, {12, 120, 240}, FORM_BOTH},
    {CLASS_LAYOUT, BOUND_ORDINARY, {6, 32, 32}, FORM_BOTH},
    {CLASS_PARAMS, BOUND_ORDINARY, {3, 8, 8}, FORM_BOTH},
    {CLASS_POOL, BOUND_ORDINARY, {4, 18, 18}, FORM_BOTH},
    {CLASS_BATCH, BOUND_ORDINARY, {9, 40, 180}, FORM_BOTH},
    {CLASS_ZERO, BOUND_ORDINARY, {1, 2, 2}, FORM_BOTH},
    {CLASS_ONE_HOT, BOUND_ORDINARY, {1, 4, 16}, FORM_BOTH},
    {CLASS_DENORMAL, BOUND_ORDINARY, {2, 4, 8}, FORM_BOTH},
    {CLASS_EXTREME, BOUND_ORDINARY, {2, 6, 24}, FORM_BOTH},
    {CLASS_CLAMP, BOUND_ORDINARY, {3, 9, 36}, FORM_BOTH},
    {CLASS_NEIGHBOURS, BOUND_ORDINARY, {4, 18, 90}, FORM_BOTH},
    {CLASS_OVERFLOW, BOUND_ORDINARY, {1, 4, 12}, FORM_BOTH},
    {CLASS_NO_DECAY, BOUND_ORDINARY, {1, 3, 6}, FORM_BOTH},
    {CLASS_POSITIVE_MEAN, BOUND_ORDINARY, {1, 4, 12}, FORM_ROWS},
    {CLASS_HUGE_DECAY, BOUND_HARD, {2, 6, 12}, FORM_BOTH},
    {CLASS_HARD_ROW, BOUND_HARD, {12, 80, 640}, FORM_ROWS},
    {CLASS_LONG, BOUND_HARD, {1, 2, 4}, FORM_ROWS},
    {CLASS_PARALLEL, BOUND_HARD, {2, 8, 16}, FORM_ROWS},
    {CLASS_PARALLEL2, BOUND_HARD2, {2, 8, 16}, FORM_ROWS},
    {CLASS_PARALLEL_LONG, BOUND_HARD, {1, 2, 4}, FORM_ROWS},
    {CLASS_PARALLEL2_LONG, BOUND_HARD2_LONG, {1, 2, 4}, FORM_ROWS},
};

struct delta_shape {
    int64_t R, HK, HV, DK, DV;
    bool per_channel;
};

static bool is_hard(enum check_class name)
{
    return name >= CLASS_HUGE_DECAY && name <= CLASS_PARALLEL2_LONG;
}

static void draw_options(struct draw *draw, seqmix_deltanet_args *args, struct delta_shape *shape)
{
    struct rng *rng = &draw->rng;
    int64_t rest = draw->variant;
    args->gate_kind = (int32_t)check_digit(draw, &rest, 5);
    shape->per_channel = check_digit(draw, &rest, 2) != 0;
    args->beta_kind = (int32_t)check_digit(draw, &rest, 3);
    args->qk_l2norm = (int32_t)check_digit(draw, &rest, 2);
    args->head_map = (int32_t)check_digit(draw, &rest, 2);
    args->scale = check_digit(draw, &rest, 2) != 0 ? 0.7f : 0;
    args->chunk = is_hard(draw->name) ? 64 : (int32_t)CHECK_PICK(rng, 0, 16, 32, 64, 64, 128, 256);
    switch (draw->name) {
    case CLASS_OPTIONAL:
        args->gate_kind = draw->absent < 2 ? SEQMIX_GATE_SOFTPLUS : SEQMIX_GATE_BOUNDED_SIGMOID;
        break;
    case CLASS_CLAMP: {
        static const int32_t kinds[3] = {SEQMIX_GATE_LOG, SEQMIX_GATE_ALPHA, SEQMIX_GATE_SOFTPLUS};
        args->gate_kind = kinds[draw->variant % 3];
        break;
    }
    case CLASS_EXTREME:
        args->gate_kind = draw->variant % 2 == 0 ? SEQMIX_GATE_SOFTPLUS : SEQMIX_GATE_BOUNDED_SIGMOID;
        args->beta_kind = SEQMIX_BETA_SIGMOID;
        break;
    case CLASS_HUGE_DECAY:
    case CLASS_LONG:
        args->gate_kind = SEQMIX_GATE_LOG;
        break;
    case CLASS_HARD_ROW:
        args->gate_kind = draw->variant % 5 == 4 ? SEQMIX_GATE_ALPHA : SEQMIX_GATE_LOG;
        shape->per_channel = draw->variant / 5 % 2 != 0;
        args->beta_kind = SEQMIX_BETA_SIGMOID;
        break;
    case CLASS_NO_DECAY:
    case CLASS_POSITIVE_MEAN:
    case CLASS_PARALLEL:
    case CLASS_PARALLEL_LONG:
    case CLASS_PARALLEL2:
    case CLASS_PARALLEL2_LONG:
        args->gate_kind = SEQMIX_GATE_NONE;
        break;
    default:
        break;
    }
    if (draw->name >= CLASS_PARALLEL && draw->name <= CLASS_PARALLEL2_LONG) {
        args->beta_kind = SEQMIX_BETA_VALUE;
        args->qk_l2norm = draw->name <= CLASS_PARALLEL2 && draw->variant >= 8;
    }
    args->eps = args->qk_l2norm != 0 ? 1e-6f : 0;
    args->gate_lower_bound = args->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID ? -5.0f : 0;
    if (args->gate_kind == SEQMIX_GATE_NONE) shape->per_channel = false;
}

static void draw_shape(struct draw *draw, struct delta_shape *s)
{
    struct rng *rng = &draw->rng;
    s->R = draw->rows;
    s->HK = CHECK_PICK(rng, 1, 2, 3);
    s->HV = s->HK * CHECK_PICK(rng, 1, 2, 3);
    s->DK = CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 20, 33);
    s->DV = CHECK_PICK(rng, 1, 2, 3, 7, 8, 15, 16, 17, 20, 33);
    if (draw->name == CLASS_SIZES) {
        s->HV = s->HK = 2;
        s->DK = CHECK_PICK(rng, 64, 80, 128, 192, 256);
        s->DV = CHECK_PICK(rng, 64, 80, 128, 256);
    }
    if (is_hard(draw->name)) {
        s->HK = 1, s->HV = 2, s->DK = 16, s->DV = 8;
        s->R = draw->name == CLASS_LONG            ? 10000
               : draw->name == CLASS_PARALLEL      ? 64
               : draw->name == CLASS_PARALLEL2     ? 64
               : draw->name >= CLASS_PARALLEL_LONG ? 8192
                                                   : 80;
        if (draw->name >= CLASS_PARALLEL_LONG && draw->variant % 4 > 0 && draw->variant % 4 < 3) s->DK = s->DV = 128;
        if (draw->name == CLASS_PARALLEL || draw->name == CLASS_PARALLEL2) s->DK = 32, s->DV = 16;
    }
    if (s->R * s->HV * s->DV < 48 && s->R > 0) s->DV += 48 / (s->R * s->HV);
}

/* Vectors along the last axis that are at most 1 long however they are rounded; with `common` >= 0 nearly parallel: one
 * direction plus `common` times noise. */
static void fill_directions(struct call *call, struct draw *draw, const char *name, double mean, double common)
{
    const seqmix_tensor *t = check_named(call, name);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (seqmix_tensor_count(t) == 0) return;
    double direction[256], row[256];
    const double length = call->x == SEQMIX_F32 ? 1 - 1e-6 : call->x == SEQMIX_F16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
    for (int64_t d = 0; d < t->shape[2]; d++)
        direction[d] = check_gauss(&draw->rng);
    do {
        double sum = 0;
        for (int64_t d = 0; d < t->shape[2]; d++) {
            row[d] = mean + check_gauss(&draw->rng);
            if (common >= 0) row[d] = direction[d] + common * row[d];
            sum += row[d] * row[d];
        }
        const double factor = sum > 0 ? length / sqrt(sum) : 0;
        for (int64_t d = 0; d < t->shape[2]; d++)
            check_put(t, check_offset(t, index) + d * t->stride[2], factor * row[d]);
    } while (check_next(t, index, 0, 2));
}

static void fill_gate(struct call *call, struct draw *draw, const seqmix_deltanet_args *args)
{
    static const double hard[5] = {-100, -2661, -1e6, -(double)INFINITY, 0};
    const int64_t v = draw->variant;
    check_fill_uniform(call, draw, "A", -1, -0.1);
    check_fill_gauss(call, draw, "dt_bias", 0, 0.5);
    switch (args->gate_kind) {
    case SEQMIX_GATE_LOG:
        check_fill_uniform(call, draw, "gate", -0.4, 0);
        break;
    case SEQMIX_GATE_ALPHA:
        check_fill_uniform(call, draw, "gate", 0.7, 1);
        break;
    default:
        check_fill_gauss(call, draw, "gate", -1, 1);
        break;
    }
    switch (draw->name) {
    case CLASS_EXTREME:
        check_fill_extreme(call, draw, "gate");
        check_fill_extreme(call, draw, "beta");
        break;
    case CLASS_CLAMP:
        if (args->gate_kind == SEQMIX_GATE_SOFTPLUS)
            check_fill_uniform(call, draw, "A", -1, 1);
        else
            check_fill_uniform(call, draw, "gate", -0.5, args->gate_kind == SEQMIX_GATE_ALPHA ? 1.5 : 0.5);
        break;
    case CLASS_HUGE_DECAY:
        check_fill_uniform(call, draw, "gate", v % 2 == 0 ? -3e6 : -300, -150);
        break;
    case CLASS_LONG:
        check_fill_uniform(call, draw, "gate", -2e-4, 0);
        break;
    case CLASS_HARD_ROW:
        check_set_row(call, "gate", v / 10, hard[v % 5]);
        break;
    default:
        break;
    }
}

static void fill(struct call *call, struct draw *draw, const seqmix_deltanet_args *args)
{
    static const double noise[4] = {0, 1e-3, 1e-2, 0.1};
    const bool parallel = draw->name >= CLASS_PARALLEL && draw->name <= CLASS_PARALLEL2_LONG;
    const bool twice = draw->name == CLASS_PARALLEL2 || draw->name == CLASS_PARALLEL2_LONG;
    const seqmix_tensor *k = check_named(call, "k");
    const double few = k->shape[0] * k->shape[1] < CHECK_FEW ? 1 : 0; /* a lone q.k must not vanish by chance */
    fill_directions(call, draw, "q", few, -1);
    fill_directions(call, draw, "k", draw->name == CLASS_POSITIVE_MEAN ? 0.5 : few,
                    parallel ? noise[draw->variant % 4] : -1);
    if (args->qk_l2norm != 0 && !parallel && call->x != SEQMIX_F16) check_fill_gauss(call, draw, "q", 3 * few, 3);
    check_fill_gauss(call, draw, "v", 0, 1);
    check_fill_pool(call, draw, 1);
    if (twice)
        check_fill_uniform(call, draw, "beta", draw->variant / 4 % 2 == 0 ? 2 : 1, 2);
    else if (parallel)
        check_fill(call, "beta", 1);
    else if (args->beta_kind == SEQMIX_BETA_VALUE)
        check_fill_uniform(call, draw, "beta", 0, 1);
    else
        check_fill_gauss(call, draw, "beta", args->beta_kind == SEQMIX_BETA_SIGMOID2 ? -1 : 0, 1);
    fill_gate(call, draw, args);
}

static void build(struct call *call, struct draw *draw)
{
    seqmix_deltanet_args *args = &call->args.deltanet_chunk_forward;
    const seqmix_dtype x = call->x;
    struct delta_shape s = {0};
    draw_options(draw, args, &s);
    draw_shape(draw, &s);
    const bool raw = args->gate_kind == SEQMIX_GATE_SOFTPLUS || args->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID;

    CHECK_DECLARE(call, "q", x, s.R, s.HK, s.DK);
    CHECK_DECLARE(call, "k", x, s.R, s.HK, s.DK);
    CHECK_DECLARE(call, "v", x, s.R, s.HV, s.DV);
    const seqmix_dtype gate = raw ? check_param_dtype(draw, 0, x) : SEQMIX_F32;
    if (args->gate_kind != SEQMIX_GATE_NONE && !s.per_channel) CHECK_DECLARE(call, "gate", gate, s.R, s.HV);
    if (args->gate_kind != SEQMIX_GATE_NONE && s.per_channel) CHECK_DECLARE(call, "gate", gate, s.R, s.HV, s.DK);
    CHECK_DECLARE(call, "beta", check_param_dtype(draw, 1, x), s.R, s.HV);
    if (raw) {
        const seqmix_dtype bias = check_param_dtype(draw, 2, x);
        CHECK_DECLARE(call, "A", SEQMIX_F32, s.HV);
        const bool wide = s.per_channel && check_chance(&draw->rng, 0.5);
        if (!check_absent(draw, 0) && !wide) CHECK_DECLARE(call, "dt_bias", bias, s.HV);
        if (!check_absent(draw, 0) && wide) CHECK_DECLARE(call, "dt_bias", bias, s.HV, s.DK);
    }
    if (draw->pool) CHECK_DECLARE(call, "state", draw->pool_dtype, 0, s.HV, s.DK, s.DV);
    CHECK_DECLARE(call, "o", x, s.R, s.HV, s.DV);
    check_place(call, draw);
    fill(call, draw, args);
}

const struct family check_deltanet = {
    .name = "deltanet",
    .batch_offset = offsetof(seqmix_deltanet_args, batch),
    .chunk_offset = offsetof(seqmix_deltanet_args, chunk),
    .value = "v",
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .classes = classes,
    .n_classes = sizeof classes / sizeof classes[0],
    .build = build,
};
