/* SPDX-License-Identifier: MIT */
/*
 * See test_validate.h. R rows in three sequences, five slots. Traits of every op with state: even (sequences of equal length in
 * slots 0 1 2), ckpt (rows of the last sequence after which its state goes into its read slot); of all: bf16 (inputs that bf16
 * and f16 hold exactly).
 */
#include "test_validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "safetensors.h"

enum { R = 24, SEQS = 3, SLOTS = 5 };
static const int32_t packed[] = {0, 7, 8, 24}, packed_read[] = {2, 0, 4}, packed_write[] = {2, 1, 3};
static const int32_t even[] = {0, 8, 16, 24}, same[] = {0, 1, 2};
static const int32_t *row_begin, *read_slot, *write_slot;
static int32_t checkpoint[3]; /* the last sequence, rows, slot; rows 0: none */

static const char *faults[2];

bool sample_has(const char *fault)
{
    for (int i = 0; i < 2; i++)
        if (faults[i] != NULL && strcmp(faults[i], fault) == 0) return true;
    return false;
}

static void add_batch(struct sample *s)
{
    memcpy(sample_tensor(s, "row_begin", SEQMIX_ST_I32, "4"), row_begin, sizeof packed);
    memcpy(sample_tensor(s, "read_slot", SEQMIX_ST_I32, "3"), read_slot, sizeof packed_read);
    memcpy(sample_tensor(s, "write_slot", SEQMIX_ST_I32, "3"), write_slot, sizeof packed_write);
    static const char *const names[] = {"ckpt_seq", "ckpt_row", "ckpt_slot"};
    for (int i = 0; i < 3 && checkpoint[1] > 0; i++)
        memcpy(sample_tensor(s, names[i], SEQMIX_ST_I32, "1"), &checkpoint[i], sizeof checkpoint[i]);
}

/* ---------------------------------------------------------------- formulas */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

static double bf16(double x)
{
    return (double)seqmix_bf16_to_f32(seqmix_f32_to_bf16((float)x));
}

/* ---------------------------------------------------------------- sequences and slots, common to all ops with state */

/* One row of one op on one sequence's state. */
typedef void row_fn(struct sample *s, int r, double *state, double *out);

static void transpose(double *x, int matrices, int n)
{
    for (int m = 0; m < matrices; m++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++) {
                double *a = &x[(m * n + i) * n + j], *b = &x[(m * n + j) * n + i];
                const double keep = *a;
                *a = *b;
                *b = keep;
            }
}

/* Runs the op over all sequences; `size` state elements a slot, `width` output elements a row, `n` the state's last axis. */
static void run_sequences(struct sample *s, row_fn *row, int size, int width, int n, const char *state_shape,
                          const char *name, const char *out_shape)
{
    const float *initial = sample_values(s, "state");
    double *pool = calloc((size_t)(SLOTS * size), sizeof *pool), *state = calloc((size_t)size, sizeof *state);
    double *rows = calloc((size_t)(R * width), sizeof *rows), *before = calloc((size_t)size, sizeof *before);
    const bool joined = sample_has("sequences-joined");
    for (int i = 0; i < SLOTS * size && initial != NULL; i++)
        pool[i] = (double)initial[i];
    for (int seq = 0; seq < (joined ? 1 : SEQS); seq++) {
        const int from = sample_has("initial-slots") ? seq : read_slot[seq],
                  to = sample_has("final-slots") ? seq : write_slot[seq];
        const int begin = row_begin[seq], end = joined ? R : row_begin[seq + 1];
        for (int i = 0; i < size; i++)
            state[i] = sample_has("initial-state-ignored") || initial == NULL ? 0 : (double)initial[from * size + i];
        if (sample_has("initial-state-transposed") || sample_has("state-transposed"))
            transpose(state, size / (n * n), n);
        if (sample_has("conv-state-newest-first"))
            for (int c = 0; c < size / n; c++)
                for (int j = 0; j < n; j++)
                    state[c * n + j] = (double)initial[from * size + c * n + n - 1 - j];
        for (int r = begin; r < end; r++) {
            memcpy(before, state, (size_t)size * sizeof *state);
            row(s, r, state, rows + r * width);
            if (seq == checkpoint[0] && r - begin + 1 == checkpoint[1])
                memcpy(pool + checkpoint[2] * size, state, (size_t)size * sizeof *state);
        }
        if (sample_has("final-state-early")) memcpy(state, before, (size_t)size * sizeof *state);
        if (sample_has("final-state-transposed") || sample_has("state-transposed")) transpose(state, size / (n * n), n);
        for (int i = 0; i < size; i++) {
            const int j = sample_has("conv-state-newest-first") || sample_has("conv-final-newest-first")
                              ? i / n * n + n - 1 - i % n
                              : i;
            pool[to * size + j] = state[i];
        }
    }
    /* a pool turned over as a whole on its way out */
    if (sample_has("final-state-transposed"))
        for (int slot = 0; slot < SLOTS; slot++)
            if (slot == 0 || slot == 4) transpose(pool + slot * size, size / (n * n), n);
    if (sample_has("conv-final-newest-first"))
        for (int i = 0; i < SLOTS * size; i++)
            if (i / size == 0 || i / size == 4) pool[i / n * n + n - 1 - i % n] = (double)initial[i];
    float *out = sample_add(s, name, 0, 0, out_shape), *final = sample_add(s, "state_out", 0, 0, state_shape);
    for (int r = 0; r < R; r++) {
        const int from = r - (sample_has("rows-late") ? 1 : sample_has("rows-early") ? -1 : 0);
        const bool inside = from >= 0 && from < R;
        for (int i = 0; i < width; i++)
            out[r * width + i] = inside ? (float)rows[from * width + i] : 0;
    }
    for (int i = 0; i < SLOTS * size; i++)
        final[i] = (float)pool[i];
    free(pool);
    free(state);
    free(rows);
    free(before);
}

/* ---------------------------------------------------------------- short_conv: traits square, silu */

static int conv_d, conv_k, conv_silu;

static void conv_row(struct sample *s, int r, double *state, double *out)
{
    const float *x = sample_values(s, "x"), *w = sample_values(s, "weight"), *bias = sample_values(s, "bias");
    for (int c = 0; c < conv_d; c++) {
        double window[16], sum = sample_has("conv-bias-ignored") ? 0 : (double)bias[c];
        for (int j = 0; j < conv_k - 1; j++)
            window[j] = state[c * (conv_k - 1) + j];
        window[conv_k - 1] = (double)x[r * conv_d + c];
        for (int j = 0; j < conv_k; j++)
            sum += (double)w[c * conv_k + (sample_has("conv-kernel-flipped") ? conv_k - 1 - j : j)] * window[j];
        memcpy(state + c * (conv_k - 1), window + 1, (size_t)(conv_k - 1) * sizeof *state);
        const bool silu = sample_has("activation-extra") || (conv_silu && !sample_has("activation-missing"));
        out[c] = silu ? sum * sigmoid(sum) : sum;
    }
}

static void make_conv(struct sample *s, const char *traits)
{
    conv_d = sample_trait(traits, "square", 0) ? 3 : 5;
    conv_k = 4;
    conv_silu = sample_trait(traits, "silu", 1);
    (void)sample_add(s, "x", 0, 1, sample_shape("%d %d", R, conv_d, 0));
    (void)sample_add(s, "weight", 0.3, 1, sample_shape("%d %d", conv_d, conv_k, 0));
    (void)sample_add(s, "bias", 0, 1, sample_shape("%d", conv_d, 0, 0));
    (void)sample_add(s, "state", 0, 1, sample_shape("%d %d %d", SLOTS, conv_d, conv_k - 1));
    sample_string(s, "activation", conv_silu ? "SILU" : "NONE");
    run_sequences(s, conv_row, conv_d * (conv_k - 1), conv_d, conv_k - 1,
                  sample_shape("%d %d %d", SLOTS, conv_d, conv_k - 1), "y", sample_shape("%d %d", R, conv_d, 0));
}

/* ---------------------------------------------------------------- scan and ssd: traits square, softplus, clamp */

/* Heads H of P channels and N states; the scan is H = D, P = 1 with a rate per state. */
static struct {
    int h, p, n, g, softplus;
    bool scan;
    double low, high;
} mix;

static double mixer_dt(struct sample *s, int r, int h)
{
    const float *bias = sample_values(s, "dt_bias");
    double dt = (double)sample_values(s, "dt")[r * mix.h + h];
    if (bias != NULL) dt += (double)bias[h] * (sample_has("dt-bias-ignored") ? 0 : sample_has("dt-bias-twice") ? 2 : 1);
    if (sample_has("dt-softplus-extra") || (mix.softplus && !sample_has("dt-softplus-missing"))) dt = softplus(dt);
    if (sample_has("dt-softplus-twice")) dt = softplus(dt);
    if (mix.low > 0 && dt < mix.low && !sample_has("dt-clamp-ignored")) dt = mix.low;
    if (mix.high > 0 && dt > mix.high && !sample_has("dt-clamp-ignored")) dt = mix.high;
    return sample_has("dt-bf16") ? bf16(dt) : dt;
}

static double mixer_rate(struct sample *s, int h, int n)
{
    double a = (double)sample_values(s, "A")[mix.scan ? h * mix.n + n : h];
    if (sample_has("A-is-log")) a = -exp(a);
    if (sample_has("A-positive")) a = -a;
    if (sample_has("A-log-used")) a = log(-a);
    if (sample_has("A-exp-missing")) a = -log(-a);
    if (sample_has("A-bf16")) a = bf16(a);
    return sample_has("decay-base-2") ? a * log(2) : a;
}

static void mixer_row(struct sample *s, int r, double *state, double *out)
{
    const float *x = sample_values(s, "x"), *b = sample_values(s, sample_has("B-C-swapped") ? "C" : "B"),
                *c = sample_values(s, sample_has("B-C-swapped") ? "B" : "C");
    const float *skip = sample_values(s, "skip"), *z = sample_values(s, "z");
    for (int h = 0; h < mix.h; h++) {
        const int g = sample_has("groups-interleaved") ? h % mix.g : h / (mix.h / mix.g);
        const double dt = mixer_dt(s, r, h);
        for (int p = 0; p < mix.p; p++) {
            const double xv = (double)x[(r * mix.h + h) * mix.p + p];
            double y = 0;
            for (int n = 0; n < mix.n; n++) {
                double *cell = &state[(h * mix.p + p) * mix.n + n];
                const double a = mixer_rate(s, h, n), read = (double)c[(r * mix.g + g) * mix.n + n];
                const double input = sample_has("input-without-dt") ? 1
                                     : sample_has("input-zoh")      ? (exp(dt * a) - 1) / a
                                                                    : dt;
                const double write = input * xv * (double)b[(r * mix.g + g) * mix.n + n];
                if (sample_has("read-before-write")) y += read * *cell;
                *cell = sample_has("decay-after-write") ? exp(dt * a) * (*cell + write) : exp(dt * a) * *cell + write;
                if (!sample_has("read-before-write")) y += read * *cell;
            }
            if (!sample_has("skip-missing")) y += (double)skip[h] * xv;
            const double zv = (double)z[(r * mix.h + h) * mix.p + p];
            out[h * mix.p + p] = y * (sample_has("z-missing")   ? 1
                                      : sample_has("z-sigmoid") ? sigmoid(zv)
                                                                : zv * sigmoid(zv));
        }
    }
}

static void make_mixer(struct sample *s, const char *traits, bool scan)
{
    const bool square = sample_trait(traits, "square", 0) != 0;
    mix.scan = scan;
    mix.h = 4;
    mix.p = scan ? 1 : square ? 4 : 3;
    mix.n = square ? 4 : 5;
    mix.g = 2;
    mix.softplus = sample_trait(traits, "softplus", 1);
    mix.low = sample_trait(traits, "clamp", 0) ? 0.25 : 0;
    mix.high = sample_trait(traits, "clamp", 0) ? 1.0 : 0;
    const char *rows = scan ? sample_shape("%d %d", R, mix.h, 0) : sample_shape("%d %d %d", R, mix.h, mix.p);
    (void)sample_add(s, "x", 0, 1, rows);
    float *dt = sample_add(s, "dt", mix.softplus ? -0.5 : 0.5, 0.5, sample_shape("%d %d", R, mix.h, 0));
    float *a =
        sample_add(s, "A", 0, 0, scan ? sample_shape("%d %d", mix.h, mix.n, 0) : sample_shape("%d", mix.h, 0, 0));
    for (int i = 0; i < mix.h * (scan ? mix.n : 1); i++) {
        const double rate = 0.2 + 1.2 * sample_uniform();
        a[i] = (float)(sample_has("A-is-log") ? log(rate) : -rate);
    }
    for (int i = 0; i < R * mix.h && !mix.softplus; i++)
        dt[i] = (float)(0.1 + 0.8 * sample_uniform());
    (void)sample_add(s, "B", 0.5, 1, sample_shape("%d %d %d", R, mix.g, mix.n));
    (void)sample_add(s, "C", 0, 1, sample_shape("%d %d %d", R, mix.g, mix.n));
    (void)sample_add(s, "skip", 0, 1, sample_shape("%d", mix.h, 0, 0));
    if (mix.softplus) (void)sample_add(s, "dt_bias", 0.2, 0.5, sample_shape("%d", mix.h, 0, 0));
    (void)sample_add(s, "z", 0.5, 1, rows);
    const char *shape =
        scan ? sample_shape("%d %d %d", SLOTS, mix.h, mix.n) : sample_shape("5 %d %d %d", mix.h, mix.p, mix.n);
    (void)sample_add(s, "state", 0, 1, shape);
    sample_number(s, "dt_softplus", mix.softplus);
    if (!scan) sample_number(s, "dt_min", mix.low);
    if (!scan) sample_number(s, "dt_max", mix.high);
    run_sequences(s, mixer_row, mix.h * mix.p * mix.n, mix.h * mix.p, mix.n, shape, "y", rows);
}

/* ---------------------------------------------------------------- deltanet: traits below */

static struct {
    int hk, hv, dk, dv, gate, beta, norm, tiled, channels, spare;
    double scale, eps;
} delta;

/* The factor of channel d. */
static double delta_decay(struct sample *s, int r, int h, int d)
{
    const float *gates = sample_values(s, "gate"), *a = sample_values(s, "A"), *bias = sample_values(s, "dt_bias");
    if (delta.gate == 0 || sample_has("gate-ignored")) return 1;
    const int channel = delta.channels ? (r * delta.hv + h) * delta.dk + d : r * delta.hv + h;
    double g = (double)gates[channel];
    if (sample_has("gate-as-log")) return exp(g);
    if (sample_has("gate-as-alpha")) return g;
    if (sample_has("gate-log-of-gate")) return exp(log(g));
    const int kind = sample_has("gate-is-raw") ? 3 : delta.gate;
    if (kind >= 3) {
        double rate = (double)a[h];
        if (sample_has("A-is-log")) rate = -exp(rate);
        if (sample_has("A-positive")) rate = -rate;
        if (sample_has("A-log-used")) rate = log(-rate);
        if (!sample_has("dt-bias-ignored")) g += (double)bias[delta.channels ? h * delta.dk + d : h];
        if (sample_has("gate-softplus-twice")) g = softplus(g);
        g = kind == 4 ? -3 * sigmoid(-rate * g) : rate * (sample_has("gate-softplus-missing") ? g : softplus(g));
    }
    if (kind == 2) g = sample_has("gate-bf16") ? log(bf16(g)) : log(g);
    if (kind != 2 && sample_has("gate-bf16")) g = bf16(g);
    return exp(sample_has("gate-base-2")    ? g * log(2)
               : sample_has("gate-log2e")   ? g / log(2)
               : sample_has("gate-negated") ? -g
                                            : g);
}

static double delta_beta(struct sample *s, int r, int h)
{
    const double b = (double)sample_values(s, "beta")[r * delta.hv + h];
    if (sample_has("beta-not-squashed")) return b;
    if (sample_has("beta-squashed")) return sigmoid(b);
    if (sample_has("beta-squashed-twice")) return (delta.beta == 2 ? 2 : 1) * sigmoid(sigmoid(b));
    if (sample_has("beta-doubled")) return 2 * (delta.beta == 0 ? b : sigmoid(b));
    if (sample_has("beta-not-doubled")) return sigmoid(b);
    return delta.beta == 0 ? b : delta.beta * sigmoid(b);
}

static void delta_vector(const float *from, double *to, bool is_q)
{
    double sum = 0, norm = 1;
    for (int d = 0; d < delta.dk; d++)
        sum += (double)from[d] * (double)from[d];
    const double eps = sample_has("l2norm-eps-on-mean")   ? delta.eps * delta.dk
                       : sample_has("l2norm-eps-missing") ? 0
                                                          : delta.eps;
    if (delta.norm || sample_has("l2norm-extra"))
        norm = sqrt(sum + (eps > 0 || !sample_has("l2norm-extra") ? eps : 1e-6));
    if (sample_has("l2norm-max-eps")) norm = sqrt(sum) > delta.eps ? sqrt(sum) : delta.eps;
    if (sample_has("l2norm-missing") || sample_has(is_q ? "l2norm-of-q-missing" : "l2norm-of-k-missing")) norm = 1;
    for (int d = 0; d < delta.dk; d++)
        to[d] = (double)from[d] / norm;
}

static void delta_row(struct sample *s, int r, double *state, double *out)
{
    const bool tiled = sample_has("heads-tiled") || (delta.tiled && !sample_has("heads-grouped")),
               swapped = sample_has("q-k-swapped");
    const float *q = sample_values(s, swapped ? "k" : "q"), *k = sample_values(s, swapped ? "q" : "k"),
                *v = sample_values(s, "v");
    const double plain = 1 / sqrt((double)delta.dk);
    double scale = delta.scale > 0 ? delta.scale : plain;
    if (sample_has("scale-twice")) scale *= scale;
    scale = sample_has("scale-missing")     ? 1
            : sample_has("scale-default")   ? plain
            : sample_has("scale-1-over-DK") ? plain * plain
                                            : scale;
    for (int h = 0; h < delta.hv; h++) {
        const int kh = tiled ? h % delta.hk : h * delta.hk / delta.hv;
        double qv[64], kv[64], decay[64];
        delta_vector(q + (r * delta.hk + kh) * delta.dk, qv, !swapped);
        delta_vector(k + (r * delta.hk + kh) * delta.dk, kv, swapped);
        for (int d = 0; d < delta.dk; d++)
            decay[d] = delta_decay(s, r, h, d);
        const bool late = sample_has("decay-after-write");
        for (int j = 0; j < delta.dv; j++) {
            double *column = state + h * delta.dk * delta.dv + j, told = 0, read = 0;
            for (int d = 0; d < delta.dk; d++) {
                double *cell = &column[d * delta.dv];
                if (sample_has("read-before-write")) read += qv[d] * *cell;
                if (sample_has("predict-undecayed")) told += kv[d] * *cell;
                if (!late) *cell *= decay[d];
                if (!sample_has("predict-undecayed") && !sample_has("no-prediction")) told += kv[d] * *cell;
            }
            const double u = delta_beta(s, r, h) * ((double)v[(r * delta.hv + h) * delta.dv + j] - told);
            for (int d = 0; d < delta.dk; d++) {
                column[d * delta.dv] += kv[d] * u;
                if (late) column[d * delta.dv] *= decay[d];
                if (!sample_has("read-before-write")) read += qv[d] * column[d * delta.dv];
            }
            out[h * delta.dv + j] = scale * read;
        }
    }
}

/* gate 0..4 and beta 0..2 are the kinds' numbers; also norm, tiled, channels, square, tiny (keys; 2: also below eps), scale (percent), spare (A and
 * dt_bias in the file though gate is LOG). */
static void delta_traits(struct sample *s, const char *traits)
{
    static const char *const gates[] = {"NONE", "LOG", "ALPHA", "SOFTPLUS", "BOUNDED_SIGMOID"};
    static const char *const betas[] = {"VALUE", "SIGMOID", "SIGMOID2"};
    delta.hk = 2;
    delta.hv = 4;
    delta.dk = 4;
    delta.dv = sample_trait(traits, "square", 0) ? 4 : 5;
    delta.gate = sample_trait(traits, "gate", 1);
    delta.beta = sample_trait(traits, "beta", 1);
    delta.norm = sample_trait(traits, "norm", 1);
    delta.tiled = sample_trait(traits, "tiled", 0);
    delta.channels = sample_trait(traits, "channels", 0);
    delta.spare = sample_trait(traits, "spare", 0);
    delta.scale = sample_trait(traits, "scale", 0) / 100.0;
    delta.eps = delta.norm ? (sample_trait(traits, "tiny", 0) == 2 ? 0.05
                              : sample_trait(traits, "tiny", 0)    ? 1e-3
                                                                   : 1e-6)
                           : 0;
    sample_string(s, "gate_kind", gates[delta.gate]);
    sample_string(s, "beta_kind", betas[delta.beta]);
    sample_string(s, "head_map", delta.tiled ? "TILED" : "GROUPED");
    sample_number(s, "qk_l2norm", delta.norm);
    sample_number(s, "eps", delta.eps);
    sample_number(s, "scale", delta.scale);
    sample_number(s, "gate_lower_bound", -3);
}

static void make_delta(struct sample *s, const char *traits)
{
    delta_traits(s, traits);
    const double size = sample_trait(traits, "tiny", 0) ? 0.02 : delta.norm ? 1 : 0.4;
    (void)sample_add(s, "q", 0, size, sample_shape("%d %d %d", R, delta.hk, delta.dk));
    (void)sample_add(s, "k", 0, size, sample_shape("%d %d %d", R, delta.hk, delta.dk));
    (void)sample_add(s, "v", 0, 1, sample_shape("%d %d %d", R, delta.hv, delta.dv));
    const char *gate_shape =
        delta.channels ? sample_shape("%d %d %d", R, delta.hv, delta.dk) : sample_shape("%d %d", R, delta.hv, 0);
    float *gate = delta.gate > 0 ? sample_add(s, "gate", 0, 1, gate_shape) : NULL;
    const int n = R * delta.hv * (delta.channels ? delta.dk : 1);
    for (int i = 0; i < n && gate != NULL && delta.gate < 3 && !delta.spare; i++) {
        const double g = -0.05 - 0.4 * fabs((double)gate[i]);
        gate[i] = (float)(delta.gate == 2 ? exp(g) : g);
    }
    float *beta = sample_add(s, "beta", 0.3, 1, sample_shape("%d %d", R, delta.hv, 0));
    for (int i = 0; i < R * delta.hv && delta.beta == 0; i++)
        beta[i] = (float)(0.1 + 0.7 * sample_uniform());
    if (delta.gate > 2 || delta.spare) {
        float *a = sample_add(s, "A", 0, 0, sample_shape("%d", delta.hv, 0, 0));
        for (int i = 0; i < delta.hv; i++) {
            const double rate = 0.15 + 0.6 * sample_uniform();
            a[i] = (float)(sample_has("A-is-log") ? log(rate) : -rate);
        }
        (void)sample_add(s, "dt_bias", 0.5, 0.7,
                         delta.channels ? sample_shape("%d %d", delta.hv, delta.dk, 0)
                                        : sample_shape("%d", delta.hv, 0, 0));
    }
    const char *shape = sample_shape("5 %d %d %d", delta.hv, delta.dk, delta.dv);
    (void)sample_add(s, "state", 0, 1, shape);
    run_sequences(s, delta_row, delta.hv * delta.dk * delta.dv, delta.hv * delta.dv, delta.dv, shape, "o",
                  sample_shape("%d %d %d", R, delta.hv, delta.dv));
}

void sample_make(struct sample *s, const char *op, const char *traits, const char *fault, const char *second_fault)
{
    *s = (struct sample){0};
    faults[0] = fault;
    faults[1] = second_fault;
    sample_seed(12345);
    sample_string(s, "op", op);
    sample_round(sample_trait(traits, "bf16", 0) != 0);
    row_begin = sample_trait(traits, "even", 0) ? even : packed;
    read_slot = row_begin == even ? same : packed_read;
    write_slot = row_begin == even ? same : packed_write;
    checkpoint[0] = SEQS - 1;
    checkpoint[1] = sample_trait(traits, "ckpt", 0);
    checkpoint[2] = 4;
    if (strncmp(op, "short_conv", 10) == 0) make_conv(s, traits);
    if (strncmp(op, "selective_scan", 14) == 0) make_mixer(s, traits, true);
    if (strncmp(op, "ssd", 3) == 0) make_mixer(s, traits, false);
    if (strncmp(op, "deltanet", 8) == 0) make_delta(s, traits);
    if (strcmp(op, "gated_rms_norm_rows") == 0) sample_make_norm(s, traits);
    if (strcmp(op, "unit_lower_inverse") == 0) sample_make_inverse(s);
    if (strcmp(op, "linear") == 0) sample_make_linear(s);
    if (strcmp(op, "embed_rows") == 0) sample_make_embed(s);
    if (sample_find(s, "state") != NULL) add_batch(s);
}
