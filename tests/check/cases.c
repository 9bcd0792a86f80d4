/* SPDX-License-Identifier: MIT */
/* From a case id to a call: class names, how many variants each level takes, and what is drawn before the family builds. */
#include "harness.h"

static const char *const class_names[CLASS_COUNT] = {
    [CLASS_GAUSS] = "gauss",
    [CLASS_ROWS] = "rows",
    [CLASS_SIZES] = "sizes",
    [CLASS_OPTIONAL] = "optional",
    [CLASS_KINDS] = "kinds",
    [CLASS_LAYOUT] = "layout",
    [CLASS_PARAMS] = "params",
    [CLASS_POOL] = "pool",
    [CLASS_BATCH] = "batch",
    [CLASS_IN_PLACE] = "in-place",
    [CLASS_ZERO] = "zero",
    [CLASS_ONE_HOT] = "one-hot",
    [CLASS_DENORMAL] = "denormal",
    [CLASS_NEIGHBOURS] = "neighbours",
    [CLASS_OVERFLOW] = "overflow",
    [CLASS_EXTREME] = "extreme",
    [CLASS_CLAMP] = "clamp",
    [CLASS_NO_DECAY] = "no-decay",
    [CLASS_POSITIVE_MEAN] = "positive-mean",
    [CLASS_HUGE_DECAY] = "huge-decay",
    [CLASS_HARD_ROW] = "hard-row",
    [CLASS_LONG] = "long",
    [CLASS_PARALLEL] = "parallel",
    [CLASS_PARALLEL2] = "parallel-beta2",
    [CLASS_PARALLEL_LONG] = "parallel-8192",
    [CLASS_PARALLEL2_LONG] = "parallel-beta2-8192",
    [CLASS_SPLIT] = "split",
    [CLASS_COMPANY] = "company",
    [CLASS_RENUMBER] = "renumber",
    [CLASS_WORKERS] = "workers",
    [CLASS_CHECKPOINTS] = "checkpoints",
    [CLASS_STEPS] = "steps",
    [CLASS_FORMS] = "forms",
    [CLASS_CHUNKS] = "chunks",
    [CLASS_RESIDUAL] = "residual",
};

const char *check_class_name(enum check_class name)
{
    return class_names[name];
}

/* Properties about sequences that every family with a batch has, so that no family need list them. */
static const struct class_use sequence_properties[] = {
    {CLASS_SPLIT, BOUND_ORDINARY, {2, 8, 40}, FORM_ROWS},       {CLASS_COMPANY, BOUND_ORDINARY, {2, 8, 40}, FORM_BOTH},
    {CLASS_RENUMBER, BOUND_ORDINARY, {2, 8, 40}, FORM_BOTH},    {CLASS_WORKERS, BOUND_ORDINARY, {2, 6, 20}, FORM_BOTH},
    {CLASS_CHECKPOINTS, BOUND_ORDINARY, {2, 8, 40}, FORM_BOTH},
};
static const struct class_use step_properties[] = {
    {CLASS_STEPS, BOUND_ORDINARY, {3, 12, 60}, FORM_STEP},
    {CLASS_FORMS, BOUND_ORDINARY, {2, 8, 40}, FORM_STEP},
};
static const struct class_use chunk_property = {CLASS_CHUNKS, BOUND_ORDINARY, {2, 6, 30}, FORM_ROWS};
static const struct class_use row_properties[] = {
    {CLASS_COMPANY, BOUND_ORDINARY, {2, 6, 20}, FORM_BOTH},
    {CLASS_WORKERS, BOUND_ORDINARY, {2, 6, 20}, FORM_BOTH},
};

/* A cache in pages has no slots to number and none to check at. */
static const struct class_use paged_properties[] = {
    {CLASS_SPLIT, BOUND_ORDINARY, {3, 16, 60}, FORM_ROWS},
    {CLASS_COMPANY, BOUND_ORDINARY, {3, 16, 60}, FORM_ROWS},
    {CLASS_WORKERS, BOUND_ORDINARY, {2, 6, 20}, FORM_ROWS},
};

static const struct class_use *find_in(const struct class_use *uses, int n, enum check_class name, bool step)
{
    for (int i = 0; i < n; i++)
        if (uses[i].name == name && (uses[i].forms & (step ? FORM_STEP : FORM_ROWS)) != 0) return &uses[i];
    return NULL;
}
#define FIND_IN(uses, name, step) find_in((uses), (int)(sizeof(uses) / sizeof(uses)[0]), (name), (step))

const struct class_use *check_use(const struct check_op *op, enum check_class name)
{
    const struct family *family = op->family;
    const struct class_use *use = find_in(family->classes, family->n_classes, name, op->step);
    if (use == NULL && family->paging != NULL) return FIND_IN(paged_properties, name, op->step);
    if (use == NULL && family->batch_offset != 0) use = FIND_IN(sequence_properties, name, op->step);
    if (use == NULL && family->batch_offset == 0) use = FIND_IN(row_properties, name, op->step);
    if (use == NULL && op->step) use = FIND_IN(step_properties, name, true);
    if (use == NULL && family->chunk_offset != 0 && !op->step && name == CLASS_CHUNKS) use = &chunk_property;
    return use;
}

/* A level's selection strides through all variants by about the golden ratio, so that a few of them spread evenly; rows are
 * listed by importance instead. */
int64_t check_variant(const struct class_use *use, enum check_level level, int64_t i)
{
    const int64_t all = use->variants[LEVEL_FULL];
    if (use->variants[level] >= all || use->name == CLASS_ROWS) return i;
    int64_t step = all * 618 / 1000 + 1;
    for (;; step++) {
        int64_t a = step, b = all;
        while (b != 0) {
            const int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return i * step % all;
    }
}

/* Variant v of CLASS_ROWS: first the tile edges, then whatever else lies in 1..129. */
static int64_t rows_of(int64_t v)
{
    static const int64_t edges[] = {17, 64, 129, 1,  65, 16, 63, 128, 151, 15, 127, 1134, 2,  3,  7,
                                    8,  9,  31,  32, 33, 47, 48, 49,  79,  80, 81,  95,   96, 97, 112};
    const int64_t n = (int64_t)(sizeof edges / sizeof edges[0]);
    if (v < n) return edges[v];
    int64_t rows = 0;
    for (int64_t left = v - n + 1; left > 0; left--) {
        bool edge = true;
        while (edge) {
            edge = false;
            rows++;
            for (int64_t i = 0; i < n; i++)
                edge = edge || edges[i] == rows;
        }
    }
    return rows;
}

static void draw_rows(struct draw *draw, bool step)
{
    draw->rows = CHECK_PICK(&draw->rng, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100);
    if (draw->name == CLASS_ROWS) {
        draw->rows = rows_of(draw->variant);
        draw->batch_kind = step ? (int)check_below(&draw->rng, BATCH_KINDS) : (int)(draw->variant % 3);
    }
    if (step && draw->rows > 129) draw->rows = 129;
    if (draw->name == CLASS_BATCH && draw->variant % 20 == 19) draw->rows = 0;
    if (draw->name >= CLASS_FIRST_PROPERTY) draw->rows = CHECK_PICK(&draw->rng, 17, 40, 65, 100, 129, 151);
    if (step && draw->rows > 129) draw->rows = 100;
}

static void draw_all(struct draw *draw, const struct check_op *op, seqmix_dtype x)
{
    struct rng *rng = &draw->rng;
    const int64_t v = draw->variant;
    const bool property = draw->name >= CLASS_FIRST_PROPERTY;
    draw->layout = check_chance(rng, 0.5) ? 0 : (unsigned)check_bits(rng) & 15u;
    draw->batch_kind = check_chance(rng, 0.3) ? 0 : (int)check_below(rng, BATCH_KINDS);
    draw->pool = property || check_chance(rng, 0.85);
    draw->pool_dtype = property || check_chance(rng, 0.7) ? SEQMIX_F32 : check_chance(rng, 0.5) ? x : SEQMIX_F16;
    draw->pool_order = (int)check_below(rng, 6);
    draw->absent = (unsigned)(check_bits(rng) & check_bits(rng));
    draw_rows(draw, op->step);
    switch (draw->name) {
    case CLASS_LAYOUT:
        draw->layout = (unsigned)(v % 32);
        break;
    case CLASS_OPTIONAL:
        draw->pool = v % 2 == 0;
        draw->absent = (unsigned)(v / 2);
        break;
    case CLASS_POOL:
        draw->pool = true;
        draw->pool_dtype = v % 3 == 0 ? SEQMIX_F32 : v % 3 == 1 ? SEQMIX_BF16 : SEQMIX_F16;
        draw->pool_order = (int)(v / 3);
        break;
    case CLASS_BATCH:
        draw->batch_kind = (int)(v % BATCH_KINDS);
        draw->pool = true;
        break;
    case CLASS_NEIGHBOURS:
        draw->batch_kind = 3 + (int)(v % 6);
        break;
    case CLASS_DENORMAL:
        draw->absent |= 3u;
        break; /* no bias or residual of another size */
    case CLASS_OVERFLOW:
        draw->pool = true;
        draw->pool_dtype = SEQMIX_F16;
        break;
    case CLASS_SPLIT:
        draw->batch_kind = 2;
        break;
    case CLASS_CHECKPOINTS:
    case CLASS_STEPS:
        draw->batch_kind = 7;
        break;
    case CLASS_COMPANY:
    case CLASS_RENUMBER:
        draw->batch_kind = 8;
        break;
    default:
        break;
    }
}

void check_build(struct call *call, const struct check_op *op, seqmix_dtype x, const struct class_use *use,
                 int64_t variant, uint64_t seed)
{
    char text[96];
    snprintf(text, sizeof text, "%s:%s:%d", op->name, check_class_name(use->name), (int)variant);
    struct draw draw = {.rng = check_rng(seed, text), .name = use->name, .variant = variant};
    *call = (struct call){.op = op, .x = x, .bound = use->bound};
    call->args.struct_size = (uint32_t)op->args_size;
    for (int f = 0; f < CHECK_MAX_FIELDS; f++)
        call->alias[f] = call->slab_of[f] = -1;
    draw_all(&draw, op, x);
    op->family->build(call, &draw);
    check_fill_class(call, &draw);
}
