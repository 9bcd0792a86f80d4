/* SPDX-License-Identifier: MIT */
/* What may have gone wrong in the delta rule: gate, beta, heads, scale, norms, order. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor.h"
#include "validate_case.h"

static seqmix_deltanet_args *args_of(struct seqmix_val_case *c)
{
    return &c->args.deltanet;
}

static float sigmoid(float x)
{
    return (float)(x >= 0 ? 1 / (1 + exp(-(double)x)) : exp((double)x) / (1 + exp((double)x)));
}

static float softplus(float x)
{
    return x > 20 ? x : (float)log1p(exp((double)x));
}

static float negated(float x)
{
    return -x;
}

static float doubled(float x)
{
    return 2 * x;
}

static float logarithm(float x)
{
    return (float)log((double)x);
}

static float log_of_negated(float x)
{
    return (float)log(-(double)x);
}

static float minus_exp(float x)
{
    return (float)-exp((double)x);
}

static float times_ln2(float x)
{
    return (float)((double)x * 0.69314718055994530942);
}

static float over_ln2(float x)
{
    return (float)((double)x / 0.69314718055994530942);
}

static float to_bf16(float x)
{
    return seqmix_bf16_to_f32(seqmix_f32_to_bf16(x));
}

/* ---------------------------------------------------------------- gate */

static bool is_raw(const seqmix_deltanet_args *a)
{
    return a->gate_kind == SEQMIX_GATE_SOFTPLUS || a->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID;
}

/* The numbers of the file's gate, taken as another kind. */
static bool read_as(struct seqmix_val_case *c, int32_t kind)
{
    seqmix_deltanet_args *a = args_of(c);
    if (a->gate_kind == kind) return false;
    if (!seqmix_present(&a->gate)) a->gate = c->spare_gate;
    if (!seqmix_present(&a->gate)) return false;
    a->gate_kind = kind;
    a->A = a->dt_bias = (seqmix_tensor){0};
    c->twist |= SEQMIX_VAL_UNCLAMPED;
    return true;
}

static bool as_log(struct seqmix_val_case *c)
{
    return read_as(c, SEQMIX_GATE_LOG);
}

static bool as_alpha(struct seqmix_val_case *c)
{
    return read_as(c, SEQMIX_GATE_ALPHA);
}

/* A kernel that wants alpha and works with log(alpha): NaN for the log gates it is given. */
static bool log_of_gate(struct seqmix_val_case *c)
{
    if (args_of(c)->gate_kind == SEQMIX_GATE_ALPHA || !read_as(c, SEQMIX_GATE_LOG)) {
        if (args_of(c)->gate_kind != SEQMIX_GATE_LOG) return false;
        c->twist |= SEQMIX_VAL_UNCLAMPED;
    }
    seqmix_val_map(&args_of(c)->gate, logarithm);
    return true;
}

static bool as_raw(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    if (is_raw(a) || !seqmix_present(&c->spare_A)) return false;
    if (!seqmix_present(&a->gate)) a->gate = c->spare_gate;
    if (!seqmix_present(&a->gate)) return false;
    if (a->gate.rank == 2 && c->spare_dt_bias.rank == 2) return false;
    a->A = c->spare_A;
    a->dt_bias = c->spare_dt_bias;
    a->gate_kind = SEQMIX_GATE_SOFTPLUS;
    return true;
}

static bool gate_ignored(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    const bool was = a->gate_kind != SEQMIX_GATE_NONE;
    a->gate_kind = SEQMIX_GATE_NONE;
    return was;
}

/* The op's own log gate, in f32, as kind LOG. */
static void settle_gate(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    float *gate = a->gate.data;
    const int64_t heads = a->v.shape[1], width = a->gate.rank == 3 ? a->gate.shape[2] : 1;
    const int64_t count = seqmix_tensor_count(&a->gate);
    for (int64_t i = 0; i < count && is_raw(a); i++) {
        const int64_t h = i / width % heads, d = i % width;
        const float *bias = a->dt_bias.data, rate = ((const float *)a->A.data)[h];
        if (bias != NULL) gate[i] += bias[a->dt_bias.rank == 2 ? h * width + d : h];
        gate[i] = a->gate_kind == SEQMIX_GATE_SOFTPLUS ? rate * softplus(gate[i])
                                                       : a->gate_lower_bound * sigmoid(-rate * gate[i]);
    }
    if (a->gate_kind == SEQMIX_GATE_ALPHA) seqmix_val_map(&a->gate, logarithm);
    a->gate_kind = SEQMIX_GATE_LOG;
    a->A = a->dt_bias = (seqmix_tensor){0};
}

static bool map_log_gate(struct seqmix_val_case *c, float (*function)(float))
{
    if (args_of(c)->gate_kind == SEQMIX_GATE_NONE) return false;
    settle_gate(c);
    seqmix_val_map(&args_of(c)->gate, function);
    c->twist |= SEQMIX_VAL_UNCLAMPED;
    return true;
}

static bool gate_base_2(struct seqmix_val_case *c)
{
    return map_log_gate(c, times_ln2);
}

static bool gate_log2e(struct seqmix_val_case *c)
{
    return map_log_gate(c, over_ln2);
}

static bool gate_negated(struct seqmix_val_case *c)
{
    return map_log_gate(c, negated);
}

static bool gate_bf16(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    if (a->gate_kind == SEQMIX_GATE_NONE) return false;
    if (a->gate_kind != SEQMIX_GATE_ALPHA) settle_gate(c);
    seqmix_val_map(&a->gate, to_bf16);
    return true;
}

static bool dt_bias_ignored(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    const bool was = seqmix_present(&a->dt_bias);
    a->dt_bias = (seqmix_tensor){0};
    return was;
}

/* g = A*(gate + dt_bias) */
static bool softplus_missing(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    if (a->gate_kind != SEQMIX_GATE_SOFTPLUS) return false;
    float *gate = a->gate.data;
    const int64_t heads = a->v.shape[1], width = a->gate.rank == 3 ? a->gate.shape[2] : 1;
    const int64_t count = seqmix_tensor_count(&a->gate);
    for (int64_t i = 0; i < count; i++) {
        const int64_t h = i / width % heads, d = i % width;
        const float *bias = a->dt_bias.data;
        if (bias != NULL) gate[i] += bias[a->dt_bias.rank == 2 ? h * width + d : h];
        gate[i] *= ((const float *)a->A.data)[h];
    }
    return read_as(c, SEQMIX_GATE_LOG);
}

static bool softplus_twice(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    if (a->gate_kind != SEQMIX_GATE_SOFTPLUS) return false;
    float *gate = a->gate.data;
    const int64_t heads = a->v.shape[1], width = a->gate.rank == 3 ? a->gate.shape[2] : 1;
    const int64_t count = seqmix_tensor_count(&a->gate);
    for (int64_t i = 0; i < count; i++) {
        const int64_t h = i / width % heads, d = i % width;
        const float *bias = a->dt_bias.data;
        gate[i] = softplus(gate[i] + (bias != NULL ? bias[a->dt_bias.rank == 2 ? h * width + d : h] : 0));
    }
    a->dt_bias = (seqmix_tensor){0};
    return true;
}

static bool map_a(struct seqmix_val_case *c, float (*function)(float))
{
    if (!is_raw(args_of(c))) return false;
    seqmix_val_map(&args_of(c)->A, function);
    c->twist |= SEQMIX_VAL_UNCLAMPED;
    return true;
}

static bool a_positive(struct seqmix_val_case *c)
{
    return map_a(c, negated);
}

static bool a_log_used(struct seqmix_val_case *c)
{
    return map_a(c, log_of_negated);
}

static bool a_is_log(struct seqmix_val_case *c)
{
    return map_a(c, minus_exp);
}

/* ---------------------------------------------------------------- beta */

static bool beta_as(struct seqmix_val_case *c, int32_t kind)
{
    seqmix_deltanet_args *a = args_of(c);
    const bool changed = a->beta_kind != kind;
    a->beta_kind = kind;
    return changed;
}

static bool beta_raw(struct seqmix_val_case *c)
{
    return beta_as(c, SEQMIX_BETA_VALUE);
}

static bool beta_squashed(struct seqmix_val_case *c)
{
    return args_of(c)->beta_kind == SEQMIX_BETA_VALUE && beta_as(c, SEQMIX_BETA_SIGMOID);
}

static bool beta_squashed_twice(struct seqmix_val_case *c)
{
    seqmix_val_map(&args_of(c)->beta, sigmoid);
    return args_of(c)->beta_kind != SEQMIX_BETA_VALUE;
}

static bool beta_doubled(struct seqmix_val_case *c)
{
    if (args_of(c)->beta_kind == SEQMIX_BETA_SIGMOID2) return false;
    if (args_of(c)->beta_kind == SEQMIX_BETA_SIGMOID) return beta_as(c, SEQMIX_BETA_SIGMOID2);
    seqmix_val_map(&args_of(c)->beta, doubled);
    return true;
}

static bool beta_not_doubled(struct seqmix_val_case *c)
{
    return args_of(c)->beta_kind == SEQMIX_BETA_SIGMOID2 && beta_as(c, SEQMIX_BETA_SIGMOID);
}

/* ---------------------------------------------------------------- heads, scale, norms */

static bool other_head_map(struct seqmix_val_case *c, int32_t now)
{
    seqmix_deltanet_args *a = args_of(c);
    const int64_t hk = a->k.shape[1], hv = a->v.shape[1];
    if (a->head_map != now || hk == 1 || hk == hv) return false;
    a->head_map = now == SEQMIX_HEADS_GROUPED ? SEQMIX_HEADS_TILED : SEQMIX_HEADS_GROUPED;
    return true;
}

static bool heads_tiled(struct seqmix_val_case *c)
{
    return other_head_map(c, SEQMIX_HEADS_GROUPED);
}

static bool heads_grouped(struct seqmix_val_case *c)
{
    return other_head_map(c, SEQMIX_HEADS_TILED);
}

static double scale_of(const seqmix_deltanet_args *a)
{
    return a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->k.shape[2]);
}

static bool rescale(struct seqmix_val_case *c, double scale)
{
    seqmix_deltanet_args *a = args_of(c);
    const double old = scale_of(a);
    a->scale = (float)scale;
    return fabs(scale - old) > 1e-5 * old && a->scale > 0;
}

static bool scale_missing(struct seqmix_val_case *c)
{
    return rescale(c, 1);
}

static bool scale_twice(struct seqmix_val_case *c)
{
    const double scale = scale_of(args_of(c));
    return rescale(c, scale * scale);
}

static bool scale_over_dk(struct seqmix_val_case *c)
{
    const double dk = (double)args_of(c)->k.shape[2], scale = scale_of(args_of(c));
    return fabs(scale * scale * dk - 1) > 1e-5 && rescale(c, 1 / dk);
}

static bool scale_default(struct seqmix_val_case *c)
{
    return rescale(c, 1 / sqrt((double)args_of(c)->k.shape[2]));
}

static bool norm_missing(struct seqmix_val_case *c)
{
    const bool was = args_of(c)->qk_l2norm != 0;
    args_of(c)->qk_l2norm = 0;
    return was;
}

static bool norm_extra(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    const bool was = a->qk_l2norm != 0;
    a->qk_l2norm = 1;
    if (!(a->eps > 0)) a->eps = 1e-6f;
    return !was;
}

static bool norm_max_eps(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_NORM_MAX_EPS;
    return args_of(c)->qk_l2norm != 0;
}

static bool norm_eps_on_mean(struct seqmix_val_case *c)
{
    args_of(c)->eps *= (float)args_of(c)->k.shape[2];
    return args_of(c)->qk_l2norm != 0;
}

static bool norm_eps_missing(struct seqmix_val_case *c)
{
    args_of(c)->eps = FLT_MIN;
    return args_of(c)->qk_l2norm != 0;
}

/* L2-norms one of q and k here, so that the op norms neither. */
static bool norm_only(struct seqmix_val_case *c, seqmix_tensor *t)
{
    seqmix_deltanet_args *a = args_of(c);
    if (a->qk_l2norm == 0) return false;
    a->qk_l2norm = 0;
    float *x = t->data;
    const int64_t n = t->shape[2], vectors = t->shape[0] * t->shape[1];
    for (int64_t i = 0; i < vectors; i++, x += n) {
        double sum = (double)a->eps;
        for (int64_t d = 0; d < n; d++)
            sum += (double)x[d] * (double)x[d];
        for (int64_t d = 0; d < n; d++)
            x[d] = (float)((double)x[d] / sqrt(sum));
    }
    return true;
}

static bool q_not_normed(struct seqmix_val_case *c)
{
    return norm_only(c, &args_of(c)->k);
}

static bool k_not_normed(struct seqmix_val_case *c)
{
    return norm_only(c, &args_of(c)->q);
}

static bool q_k_swapped(struct seqmix_val_case *c)
{
    seqmix_deltanet_args *a = args_of(c);
    const seqmix_tensor q = a->q;
    a->q = a->k;
    a->k = q;
    return true;
}

/* ---------------------------------------------------------------- order */

static bool predict_undecayed(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_PREDICT_UNDECAYED;
    return args_of(c)->gate_kind != SEQMIX_GATE_NONE;
}

static bool decay_after_write(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_DECAY_AFTER_WRITE;
    return args_of(c)->gate_kind != SEQMIX_GATE_NONE;
}

static bool no_prediction(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_NO_PREDICTION;
    return true;
}

static bool read_before_write(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_READ_BEFORE_WRITE;
    return true;
}

#define CAUSE(name, touches, apply, sentence)                                                                          \
    {                                                                                                                  \
        name, 1u << SEQMIX_VAL_deltanet, SEQMIX_VAL_TOUCH_##touches, apply, sentence                                   \
    }

const struct seqmix_val_cause seqmix_val_causes_delta[] = {
    CAUSE("gate-as-log", GATE, as_log, "gate in the wrong space: its numbers are used as log gates"),
    CAUSE("gate-as-alpha", GATE, as_alpha, "gate in the wrong space: its numbers are used as alpha, a factor"),
    CAUSE("gate-log-of-gate", GATE, log_of_gate,
          "gate in the wrong space: its logarithm is taken, as if it were alpha"),
    CAUSE("gate-is-raw", GATE, as_raw, "gate in the wrong space: it is raw, A*softplus(gate+dt_bias) fits"),
    CAUSE("gate-ignored", GATE, gate_ignored, "gate ignored: nothing decays"),
    CAUSE("gate-base-2", GATE, gate_base_2, "gate exponent to base 2: 2^g where exp(g) is meant"),
    CAUSE("gate-log2e", GATE, gate_log2e, "gate exponent times log2(e): exp(g*1.4427) where exp(g) is meant"),
    CAUSE("gate-negated", GATE, gate_negated, "gate with the opposite sign: the decay grows"),
    CAUSE("gate-bf16", GATE, gate_bf16, "gate rounded to bf16 before the decay is formed"),
    CAUSE("dt-bias-ignored", GATE, dt_bias_ignored, "dt_bias ignored"),
    CAUSE("gate-softplus-missing", GATE, softplus_missing, "softplus missing: the log gate is A*(gate+dt_bias)"),
    CAUSE("gate-softplus-twice", GATE, softplus_twice, "softplus applied twice to gate+dt_bias"),
    CAUSE("A-positive", GATE, a_positive, "A used with the opposite sign: the decay grows"),
    CAUSE("A-log-used", GATE, a_log_used, "A_log used where A = -exp(A_log) is meant"),
    CAUSE("A-is-log", GATE, a_is_log, "the file's A is A_log: -exp of it fits"),
    CAUSE("beta-not-squashed", BETA, beta_raw, "beta not squashed: its raw value is used"),
    CAUSE("beta-squashed", BETA, beta_squashed, "beta squashed by a sigmoid, though beta_kind is VALUE"),
    CAUSE("beta-squashed-twice", BETA, beta_squashed_twice, "beta squashed twice"),
    CAUSE("beta-doubled", BETA, beta_doubled, "beta doubled"),
    CAUSE("beta-not-doubled", BETA, beta_not_doubled, "beta not doubled: sigmoid(beta) where twice that is meant"),
    CAUSE("heads-tiled", HEADS, heads_tiled, "head map tiled: value head h uses key head h % HK, not h/(HV/HK)"),
    CAUSE("heads-grouped", HEADS, heads_grouped, "head map grouped: value head h uses key head h/(HV/HK), not h % HK"),
    CAUSE("scale-missing", SCALE, scale_missing, "scale missing: the output is not scaled"),
    CAUSE("scale-twice", SCALE, scale_twice, "scale applied twice (1/DK, where the default 1/sqrt(DK) is meant)"),
    CAUSE("scale-1-over-DK", SCALE, scale_over_dk, "scale is 1/DK"),
    CAUSE("scale-default", SCALE, scale_default, "scale is 1/sqrt(DK), not the one given"),
    CAUSE("l2norm-missing", NORM, norm_missing, "L2 norm of q and k missing"),
    CAUSE("l2norm-extra", NORM, norm_extra, "q and k L2-normed, though qk_l2norm says no"),
    CAUSE("l2norm-max-eps", NORM, norm_max_eps, "L2 norm with eps in the wrong place: x/max(|x|, eps)"),
    CAUSE("l2norm-eps-on-mean", NORM, norm_eps_on_mean, "L2 norm with eps on the mean square, DK times too large"),
    CAUSE("l2norm-eps-missing", NORM, norm_eps_missing, "L2 norm without eps"),
    CAUSE("l2norm-of-q-missing", NORM, q_not_normed, "L2 norm of q missing"),
    CAUSE("l2norm-of-k-missing", NORM, k_not_normed, "L2 norm of k missing"),
    CAUSE("q-k-swapped", KEYS, q_k_swapped, "q and k swapped"),
    CAUSE("predict-undecayed", ORDER, predict_undecayed,
          "decay applied after the prediction: v is compared with the undecayed state's answer"),
    CAUSE("decay-after-write", ORDER, decay_after_write, "decay applied after the write"),
    CAUSE("no-prediction", ORDER, no_prediction, "no prediction: beta*v is written, not beta*(v - S'k)"),
    CAUSE("read-before-write", ORDER, read_before_write, "output read before the row's own decay and write"),
    {NULL, 0, 0, NULL, NULL},
};
