/* SPDX-License-Identifier: MIT */
/*
 * The ops of the bench: for a shape, a number of rows and a dtype, which tensors a call takes, what they hold, and how much
 * work it is. Work is counted by the recurrence, whatever a kernel executes: 7*DK*DV flop per row and value head for the
 * delta rule, 5*H*P*N per row for SSD, D*N exps per row for the scan, n^3/3 per inverse, 2*I*O per row of a projection.
 * Options are those of the models: gates and steps raw, as projections give them, the rest on the fly.
 */
#include "bench.h"

#include <inttypes.h>
#include <string.h>

#define FIELD(family, member) #member, offsetof(seqmix_##family##_args, member)

/* Adds a tensor with dense strides; sizes after the rank-th are ignored. */
static struct seqmix_bench_field *add(struct seqmix_bench_plan *plan, const char *name, size_t offset,
                                      enum seqmix_bench_role role, int32_t dtype, int rank, int64_t s0, int64_t s1,
                                      int64_t s2, int64_t s3)
{
    struct seqmix_bench_field *f = &plan->fields[plan->n_fields++];
    const int64_t sizes[4] = {s0, s1, s2, s3};
    *f = (struct seqmix_bench_field){.name = name,
                                     .offset = offset,
                                     .role = role,
                                     .fill = role == SEQMIX_BENCH_OUT ? SEQMIX_BENCH_POISON : SEQMIX_BENCH_NORMAL,
                                     .b = 1.0,
                                     .touched = 1.0};
    f->view.dtype = dtype;
    f->view.rank = rank;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        f->view.shape[i] = sizes[i];
        f->view.stride[i] = stride;
        stride *= sizes[i];
    }
    return f;
}

static void fill(struct seqmix_bench_field *f, enum seqmix_bench_fill kind, double a, double b)
{
    f->fill = kind;
    f->a = a;
    f->b = b;
}

static int64_t slots_of(const struct seqmix_bench_entry *e)
{
    return e->decode ? e->rows : e->seqs > 1 ? e->seqs : 1;
}

/* ---- short convolution ---- */

static int has_conv(const struct seqmix_shape *s)
{
    return s->conv.D > 0;
}

static void plan_conv(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t R = e->rows, D = e->shape->conv.D, K = e->shape->conv.K, slots = slots_of(e);
    const int32_t X = e->dtype;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 " K%" PRId64, D, K);
    p->args.conv = (seqmix_conv_args){.struct_size = sizeof p->args.conv, .activation = SEQMIX_ACT_SILU};
    add(p, FIELD(conv, x), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0);
    fill(add(p, FIELD(conv, weight), SEQMIX_BENCH_PARAM, SEQMIX_F32, 2, D, K, 0, 0), SEQMIX_BENCH_UNIFORM, -0.5, 0.5);
    if (e->shape->conv.bias)
        fill(add(p, FIELD(conv, bias), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, D, 0, 0, 0), SEQMIX_BENCH_UNIFORM, -0.5, 0.5);
    if (K > 1) add(p, FIELD(conv, state), SEQMIX_BENCH_STATE, X, 3, slots, D, K - 1, 0)->cycled = e->decode;
    add(p, FIELD(conv, y), SEQMIX_BENCH_OUT, X, 2, R, D, 0, 0);
    p->flops = 2.0 * (double)(R * D * K);
    p->exps = (double)(R * D);
}

/* ---- selective scan ---- */

static int has_scan(const struct seqmix_shape *s)
{
    return s->scan.D > 0;
}

static void plan_scan(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t R = e->rows, D = e->shape->scan.D, N = e->shape->scan.N, G = e->shape->scan.G, slots = slots_of(e);
    const int32_t X = e->dtype;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 " N%" PRId64, D, N);
    p->args.scan = (seqmix_scan_args){.struct_size = sizeof p->args.scan, .dt_softplus = 1};
    add(p, FIELD(scan, x), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0);
    add(p, FIELD(scan, dt), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0)->b = 0.5;
    fill(add(p, FIELD(scan, A), SEQMIX_BENCH_PARAM, SEQMIX_F32, 2, D, N, 0, 0), SEQMIX_BENCH_UNIFORM, -16, -1);
    add(p, FIELD(scan, B), SEQMIX_BENCH_ROWS, X, 3, R, G, N, 0);
    add(p, FIELD(scan, C), SEQMIX_BENCH_ROWS, X, 3, R, G, N, 0);
    add(p, FIELD(scan, skip), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, D, 0, 0, 0);
    fill(add(p, FIELD(scan, dt_bias), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, D, 0, 0, 0), SEQMIX_BENCH_LOG_DT, 1e-3, 0.1);
    add(p, FIELD(scan, z), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0);
    add(p, FIELD(scan, state), SEQMIX_BENCH_STATE, SEQMIX_F32, 3, slots, D, N, 0)->cycled = e->decode;
    add(p, FIELD(scan, y), SEQMIX_BENCH_OUT, X, 2, R, D, 0, 0);
    p->flops = 7.0 * (double)(R * D * N);
    p->exps = (double)(R * D * N);
}

/* ---- SSD ---- */

static int has_ssd(const struct seqmix_shape *s)
{
    return s->ssd.H > 0;
}

static void plan_ssd(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t R = e->rows, H = e->shape->ssd.H, P = e->shape->ssd.P, G = e->shape->ssd.G, N = e->shape->ssd.N;
    const int64_t slots = slots_of(e);
    const int32_t X = e->dtype;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 "x%" PRId64 " G%" PRId64 " N%" PRId64, H, P, G, N);
    p->args.ssd = (seqmix_ssd_args){.struct_size = sizeof p->args.ssd, .dt_softplus = 1};
    add(p, FIELD(ssd, x), SEQMIX_BENCH_ROWS, X, 3, R, H, P, 0);
    add(p, FIELD(ssd, dt), SEQMIX_BENCH_ROWS, X, 2, R, H, 0, 0)->b = 0.5;
    fill(add(p, FIELD(ssd, A), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, H, 0, 0, 0), SEQMIX_BENCH_UNIFORM, -16, -1);
    add(p, FIELD(ssd, B), SEQMIX_BENCH_ROWS, X, 3, R, G, N, 0);
    add(p, FIELD(ssd, C), SEQMIX_BENCH_ROWS, X, 3, R, G, N, 0);
    add(p, FIELD(ssd, skip), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, H, 0, 0, 0);
    fill(add(p, FIELD(ssd, dt_bias), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, H, 0, 0, 0), SEQMIX_BENCH_LOG_DT, 1e-3, 0.1);
    add(p, FIELD(ssd, state), SEQMIX_BENCH_STATE, SEQMIX_F32, 4, slots, H, P, N)->cycled = e->decode;
    add(p, FIELD(ssd, y), SEQMIX_BENCH_OUT, X, 3, R, H, P, 0);
    p->flops = 5.0 * (double)(R * H * P * N);
    p->exps = 3.0 * (double)(R * H);
}

/* ---- delta rule ---- */

static int has_deltanet(const struct seqmix_shape *s)
{
    return s->deltanet.HV > 0;
}

static void plan_deltanet(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t HK = e->shape->deltanet.HK, HV = e->shape->deltanet.HV, DK = e->shape->deltanet.DK;
    const int64_t R = e->rows, DV = e->shape->deltanet.DV, slots = slots_of(e);
    const int channels = e->shape->deltanet.channels != 0;
    const int32_t X = e->dtype;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 "/%" PRId64 "x%" PRId64, HK, HV, DK);
    if (DK != DV) snprintf(p->dims, sizeof p->dims, "%" PRId64 "/%" PRId64 "x%" PRId64 "x%" PRId64, HK, HV, DK, DV);
    if (channels) strncat(p->dims, " KDA", sizeof p->dims - strlen(p->dims) - 1);
    p->args.deltanet = (seqmix_deltanet_args){.struct_size = sizeof p->args.deltanet,
                                              .gate_kind = SEQMIX_GATE_SOFTPLUS,
                                              .beta_kind = SEQMIX_BETA_SIGMOID,
                                              .qk_l2norm = 1,
                                              .head_map = SEQMIX_HEADS_GROUPED,
                                              .eps = 1e-6f};
    add(p, FIELD(deltanet, q), SEQMIX_BENCH_ROWS, X, 3, R, HK, DK, 0);
    add(p, FIELD(deltanet, k), SEQMIX_BENCH_ROWS, X, 3, R, HK, DK, 0);
    add(p, FIELD(deltanet, v), SEQMIX_BENCH_ROWS, X, 3, R, HV, DV, 0);
    add(p, FIELD(deltanet, gate), SEQMIX_BENCH_ROWS, X, channels ? 3 : 2, R, HV, channels ? DK : 0, 0)->b = 0.5;
    add(p, FIELD(deltanet, beta), SEQMIX_BENCH_ROWS, X, 2, R, HV, 0, 0);
    fill(add(p, FIELD(deltanet, A), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, HV, 0, 0, 0), SEQMIX_BENCH_UNIFORM, -16, -1);
    fill(add(p, FIELD(deltanet, dt_bias), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, HV, 0, 0, 0), SEQMIX_BENCH_LOG_DT, 1e-3,
         0.1);
    add(p, FIELD(deltanet, state), SEQMIX_BENCH_STATE, SEQMIX_F32, 4, slots, HV, DK, DV)->cycled = e->decode;
    add(p, FIELD(deltanet, o), SEQMIX_BENCH_OUT, X, 3, R, HV, DV, 0);
    p->flops = 7.0 * (double)(R * HV * DK * DV);
    p->exps = channels ? (double)(R * HV * (3 * DK + 1)) : 3.0 * (double)(R * HV);
}

/* ---- triangular inverse: one matrix per head and n rows, as a chunked delta rule would ask for ---- */

static int has_inverse(const struct seqmix_shape *s)
{
    return s->inverse.n > 0;
}

static void plan_inverse(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t n = e->shape->inverse.n, batch = (e->rows + n - 1) / n * e->shape->inverse.heads;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 " of %" PRId64 "x%" PRId64, batch, n, n);
    p->args.inverse = (seqmix_inverse_args){.struct_size = sizeof p->args.inverse};
    struct seqmix_bench_field *a = add(p, FIELD(inverse, a), SEQMIX_BENCH_ROWS, e->dtype, 3, batch, n, n, 0);
    a->b = 0.08; /* what products of normalised keys look like; larger ones make the inverse explode */
    a->touched = 0.5 * (double)(n - 1) / (double)n;
    add(p, FIELD(inverse, inv), SEQMIX_BENCH_OUT, e->dtype, 3, batch, n, n, 0);
    p->flops = (double)batch * (double)(n * n * n) / 3.0;
}

/* ---- gated norm ---- */

static int has_norm(const struct seqmix_shape *s)
{
    return s->norm.D > 0;
}

static void plan_norm(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t R = e->rows, D = e->shape->norm.D, group = e->shape->norm.group;
    const int gated = e->shape->norm.gated != 0, per_group = e->shape->norm.before_gate && group != D;
    const int32_t X = e->dtype;
    snprintf(p->dims, sizeof p->dims, "%" PRId64 " by %" PRId64 "%s", D, group, gated ? "" : " plain");
    p->args.norm = (seqmix_norm_args){.struct_size = sizeof p->args.norm,
                                      .group = (int32_t)group,
                                      .norm_before_gate = (int32_t)e->shape->norm.before_gate,
                                      .eps = 1e-6f};
    add(p, FIELD(norm, x), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0);
    if (gated) add(p, FIELD(norm, z), SEQMIX_BENCH_ROWS, X, 2, R, D, 0, 0);
    fill(add(p, FIELD(norm, weight), SEQMIX_BENCH_PARAM, SEQMIX_F32, 1, per_group ? group : D, 0, 0, 0),
         SEQMIX_BENCH_NORMAL, 1.0, 0.1);
    add(p, FIELD(norm, y), SEQMIX_BENCH_OUT, X, 2, R, D, 0, 0);
    p->flops = (gated ? 6.0 : 4.0) * (double)(R * D);
    p->exps = gated ? (double)(R * D) : 0.0;
}

/* ---- projections ---- */

static int has_linear(const struct seqmix_shape *s)
{
    return s->n_linear > 0;
}

static void plan_linear(const struct seqmix_bench_entry *e, struct seqmix_bench_plan *p)
{
    const int64_t R = e->rows, I = e->linear->I, O = e->linear->O;
    snprintf(p->dims, sizeof p->dims, "%.16s %" PRId64 ">%" PRId64, e->linear->name, I, O);
    p->args.linear = (seqmix_linear_args){.struct_size = sizeof p->args.linear};
    add(p, FIELD(linear, x), SEQMIX_BENCH_ROWS, e->dtype, 2, R, I, 0, 0);
    struct seqmix_bench_field *w = add(p, FIELD(linear, weight), SEQMIX_BENCH_PARAM, e->dtype, 2, O, I, 0, 0);
    w->b = 0.02;
    w->cycled = e->decode;
    add(p, FIELD(linear, y), SEQMIX_BENCH_OUT, e->dtype, 2, R, O, 0, 0);
    p->flops = 2.0 * (double)R * (double)I * (double)O;
}

/* ---- the calls ---- */

#define CALLS(op, family)                                                                                              \
    static seqmix_status workspace_##op(seqmix_ctx *ctx, const union seqmix_bench_args *args, size_t *bytes)           \
    {                                                                                                                  \
        return seqmix_##op##_workspace(ctx, &args->family, bytes);                                                     \
    }                                                                                                                  \
    static seqmix_status run_##op(seqmix_ctx *ctx, const union seqmix_bench_args *args, void *workspace, size_t bytes) \
    {                                                                                                                  \
        return seqmix_##op(ctx, &args->family, workspace, bytes);                                                      \
    }

CALLS(short_conv_rows, conv)
CALLS(short_conv_step, conv)
CALLS(selective_scan_rows, scan)
CALLS(selective_scan_step, scan)
CALLS(ssd_chunk_forward, ssd)
CALLS(ssd_step, ssd)
CALLS(deltanet_chunk_forward, deltanet)
CALLS(deltanet_step, deltanet)
CALLS(unit_lower_inverse, inverse)
CALLS(gated_rms_norm_rows, norm)
CALLS(linear, linear)

#define OP(ID, op, family, in_prefill, in_decode)                                                                      \
    {                                                                                                                  \
        .name = #op, .id = SEQMIX_OP_##ID, .prefill = in_prefill, .decode = in_decode, .has = has_##family,            \
        .plan = plan_##family, .workspace = workspace_##op, .run = run_##op, .oracle = seqmix_bench_oracle_##family    \
    }

const struct seqmix_bench_op seqmix_bench_ops[] = {
    OP(DELTANET_CHUNK_FORWARD, deltanet_chunk_forward, deltanet, 1, 0),
    OP(SSD_CHUNK_FORWARD, ssd_chunk_forward, ssd, 1, 0),
    OP(SELECTIVE_SCAN_ROWS, selective_scan_rows, scan, 1, 0),
    OP(SHORT_CONV_ROWS, short_conv_rows, conv, 1, 0),
    OP(GATED_RMS_NORM_ROWS, gated_rms_norm_rows, norm, 1, 1),
    OP(UNIT_LOWER_INVERSE, unit_lower_inverse, inverse, 1, 0),
    OP(LINEAR, linear, linear, 1, 1),
    OP(DELTANET_STEP, deltanet_step, deltanet, 0, 1),
    OP(SSD_STEP, ssd_step, ssd, 0, 1),
    OP(SELECTIVE_SCAN_STEP, selective_scan_step, scan, 0, 1),
    OP(SHORT_CONV_STEP, short_conv_step, conv, 0, 1),
};

const int seqmix_bench_n_ops = (int)(sizeof seqmix_bench_ops / sizeof seqmix_bench_ops[0]);
