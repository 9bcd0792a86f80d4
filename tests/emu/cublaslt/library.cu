/* SPDX-License-Identifier: MIT */
/*
 * A cuBLASLt for the emulator: the functions of cublaslt_abi.h, as strict as the real one's manual. What it is given it checks and
 * otherwise ends the program with a message; the product runs as kernels in stream order, sums through the workspace, so bounds,
 * bytes never written and races are watched like any kernel's. EMU_CUBLASLT=none|greedy|decline: no heuristic has an answer, every
 * answer wants more workspace than was allowed, the product itself is not supported.
 */
#include <cstdio>
#include <cstdlib>

#include "cublaslt_abi.h"
#include "device.cuh"

namespace
{

enum : uint64_t { HANDLE = 0x6c74, DESC, LAYOUT, PREFERENCE, ALGO }; /* word 0 of each */
enum { MAGIC, COMPUTE, SCALE, TRANSA, EPILOGUE, BIAS };              /* words of a desc */
enum { TYPE = 1, ROWS, COLUMNS, LD };                                /* of a layout */
enum { WORKSPACE = 1, REDUCTIONS, ALIGNMENTS };                      /* of a preference: four alignments */
enum { PROBLEM = 1, NEEDED, ALIGNED };                               /* of an algo: four alignments */

struct handle {
    uint64_t magic, products;
};

void demand(bool condition, const char *what)
{
    if (condition) return;
    printf("cublaslt emulated: %s\n", what);
    fflush(stdout);
    abort();
}

bool mode(const char *name)
{
    const char *set = getenv("EMU_CUBLASLT");
    return set != nullptr && strcmp(set, name) == 0;
}

struct matrix {
    unsigned char *data;
    int32_t type;
    int64_t rows, columns, ld;
};

matrix matrix_of(const lt_layout *l, const void *data)
{
    demand(l != nullptr && l->words[MAGIC] == LAYOUT, "a layout was not initialised");
    matrix m = {static_cast<unsigned char *>(const_cast<void *>(data)), (int32_t)l->words[TYPE],
                (int64_t)l->words[ROWS], (int64_t)l->words[COLUMNS], (int64_t)l->words[LD]};
    demand(m.type == LT_R_32F || m.type == LT_R_16F || m.type == LT_R_16BF, "a layout's type is none");
    demand(m.rows > 0 && m.columns > 0 && m.rows <= INT32_MAX && m.columns <= INT32_MAX, "a layout has no int32 sizes");
    demand(m.ld >= m.rows, "a leading dimension is below the rows of its columns");
    return m;
}

int size_of(int32_t type)
{
    return type == LT_R_32F ? 4 : 2;
}

/* Shapes and types that make a product; something that tells it from others. */
uint64_t problem_of(const lt_desc *desc, const lt_layout *const (&layouts)[4])
{
    demand(desc->words[MAGIC] == DESC, "the description was not initialised");
    demand(desc->words[COMPUTE] == LT_COMPUTE_32F && desc->words[SCALE] == LT_R_32F, "sums are not in f32");
    demand(desc->words[TRANSA] == LT_OP_T, "A is not transposed");
    const matrix a = matrix_of(layouts[0], nullptr), b = matrix_of(layouts[1], nullptr),
                 c = matrix_of(layouts[2], nullptr), d = matrix_of(layouts[3], nullptr);
    demand(a.rows == b.rows && a.columns == d.rows && b.columns == d.columns, "the sizes make no product");
    demand(c.rows == d.rows && c.columns == d.columns && c.type == d.type, "C is not like D");
    demand(a.type == b.type && (d.type == a.type || d.type == LT_R_32F), "the types are not served together");
    const bool with_bias = desc->words[EPILOGUE] == LT_EPILOGUE_BIAS;
    demand(with_bias || desc->words[EPILOGUE] == 1, "an epilogue was not asked for");
    demand(!with_bias || (desc->words[BIAS] != 0 && desc->words[BIAS] % 16 == 0),
           "the bias has no address of 16 bytes");
    uint64_t hash = with_bias;
    for (const lt_layout *l : layouts)
        for (int w = TYPE; w <= LD; w++)
            hash = hash * 0x9E3779B97F4A7C15ull + l->words[w] + 1;
    return hash;
}

/* ---------------------------------------------------------------- the product */

DV_DEV float load(const unsigned char *data, int32_t type, int64_t i)
{
    if (type == LT_R_32F) return dv_ldv(reinterpret_cast<const float *>(data) + i);
    const uint16_t bits = dv_ldv(reinterpret_cast<const uint16_t *>(data) + i);
    return type == LT_R_16F ? dv_f16_to_f32(bits) : dv_bf16_to_f32(bits);
}

DV_DEV void store(unsigned char *data, int32_t type, int64_t i, float value)
{
    if (type == LT_R_32F)
        dv_stv(reinterpret_cast<float *>(data) + i, value);
    else
        dv_stv(reinterpret_cast<uint16_t *>(data) + i, type == LT_R_16F ? dv_f32_to_f16(value) : dv_f32_to_bf16(value));
}

__global__ void sums_kernel(matrix a, matrix b, float *sums)
{
    const int64_t n = a.columns * b.columns;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64_t)blockDim.x) {
        const int64_t row = i % a.columns, column = i / a.columns;
        double sum = 0;
        for (int64_t k = 0; k < a.rows; k++)
            sum += (double)load(a.data, a.type, row * a.ld + k) * (double)load(b.data, b.type, column * b.ld + k);
        dv_stv(sums + i, (float)sum);
    }
}

__global__ void epilogue_kernel(const float *sums, float alpha, float beta, matrix c, matrix d,
                                const unsigned char *bias)
{
    const int64_t n = d.rows * d.columns;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64_t)blockDim.x) {
        const int64_t row = i % d.rows, column = i / d.rows;
        float value = alpha * dv_ldv(sums + i);
        if (beta != 0) value += beta * load(c.data, c.type, column * c.ld + row);
        if (bias != nullptr) value += load(bias, d.type, row);
        store(d.data, d.type, column * d.ld + row, value);
    }
}

} /* namespace */

#define DECLARE(name, function, parameters) extern "C" int32_t function parameters;
LT_FUNCTIONS(DECLARE)

extern "C" int32_t cublasLtCreate(void **out)
{
    *out = new handle{HANDLE, 0};
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtDestroy(void *at)
{
    handle *h = static_cast<handle *>(at);
    demand(h->magic == HANDLE, "a handle was not created");
    printf("cublaslt emulated: %llu products\n", (unsigned long long)h->products);
    delete h;
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmulDescInit_internal(lt_desc *desc, size_t size, int32_t compute, int32_t scale)
{
    demand(size == sizeof *desc, "a description's size is another");
    *desc = {{DESC, (uint64_t)compute, (uint64_t)scale, 0, 1, 0}};
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmulDescSetAttribute(lt_desc *desc, int32_t attribute, const void *value, size_t bytes)
{
    demand(desc->words[MAGIC] == DESC, "the description was not initialised");
    const int word = attribute == LT_DESC_TRANSA     ? TRANSA
                     : attribute == LT_DESC_EPILOGUE ? EPILOGUE
                     : attribute == LT_DESC_BIAS     ? BIAS
                                                     : MAGIC;
    demand(word != MAGIC, "an attribute of the description is unknown");
    demand(bytes == (word == BIAS ? sizeof(void *) : 4), "an attribute has another size");
    memcpy(&desc->words[word], value, bytes);
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatrixLayoutInit_internal(lt_layout *layout, size_t size, int32_t type, uint64_t rows,
                                                     uint64_t columns, int64_t ld)
{
    demand(size == sizeof *layout, "a layout's size is another");
    *layout = {{LAYOUT, (uint64_t)type, rows, columns, (uint64_t)ld}};
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmulPreferenceInit_internal(lt_preference *preference, size_t size)
{
    demand(size == sizeof *preference, "a preference's size is another");
    *preference = {{PREFERENCE, 0, 7, 256, 256, 256, 256}};
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmulPreferenceSetAttribute(lt_preference *preference, int32_t attribute, const void *value,
                                                        size_t bytes)
{
    demand(preference->words[MAGIC] == PREFERENCE, "the preference was not initialised");
    const int word = attribute == LT_PREF_WORKSPACE    ? WORKSPACE
                     : attribute == LT_PREF_REDUCTIONS ? REDUCTIONS
                                                       : ALIGNMENTS + attribute - LT_PREF_ALIGNMENT_A;
    demand(word >= WORKSPACE && word < ALIGNMENTS + 4, "an attribute of the preference is unknown");
    demand(bytes == (word == WORKSPACE ? 8 : 4), "a preference has another size");
    memcpy(&preference->words[word], value, bytes);
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmulAlgoGetHeuristic(void *, lt_desc *desc, lt_layout *a, lt_layout *b, lt_layout *c,
                                                  lt_layout *d, lt_preference *preference, int32_t wanted,
                                                  lt_choice *choices, int32_t *given)
{
    demand(preference->words[MAGIC] == PREFERENCE, "the preference was not initialised");
    demand(preference->words[REDUCTIONS] == LT_REDUCTION_COMPUTE_TYPE,
           "sums may be split in another type, or by atomics");
    demand(wanted >= 1, "no algorithm is asked for");
    const uint64_t problem = problem_of(desc, {a, b, c, d});
    const uint64_t bytes = a->words[COLUMNS] * b->words[COLUMNS] * sizeof(float);
    const lt_layout *const layouts[4] = {a, b, c, d};
    for (int m = 0; m < 4; m++)
        demand(layouts[m]->words[LD] * (uint64_t)size_of((int32_t)layouts[m]->words[TYPE]) %
                       preference->words[ALIGNMENTS + m] ==
                   0,
               "columns are not aligned as promised");
    *given = 0;
    if (mode("none") || bytes > preference->words[WORKSPACE]) return LT_NOT_SUPPORTED;
    choices[0] = {};
    choices[0].algo = {{ALGO, problem, bytes}};
    memcpy(&choices[0].algo.words[ALIGNED], &preference->words[ALIGNMENTS], 4 * sizeof(uint64_t));
    choices[0].workspace = mode("greedy") ? preference->words[WORKSPACE] + 1 : bytes;
    *given = 1;
    return LT_SUCCESS;
}

extern "C" int32_t cublasLtMatmul(void *at, lt_desc *desc, const void *alpha, const void *a, lt_layout *a_layout,
                                  const void *b, lt_layout *b_layout, const void *beta, const void *c,
                                  lt_layout *c_layout, void *d, lt_layout *d_layout, const lt_algo *algo,
                                  void *workspace, size_t workspace_bytes, void *stream)
{
    handle *h = static_cast<handle *>(at);
    demand(h->magic == HANDLE, "a handle was not created");
    demand(algo->words[MAGIC] == ALGO &&
               algo->words[PROBLEM] == problem_of(desc, {a_layout, b_layout, c_layout, d_layout}),
           "the algorithm is another problem's");
    const void *const pointers[4] = {a, b, c, d};
    for (int m = 0; m < 4; m++)
        demand(pointers[m] != nullptr && reinterpret_cast<uintptr_t>(pointers[m]) % algo->words[ALIGNED + m] == 0,
               "a matrix is not aligned as promised");
    demand(workspace != nullptr && workspace_bytes >= algo->words[NEEDED],
           "the workspace is smaller than was asked for");
    demand(reinterpret_cast<uintptr_t>(workspace) % 256 == 0, "the workspace is not aligned");
    demand(c != d || c_layout->words[LD] == d_layout->words[LD], "C is D, but lies differently");
    if (mode("decline")) return LT_NOT_SUPPORTED;

    const matrix ma = matrix_of(a_layout, a), mb = matrix_of(b_layout, b), mc = matrix_of(c_layout, c),
                 md = matrix_of(d_layout, d);
    float factors[2];
    memcpy(&factors[0], alpha, sizeof(float));
    memcpy(&factors[1], beta, sizeof(float));
    float *sums = static_cast<float *>(workspace);
    const unsigned char *bias = desc->words[EPILOGUE] == LT_EPILOGUE_BIAS
                                    ? reinterpret_cast<const unsigned char *>(desc->words[BIAS])
                                    : nullptr;
    const dim3 grid((unsigned)((md.rows * md.columns + 127) / 128));
    h->products++;
    if (dv_launch(sums_kernel, grid, dim3(128), 0, static_cast<cudaStream_t>(stream), ma, mb, sums) != cudaSuccess ||
        dv_launch(epilogue_kernel, grid, dim3(128), 0, static_cast<cudaStream_t>(stream), sums, factors[0], factors[1],
                  mc, md, bias) != cudaSuccess)
        return LT_NOT_SUPPORTED;
    return LT_SUCCESS;
}
