/* SPDX-License-Identifier: MIT */
/*
 * The emulated tiles (amx_emu.h) against plain loops and against what the instruction set's manual says of them; then, on them,
 * the tile products and packings of src/cpu/x86, against plain loops over the matrices that they stand for.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/cpu/x86/pack.h"
#include "dtype.h"

static int failures;

static void expect(bool holds, const char *what)
{
    if (holds) return;
    printf("FAIL %s\n", what);
    failures++;
}

static uint32_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static float random_value(void)
{
    return (float)(int32_t)random_bits() * 0x1p-31f;
}

static bool near(double got, double want, double tolerance)
{
    return fabs(got - want) <= tolerance;
}

/* ---------------------------------------------------------------- the instructions */

struct config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static struct config full_config(void)
{
    struct config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = TILE_BYTES;
        c.rows[i] = TILE_SIDE;
    }
    return c;
}

/* One product of 16 x 16 sums by a single element of each operand, so that every rounding is ours to choose. */
static float one_sum(float start, float a0, float b0, float a1, float b1)
{
    uint16_t left[TILE] = {0}, right[TILE] = {0};
    float sums[TILE_SIDE * TILE_SIDE] = {0};
    left[0] = seqmix_f32_to_bf16(a0);
    left[1] = seqmix_f32_to_bf16(a1);
    right[0] = seqmix_f32_to_bf16(b0);
    right[1] = seqmix_f32_to_bf16(b1);
    sums[0] = start;
    amx_begin();
    amx_load(0, sums, TILE_BYTES);
    amx_load(1, left, TILE_BYTES);
    amx_load(2, right, TILE_BYTES);
    amx_dot(0, 1, 2);
    amx_store(0, sums, TILE_BYTES);
    amx_end();
    return sums[0];
}

static void check_arithmetic(void)
{
    const float tiny = 0x1p-127f, tie = 0x1p24f;
    expect(one_sum(1, 2, 3, 4, 5) == 27, "sums and products");
    expect(one_sum(0, tiny, 0x1p100f, 0, 0) == 0, "a subnormal operand counts as 0");
    expect(one_sum(0, 0x1p-70f, 0x1p-70f, 0, 0) == 0, "a subnormal product becomes 0");
    expect(one_sum(0x1p-140f, 0, 0, 0, 0) == 0, "a subnormal sum becomes 0");
    expect(one_sum(0x1.8p-126f, -0x1p-70f, 0x1p-56f, 0, 0) == 0, "a subnormal difference becomes 0");
    expect(one_sum(tie, 1, 1, 0, 0) == tie, "a tie goes to even, down");
    expect(one_sum(tie + 2, 1, 1, 0, 0) == tie + 4, "a tie goes to even, up");
    expect(one_sum(tie, 1, 1, 1, 1) == tie + 2, "odd and even products meet before the sum");
    expect(one_sum(-tie, 0x1p12f, 0x1p12f, 1, 0.5f) == 0, "the pair is rounded once");
    expect(isnan(one_sum(0, NAN, 1, 0, 0)) && isnan(one_sum(0, INFINITY, 0, 0, 0)), "NaN and 0 times infinity");
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x4000); /* the thread rounds up */
    const float up = one_sum(tie, 1, 1, 0, 0);
    _mm_setcsr(mode);
    expect(up == tie, "the thread's rounding does not matter");
    expect(_mm_getcsr() == mode, "the thread's mode stays");
}

/* Tiles of 5 x 12 by 12 x 7, strange strides, and what must not be touched. */
static void check_small_tiles(void)
{
    enum { M = 5, N = 7, PAIRS = 6, STRIDE = 100 };
    struct config c = full_config();
    float left[M][2 * PAIRS], right[2 * PAIRS][N], sums[M][STRIDE / 4];
    unsigned char a[M * STRIDE], b[PAIRS * STRIDE];
    c.rows[0] = c.rows[1] = M;
    c.rows[2] = PAIRS;
    c.row_bytes[1] = 4 * PAIRS;
    c.row_bytes[0] = c.row_bytes[2] = 4 * N;
    for (int k = 0; k < 2 * PAIRS; k++) {
        for (int i = 0; i < M; i++) {
            const uint16_t half = seqmix_f32_to_bf16(random_value());
            left[i][k] = seqmix_bf16_to_f32(half);
            memcpy(a + i * STRIDE + 2 * k, &half, sizeof half);
        }
        for (int j = 0; j < N; j++) {
            const uint16_t half = seqmix_f32_to_bf16(random_value());
            right[k][j] = seqmix_bf16_to_f32(half);
            memcpy(b + k / 2 * STRIDE + 4 * j + k % 2 * 2, &half, sizeof half);
        }
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < STRIDE / 4; j++)
            sums[i][j] = -1;
    amx_begin();
    _tile_loadconfig(&c);
    amx_zero(0);
    amx_load(1, a, STRIDE);
    amx_load(2, b, STRIDE);
    amx_dot(0, 1, 2);
    amx_store(0, sums, STRIDE);
    amx_end();
    for (int i = 0; i < M; i++)
        for (int j = 0; j < STRIDE / 4; j++) {
            double want = 0;
            for (int k = 0; k < 2 * PAIRS && j < N; k++)
                want += (double)left[i][k] * (double)right[k][j];
            expect(j < N ? near((double)sums[i][j], want, 1e-6) : sums[i][j] == -1, "tiles smaller than full");
        }
}

static void use_none(void)
{
    amx_zero(0);
}

static void use_wrong(int what)
{
    struct config c = full_config();
    c.palette = what == 0 ? 0 : 1;
    c.start_row = what == 1;
    c.zero[3] = what == 2;
    if (what == 3) c.rows[2] = 17;
    if (what == 4) c.row_bytes[1] = 68;
    if (what == 5) c.rows[8] = 1;
    if (what == 6) c.rows[0] = 0;
    if (what == 7) c.rows[2] = 8; /* loads well, but fits no product */
    _tile_loadconfig(&c);
    amx_zero(0);
    amx_dot(0, 1, 2);
}

/* What the hardware would fault on ends the process. */
static void check_faults(void)
{
    for (int what = -1; what < 8; what++) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
            if (what < 0)
                use_none();
            else
                use_wrong(what);
            _exit(0);
        }
        expect(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
               "a configuration that must fault");
    }
}

/* ---------------------------------------------------------------- src/cpu/x86/pack.h */

static void check_rounding(void)
{
    float values[32];
    uint16_t row[2 * TILE_DEPTH], halves[32];
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 32; i++)
            values[i] = seqmix_bits_f32(random_bits());
        values[0] = round % 2 == 0 ? NAN : -INFINITY;
        pack_left(row, TILE_DEPTH, v_load(values), v_load(values + V_LANES));
        _mm512_storeu_si512(halves, bf16_round(v_load(values), v_load(values + V_LANES)));
        for (int i = 0; i < 32; i++) {
            const float high = seqmix_bf16_to_f32(row[i]), low = seqmix_bf16_to_f32(row[TILE_DEPTH + i]), x = values[i];
            const bool subnormal = fpclassify(x) == FP_SUBNORMAL;
            expect(row[i] == halves[i], "pack_left keeps the order");
            expect(subnormal ? high == 0 : row[i] == seqmix_f32_to_bf16(x), "to nearest even, subnormals to 0");
            if (!isfinite(high) || fabsf(x) < 0x1p-100f) continue;
            expect(near((double)high + (double)low, (double)x, 0x1p-17 * fabs((double)x)), "a pair keeps 17 bits");
        }
    }
}

/* A product of a left [32][96] and a right [96][columns] matrix by pairs, through tiles. */
static void check_square(int64_t columns)
{
    enum { DEPTH = 3, K = DEPTH * TILE_DEPTH };
    static float a[SQUARE][K], b[K][SQUARE], out[SQUARE][SQUARE], again[SQUARE][SQUARE];
    static uint16_t left[2][2][DEPTH][TILE], right[2][DEPTH][2][TILE];
    for (int k = 0; k < K; k++)
        for (int i = 0; i < SQUARE; i++) {
            a[i][k] = random_value();
            b[k][i] = random_value();
        }
    for (int i = 0; i < SQUARE; i++)
        for (int k = 0; k < DEPTH; k++)
            pack_left(&left[0][i / TILE_SIDE][k][i % TILE_SIDE * TILE_DEPTH], 2 * DEPTH * TILE,
                      v_load(&a[i][k * TILE_DEPTH]), v_load(&a[i][k * TILE_DEPTH + V_LANES]));
    for (int k = 0; k < K; k += 2)
        for (int j = 0; j < 2; j++)
            pack_right(&right[0][k / TILE_DEPTH][j][k % TILE_DEPTH / 2 * TILE_DEPTH], 2 * DEPTH * TILE,
                       v_load(&b[k][j * V_LANES]), v_load(&b[k + 1][j * V_LANES]));
    const bool wide = columns > TILE_SIDE;
    memset(out, 0, sizeof out);
    memset(again, 0, sizeof again);
    amx_begin();
    square_zero();
    square_add_pairs(left[0][0][0], 2 * DEPTH * TILE, DEPTH * TILE, right[0][0][0], 2 * DEPTH * TILE, 2 * TILE, DEPTH,
                     wide);
    square_store(out[0], SQUARE, wide);
    square_zero();
    square_load(out[0], SQUARE, wide);
    square_store(again[0], SQUARE, wide);
    amx_end();
    for (int i = 0; i < SQUARE; i++)
        for (int j = 0; j < SQUARE; j++) {
            double want = 0;
            for (int k = 0; k < K && j < columns; k++)
                want += (double)a[i][k] * (double)b[k][j];
            expect(near((double)out[i][j], want, 1e-4), "a square of pairs");
            expect(out[i][j] == again[i][j], "stored and loaded");
        }
}

static void check_layouts(void)
{
    static uint16_t left[2][TILE], right[2][TILE], across[2][TILE];
    uint16_t row[TILE_DEPTH];
    for (int i = 0; i < TILE; i++) {
        left[0][i] = (uint16_t)random_bits();
        left[1][i] = (uint16_t)random_bits();
    }
    tile_turn(left[0], right[0]);
    tile_turn(left[1], right[1]);
    tile_lay(right[0], right[1], across[0], TILE);
    for (int t = 0; t < 2 * TILE_SIDE; t++) /* row t of the left matrix [32][32] */
        for (int k = 0; k < TILE_DEPTH; k++) {
            const uint16_t x = left[t / TILE_SIDE][t % TILE_SIDE * TILE_DEPTH + k];
            expect(right[t / TILE_SIDE][k / 2 * TILE_DEPTH + t % TILE_SIDE * 2 + k % 2] == x, "tile_turn");
            expect(across[k / TILE_SIDE][k % TILE_SIDE * TILE_DEPTH + t] == x, "tile_lay");
        }
    for (int64_t n = 1; n <= 40; n++) {
        pack_copy(row, left[0], n);
        for (int i = 0; i < TILE_DEPTH; i++)
            expect(row[i] == (i < n ? left[0][i] : 0), "pack_copy");
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 77;
    check_arithmetic();
    check_small_tiles();
    check_faults();
    check_rounding();
    check_square(SQUARE);
    check_square(TILE_SIDE);
    check_layouts();
    if (failures == 0) printf("tiles, squares and packings hold\n");
    return failures > 0;
}
