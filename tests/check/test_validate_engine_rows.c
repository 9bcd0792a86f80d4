/* SPDX-License-Identifier: MIT */
/* The made-up engine's ops without states. See test_validate.h. */
#include <math.h>
#include <string.h>

#include "safetensors.h"
#include "test_validate.h"

enum { R = 24 };

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---------------------------------------------------------------- norm: traits before, plus, sigmoid, group, z, eps */

void sample_make_norm(struct sample *s, const char *traits)
{
    enum { D = 12 };
    const bool before = sample_trait(traits, "before", 0) != sample_has("norm-gate-order"),
               with_z = sample_trait(traits, "z", 1) != 0;
    const bool plus = sample_trait(traits, "plus", 0) ? !sample_has("norm-weight-plus-one-missing")
                                                      : sample_has("norm-weight-plus-one");
    const bool sigmoid_gate = sample_trait(traits, "sigmoid", 0) != sample_has("norm-gate-act");
    const int group = sample_trait(traits, "group", 0) > 0 ? sample_trait(traits, "group", 0) : D;
    const int span = sample_has("norm-group-ignored") ? D : group;
    const float *x = sample_add(s, "x", 0.2, 1, sample_shape("%d %d", R, D, 0));
    const float *z = with_z ? sample_add(s, "z", 0, 1, sample_shape("%d %d", R, D, 0)) : NULL,
                *w = sample_add(s, "weight", 0.8, 0.5, "12");
    float *y = sample_add(s, "y", 0, 0, sample_shape("%d %d", R, D, 0));
    double eps = sample_has("norm-eps-missing") ? 0 : sample_has("norm-eps-on-sum") ? 0.05 / span : 0.05;
    sample_string(s, "norm_before_gate", sample_trait(traits, "before", 0) ? "1" : "0");
    sample_string(s, "weight_plus_one", sample_trait(traits, "plus", 0) ? "true" : "false");
    sample_string(s, "gate_act", sample_trait(traits, "sigmoid", 0) ? "SIGMOID" : "SEQMIX_NORM_GATE_SILU");
    sample_number(s, "group", sample_trait(traits, "group", 0));
    sample_number(s, "eps", 0.05);
    for (int g = 0; g < R * D / span; g++) {
        double u[D], gate[D], mean = 0, square = 0;
        for (int i = 0; i < span; i++) {
            const int at = g * span + i;
            const double zv = with_z ? (double)z[at] : 0;
            gate[i] = !with_z || sample_has("norm-z-missing") ? 1 : sigmoid_gate ? sigmoid(zv) : zv * sigmoid(zv);
            u[i] = (double)x[at] * (before ? 1 : gate[i]);
            mean += u[i] / span;
        }
        for (int i = 0; i < span; i++) {
            if (sample_has("norm-centred")) u[i] -= mean;
            square += u[i] * u[i] / span;
        }
        for (int i = 0; i < span; i++) {
            const double weight =
                sample_has("norm-weight-ignored") ? 1 : (double)w[(g * span + i) % D] + (plus ? 1 : 0);
            y[g * span + i] = (float)(u[i] / sqrt(square + eps) * weight * (before ? gate[i] : 1));
        }
    }
}

/* ---------------------------------------------------------------- the rest */

void sample_make_inverse(struct sample *s)
{
    enum { B = 3, N = 6 };
    const float *a = sample_add(s, "a", 0, 0.5, sample_shape("%d %d %d", B, N, N));
    float *inv = sample_add(s, "inv", 0, 0, sample_shape("%d %d %d", B, N, N));
    for (int b = 0; b < B; b++)
        for (int j = 0; j < N; j++) {
            double column[N] = {0};
            for (int i = j; i < N; i++) {
                column[i] = i == j;
                for (int k = j; k < i; k++) {
                    const double l =
                        (double)(sample_has("inverse-upper") ? a[(b * N + k) * N + i] : a[(b * N + i) * N + k]);
                    column[i] -= (sample_has("inverse-sign") ? -l : l) * column[k];
                }
            }
            for (int i = 0; i < N; i++)
                inv[sample_has("inverse-transposed") ? (b * N + j) * N + i : (b * N + i) * N + j] = (float)column[i];
        }
}

void sample_make_linear(struct sample *s)
{
    enum { N = 5 };
    const float *x = sample_add(s, "x", 0, 1, sample_shape("%d %d", R, N, 0)),
                *w = sample_add(s, "weight", 0, 1, sample_shape("%d %d", N, N, 0));
    const float *bias = sample_add(s, "bias", 0, 1, "5"),
                *residual = sample_add(s, "residual", 0, 1, sample_shape("%d %d", R, N, 0));
    float *y = sample_add(s, "y", 0, 0, sample_shape("%d %d", R, N, 0));
    for (int r = 0; r < R; r++)
        for (int o = 0; o < N; o++) {
            double sum = sample_has("linear-bias-ignored") ? 0 : (double)bias[o];
            if (!sample_has("linear-residual-ignored")) sum += (double)residual[r * N + o];
            for (int i = 0; i < N; i++)
                sum += (double)w[sample_has("linear-weight-transposed") ? i * N + o : o * N + i] * (double)x[r * N + i];
            y[r * N + o] = (float)sum;
        }
}

void sample_make_embed(struct sample *s)
{
    const float *table = sample_add(s, "table", 0, 1, "7 3");
    int32_t *tokens = sample_tensor(s, "tokens", SEQMIX_ST_I32, "24");
    float *y = sample_add(s, "y", 0, 0, "24 3");
    for (int r = 0; r < R; r++) {
        tokens[r] = r * 5 % 7;
        memcpy(y + r * 3, table + tokens[r] * 3, 3 * sizeof *y);
    }
}
