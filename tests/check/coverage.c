/* SPDX-License-Identifier: MIT */
/*
 * --coverage: op x rung x model shape, by asking the library which kernel would run that very call. A kernel of a lower rung
 * counts as inherited: nothing was gained there, and nothing was checked.
 */
#include <stdlib.h>

#include "report.h"
#include "shapes.h"

enum { PREFILL_ROWS = 512, DECODE_ROWS = 4, PATH_BYTES = 4096 };

/* Shapes without memory: queries read no data. */
static void lay(seqmix_tensor *t, seqmix_dtype dtype, int rank, const int64_t *shape)
{
    int64_t stride = 1;
    *t = (seqmix_tensor){.dtype = dtype, .rank = rank};
    for (int axis = rank - 1; axis >= 0; axis--) {
        t->shape[axis] = shape[axis];
        t->stride[axis] = stride;
        stride *= shape[axis];
    }
}
#define LAY(tensor, dtype, ...)                                                                                        \
    lay(&(tensor), (dtype), (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static bool lay_conv(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_conv_args *a)
{
    if (s->conv.D == 0) return false;
    a->activation = SEQMIX_ACT_SILU;
    LAY(a->x, x, R, s->conv.D);
    LAY(a->weight, SEQMIX_F32, s->conv.D, s->conv.K);
    if (s->conv.bias != 0) LAY(a->bias, SEQMIX_F32, s->conv.D);
    LAY(a->state, x, R, s->conv.D, s->conv.K - 1);
    LAY(a->y, x, R, s->conv.D);
    return true;
}

static bool lay_scan(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_scan_args *a)
{
    if (s->scan.D == 0) return false;
    a->dt_softplus = 1;
    LAY(a->x, x, R, s->scan.D);
    LAY(a->dt, x, R, s->scan.D);
    LAY(a->A, SEQMIX_F32, s->scan.D, s->scan.N);
    LAY(a->B, x, R, s->scan.G, s->scan.N);
    LAY(a->C, x, R, s->scan.G, s->scan.N);
    LAY(a->skip, SEQMIX_F32, s->scan.D);
    LAY(a->dt_bias, SEQMIX_F32, s->scan.D);
    LAY(a->z, x, R, s->scan.D);
    LAY(a->state, SEQMIX_F32, R, s->scan.D, s->scan.N);
    LAY(a->y, x, R, s->scan.D);
    return true;
}

static bool lay_ssd(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_ssd_args *a)
{
    if (s->ssd.H == 0) return false;
    a->dt_softplus = 1;
    LAY(a->x, x, R, s->ssd.H, s->ssd.P);
    LAY(a->dt, x, R, s->ssd.H);
    LAY(a->A, SEQMIX_F32, s->ssd.H);
    LAY(a->B, x, R, s->ssd.G, s->ssd.N);
    LAY(a->C, x, R, s->ssd.G, s->ssd.N);
    LAY(a->skip, SEQMIX_F32, s->ssd.H);
    LAY(a->dt_bias, SEQMIX_F32, s->ssd.H);
    LAY(a->state, SEQMIX_F32, R, s->ssd.H, s->ssd.P, s->ssd.N);
    LAY(a->y, x, R, s->ssd.H, s->ssd.P);
    return true;
}

static bool lay_deltanet(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_deltanet_args *a)
{
    if (s->deltanet.HK == 0) return false;
    a->gate_kind = SEQMIX_GATE_SOFTPLUS;
    a->beta_kind = SEQMIX_BETA_SIGMOID;
    a->qk_l2norm = 1;
    a->eps = 1e-6f;
    LAY(a->q, x, R, s->deltanet.HK, s->deltanet.DK);
    LAY(a->k, x, R, s->deltanet.HK, s->deltanet.DK);
    LAY(a->v, x, R, s->deltanet.HV, s->deltanet.DV);
    if (s->deltanet.channels != 0)
        LAY(a->gate, x, R, s->deltanet.HV, s->deltanet.DK);
    else
        LAY(a->gate, x, R, s->deltanet.HV);
    LAY(a->beta, x, R, s->deltanet.HV);
    LAY(a->A, SEQMIX_F32, s->deltanet.HV);
    LAY(a->dt_bias, SEQMIX_F32, s->deltanet.HV);
    LAY(a->state, SEQMIX_F32, R, s->deltanet.HV, s->deltanet.DK, s->deltanet.DV);
    LAY(a->o, x, R, s->deltanet.HV, s->deltanet.DV);
    return true;
}

static bool lay_inverse(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_inverse_args *a)
{
    if (s->inverse.n == 0) return false;
    LAY(a->a, x, (R + s->inverse.n - 1) / s->inverse.n, s->inverse.heads, s->inverse.n, s->inverse.n);
    a->inv = a->a;
    return true;
}

static bool lay_norm(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_norm_args *a)
{
    if (s->norm.D == 0) return false;
    a->group = (int32_t)s->norm.group;
    a->norm_before_gate = (int32_t)s->norm.before_gate;
    a->eps = 1e-5f;
    LAY(a->x, x, R, s->norm.D);
    if (s->norm.gated != 0) LAY(a->z, x, R, s->norm.D);
    LAY(a->weight, SEQMIX_F32, s->norm.D);
    LAY(a->y, x, R, s->norm.D);
    return true;
}

static bool lay_linear(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_linear_args *a)
{
    if (s->n_linear == 0) return false;
    LAY(a->x, x, R, s->linear[0].I);
    LAY(a->weight, x, s->linear[0].O, s->linear[0].I);
    LAY(a->y, x, R, s->linear[0].O);
    return true;
}

/* Shape files say nothing of embeddings. */
static bool lay_embed(const struct seqmix_shape *s, int64_t R, seqmix_dtype x, seqmix_embed_args *a)
{
    (void)s, (void)R, (void)x, (void)a;
    return false;
}

/* The call of `op` in this shape; false where the model has no such op. */
static bool lay_call(const struct check_op *op, const struct seqmix_shape *s, seqmix_dtype x, union check_args *args)
{
    const int64_t R = op->step ? DECODE_ROWS : PREFILL_ROWS;
    *args = (union check_args){.struct_size = 0};
    args->struct_size = (uint32_t)op->args_size;
#define SEQMIX_OP(ID, op_name, family, step)                                                                           \
    if (op->id == SEQMIX_OP_##ID) return lay_##family(s, R, x, &args->op_name);
#define SEQMIX_OP_GLUE(ID, op, family, step)
#include "ops.def"
    return false;
}

struct counts {
    int own, inherited, none;
};

/* Asks for one cell and counts it. */
static void ask(const struct rung *rung, const struct check_op *op, union check_args *args, char *out, size_t size,
                struct counts *counts)
{
    const char *kernel = NULL;
    int32_t level = 0;
    const bool known = seqmix_op_query(rung->serial, op->id, args, SEQMIX_QUERY_KERNEL, (void *)&kernel) == SEQMIX_OK &&
                       seqmix_op_query(rung->serial, op->id, args, SEQMIX_QUERY_LEVEL, &level) == SEQMIX_OK;
    const bool own = known && level == rung->table->level;
    counts->own += own;
    counts->inherited += known && !own;
    counts->none += !known;
    if (known)
        snprintf(out, size, "%s%s", kernel, own ? "" : " (inherited)");
    else
        snprintf(out, size, "none: %.40s", seqmix_last_error(rung->serial));
}

static void cover_shape(const struct check_options *options, const struct rung *rung, const struct seqmix_shape *shape,
                        struct counts *counts, int *printed)
{
    static const seqmix_dtype dtypes[3] = {SEQMIX_F32, SEQMIX_BF16, SEQMIX_F16};
    for (int i = 0; i < check_n_ops; i++) {
        char cells[3][64];
        union check_args args;
        if (!lay_call(&check_ops[i], shape, SEQMIX_F32, &args)) continue;
        for (int d = 0; d < 3; d++) {
            (void)lay_call(&check_ops[i], shape, dtypes[d], &args);
            ask(rung, &check_ops[i], &args, cells[d], sizeof cells[d], counts);
            if (options->json)
                printf("%s{\"kind\":\"coverage\",\"rung\":\"%s\",\"model\":\"%s\",\"op\":\"%s\",\"dtype\":\"%s\","
                       "\"kernel\":\"%s\"}",
                       (*printed)++ == 0 ? "[\n" : ",\n", rung->table->name, shape->name, check_ops[i].name,
                       seqmix_dtype_name(dtypes[d]), cells[d]);
        }
        if (!options->json)
            printf("%-22s %-24s %-28s %-28s %s\n", shape->name, check_ops[i].name, cells[0], cells[1], cells[2]);
    }
}

static int load_shapes(const struct check_options *options, struct seqmix_shape *shapes)
{
    char found[PATH_BYTES], why[512];
    const char *dir = options->shapes;
    if (dir == NULL && seqmix_shapes_find_dir(found, sizeof found, why, sizeof why) == 0) dir = found;
    const int n = dir != NULL ? seqmix_shapes_load_dir(dir, shapes, SEQMIX_SHAPES_MAX, why, sizeof why) : -1;
    if (n < 0) fprintf(stderr, "seqmix-check: %s\n", why);
    if (n == 0) fprintf(stderr, "seqmix-check: no shapes in %s\n", dir);
    return n;
}

int check_coverage(const struct check_options *options)
{
    static struct seqmix_shape shapes[SEQMIX_SHAPES_MAX];
    struct ladder ladder;
    int printed = 0, missing = 0;
    const int n = load_shapes(options, shapes);
    if (n <= 0 || check_ladder(options, &ladder) != 0) return 2;
    for (int r = 0; r < ladder.n; r++) {
        const struct ladder_rung *at = &ladder.rungs[r];
        struct counts counts = {0, 0, 0};
        struct rung rung;
        char why[256] = "";
        if (strcmp(at->name, "chunk-plain") == 0) continue; /* no rung: nothing ever runs on it */
        if (!check_rung_open(&rung, at->table, at->below, why, sizeof why)) {
            fprintf(stderr, "seqmix-check: %s: %s\n", at->name, why);
            return 2;
        }
        if (!options->json)
            printf("%s%s: the kernel of each op and model shape, %d rows (_step: %d sequences of one row)\n%-22s %-24s "
                   "%-28s "
                   "%-28s %s\n",
                   r > 0 ? "\n" : "", at->name, PREFILL_ROWS, DECODE_ROWS, "model", "op", "f32", "bf16", "f16");
        for (int s = 0; s < n; s++)
            cover_shape(options, &rung, &shapes[s], &counts, &printed);
        if (!options->json)
            printf("%s: %d of its own, %d inherited, %d without a kernel\n", at->name, counts.own, counts.inherited,
                   counts.none);
        missing += counts.none;
        check_rung_close(&rung);
    }
    if (options->json) puts("\n]");
    return missing > 0;
}
