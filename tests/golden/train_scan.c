// SPDX-License-Identifier: MIT
// The selective scan with its backward pass, for train_mamba_tiny.py only (compiled there with
// -O3 -march=native -ffast-math -fopenmp; not part of the library, not a reference for anything).
// Arrays: delta, dx, y, gy, g_delta, g_dx [T,b,D]; A [D,16]; B, C, g_B, g_C [T,b,16];
// hs [b,D/16,T+1,16,16]; g_A [b,D,16].
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { N = 16, E = 16 };

// exp for x <= 0, about 2e-6 relative; written so that compilers vectorise it in place.
static inline float exp_neg(float x)
{
    float t = (x > -80.0f ? x : -80.0f) * 1.44269504f;
    float r = rintf(t), f = t - r;
    float p = 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    int bits = ((int)r + 127) << 23;
    float s;
    memcpy(&s, &bits, sizeof s);
    return p * s;
}

void scan_forward(int T, int b, int D, const float *restrict delta, const float *restrict dx, const float *restrict A,
                  const float *restrict B, const float *restrict C, float *restrict y, float *restrict hs)
{
#pragma omp parallel for
    for (int i = 0; i < b; i++) {
        for (int e = 0; e < D / E; e++) {
            float *restrict ho = hs + ((size_t)i * (D / E) + e) * (T + 1) * E * N;
            float h[E][N] = {{0}};
            memset(ho, 0, sizeof h);
            for (int t = 0; t < T; t++) {
                size_t r = (size_t)t * b + i;
                const float *Br = B + r * N, *Cr = C + r * N;
                for (int d = 0; d < E; d++) {
                    size_t o = r * D + e * E + d;
                    float dl = delta[o], u = dx[o], s = 0;
                    const float *Ad = A + (e * E + d) * N;
                    for (int n = 0; n < N; n++) {
                        float v = exp_neg(dl * Ad[n]) * h[d][n] + u * Br[n];
                        h[d][n] = v;
                        s += v * Cr[n];
                    }
                    y[o] = s;
                }
                memcpy(ho + (t + 1) * E * N, h, sizeof h);
            }
        }
    }
}

void scan_backward(int T, int b, int D, const float *restrict delta, const float *restrict dx, const float *restrict A,
                   const float *restrict B, const float *restrict C, const float *restrict hs, const float *restrict gy,
                   float *restrict g_delta, float *restrict g_dx, float *restrict g_A, float *restrict g_B,
                   float *restrict g_C)
{
#pragma omp parallel for
    for (int i = 0; i < b; i++) {
        for (int e = 0; e < D / E; e++) {
            const float(*h)[E][N] = (const float(*)[E][N])(hs + ((size_t)i * (D / E) + e) * (T + 1) * E * N);
            float g[E][N] = {{0}}, a[E][N] = {{0}};
            for (int t = T - 1; t >= 0; t--) {
                size_t r = (size_t)t * b + i;
                const float *Br = B + r * N, *Cr = C + r * N;
                float gb[N] = {0}, gc[N] = {0};
                for (int d = 0; d < E; d++) {
                    size_t o = r * D + e * E + d;
                    float dl = delta[o], u = dx[o], gyo = gy[o], s = 0, p = 0;
                    const float *Ad = A + (e * E + d) * N;
                    for (int n = 0; n < N; n++) {
                        float v = g[d][n] + gyo * Cr[n];
                        gc[n] += gyo * h[t + 1][d][n];
                        gb[n] += u * v;
                        s += v * Br[n];
                        v *= exp_neg(dl * Ad[n]);
                        g[d][n] = v;
                        float q = v * h[t][d][n];
                        p += q * Ad[n];
                        a[d][n] += q * dl;
                    }
                    g_dx[o] = s;
                    g_delta[o] = p;
                }
                for (int n = 0; n < N; n++) {
                    g_B[r * N + n] = gb[n] + (e ? g_B[r * N + n] : 0);
                    g_C[r * N + n] = gc[n] + (e ? g_C[r * N + n] : 0);
                }
            }
            memcpy(g_A + ((size_t)i * D + e * E) * N, a, sizeof a);
        }
    }
}
