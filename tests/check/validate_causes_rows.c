/* SPDX-License-Identifier: MIT */
/* What may have gone wrong in short_conv, gated_rms_norm, unit_lower_inverse and linear. */
#include <float.h>
#include <math.h>

#include "tensor.h"
#include "validate_case.h"

static bool drop(seqmix_tensor *t)
{
    const bool was = seqmix_present(t);
    *t = (seqmix_tensor){0};
    return was;
}

static void swap_elements(float *a, float *b)
{
    const float keep = *a;
    *a = *b;
    *b = keep;
}

/* ---------------------------------------------------------------- short_conv */

static bool kernel_flipped(struct seqmix_val_case *c)
{
    const seqmix_tensor *w = &c->args.conv.weight;
    const int64_t k = w->shape[1];
    for (int64_t d = 0; d < w->shape[0]; d++)
        for (int64_t j = 0; j < k / 2; j++)
            swap_elements((float *)w->data + d * k + j, (float *)w->data + d * k + k - 1 - j);
    return k > 1;
}

static bool reverse_initial(struct seqmix_val_case *c)
{
    const seqmix_tensor *pool = &c->args.conv.state;
    if (c->pool == NULL || !c->pool_given || pool->shape[2] < 2) return false;
    const int64_t n = pool->shape[2], columns = pool->shape[0] * pool->shape[1];
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < n / 2; j++) {
            double *a = c->pool + i * n + j, *b = c->pool + i * n + n - 1 - j;
            const double keep = *a;
            *a = *b;
            *b = keep;
        }
    return true;
}

static bool newest_first(struct seqmix_val_case *c)
{
    const bool judged = c->dump->state_out.present && c->args.conv.state.shape[2] > 1;
    c->final_reversed = judged;
    return reverse_initial(c) || judged;
}

static bool final_newest_first(struct seqmix_val_case *c)
{
    c->final_reversed = true;
    return c->pool_given && c->dump->state_out.present && c->args.conv.state.shape[2] > 1;
}

static bool conv_bias_ignored(struct seqmix_val_case *c)
{
    return drop(&c->args.conv.bias);
}

static bool activation_missing(struct seqmix_val_case *c)
{
    const bool was = c->args.conv.activation != SEQMIX_ACT_NONE;
    c->args.conv.activation = SEQMIX_ACT_NONE;
    return was;
}

static bool activation_extra(struct seqmix_val_case *c)
{
    const bool was = c->args.conv.activation != SEQMIX_ACT_NONE;
    c->args.conv.activation = SEQMIX_ACT_SILU;
    return !was;
}

/* ---------------------------------------------------------------- gated_rms_norm */

static bool norm_z_missing(struct seqmix_val_case *c)
{
    return drop(&c->args.norm.z);
}

static bool norm_order(struct seqmix_val_case *c)
{
    c->args.norm.norm_before_gate = !c->args.norm.norm_before_gate;
    return seqmix_present(&c->args.norm.z);
}

static bool norm_weight_ignored(struct seqmix_val_case *c)
{
    return drop(&c->args.norm.weight);
}

static bool norm_plus_one(struct seqmix_val_case *c)
{
    if (c->args.norm.weight_plus_one != 0 || !seqmix_present(&c->args.norm.weight)) return false;
    c->args.norm.weight_plus_one = 1;
    return true;
}

static bool norm_plus_one_missing(struct seqmix_val_case *c)
{
    if (c->args.norm.weight_plus_one == 0 || !seqmix_present(&c->args.norm.weight)) return false;
    c->args.norm.weight_plus_one = 0;
    return true;
}

static bool norm_gate_act(struct seqmix_val_case *c)
{
    c->args.norm.gate_act =
        c->args.norm.gate_act == SEQMIX_NORM_GATE_SILU ? SEQMIX_NORM_GATE_SIGMOID : SEQMIX_NORM_GATE_SILU;
    return seqmix_present(&c->args.norm.z);
}

static bool norm_eps_missing(struct seqmix_val_case *c)
{
    c->args.norm.eps = FLT_MIN;
    return true;
}

static int64_t group_size(const seqmix_norm_args *a)
{
    return a->group != 0 ? a->group : a->x.shape[1];
}

static bool norm_eps_on_sum(struct seqmix_val_case *c)
{
    const int64_t n = group_size(&c->args.norm);
    if (n < 2) return false;
    c->args.norm.eps /= (float)n;
    return c->args.norm.eps > 0;
}

static bool norm_group_ignored(struct seqmix_val_case *c)
{
    seqmix_norm_args *a = &c->args.norm;
    const int64_t d = a->x.shape[1], group = group_size(a);
    if (group == d) return false;
    if (seqmix_present(&a->weight) && a->weight.shape[0] != d) {
        const seqmix_tensor old = a->weight;
        if (!seqmix_val_new_tensor(&c->memory, &a->weight, 1, &d)) return false;
        for (int64_t i = 0; i < d; i++)
            ((float *)a->weight.data)[i] = ((const float *)old.data)[i % group];
    }
    a->group = 0;
    return true;
}

static double gate_of(const seqmix_norm_args *a, int64_t i)
{
    const double z = (double)((const float *)a->z.data)[i], s = z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
    return a->gate_act == SEQMIX_NORM_GATE_SIGMOID ? s : z * s;
}

/* LayerNorm in place of RMSNorm: the mean is taken off before the norm. */
static bool norm_centred(struct seqmix_val_case *c)
{
    seqmix_norm_args *a = &c->args.norm;
    float *x = a->x.data;
    const bool gate_first = seqmix_present(&a->z) && a->norm_before_gate == 0;
    const int64_t count = seqmix_tensor_count(&a->x), n = group_size(a);
    for (int64_t i = 0; i < count && gate_first; i++)
        x[i] = (float)((double)x[i] * gate_of(a, i));
    if (gate_first) (void)drop(&a->z);
    for (int64_t g = 0; g < (n > 0 ? count / n : 0); g++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)x[g * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            x[g * n + i] = (float)((double)x[g * n + i] - mean);
    }
    return n > 1;
}

/* ---------------------------------------------------------------- unit_lower_inverse, linear */

static bool inverse_sign(struct seqmix_val_case *c)
{
    float *a = c->args.inverse.a.data;
    const int64_t count = seqmix_tensor_count(&c->args.inverse.a);
    for (int64_t i = 0; i < count; i++)
        a[i] = -a[i];
    return true;
}

static bool inverse_upper(struct seqmix_val_case *c)
{
    const seqmix_tensor *t = &c->args.inverse.a;
    const int64_t n = t->shape[t->rank - 1], count = seqmix_tensor_count(t);
    for (int64_t m = 0; n > 1 && m < count / (n * n); m++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                swap_elements((float *)t->data + m * n * n + i * n + j, (float *)t->data + m * n * n + j * n + i);
    return n > 1;
}

static bool inverse_transposed(struct seqmix_val_case *c)
{
    c->result_transposed = true;
    return true;
}

static bool linear_bias_ignored(struct seqmix_val_case *c)
{
    return drop(&c->args.linear.bias);
}

static bool residual_ignored(struct seqmix_val_case *c)
{
    return drop(&c->args.linear.residual);
}

static bool weight_transposed(struct seqmix_val_case *c)
{
    const seqmix_tensor *w = &c->args.linear.weight;
    const int64_t n = w->shape[0];
    if (n != w->shape[1]) return false;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            swap_elements((float *)w->data + i * n + j, (float *)w->data + j * n + i);
    return n > 1;
}

#define CAUSE(family, name, touches, apply, sentence)                                                                  \
    {                                                                                                                  \
        name, 1u << SEQMIX_VAL_##family, SEQMIX_VAL_TOUCH_##touches, apply, sentence                                   \
    }

const struct seqmix_val_cause seqmix_val_causes_rows[] = {
    CAUSE(conv, "conv-kernel-flipped", WEIGHT, kernel_flipped, "conv kernel flipped: weight is newest column first"),
    CAUSE(conv, "conv-state-newest-first", INITIAL | SEQMIX_VAL_TOUCH_FINAL, newest_first,
          "conv state order: its columns are newest first"),
    CAUSE(conv, "conv-final-newest-first", FINAL, final_newest_first,
          "conv state order: the columns of state_out are newest first, those of state are not"),
    CAUSE(conv, "conv-bias-ignored", BIAS, conv_bias_ignored, "bias ignored"),
    CAUSE(conv, "activation-missing", ACTIVATION, activation_missing, "activation missing: no silu"),
    CAUSE(conv, "activation-extra", ACTIVATION, activation_extra, "silu applied, though activation is NONE"),
    CAUSE(norm, "norm-z-missing", Z, norm_z_missing, "z gate missing"),
    CAUSE(norm, "norm-gate-order", ORDER, norm_order, "gate on the other side of the norm than norm_before_gate says"),
    CAUSE(norm, "norm-weight-ignored", WEIGHT, norm_weight_ignored, "weight ignored"),
    CAUSE(norm, "norm-weight-plus-one", WEIGHT, norm_plus_one, "weight is applied as 1+w where w is meant"),
    CAUSE(norm, "norm-weight-plus-one-missing", WEIGHT, norm_plus_one_missing,
          "weight is applied as w where 1+w is meant"),
    CAUSE(norm, "norm-gate-act", ACTIVATION, norm_gate_act, "the gate's other activation: silu and sigmoid mixed up"),
    CAUSE(norm, "norm-eps-missing", NORM, norm_eps_missing, "eps missing"),
    CAUSE(norm, "norm-eps-on-sum", NORM, norm_eps_on_sum, "eps added to the sum of squares, not to their mean"),
    CAUSE(norm, "norm-group-ignored", HEADS, norm_group_ignored, "group ignored: one norm over all of D"),
    CAUSE(norm, "norm-centred", KEYS, norm_centred, "LayerNorm: the mean is subtracted before the norm"),
    CAUSE(inverse, "inverse-sign", WEIGHT, inverse_sign, "sign: (I - L)^-1 in place of (I + L)^-1"),
    CAUSE(inverse, "inverse-upper", KEYS, inverse_upper, "the upper triangle of a is read"),
    CAUSE(inverse, "inverse-transposed", RESULT, inverse_transposed, "the result is transposed"),
    CAUSE(linear, "linear-bias-ignored", BIAS, linear_bias_ignored, "bias ignored"),
    CAUSE(linear, "linear-residual-ignored", SKIP, residual_ignored, "residual ignored"),
    CAUSE(linear, "linear-weight-transposed", WEIGHT, weight_transposed,
          "weight transposed: [I, O] where [O, I] is meant"),
    {NULL, 0, 0, NULL, NULL},
};
