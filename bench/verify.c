/* SPDX-License-Identifier: MIT */
/*
 * No time without a right answer: a case is run once and compared with the recurrence of docs/OPS.md, evaluated here in
 * double, row by row, from the same inputs. It shares no code with the library. The bounds are those of docs/NUMERICS.md
 * for ordinary data: RMS error over a tensor relative to its RMS, and four times that over each vector of the last axis.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINEAR_SAMPLE = 256 }; /* outputs of a projection that are checked, evenly spread */

static int find(const struct seqmix_bench_case *c, const char *name)
{
    for (int i = 0; i < c->plan.n_fields; i++)
        if (strcmp(c->plan.fields[i].name, name) == 0) return i;
    return -1;
}

/* The values of a field by name; NULL when the case has none. */
static double *get(const struct seqmix_bench_case *c, double *const *values, const char *name)
{
    const int i = find(c, name);
    return i < 0 ? NULL : values[i];
}

static int64_t size_of(const struct seqmix_bench_case *c, const char *name, int axis)
{
    return c->plan.fields[find(c, name)].view.shape[axis];
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double softplus(double x)
{
    return x > 20.0 ? x : log1p(exp(x));
}

/* ---- the recurrences. Rows of a decode case are sequences with a slot each, rows of a prefill one sequence in slot 0. ---- */

void seqmix_bench_oracle_conv(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t R = size_of(c, "x", 0), D = size_of(c, "x", 1), K = size_of(c, "weight", 1);
    const double *x = get(c, values, "x"), *w = get(c, values, "weight"), *bias = get(c, values, "bias");
    double *state = get(c, values, "state"), *y = get(c, values, "y");
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < D; d++) {
            double *past = state != NULL ? state + ((c->entry.decode ? r : 0) * D + d) * (K - 1) : NULL;
            double sum = (bias != NULL ? bias[d] : 0.0) + w[d * K + K - 1] * x[r * D + d];
            for (int64_t j = 0; j < K - 1; j++) {
                sum += w[d * K + j] * past[j];
                past[j] = j + 1 < K - 1 ? past[j + 1] : x[r * D + d];
            }
            y[r * D + d] = silu(sum);
        }
}

void seqmix_bench_oracle_scan(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t R = size_of(c, "x", 0), D = size_of(c, "x", 1), G = size_of(c, "B", 1), N = size_of(c, "B", 2);
    const double *x = get(c, values, "x"), *dt = get(c, values, "dt"), *dt_bias = get(c, values, "dt_bias");
    const double *A = get(c, values, "A"), *B = get(c, values, "B"), *C = get(c, values, "C");
    const double *skip = get(c, values, "skip"), *z = get(c, values, "z");
    double *state = get(c, values, "state"), *y = get(c, values, "y");
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < D; d++) {
            const int64_t g = d / (D / G);
            const double delta = softplus(dt[r * D + d] + dt_bias[d]), at = x[r * D + d];
            double *h = state + ((c->entry.decode ? r : 0) * D + d) * N;
            double sum = skip[d] * at;
            for (int64_t n = 0; n < N; n++) {
                h[n] = exp(delta * A[d * N + n]) * h[n] + delta * B[(r * G + g) * N + n] * at;
                sum += C[(r * G + g) * N + n] * h[n];
            }
            y[r * D + d] = sum * silu(z[r * D + d]);
        }
}

void seqmix_bench_oracle_ssd(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t R = size_of(c, "x", 0), H = size_of(c, "x", 1), P = size_of(c, "x", 2);
    const int64_t G = size_of(c, "B", 1), N = size_of(c, "B", 2);
    const double *x = get(c, values, "x"), *dt = get(c, values, "dt"), *dt_bias = get(c, values, "dt_bias");
    const double *A = get(c, values, "A"), *B = get(c, values, "B"), *C = get(c, values, "C");
    const double *skip = get(c, values, "skip");
    double *state = get(c, values, "state"), *y = get(c, values, "y");
    for (int64_t r = 0; r < R; r++)
        for (int64_t h = 0; h < H; h++) {
            const int64_t g = h / (H / G);
            const double delta = softplus(dt[r * H + h] + dt_bias[h]), decay = exp(delta * A[h]);
            for (int64_t p = 0; p < P; p++) {
                const double at = x[(r * H + h) * P + p];
                double *S = state + (((c->entry.decode ? r : 0) * H + h) * P + p) * N;
                double sum = skip[h] * at;
                for (int64_t n = 0; n < N; n++) {
                    S[n] = decay * S[n] + delta * at * B[(r * G + g) * N + n];
                    sum += S[n] * C[(r * G + g) * N + n];
                }
                y[(r * H + h) * P + p] = sum;
            }
        }
}

static double inverse_norm(const double *v, int64_t n)
{
    double sum = 1e-6;
    for (int64_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return 1.0 / sqrt(sum);
}

/* One row of one value head: decay, predict, correct, write, read. `S` is [DK,DV], `u` a scratch of DV; channel i of the key
 * decays by decay[i % n_decays]. */
static void delta_row(double *S, const double *q, const double *k, const double *v, const double *decay,
                      int64_t n_decays, double beta, int64_t DK, int64_t DV, double *u, double *o)
{
    const double q_scale = inverse_norm(q, DK) / sqrt((double)DK), k_scale = inverse_norm(k, DK);
    memset(u, 0, (size_t)DV * sizeof u[0]);
    memset(o, 0, (size_t)DV * sizeof o[0]);
    for (int64_t i = 0; i < DK; i++)
        for (int64_t j = 0; j < DV; j++)
            u[j] += (S[i * DV + j] *= decay[i % n_decays]) * k[i] * k_scale;
    for (int64_t j = 0; j < DV; j++)
        u[j] = beta * (v[j] - u[j]);
    for (int64_t i = 0; i < DK; i++)
        for (int64_t j = 0; j < DV; j++)
            o[j] += (S[i * DV + j] += k[i] * k_scale * u[j]) * q[i] * q_scale;
}

void seqmix_bench_oracle_deltanet(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t R = size_of(c, "q", 0), HK = size_of(c, "q", 1), DK = size_of(c, "q", 2);
    const int64_t HV = size_of(c, "v", 1), DV = size_of(c, "v", 2);
    const double *q = get(c, values, "q"), *k = get(c, values, "k"), *v = get(c, values, "v"), *A = get(c, values, "A");
    const double *gate = get(c, values, "gate"), *dt_bias = get(c, values, "dt_bias"), *beta = get(c, values, "beta");
    double *state = get(c, values, "state"), *o = get(c, values, "o");
    const int64_t gates = c->entry.shape->deltanet.channels != 0 ? DK : 1;
    double *u = malloc((size_t)(DV + gates) * sizeof u[0]), *decay = u != NULL ? u + DV : NULL;
    for (int64_t r = 0; r < R && u != NULL; r++)
        for (int64_t h = 0; h < HV; h++) {
            const int64_t key = (r * HK + h / (HV / HK)) * DK, row = r * HV + h;
            for (int64_t i = 0; i < gates; i++)
                decay[i] = exp(A[h] * softplus(gate[row * gates + i] + dt_bias[h]));
            delta_row(state + ((c->entry.decode ? r : 0) * HV + h) * DK * DV, q + key, k + key, v + row * DV, decay,
                      gates, sigmoid(beta[row]), DK, DV, u, o + row * DV);
        }
    free(u);
}

/* Column j of the inverse by forward substitution. */
void seqmix_bench_oracle_inverse(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t batch = size_of(c, "a", 0), n = size_of(c, "a", 1);
    for (int64_t b = 0; b < batch; b++) {
        const double *a = get(c, values, "a") + b * n * n;
        double *inv = get(c, values, "inv") + b * n * n;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++)
                inv[i * n + j] = i == j ? 1.0 : 0.0;
            for (int64_t m = 0; m < i; m++)
                for (int64_t j = 0; j <= m; j++)
                    inv[i * n + j] -= a[i * n + m] * inv[m * n + j];
        }
    }
}

void seqmix_bench_oracle_norm(const struct seqmix_bench_case *c, double *const *values)
{
    const seqmix_norm_args *args = &c->plan.args.norm;
    const int64_t R = size_of(c, "x", 0), D = size_of(c, "x", 1), group = args->group,
                  n_weights = size_of(c, "weight", 0);
    const double *x = get(c, values, "x"), *z = get(c, values, "z"), *weight = get(c, values, "weight");
    double *y = get(c, values, "y");
    for (int64_t start = 0; start < R * D; start += group) {
        double sum = 0;
        for (int64_t i = start; i < start + group; i++) {
            y[i] = z != NULL && !args->norm_before_gate ? x[i] * silu(z[i]) : x[i];
            sum += y[i] * y[i];
        }
        const double scale = 1.0 / sqrt(sum / (double)group + (double)args->eps);
        for (int64_t i = start; i < start + group; i++) {
            y[i] *= scale * weight[i % n_weights];
            if (z != NULL && args->norm_before_gate) y[i] *= silu(z[i]);
        }
    }
}

/* The weight is too large to widen: it is read in place, and outputs between the sampled ones stay NaN, unchecked. */
void seqmix_bench_oracle_linear(const struct seqmix_bench_case *c, double *const *values)
{
    const int64_t R = size_of(c, "x", 0), I = size_of(c, "x", 1), O = size_of(c, "weight", 0);
    const int64_t step = O > LINEAR_SAMPLE ? O / LINEAR_SAMPLE : 1;
    const double *x = get(c, values, "x");
    double *y = get(c, values, "y");
    const seqmix_tensor *w = &c->args[0].linear.weight;
    for (int64_t o = 0; o < O; o += step)
        for (int64_t r = 0; r < R; r++) {
            double sum = 0;
            for (int64_t i = 0; i < I; i++)
                sum += x[r * I + i] * seqmix_bench_load(w->data, w->dtype, o * I + i);
            y[r * O + o] = sum;
        }
}

/* ---- comparison ---- */

static double bound_for(const struct seqmix_bench_case *c)
{
    return c->entry.dtype == SEQMIX_F32 ? 2e-6 : c->entry.dtype == SEQMIX_BF16 ? 4e-3 : 1e-3;
}

struct squares {
    double error, oracle;
    int64_t n;
};

static struct squares sum_squares(const double *got, const double *want, int64_t n)
{
    struct squares s = {0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want[i])) continue;
        s.error += (got[i] - want[i]) * (got[i] - want[i]);
        s.oracle += want[i] * want[i];
        s.n++;
    }
    return s;
}

/* Fills the verdict when this field is worse than what it holds. */
static void compare(const struct seqmix_bench_case *c, const struct seqmix_bench_field *f, const double *got,
                    const double *want, struct seqmix_bench_verdict *v)
{
    const int64_t count = seqmix_bench_count(&f->view), width = f->view.shape[f->view.rank - 1];
    const struct squares whole = sum_squares(got, want, count);
    const double rms = sqrt(whole.oracle / (double)(whole.n > 0 ? whole.n : 1)), bound = bound_for(c);
    const double error = sqrt(whole.error / (double)(whole.n > 0 ? whole.n : 1)) / (rms > 0 ? rms : 1.0);
    v->bound = bound;
    if (!(error <= v->error)) v->error = error;
    double worst = 0;
    int64_t worst_at = 0;
    for (int64_t at = 0; at < count; at += width) {
        const struct squares s = sum_squares(got + at, want + at, width);
        if (s.n == 0) continue;
        const double own = sqrt(s.oracle / (double)s.n);
        const double relative = sqrt(s.error / (double)s.n) / (own > rms ? own : rms > 0 ? rms : 1.0);
        if (!(relative <= worst)) {
            worst = relative;
            worst_at = at;
            if (isnan(relative)) break;
        }
    }
    if (whole.n > 0 && error <= bound && worst <= 4 * bound) return;
    if (!v->passed) return;
    v->passed = 0;
    const int64_t vectors_a_row = count / f->view.shape[0] / width;
    snprintf(v->text, sizeof v->text,
             "%s is off by %.2e of its RMS (bound %.1e), worst vector %.2e at row %lld, vector %lld of it", f->name,
             error, bound, worst, (long long)(worst_at / width / (vectors_a_row > 0 ? vectors_a_row : 1)),
             (long long)(worst_at / width % (vectors_a_row > 0 ? vectors_a_row : 1)));
}

/* ---- the run ---- */

static int is_written(const struct seqmix_bench_field *f)
{
    return f->role == SEQMIX_BENCH_OUT || f->role == SEQMIX_BENCH_STATE;
}

/* Copies a field of the first copy to the host and widens it. NULL when memory is short. */
static double *widen(struct seqmix_bench_case *c, int index)
{
    const struct seqmix_bench_field *f = &c->plan.fields[index];
    const int64_t n = seqmix_bench_count(&f->view);
    const size_t bytes = (size_t)n * seqmix_bench_dtype_size(f->view.dtype);
    void *host = malloc(bytes);
    double *values = malloc((size_t)n * sizeof values[0]);
    if (host == NULL || values == NULL || seqmix_mem_copy(c->ctx, host, c->memory[index], bytes) != SEQMIX_OK) {
        free(host);
        free(values);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = seqmix_bench_load(host, f->view.dtype, i);
    free(host);
    return values;
}

/* What --plant-fault does: one vector of the output is wrong by half the tensor's RMS, which no bound lets pass. */
static void plant(const struct seqmix_bench_field *f, double *got)
{
    const int64_t count = seqmix_bench_count(&f->view), width = f->view.shape[f->view.rank - 1];
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += got[i] * got[i];
    const double shift = 0.5 * sqrt(sum / (double)count);
    for (int64_t i = count - width; i < count; i++)
        got[i] += shift;
}

static int reject(struct seqmix_bench_verdict *v, const char *text)
{
    v->passed = 0;
    snprintf(v->text, sizeof v->text, "%s", text);
    return 0;
}

static int compare_written(struct seqmix_bench_case *c, double *const *values, int fault,
                           struct seqmix_bench_verdict *v)
{
    for (int i = 0; i < c->plan.n_fields; i++) {
        const struct seqmix_bench_field *f = &c->plan.fields[i];
        if (!is_written(f)) continue;
        double *got = widen(c, i);
        if (got == NULL) return reject(v, "no memory to verify it");
        if (fault && f->role == SEQMIX_BENCH_OUT) plant(f, got);
        compare(c, f, got, values[i], v);
        free(got);
    }
    return v->passed;
}

int seqmix_bench_verify(struct seqmix_bench_case *c, int fault, struct seqmix_bench_verdict *verdict)
{
    double *values[SEQMIX_BENCH_FIELDS] = {NULL};
    const int weight = c->entry.linear != NULL ? find(c, "weight") : -1;
    int short_of_memory = 0;
    *verdict = (struct seqmix_bench_verdict){.passed = 1};
    for (int i = 0; i < c->plan.n_fields; i++) {
        if (i == weight) continue;
        values[i] = widen(c, i);
        short_of_memory |= values[i] == NULL;
    }
    if (short_of_memory)
        reject(verdict, "no memory to verify it");
    else if (seqmix_bench_case_run(c, 0) != SEQMIX_OK || seqmix_sync(c->ctx) != SEQMIX_OK)
        reject(verdict, seqmix_last_error(c->ctx));
    else {
        c->entry.op->oracle(c, values);
        compare_written(c, values, fault, verdict);
    }
    for (int i = 0; i < c->plan.n_fields; i++)
        free(values[i]);
    return verdict->passed;
}
