/* SPDX-License-Identifier: MIT */
/*
 * ldmatrix and mma.sync, fragments as in the PTX ISA: g = lane / 4 and t = lane % 4 name rows and columns. By default products
 * and sums are f32; config.tensor_bits models tensor cores as measured (arXiv:2511.10909): exact products, all terms of a dot
 * product aligned to the largest exponent, cut to that many fraction bits, summed exactly, rounded toward zero.
 */
#include "../../src/common/dtype.h"
#include "engine.h"

namespace emu
{

struct LoadArg {
    uint32_t *out;
    const void *row;
    bool transposed;
    Loc loc;
};

static void load_matrices(void **args, uint32_t)
{
    Thread *me = self;
    for (int m = 0; m < 4; m++) {
        uint16_t rows[8][8];
        for (int i = 0; i < 8; i++) {
            const LoadArg *a = static_cast<LoadArg *>(args[8 * m + i]);
            self = &threads[me->warp * 32 + 8 * m + i]; /* the access is that lane's */
            touch(a->row, 16, false, false, a->loc);
            memcpy(rows[i], a->row, 16);
        }
        self = me;
        for (int l = 0; l < 32; l++) {
            LoadArg *a = static_cast<LoadArg *>(args[l]);
            const int g = l / 4, c = l % 4 * 2;
            const uint32_t low = a->transposed ? rows[c][g] : rows[g][c];
            const uint32_t high = a->transposed ? rows[c + 1][g] : rows[g][c + 1];
            a->out[m] = low | high << 16;
        }
    }
}

void ldmatrix_x4(uint32_t *out, const void *row, bool transposed, Loc loc)
{
    misaligned_unless(row, 16, loc);
    LoadArg arg{out, row, transposed, loc};
    collective(LDMATRIX, 0xffffffffu, &arg, load_matrices, loc);
}

/* ---------------------------------------------------------------- products */

static int exponent(float x)
{
    return (int)(__float_as_uint(x) >> 23 & 255) - 127;
}

static float tensor_dot(float c, const float *a, const float *b, int b_stride, int k)
{
    int exponents[17], greatest = -1000, n = 0;
    double terms[17], sum = 0;
    for (int i = 0; i <= k; i++) {
        const float x = i < k ? a[i] : c, y = i < k ? b[i * b_stride] : 1;
        if (x == 0 || y == 0) continue;
        exponents[n] = exponent(x) + exponent(y);
        terms[n] = ldexp((double)x * (double)y, -exponents[n]);
        if (exponents[n] > greatest) greatest = exponents[n];
        n++;
    }
    for (int i = 0; i < n; i++) {
        if (!std::isfinite(terms[i])) return (float)terms[i];
        sum += trunc(ldexp(terms[i], config.tensor_bits + exponents[i] - greatest));
    }
    const double exact = ldexp(sum, greatest - config.tensor_bits);
    const float nearest = (float)exact;
    return fabs((double)nearest) > fabs(exact) ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;
}

static float dot(float c, const float *a, const float *b, int b_stride, int k)
{
    if (config.tensor_bits == 24 && k == 16) /* two halves, one after the other */
        return tensor_dot(tensor_dot(c, a, b, b_stride, 8), a + 8, b + 8 * b_stride, b_stride, 8);
    if (config.tensor_bits != 0) return tensor_dot(c, a, b, b_stride, k);
    for (int i = 0; i < k; i++)
        c += a[i] * b[i * b_stride];
    return c;
}

struct MmaArg {
    float *d;
    const uint32_t *a, *b;
    bool bf16;
};

static float half(uint32_t pair, int which, bool bf16)
{
    const uint16_t bits = (uint16_t)(pair >> 16 * which);
    return bf16 ? seqmix_bf16_to_f32(bits) : seqmix_f16_to_f32(bits);
}

/* A 16x16 by rows, B 16x8, D 16x8 */
static void multiply_16(void **args, uint32_t)
{
    float A[16][16], B[16][8];
    if (config.count) count_mma(false);
    for (int l = 0; l < 32; l++) {
        const MmaArg *m = static_cast<MmaArg *>(args[l]);
        const int g = l / 4, t = l % 4 * 2;
        for (int e = 0; e < 8; e++)
            A[g + e / 2 % 2 * 8][t + e / 4 * 8 + e % 2] = half(m->a[e / 2], e % 2, m->bf16);
        for (int e = 0; e < 4; e++)
            B[t + e / 2 * 8 + e % 2][g] = half(m->b[e / 2], e % 2, m->bf16);
    }
    for (int l = 0; l < 32; l++) {
        MmaArg *m = static_cast<MmaArg *>(args[l]);
        for (int e = 0; e < 4; e++)
            m->d[e] = dot(m->d[e], A[l / 4 + e / 2 * 8], &B[0][l % 4 * 2 + e % 2], 8, 16);
    }
}

/* A 16x8 by rows, B 8x8, D 16x8; the low 13 bits of an operand are not looked at */
static void multiply_8(void **args, uint32_t)
{
    float A[16][8], B[8][8];
    if (config.count) count_mma(true);
    for (int l = 0; l < 32; l++) {
        const MmaArg *m = static_cast<MmaArg *>(args[l]);
        const int g = l / 4, t = l % 4;
        for (int e = 0; e < 4; e++)
            A[g + e % 2 * 8][t + e / 2 * 4] = __uint_as_float(m->a[e] & 0xffffe000u);
        for (int e = 0; e < 2; e++)
            B[t + e * 4][g] = __uint_as_float(m->b[e] & 0xffffe000u);
    }
    for (int l = 0; l < 32; l++) {
        MmaArg *m = static_cast<MmaArg *>(args[l]);
        for (int e = 0; e < 4; e++)
            m->d[e] = dot(m->d[e], A[l / 4 + e / 2 * 8], &B[0][l % 4 * 2 + e % 2], 8, 8);
    }
}

void mma_m16n8k16(float *d, const uint32_t *a, const uint32_t *b, bool bf16, Loc loc)
{
    MmaArg arg{d, a, b, bf16};
    collective(MMA, 0xffffffffu, &arg, multiply_16, loc);
}

void mma_m16n8k8_tf32(float *d, const uint32_t *a, const uint32_t *b, Loc loc)
{
    MmaArg arg{d, a, b, false};
    collective(MMA, 0xffffffffu, &arg, multiply_8, loc);
}

} /* namespace emu */
