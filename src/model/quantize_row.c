/* SPDX-License-Identifier: MIT */
/*
 * f32 into blocks (see quantize.h; the layouts are those of seqmix.h). Two searches serve all types. Both try steps around the
 * one that the extremes ask for, round to whole numbers q, solve the least squares for these q, and keep the best:
 *
 *     fit_scale    x = s*q            q in [low, high], or values out of a table
 *     fit_offset   x = s*q - m        q in [0, high], m >= 0 or free
 *
 * Then s and m are rounded to what the format stores, and q is chosen once more for these. Sums go by lanes, which compilers
 * make vectors of.
 */
#include <math.h>

#include "half.h"
#include "quantize.h"

enum { SMALL = 32, BIG = 256, STEPS = 12, LANES = 8 };

static const int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* The nearest whole number in [low, high]; without branches, so that loops of it run in lanes. */
static int nearest(float x, int low, int high)
{
    x = x > (float)low ? x : (float)low;
    x = x < (float)high ? x : (float)high;
    const float magic = 0x1.8p23f; /* its sum with x has the nearest whole number in its low bits */
    return (int)(seqmix_bits_of_float(x + magic) - seqmix_bits_of_float(magic));
}

static int nearest_value(float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        if (x * 2 > (float)(iq4_nl_values[i - 1] + iq4_nl_values[i])) best = i;
    return best;
}

static float largest_magnitude(const float *x, int n)
{
    float best = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best)) best = x[i];
    return best;
}

static void put_half(uint8_t *at, uint16_t half)
{
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

/* Stores a scale and returns what was stored. */
static float put_scale(uint8_t *at, float scale)
{
    const uint16_t half = seqmix_f16_of_float(scale);
    put_half(at, half);
    return seqmix_float_of_f16(half);
}

static float inverse(float scale)
{
    return fabsf(scale) > 0x1p-120f ? 1 / scale : 0;
}

/* ---------------------------------------------------------------- the two searches */

/* The sum of a*b, n a whole number of lanes. */
static float dot(const float *a, const float *b, int n)
{
    float lane[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* The numbers next to x times a trial; `low` 0: out of the table. */
static void round_all(const float *x, int n, float trial, int low, int high, float *q)
{
    for (int i = 0; i < n && low != 0; i++)
        q[i] = (float)nearest(x[i] * trial, low, high);
    for (int i = 0; i < n && low == 0; i++)
        q[i] = iq4_nl_values[0];
    for (int k = 1; k < 16 && low == 0; k++) {
        const float middle = (float)(iq4_nl_values[k - 1] + iq4_nl_values[k]) / 2;
        const float step = (float)(iq4_nl_values[k] - iq4_nl_values[k - 1]);
        for (int i = 0; i < n; i++)
            q[i] += x[i] * trial > middle ? step : 0;
    }
}

/* `low` 0: the table. n is SMALL or half of it. */
static float fit_scale(const float *x, int n, int low, int high)
{
    const float extreme = largest_magnitude(x, n), top = low == 0 ? -127 : (float)low;
    float best = 0, best_gain = 0;
    if (fabsf(extreme) < 0x1p-100f) return 0;
    for (int step = -STEPS; step <= STEPS; step++) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            float q[SMALL];
            round_all(x, n, (float)sign * top * (1 + (float)step * 0.015f) / extreme, low, high, q);
            const float xq = dot(x, q, n), qq = dot(q, q, n);
            if (qq > 0 && xq * xq > best_gain * qq) {
                best_gain = xq * xq / qq;
                best = xq / qq;
            }
        }
    }
    return best;
}

struct fit {
    float scale, offset;
};

static const float ones[SMALL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* The least squares of x = s*q - m for given q, where x sums to sum_x; the offset is not below 0 unless it is free. */
static struct fit solve(const float *x, const float *q, float sum_x, bool free)
{
    const float count = SMALL, sum_q = dot(q, ones, SMALL), sum_qq = dot(q, q, SMALL), sum_xq = dot(x, q, SMALL);
    const float determinant = count * sum_qq - sum_q * sum_q;
    struct fit f = {0, -sum_x / count}; /* all q are equal */
    if (determinant > 0) {
        f.scale = (count * sum_xq - sum_q * sum_x) / determinant;
        f.offset = (f.scale * sum_q - sum_x) / count;
    }
    if (!free && (!(determinant > 0) || !(f.offset >= 0))) {
        f.offset = 0;
        f.scale = sum_qq > 0 ? sum_xq / sum_qq : 0;
    }
    return f;
}

/* Of SMALL values. */
static struct fit fit_offset(const float *x, int high, bool free)
{
    float low = x[0], top = x[0], best_error = HUGE_VALF;
    struct fit best = {0, 0};
    for (int i = 1; i < SMALL; i++) {
        low = x[i] < low ? x[i] : low;
        top = x[i] > top ? x[i] : top;
    }
    if (!free && low > 0) low = 0;
    if (top - low < 0x1p-100f) return (struct fit){0, -low};
    const float sum_x = dot(x, ones, SMALL);
    for (int step = -STEPS; step <= STEPS; step++) {
        const float trial = ((float)high + (float)step * 0.1f) / (top - low);
        float q[SMALL], e[SMALL];
        for (int i = 0; i < SMALL; i++)
            q[i] = (float)nearest((x[i] - low) * trial, 0, high);
        const struct fit f = solve(x, q, sum_x, free);
        for (int i = 0; i < SMALL; i++)
            e[i] = f.scale * q[i] - f.offset - x[i];
        const float error = dot(e, e, SMALL);
        if (f.scale > 0 && error < best_error) {
            best_error = error;
            best = f;
        }
    }
    return best;
}

/* ---------------------------------------------------------------- blocks of 32 */

static void pack_q8_0(const float *x, uint8_t *out)
{
    const float id = inverse(put_scale(out, fabsf(largest_magnitude(x, SMALL)) / 127));
    for (int i = 0; i < SMALL; i++)
        out[2 + i] = (uint8_t)nearest(x[i] * id, -127, 127);
}

/* Low halves of bytes are elements 0 to 15, high ones 16 to 31. */
static void put_halves(uint8_t *out, const int q[SMALL])
{
    for (int i = 0; i < SMALL / 2; i++)
        out[i] = (uint8_t)((q[i] & 15) | (q[i + SMALL / 2] & 15) << 4);
}

static void put_fifths(uint8_t *out, const int q[SMALL])
{
    for (int i = 0; i < SMALL / 8; i++) {
        out[i] = 0;
        for (int bit = 0; bit < 8; bit++)
            out[i] = (uint8_t)(out[i] | (q[8 * i + bit] >> 4 & 1) << bit);
    }
}

static void pack_q4_0(const float *x, uint8_t *out)
{
    const float id = inverse(put_scale(out, fit_scale(x, SMALL, -8, 7)));
    int q[SMALL];
    for (int i = 0; i < SMALL; i++)
        q[i] = nearest(x[i] * id, -8, 7) + 8;
    put_halves(out + 2, q);
}

static void pack_iq4_nl(const float *x, uint8_t *out)
{
    const float id = inverse(put_scale(out, fit_scale(x, SMALL, 0, 0)));
    int q[SMALL];
    for (int i = 0; i < SMALL; i++)
        q[i] = nearest_value(x[i] * id);
    put_halves(out + 2, q);
}

static void pack_q5_0(const float *x, uint8_t *out)
{
    const float id = inverse(put_scale(out, fit_scale(x, SMALL, -16, 15)));
    int q[SMALL];
    for (int i = 0; i < SMALL; i++)
        q[i] = nearest(x[i] * id, -16, 15) + 16;
    put_fifths(out + 2, q);
    put_halves(out + 6, q);
}

static void pack_q5_1(const float *x, uint8_t *out)
{
    const struct fit f = fit_offset(x, 31, true);
    const float id = inverse(put_scale(out, f.scale)), m = put_scale(out + 2, -f.offset);
    int q[SMALL];
    for (int i = 0; i < SMALL; i++)
        q[i] = nearest((x[i] - m) * id, 0, 31);
    put_fifths(out + 4, q);
    put_halves(out + 8, q);
}

/* ---------------------------------------------------------------- blocks of 256 */

/* Scales and offsets of 8 sub-blocks, 6 bits each: those of the last four have their high bits in the bytes of the first. */
static void put_k_scales(uint8_t out[12], const int scale[8], const int offset[8])
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(scale[i] | scale[i + 4] >> 4 << 6);
        out[i + 4] = (uint8_t)(offset[i] | offset[i + 4] >> 4 << 6);
        out[i + 8] = (uint8_t)((scale[i + 4] & 15) | (offset[i + 4] & 15) << 4);
    }
}

/* Q4_K with 4 bits, Q5_K with 5. */
static void pack_q45_k(const float *x, int bits, uint8_t *out)
{
    const int high = (1 << bits) - 1;
    struct fit f[8];
    float most_scale = 0, most_offset = 0;
    for (int j = 0; j < 8; j++) {
        f[j] = fit_offset(x + j * SMALL, high, false);
        most_scale = f[j].scale > most_scale ? f[j].scale : most_scale;
        most_offset = f[j].offset > most_offset ? f[j].offset : most_offset;
    }
    const float d = put_scale(out, most_scale / 63), m = put_scale(out + 2, most_offset / 63);
    const float id = inverse(d), im = inverse(m);
    uint8_t *fifth = out + 16, *half = out + (bits == 5 ? 48 : 16);
    int scale[8], offset[8], q[BIG];
    for (int j = 0; j < 8; j++) {
        scale[j] = nearest(f[j].scale * id, 0, 63);
        offset[j] = nearest(f[j].offset * im, 0, 63);
        const float is = inverse(d * (float)scale[j]);
        for (int i = j * SMALL; i < (j + 1) * SMALL; i++)
            q[i] = nearest((x[i] + m * (float)offset[j]) * is, 0, high);
    }
    put_k_scales(out + 4, scale, offset);
    for (int i = 0; i < BIG / 2; i++)
        half[i] = (uint8_t)((q[i / SMALL * 2 * SMALL + i % SMALL] & 15) |
                            (q[i / SMALL * 2 * SMALL + SMALL + i % SMALL] & 15) << 4);
    for (int i = 0; i < SMALL && bits == 5; i++) {
        fifth[i] = 0;
        for (int j = 0; j < 8; j++)
            fifth[i] = (uint8_t)(fifth[i] | q[j * SMALL + i] >> 4 << j);
    }
}

static void pack_q6_k(const float *x, uint8_t *out)
{
    enum { PART = 16, PARTS = BIG / PART, HALF = BIG / 2 };
    float scale[PARTS];
    int q[BIG];
    for (int j = 0; j < PARTS; j++)
        scale[j] = fit_scale(x + j * PART, PART, -32, 31);
    const float d = put_scale(out + 208, largest_magnitude(scale, PARTS) / -128), id = inverse(d);
    for (int j = 0; j < PARTS; j++) {
        const int s = nearest(scale[j] * id, -128, 127);
        const float is = inverse(d * (float)s);
        out[192 + j] = (uint8_t)s;
        for (int i = j * PART; i < (j + 1) * PART; i++)
            q[i] = nearest(x[i] * is, -32, 31) + 32;
    }
    for (int i = 0; i < HALF; i++) {
        const int *at = q + i / 64 * HALF + i % 64; /* low half of byte i, and 64 further the high one */
        out[i] = (uint8_t)((at[0] & 15) | (at[64] & 15) << 4);
    }
    for (int i = 0; i < BIG / 4; i++) {
        const int *at = q + i / 32 * HALF + i % 32;
        out[HALF + i] = (uint8_t)(at[0] >> 4 | at[32] >> 4 << 2 | at[64] >> 4 << 4 | at[96] >> 4 << 6);
    }
}

/* ---------------------------------------------------------------- rows */

static void pack_block(seqmix_dtype dtype, const float *x, uint8_t *out)
{
    switch (dtype) {
    case SEQMIX_F32:
        memcpy(out, x, sizeof *x);
        break;
    case SEQMIX_F16:
        put_half(out, seqmix_f16_of_float(*x));
        break;
    case SEQMIX_BF16:
        put_half(out, seqmix_bf16_of_float(*x));
        break;
    case SEQMIX_Q8_0:
        pack_q8_0(x, out);
        break;
    case SEQMIX_Q4_0:
        pack_q4_0(x, out);
        break;
    case SEQMIX_IQ4_NL:
        pack_iq4_nl(x, out);
        break;
    case SEQMIX_Q5_0:
        pack_q5_0(x, out);
        break;
    case SEQMIX_Q5_1:
        pack_q5_1(x, out);
        break;
    case SEQMIX_Q6_K:
        pack_q6_k(x, out);
        break;
    default:
        pack_q45_k(x, dtype == SEQMIX_Q5_K ? 5 : 4, out);
        break;
    }
}

bool seqmix_quantize_row(seqmix_dtype dtype, const float *x, int64_t n, void *out)
{
    int64_t elements;
    size_t bytes;
    if (!seqmix_gguf_type_block(seqmix_gguf_dtype_type(dtype), &elements, &bytes) || n % elements != 0) return false;
    for (int64_t i = 0; i < n / elements; i++)
        pack_block(dtype, x + i * elements, (uint8_t *)out + (size_t)i * bytes);
    return true;
}
