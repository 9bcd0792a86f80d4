/* SPDX-License-Identifier: MIT */
/*
 * The lanes of one level against the C library in double: largest error in ulp over the floats of each function's range, the
 * special values, the 16-bit conversions against the scalar ones, and tails against the end of a page. usage: vec_math [STEP],
 * every STEP-th float (1 = all)
 */
#include "../../src/cpu/vec/vec_math.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu_level.h"
#include "dtype.h"

static int failures;

static void expect(bool holds, const char *what, double x, double got)
{
    if (holds) return;
    printf("FAIL %s at %.9g: %.9g\n", what, x, got);
    failures++;
}

/* One ulp of f32 at the exact value. */
static double ulp(double exact)
{
    int exponent;
    if (fabs(exact) < 0x1p-126) return 0x1p-149;
    frexp(exact, &exponent);
    return ldexp(1.0, exponent - 24);
}

static double exact_exp(double x)
{
    return exp(x);
}

static double exact_exp_neg(double x)
{
    return x < (double)-87.3f ? 0 : exp(x);
}

static double exact_exp2(double x)
{
    return exp2(x);
}

static vf exp2_of(vf x)
{
    return v_exp2_product(x, v_set1(1));
}

static vf exp2_neg_of(vf x)
{
    return v_exp2_product_neg(x, v_set1(1));
}

static double exact_exp2_neg(double x)
{
    return x < -126.0625 ? 0 : exp2(x);
}

static double exact_softplus(double x)
{
    return x > 40 ? x : log1p(exp(x));
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double exact_silu(double x)
{
    return x / (1 + exp(-x));
}

struct function {
    const char *name;
    vf (*lanes)(vf x);
    double (*exact)(double x);
    float low, high; /* the range in which the error is relative */
    double bound;    /* ulp */
};

/* Below their range the results go to 0 with an absolute error of one subnormal step. */
static const struct function functions[] = {{"v_exp", v_exp, exact_exp, -200, 88.7f, 1.1},
                                            {"v_exp_neg", v_exp_neg, exact_exp_neg, -1e30f, 0, 1.0},
                                            {"v_exp2", exp2_of, exact_exp2, -126, 127, 1.1},
                                            {"v_exp2_neg", exp2_neg_of, exact_exp2_neg, -1e30f, 0, 1.1},
                                            {"v_softplus", v_softplus, exact_softplus, -86, 1e30f, 2.0},
                                            {"v_sigmoid", v_sigmoid, exact_sigmoid, -87, 1e30f, 2.2},
                                            {"v_silu", v_silu, exact_silu, -80, 1e30f, 2.7}};

static void check_function(const struct function *f, uint64_t step)
{
    double worst = 0, where = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step * V_LANES) {
        float x[V_LANES], y[V_LANES];
        for (int i = 0; i < V_LANES; i++) {
            x[i] = seqmix_bits_f32((uint32_t)(bits + (uint64_t)i * step));
            if (!(x[i] >= f->low && x[i] <= f->high)) x[i] = -0.5f;
        }
        v_store(y, f->lanes(v_load(x)));
        for (int i = 0; i < V_LANES; i++) {
            const double exact = f->exact((double)x[i]), error = fabs((double)y[i] - exact) / ulp(exact);
            if (error <= worst) continue;
            worst = error;
            where = (double)x[i];
        }
    }
    printf("%-11s largest error %.3f ulp at %.9g\n", f->name, worst, where);
    expect(worst <= f->bound, f->name, where, worst);
}

static float one_lane(vf (*lanes)(vf x), float x)
{
    float y[V_LANES];
    v_store(y, lanes(v_set1(x)));
    for (int i = 1; i < V_LANES; i++)
        expect(seqmix_f32_bits(y[i]) == seqmix_f32_bits(y[0]), "lanes differ", (double)x, (double)y[i]);
    return y[0];
}

static void check_specials(void)
{
    const float inf = INFINITY;
    expect(one_lane(v_exp, -inf) == 0, "v_exp(-inf)", 0, 0);
    expect(one_lane(v_exp, inf) == inf, "v_exp(inf)", 0, 0);
    expect(one_lane(v_exp, 0) == 1, "v_exp(0)", 0, 0);
    expect(one_lane(v_exp_neg, 0) == 1, "v_exp_neg(0)", 0, 0);
    expect(one_lane(v_exp_neg, -1e4f) == 0, "v_exp_neg(-1e4)", 0, 0);
    expect(one_lane(v_exp_neg, -inf) == 0, "v_exp_neg(-inf)", 0, 0);
    expect(one_lane(exp2_of, 0) == 1, "v_exp2(0)", 0, 0);
    expect(one_lane(exp2_neg_of, -inf) == 0, "v_exp2_neg(-inf)", 0, 0);
    expect(one_lane(exp2_neg_of, 1e4f) == 1, "v_exp2_neg(1e4)", 0, 0);
    expect(one_lane(exp2_neg_of, 0.01f) == 1, "v_exp2_neg(0.01)", 0, 0);
    expect(one_lane(exp2_neg_of, inf) == 1, "v_exp2_neg(inf)", 0, 0);
    expect(one_lane(v_softplus, -inf) == 0, "v_softplus(-inf)", 0, 0);
    expect(one_lane(v_softplus, 1e4f) == 1e4f, "v_softplus(1e4)", 0, 0);
    expect(one_lane(v_sigmoid, -1e4f) < 0x1p-126f, "v_sigmoid(-1e4)", 0, 0);
    expect(one_lane(v_sigmoid, 1e4f) == 1, "v_sigmoid(1e4)", 0, 0);
    expect(one_lane(v_silu, 1e4f) == 1e4f, "v_silu(1e4)", 0, 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        expect(isnan(one_lane(functions[i].lanes, NAN)), functions[i].name, (double)NAN, 0);
}

static void check_halves(uint64_t step)
{
    for (uint32_t h = 0; h < 65536; h += V_LANES) {
        uint16_t in[V_LANES];
        float bf16[V_LANES], f16[V_LANES];
        for (int i = 0; i < V_LANES; i++)
            in[i] = (uint16_t)(h + (uint32_t)i);
        v_store(bf16, v_load_bf16(in));
        v_store(f16, v_load_f16(in));
        for (int i = 0; i < V_LANES; i++) {
            const float want = seqmix_f16_to_f32(in[i]);
            expect(seqmix_f32_bits(bf16[i]) == seqmix_f32_bits(seqmix_bf16_to_f32(in[i])), "v_load_bf16", in[i], 0);
            expect(isnan(want) ? isnan(f16[i]) : seqmix_f32_bits(f16[i]) == seqmix_f32_bits(want), "v_load_f16", in[i],
                   0);
        }
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step * V_LANES) {
        float in[V_LANES];
        uint16_t bf16[V_LANES], f16[V_LANES];
        for (int i = 0; i < V_LANES; i++)
            in[i] = seqmix_bits_f32((uint32_t)(bits + (uint64_t)i * step));
        v_store_bf16(bf16, v_load(in));
        v_store_f16(f16, v_load(in));
        for (int i = 0; i < V_LANES; i++) {
            expect(bf16[i] == seqmix_f32_to_bf16(in[i]), "v_store_bf16", (double)in[i], bf16[i]);
            expect(isnan(in[i]) ? isnan(seqmix_f16_to_f32(f16[i])) : f16[i] == seqmix_f32_to_f16(in[i]), "v_store_f16",
                   (double)in[i], f16[i]);
        }
    }
}

static void check_transpose(void)
{
    enum { STRIDE = V_LANES + 3, WIDTH = V_LANES + 1 };
    float in[V_LANES * STRIDE], out[V_LANES * WIDTH];
    for (int i = 0; i < V_LANES * STRIDE; i++)
        in[i] = (float)i;
    v_transpose(in, STRIDE, out, WIDTH);
    for (int i = 0; i < V_LANES; i++)
        for (int l = 0; l < V_LANES; l++)
            expect(out[l * WIDTH + i] == in[i * STRIDE + l], "v_transpose", i, (double)out[l * WIDTH + i]);
}

/* The end of a page behind which nothing may be touched. */
static char *page_end(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) exit(1);
    return pages + page;
}

/* The first n lanes at the end of a page: loaded with zeros behind them, stored with what lies before them left alone. */
static void check_tail(char *end, int n)
{
    float in[V_LANES], f32[V_LANES], bf16[V_LANES], f16[V_LANES];
    float *floats = (float *)(void *)(end - (size_t)n * sizeof *floats);
    uint16_t *halves = (uint16_t *)(void *)(end - (size_t)n * sizeof *halves);
    for (int i = 0; i < V_LANES; i++)
        in[i] = (float)(i + 1);
    floats[-1] = -1;
    v_store_n(floats, v_load(in), n);
    expect(floats[-1] == -1, "v_store_n", n, (double)floats[-1]);
    v_store(f32, v_load_n(floats, n));
    halves[-1] = 7;
    v_store_bf16_n(halves, v_load(in), n);
    v_store(bf16, v_load_bf16_n(halves, n));
    v_store_f16_n(halves, v_load(in), n);
    expect(halves[-1] == 7, "v_store_f16_n", n, halves[-1]);
    v_store(f16, v_load_f16_n(halves, n));
    for (int i = 0; i < V_LANES; i++) {
        const float want = i < n ? in[i] : 0;
        expect(f32[i] == want, "v_load_n", n, (double)f32[i]);
        expect(bf16[i] == want, "v_load_bf16_n", n, (double)bf16[i]);
        expect(f16[i] == want, "v_load_f16_n", n, (double)f16[i]);
    }
}

static void check_lanes(void)
{
    float in[V_LANES], out[V_LANES], nan[V_LANES];
    _Alignas(64) float streamed[V_LANES];
    float sum = 0;
    for (int i = 0; i < V_LANES; i++) {
        in[i] = (float)(i % 2 == 0 ? i : -i);
        nan[i] = NAN;
        sum += in[i];
    }
    const vf a = v_load(in);
    expect(v_sum(a) == sum, "v_sum", 0, (double)v_sum(a));
    v_stream(streamed, a);
    v_stream_end();
    for (int n = 0; n <= V_LANES + 1; n++) {
        v_store(out, v_select(v_mask_first(n), a, v_set1(99)));
        for (int i = 0; i < V_LANES; i++)
            expect(out[i] == (i < n ? in[i] : 99), "v_mask_first", n, (double)out[i]);
    }
    v_store(out, v_select(v_less(a, v_zero()), v_abs(a), v_max(v_load(nan), v_min(v_load(nan), a))));
    for (int i = 0; i < V_LANES; i++) {
        expect(out[i] == (float)i, "v_less, v_abs, v_min and v_max of NaN", i, (double)out[i]);
        expect(streamed[i] == in[i], "v_stream", i, (double)streamed[i]);
    }
}

int main(int argc, char **argv)
{
    if (seqmix_cpu_level(NEEDED_LEVEL) < NEEDED_LEVEL) return 77;
    const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 997;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        check_function(&functions[i], step > 0 ? step : 1);
    check_specials();
    check_halves(step > 0 ? step : 1);
    check_transpose();
    check_lanes();
    char *end = page_end();
    for (int n = 0; n <= V_LANES; n++)
        check_tail(end, n);
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
