/* SPDX-License-Identifier: MIT */
/*
 * Mamba-1 against the same equations written down once more, in double, one row after the other, for every option of a
 * checkpoint: dtypes, biases, head of its own, both layouts, convolution widths.
 */
#include <math.h>

#include "support.h"

#define N_ROWS 40

/* f32 arithmetic against double, relative to the largest logit. */
#define BOUND 2e-5

static const seqmix_st_tensor *tensor(const seqmix_model *m, int64_t layer, const char *name)
{
    char full[128];
    const char *prefix = strncmp(name, "lm_head", 7) == 0 ? "" : "backbone.";
    if (layer < 0)
        (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    else
        (void)snprintf(full, sizeof full, "%slayers.%lld.%s", prefix, (long long)layer, name);
    return seqmix_st_find(&m->weights.st, full);
}

static double element(const seqmix_st_tensor *t, int64_t i)
{
    if (t == NULL) return 0.0; /* a bias that is not there */
    if (t->dtype == SEQMIX_ST_F32) return (double)((const float *)t->data)[i];
    unsigned bits = ((const uint16_t *)t->data)[i];
    int shift = t->dtype == SEQMIX_ST_BF16 ? 7 : 10, bias = t->dtype == SEQMIX_ST_BF16 ? 127 : 15;
    int exponent = (int)(bits >> shift) & (t->dtype == SEQMIX_ST_BF16 ? 0xFF : 0x1F);
    int mantissa = (int)(bits & ((1u << shift) - 1));
    double value =
        exponent == 0 ? ldexp(mantissa, 1 - bias - shift) : ldexp(mantissa + (1 << shift), exponent - bias - shift);
    return (bits & 0x8000u) != 0 ? -value : value;
}

static void product(const seqmix_st_tensor *w, const seqmix_st_tensor *bias, const double *x, int64_t rows,
                    int64_t columns, double *y)
{
    for (int64_t i = 0; i < rows; i++) {
        y[i] = element(bias, i);
        for (int64_t k = 0; k < columns; k++)
            y[i] += element(w, i * columns + k) * x[k];
    }
}

static void norm(const seqmix_st_tensor *w, const double *x, int64_t n, double *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + 1e-5) * element(w, i);
}

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

/* One layer's mixer on one row; `window` [inner, conv], the newest column last, and `state` [inner, N] are carried on. */
static void mixer(const seqmix_model *m, int64_t layer, const double *n, double *window, double *state, double *h)
{
    const seqmix_config *c = &m->config;
    int64_t DI = c->mamba.inner, K = c->mamba.conv, N = c->mamba.state, RK = c->mamba.dt_rank;
    double xz[128], x[64], dbc[64], dt[64], y[64], out[32];
    product(tensor(m, layer, "mixer.in_proj.weight"), tensor(m, layer, "mixer.in_proj.bias"), n, 2 * DI, c->hidden, xz);
    for (int64_t d = 0; d < DI; d++) {
        double *w = window + d * K;
        memmove(w, w + 1, (size_t)(K - 1) * sizeof *w);
        w[K - 1] = xz[d];
        x[d] = element(tensor(m, layer, "mixer.conv1d.bias"), d);
        for (int64_t k = 0; k < K; k++)
            x[d] += w[k] * element(tensor(m, layer, "mixer.conv1d.weight"), d * K + k);
        x[d] = silu(x[d]);
    }
    product(tensor(m, layer, "mixer.x_proj.weight"), NULL, x, RK + 2 * N, DI, dbc);
    product(tensor(m, layer, "mixer.dt_proj.weight"), tensor(m, layer, "mixer.dt_proj.bias"), dbc, DI, RK, dt);
    for (int64_t d = 0; d < DI; d++) {
        double delta = log1p(exp(dt[d]));
        y[d] = element(tensor(m, layer, "mixer.D"), d) * x[d];
        for (int64_t s = 0; s < N; s++) {
            double *at = &state[d * N + s];
            double A = -exp(element(tensor(m, layer, "mixer.A_log"), d * N + s));
            *at = exp(delta * A) * *at + delta * dbc[RK + s] * x[d];
            y[d] += *at * dbc[RK + N + s];
        }
        y[d] *= silu(xz[DI + d]);
    }
    product(tensor(m, layer, "mixer.out_proj.weight"), tensor(m, layer, "mixer.out_proj.bias"), y, c->hidden, DI, out);
    for (int64_t i = 0; i < c->hidden; i++)
        h[i] += out[i];
}

static void oracle(const seqmix_model *m, const int32_t *tokens, int64_t rows, double *logits)
{
    const seqmix_config *c = &m->config;
    static double window[4][64 * 16], state[4][64 * 16];
    memset(window, 0, sizeof window);
    memset(state, 0, sizeof state);
    const seqmix_st_tensor *table = tensor(m, -1, "embeddings.weight");
    if (table == NULL) table = tensor(m, -1, "embedding.weight");
    const seqmix_st_tensor *head = c->tied ? table : tensor(m, -1, "lm_head.weight");
    for (int64_t t = 0; t < rows; t++) {
        double h[32], n[32];
        for (int64_t i = 0; i < c->hidden; i++)
            h[i] = element(table, tokens[t] * c->hidden + i);
        for (int64_t i = 0; i < c->layers; i++) {
            norm(tensor(m, i, "norm.weight"), h, c->hidden, n);
            mixer(m, i, n, window[i], state[i], h);
        }
        norm(tensor(m, -1, "norm_f.weight"), h, c->hidden, n);
        product(head, NULL, n, c->vocab, c->hidden, logits + t * c->vocab);
    }
}

static void collect(void *user, const float *logits, int64_t rows, int64_t vocab)
{
    float **at = user;
    memcpy(*at, logits, (size_t)(rows * vocab) * sizeof **at);
    *at += rows * vocab;
}

#define TINY .vocab = 48, .hidden = 16, .layers = 2, .state = 4, .dt_rank = 2, .conv_bias = true
static const tiny variants[] = {
    {TINY, .conv = 4, .tied = true, .dtype = "F32"},
    {TINY, .conv = 4, .tied = true, .dtype = "BF16"},
    {TINY, .conv = 4, .tied = true, .dtype = "F16"},
    {TINY, .conv = 4, .tied = false, .bias = true, .dtype = "F16"},
    {TINY, .conv = 4, .tied = true, .original_names = true, .dtype = "F32"},
    {TINY, .conv = 1, .tied = true, .dtype = "F32"},
    {TINY, .conv = 2, .tied = true, .dtype = "BF16"},
    {.vocab = 37, .hidden = 20, .layers = 3, .state = 7, .dt_rank = 3, .conv = 5, .tied = false, .dtype = "F32"},
};

START_TEST(against_double)
{
    static double wanted[N_ROWS * 48];
    static float got[N_ROWS * 48];
    int32_t tokens[N_ROWS];
    char why[256] = "";
    const char *dir = temporary_dir();
    write_tiny(dir, &variants[_i]);
    opened o = open_model_all_logits(dir, 9);
    int64_t vocab = o.model->config.vocab;
    for (int32_t i = 0; i < N_ROWS; i++)
        tokens[i] = (i * 11 + i * i * 5 + 3) % (int32_t)vocab;
    float *end = got;
    seqmix_watch watch = {.user = &end, .sink = collect};
    ck_assert_msg(seqmix_session_eval(o.session, tokens, N_ROWS, &watch, (seqmix_why){why, sizeof why}), "%s", why);
    oracle(o.model, tokens, N_ROWS, wanted);
    double scale = 0.0, worst = 0.0;
    for (int64_t i = 0; i < N_ROWS * vocab; i++) {
        scale = fmax(scale, fabs(wanted[i]));
        worst = fmax(worst, fabs(wanted[i] - (double)got[i]));
    }
    ck_assert_msg(scale > 0.1 && worst <= BOUND * scale, "logits differ by %.3g of %.3g", worst, scale);
    close_model(&o);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mamba");
    TCase *cases = tcase_create("mamba");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, against_double, 0, COUNT(variants));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
