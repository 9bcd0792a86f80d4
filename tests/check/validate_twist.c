/* SPDX-License-Identifier: MIT */
/*
 * The recurrences of selective_scan, ssd and deltanet in double, with departures that no argument can express (case.twist).
 * All three are S <- decay*S; u = beta*(v - [delta rule] S'k); S <- S + k u'; o = S'q with k = B, q = C, v = x and u = v for the
 * first two. Without a twist it equals the oracle, which tests/check/test_validate.c asserts.
 */
#include <math.h>
#include <string.h>

#include "batch.h"
#include "validate_case.h"

enum { WIDTH = 256 };

/* What one row brings to one head. */
struct update {
    int64_t n_k, n_v;
    bool delta;
    double decay[WIDTH], k[WIDTH], q[WIDTH], v[WIDTH], scale;
    double beta, write[WIDTH];      /* factor of the write, per k */
    double add[WIDTH], gate[WIDTH]; /* output = scale*S'q + add, times gate */
};

static double at(const seqmix_tensor *t, int64_t i, int64_t j, int64_t k)
{
    const int64_t index[3] = {i, j, k};
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++)
        offset += index[axis] * t->stride[axis];
    return (double)((const float *)t->data)[offset];
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double clamped_exp(double g, bool unclamped)
{
    return exp(unclamped || !(g > 0) ? g : 0);
}

/* dt as the op uses it. */
static double final_dt(double dt, bool plus, double low, double high)
{
    double delta = plus ? softplus(dt) : dt;
    if (low > 0 && delta < low) delta = low;
    if (high > 0 && delta > high) delta = high;
    return delta;
}

/* The factor of x*B that goes with a decay of exp(dt*a). */
static double input_factor(unsigned twist, double dt, double a)
{
    if ((twist & SEQMIX_VAL_INPUT_WITHOUT_DT) != 0) return 1;
    return (twist & SEQMIX_VAL_INPUT_ZOH) != 0 && a != 0 ? expm1(dt * a) / a : dt;
}

/* The factor that z brings to an output. */
static double z_gate(unsigned twist, double z)
{
    return (twist & SEQMIX_VAL_Z_SIGMOID) != 0 ? sigmoid(z) : z * sigmoid(z);
}

static void scan_update(const struct seqmix_val_case *c, int64_t r, int64_t d, struct update *u)
{
    const seqmix_scan_args *a = &c->args.scan;
    const int64_t group = d / (a->x.shape[1] / a->B.shape[1]);
    const double bias = a->dt_bias.rank != 0 ? at(&a->dt_bias, d, 0, 0) : 0;
    const double dt = final_dt(at(&a->dt, r, d, 0) + bias, a->dt_softplus != 0, 0, 0), x = at(&a->x, r, d, 0);
    u->n_k = a->A.shape[1];
    u->n_v = 1;
    u->v[0] = x;
    for (int64_t n = 0; n < u->n_k; n++) {
        const double rate = at(&a->A, d, n, 0);
        u->decay[n] = clamped_exp(dt * rate, (c->twist & SEQMIX_VAL_UNCLAMPED) != 0);
        u->write[n] = input_factor(c->twist, dt, rate);
        u->k[n] = at(&a->B, r, group, n);
        u->q[n] = at(&a->C, r, group, n);
    }
    u->add[0] = a->skip.rank != 0 ? at(&a->skip, d, 0, 0) * x : 0;
    u->gate[0] = a->z.rank != 0 ? z_gate(c->twist, at(&a->z, r, d, 0)) : 1;
}

static void ssd_update(const struct seqmix_val_case *c, int64_t r, int64_t h, struct update *u)
{
    const seqmix_ssd_args *a = &c->args.ssd;
    const int64_t group = h / (a->x.shape[1] / a->B.shape[1]);
    const double bias = a->dt_bias.rank != 0 ? at(&a->dt_bias, h, 0, 0) : 0, rate = at(&a->A, h, 0, 0);
    const double dt = final_dt(at(&a->dt, r, h, 0) + bias, a->dt_softplus != 0, (double)a->dt_min, (double)a->dt_max);
    u->n_k = a->B.shape[2];
    u->n_v = a->x.shape[2];
    for (int64_t n = 0; n < u->n_k; n++) {
        u->decay[n] = clamped_exp(dt * rate, (c->twist & SEQMIX_VAL_UNCLAMPED) != 0);
        u->write[n] = input_factor(c->twist, dt, rate);
        u->k[n] = at(&a->B, r, group, n);
        u->q[n] = at(&a->C, r, group, n);
    }
    for (int64_t p = 0; p < u->n_v; p++) {
        u->v[p] = at(&a->x, r, h, p);
        u->add[p] = a->skip.rank != 0 ? at(&a->skip, h, p, 0) * u->v[p] : 0;
        u->gate[p] = a->z.rank != 0 ? z_gate(c->twist, at(&a->z, r, h, p)) : 1;
    }
}

static double delta_decay(const struct seqmix_val_case *c, int64_t r, int64_t h, int64_t d)
{
    const seqmix_deltanet_args *a = &c->args.deltanet;
    const bool unclamped = (c->twist & SEQMIX_VAL_UNCLAMPED) != 0;
    if (a->gate_kind == SEQMIX_GATE_NONE) return 1;
    const double g = at(&a->gate, r, h, d);
    if (a->gate_kind == SEQMIX_GATE_LOG) return clamped_exp(g, unclamped);
    if (a->gate_kind == SEQMIX_GATE_ALPHA) return unclamped ? g : g > 1 ? 1 : g < 0 ? 0 : g;
    const double raw = g + (a->dt_bias.rank != 0 ? at(&a->dt_bias, h, d, 0) : 0), rate = at(&a->A, h, 0, 0);
    if (a->gate_kind == SEQMIX_GATE_SOFTPLUS) return clamped_exp(rate * softplus(raw), unclamped);
    return clamped_exp((double)a->gate_lower_bound * sigmoid(-rate * raw), unclamped);
}

/* The factor of q or k: its L2 norm's inverse, or 1. */
static double key_factor(const seqmix_deltanet_args *a, unsigned twist, const double *x, int64_t n)
{
    double sum = 0;
    if (a->qk_l2norm == 0) return 1;
    for (int64_t d = 0; d < n; d++)
        sum += x[d] * x[d];
    if ((twist & SEQMIX_VAL_NORM_MAX_EPS) != 0) return 1 / fmax(sqrt(sum), (double)a->eps);
    return 1 / sqrt(sum + (double)a->eps);
}

static void delta_update(const struct seqmix_val_case *c, int64_t r, int64_t h, struct update *u)
{
    const seqmix_deltanet_args *a = &c->args.deltanet;
    const int64_t hk = a->k.shape[1], hv = a->v.shape[1];
    const int64_t key_head = a->head_map == SEQMIX_HEADS_TILED ? h % hk : h / (hv / hk);
    const double beta = at(&a->beta, r, h, 0);
    u->n_k = a->k.shape[2];
    u->n_v = a->v.shape[2];
    u->delta = true;
    u->beta = a->beta_kind == SEQMIX_BETA_VALUE     ? beta
              : a->beta_kind == SEQMIX_BETA_SIGMOID ? sigmoid(beta)
                                                    : 2 * sigmoid(beta);
    u->scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)u->n_k);
    for (int64_t d = 0; d < u->n_k; d++) {
        u->k[d] = at(&a->k, r, key_head, d);
        u->q[d] = at(&a->q, r, key_head, d);
        u->decay[d] = delta_decay(c, r, h, d);
        u->write[d] = 1;
    }
    const double k_factor = key_factor(a, c->twist, u->k, u->n_k), q_factor = key_factor(a, c->twist, u->q, u->n_k);
    for (int64_t d = 0; d < u->n_k; d++) {
        u->k[d] *= k_factor;
        u->q[d] *= q_factor;
    }
    for (int64_t d = 0; d < u->n_v; d++) {
        u->v[d] = at(&a->v, r, h, d);
        u->add[d] = 0;
        u->gate[d] = 1;
    }
}

/* One head's state, element (k, v) at k*step_k + v*step_v. */
struct head_state {
    double *s;
    int64_t step_k, step_v;
};

static void apply_decay(const struct update *u, const struct head_state *h)
{
    for (int64_t i = 0; i < u->n_k; i++)
        for (int64_t j = 0; j < u->n_v; j++)
            h->s[i * h->step_k + j * h->step_v] *= u->decay[i];
}

static void multiply(const struct update *u, const struct head_state *h, const double *by, double *result)
{
    memset(result, 0, (size_t)u->n_v * sizeof *result);
    for (int64_t i = 0; i < u->n_k; i++)
        for (int64_t j = 0; j < u->n_v; j++)
            result[j] += by[i] * h->s[i * h->step_k + j * h->step_v];
}

static void advance(const struct update *u, const struct head_state *h, unsigned twist, double *out)
{
    double predicted[WIDTH] = {0}, read[WIDTH];
    const bool predict = u->delta && (twist & SEQMIX_VAL_NO_PREDICTION) == 0;
    const bool decay_last = (twist & SEQMIX_VAL_DECAY_AFTER_WRITE) != 0;
    if ((twist & SEQMIX_VAL_READ_BEFORE_WRITE) != 0) multiply(u, h, u->q, read);
    if (predict && (twist & SEQMIX_VAL_PREDICT_UNDECAYED) != 0) multiply(u, h, u->k, predicted);
    if (!decay_last) apply_decay(u, h);
    if (predict && (twist & SEQMIX_VAL_PREDICT_UNDECAYED) == 0) multiply(u, h, u->k, predicted);
    for (int64_t i = 0; i < u->n_k; i++)
        for (int64_t j = 0; j < u->n_v; j++)
            h->s[i * h->step_k + j * h->step_v] += u->write[i] * u->k[i] * (u->beta * (u->v[j] - predicted[j]));
    if (decay_last) apply_decay(u, h);
    if ((twist & SEQMIX_VAL_READ_BEFORE_WRITE) == 0) multiply(u, h, u->q, read);
    for (int64_t j = 0; j < u->n_v; j++)
        out[j] = (u->scale * read[j] + u->add[j]) * u->gate[j];
}

/* Sizes of the op in hand, in the words of `update`. */
struct sizes {
    int64_t heads, n_k, n_v;
    bool value_first; /* the state is [v, k] */
    void (*update)(const struct seqmix_val_case *c, int64_t r, int64_t h, struct update *u);
};

static struct sizes sizes_of(const struct seqmix_val_case *c)
{
    const union seqmix_val_args *a = &c->args;
    switch (c->op->family) {
    case SEQMIX_VAL_scan:
        return (struct sizes){a->scan.x.shape[1], a->scan.A.shape[1], 1, true, scan_update};
    case SEQMIX_VAL_ssd:
        return (struct sizes){a->ssd.x.shape[1], a->ssd.B.shape[2], a->ssd.x.shape[2], true, ssd_update};
    default:
        return (struct sizes){a->deltanet.v.shape[1], a->deltanet.k.shape[2], a->deltanet.v.shape[2], false,
                              delta_update};
    }
}

static void store(double *pool, int64_t slot, int64_t head, int64_t heads, const double *s, int64_t count)
{
    if (slot >= 0 && pool != NULL) memcpy(pool + (slot * heads + head) * count, s, (size_t)count * sizeof *s);
}

static void run_sequence(struct seqmix_val_case *c, const struct sizes *z, const struct seqmix_seq *seq,
                         const double *initial, int64_t head, double *s, double *out, double *state)
{
    const int64_t count = z->n_k * z->n_v;
    const struct head_state view = {s, z->value_first ? 1 : z->n_v, z->value_first ? z->n_k : 1};
    struct update u = {.scale = 1, .beta = 1};
    int32_t checkpoint = seq->ckpt_begin;
    memset(s, 0, (size_t)count * sizeof *s);
    if (seq->read_slot >= 0 && initial != NULL)
        memcpy(s, initial + (seq->read_slot * z->heads + head) * count, (size_t)count * sizeof *s);
    for (int64_t r = seq->begin; r < seq->end; r++) {
        z->update(c, r, head, &u);
        advance(&u, &view, c->twist, out + (r * z->heads + head) * z->n_v);
        for (; checkpoint < seq->ckpt_end && c->batch.ckpt_row[checkpoint] == r - seq->begin + 1; checkpoint++)
            store(state, c->batch.ckpt_slot[checkpoint], head, z->heads, s, count);
    }
    store(state, seq->write_slot, head, z->heads, s, count);
}

void seqmix_val_twisted(struct seqmix_val_case *c, double *out, double *state)
{
    const struct sizes z = sizes_of(c);
    const seqmix_tensor absent = {0}, *pool = c->pool != NULL ? seqmix_val_state(c) : &absent;
    double *s = seqmix_val_take(&c->memory, z.n_k * z.n_v, sizeof *s);
    if (s == NULL || z.n_k > WIDTH || z.n_v > WIDTH) return;
    for (int32_t i = 0; i < c->batch.n_seqs; i++) {
        const struct seqmix_seq seq = seqmix_batch_seq(&c->batch, c->rows, pool, i);
        for (int64_t head = 0; head < z.heads; head++)
            run_sequence(c, &z, &seq, c->pool, head, s, out, state);
    }
}
