/* SPDX-License-Identifier: MIT */
/* What may have gone wrong in selective_scan and ssd: dt, A, B, C, skip and z. */
#include <math.h>
#include <string.h>

#include "tensor.h"
#include "validate_case.h"

/* The fields the two families share. */
struct mixer {
    seqmix_tensor *dt, *A, *B, *C, *skip, *dt_bias, *z;
    int32_t *dt_softplus;
    float *dt_min, *dt_max; /* NULL in a scan */
    int64_t heads;
};

static struct mixer mixer_of(struct seqmix_val_case *c)
{
    if (c->op->family == SEQMIX_VAL_scan) {
        seqmix_scan_args *a = &c->args.scan;
        return (struct mixer){&a->dt, &a->A,           &a->B, &a->C, &a->skip,     &a->dt_bias,
                              &a->z,  &a->dt_softplus, NULL,  NULL,  a->x.shape[1]};
    }
    seqmix_ssd_args *a = &c->args.ssd;
    return (struct mixer){&a->dt, &a->A,           &a->B,      &a->C,      &a->skip,     &a->dt_bias,
                          &a->z,  &a->dt_softplus, &a->dt_min, &a->dt_max, a->x.shape[1]};
}

static bool drop(seqmix_tensor *t)
{
    const bool was = seqmix_present(t);
    *t = (seqmix_tensor){0};
    return was;
}

/* ---------------------------------------------------------------- dt */

static float softplus(float x)
{
    return x > 20 ? x : (float)log1p(exp((double)x));
}

static void add_bias(struct mixer *m)
{
    if (!seqmix_present(m->dt_bias)) return;
    float *dt = m->dt->data;
    const float *bias = m->dt_bias->data;
    const int64_t count = seqmix_tensor_count(m->dt);
    for (int64_t i = 0; i < count; i++)
        dt[i] += bias[i % m->heads];
    (void)drop(m->dt_bias);
}

/* Replaces dt by what the op makes of it, and the options by none. */
static void settle_dt(struct mixer *m)
{
    add_bias(m);
    if (*m->dt_softplus != 0) seqmix_val_map(m->dt, softplus);
    *m->dt_softplus = 0;
    if (m->dt_min == NULL) return;
    float *dt = m->dt->data;
    for (int64_t i = seqmix_tensor_count(m->dt); i-- > 0;) {
        if (*m->dt_min > 0 && dt[i] < *m->dt_min) dt[i] = *m->dt_min;
        if (*m->dt_max > 0 && dt[i] > *m->dt_max) dt[i] = *m->dt_max;
    }
    *m->dt_min = *m->dt_max = 0;
}

static bool softplus_missing(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    c->twist |= SEQMIX_VAL_UNCLAMPED; /* dt may be negative now */
    const bool was = *m.dt_softplus != 0;
    *m.dt_softplus = 0;
    return was;
}

static bool softplus_extra(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    const bool was = *m.dt_softplus != 0;
    *m.dt_softplus = 1;
    return !was;
}

static bool softplus_twice(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    if (*m.dt_softplus == 0) return false;
    add_bias(&m);
    seqmix_val_map(m.dt, softplus);
    return true;
}

static bool dt_bias_ignored(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    return drop(m.dt_bias);
}

static float doubled(float x)
{
    return 2 * x;
}

static bool dt_bias_twice(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    if (!seqmix_present(m.dt_bias)) return false;
    seqmix_val_map(m.dt_bias, doubled);
    return true;
}

static bool clamp_ignored(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    if (*m.dt_min == 0 && *m.dt_max == 0) return false;
    *m.dt_min = *m.dt_max = 0;
    c->twist |= SEQMIX_VAL_UNCLAMPED;
    return true;
}

static float to_bf16(float x)
{
    return seqmix_bf16_to_f32(seqmix_f32_to_bf16(x));
}

static bool dt_bf16(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    settle_dt(&m);
    seqmix_val_map(m.dt, to_bf16);
    return true;
}

/* ---------------------------------------------------------------- A */

static float negated(float x)
{
    return -x;
}

static float log_of_negated(float x)
{
    return (float)log(-(double)x);
}

static float minus_log_of_negated(float x)
{
    return (float)-log(-(double)x);
}

static float minus_exp(float x)
{
    return (float)-exp((double)x);
}

static float times_ln2(float x)
{
    return (float)((double)x * 0.69314718055994530942);
}

static bool map_a(struct seqmix_val_case *c, float (*function)(float))
{
    struct mixer m = mixer_of(c);
    seqmix_val_map(m.A, function);
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

static bool a_minus_log_used(struct seqmix_val_case *c)
{
    return map_a(c, minus_log_of_negated);
}

static bool a_is_log(struct seqmix_val_case *c)
{
    return map_a(c, minus_exp);
}

static bool decay_base_2(struct seqmix_val_case *c)
{
    return map_a(c, times_ln2);
}

static bool a_bf16(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    seqmix_val_map(m.A, to_bf16);
    return true;
}

/* ---------------------------------------------------------------- B, C, skip, z, order */

static bool b_c_swapped(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    const seqmix_tensor b = *m.B;
    *m.B = *m.C;
    *m.C = b;
    return true;
}

/* B or C with one group per head, taken from group h % G. */
static bool spread_groups(struct seqmix_val_case *c, seqmix_tensor *t, int64_t heads)
{
    const seqmix_tensor old = *t;
    const int64_t groups = old.shape[1], n = old.shape[2], shape[3] = {old.shape[0], heads, n};
    if (!seqmix_val_new_tensor(&c->memory, t, 3, shape)) return false;
    for (int64_t r = 0; r < old.shape[0]; r++)
        for (int64_t h = 0; h < heads; h++)
            memcpy((float *)t->data + (r * heads + h) * n, (float *)old.data + (r * groups + h % groups) * n,
                   (size_t)n * sizeof(float));
    return true;
}

static bool groups_interleaved(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    const int64_t groups = m.B->shape[1];
    return groups > 1 && groups < m.heads && spread_groups(c, m.B, m.heads) && spread_groups(c, m.C, m.heads);
}

static bool skip_missing(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    return drop(m.skip);
}

static bool z_missing(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    return drop(m.z);
}

static bool z_sigmoid(struct seqmix_val_case *c)
{
    struct mixer m = mixer_of(c);
    c->twist |= SEQMIX_VAL_Z_SIGMOID;
    return seqmix_present(m.z);
}

static bool input_without_dt(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_INPUT_WITHOUT_DT;
    return true;
}

static bool input_zoh(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_INPUT_ZOH;
    return true;
}

static bool read_before_write(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_READ_BEFORE_WRITE;
    return true;
}

static bool decay_after_write(struct seqmix_val_case *c)
{
    c->twist |= SEQMIX_VAL_DECAY_AFTER_WRITE;
    return true;
}

#define SCAN 1u << SEQMIX_VAL_scan
#define SSD  1u << SEQMIX_VAL_ssd
#define CAUSE(name, touches, apply, sentence)                                                                          \
    {                                                                                                                  \
        name, SCAN | SSD, SEQMIX_VAL_TOUCH_##touches, apply, sentence                                                  \
    }

const struct seqmix_val_cause seqmix_val_causes_dt[] = {
    CAUSE("dt-softplus-missing", GATE, softplus_missing, "dt softplus missing: dt + dt_bias is used as it is"),
    CAUSE("dt-softplus-extra", GATE, softplus_extra, "dt softplus applied, though dt_softplus says no"),
    CAUSE("dt-softplus-twice", GATE, softplus_twice, "dt softplus applied twice"),
    CAUSE("dt-bias-ignored", GATE, dt_bias_ignored, "dt_bias ignored"),
    CAUSE("dt-bias-twice", GATE, dt_bias_twice, "dt_bias added twice"),
    {"dt-clamp-ignored", SSD, SEQMIX_VAL_TOUCH_GATE, clamp_ignored, "dt_min and dt_max ignored"},
    CAUSE("dt-bf16", GATE, dt_bf16, "dt rounded to bf16 before the decay is formed"),
    CAUSE("A-bf16", A, a_bf16, "A rounded to bf16"),
    CAUSE("A-positive", A, a_positive, "A used with the opposite sign: the decay grows"),
    CAUSE("A-log-used", A, a_log_used, "A_log used where A = -exp(A_log) is meant"),
    CAUSE("A-exp-missing", A, a_minus_log_used, "-A_log used where A = -exp(A_log) is meant"),
    CAUSE("A-is-log", A, a_is_log, "the file's A is A_log: -exp of it fits"),
    CAUSE("decay-base-2", A, decay_base_2, "decay to base 2: 2^(dt*A) where exp(dt*A) is meant"),
    CAUSE("B-C-swapped", KEYS, b_c_swapped, "B and C swapped"),
    CAUSE("groups-interleaved", HEADS, groups_interleaved, "group map h % G: head h uses group h % G, not h/(H/G)"),
    CAUSE("skip-missing", SKIP, skip_missing, "skip missing: D*x is not added"),
    CAUSE("z-missing", Z, z_missing, "z gate missing"),
    CAUSE("z-sigmoid", Z, z_sigmoid, "z gate is sigmoid(z), not silu(z)"),
    CAUSE("input-without-dt", ORDER, input_without_dt, "dt missing in the input term: x*B is written, not dt*x*B"),
    CAUSE("input-zoh", ORDER, input_zoh, "zero-order hold for B: (exp(dt*A)-1)/A in place of dt"),
    CAUSE("read-before-write", ORDER, read_before_write, "output read before the row's own decay and write"),
    CAUSE("decay-after-write", ORDER, decay_after_write, "decay applied after the write"),
    {NULL, 0, 0, NULL, NULL},
};
