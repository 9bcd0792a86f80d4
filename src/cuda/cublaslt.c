/* SPDX-License-Identifier: MIT */
/*
 * linear on cuBLASLt. Its matrices are stored by columns, so it computes y^T [O,R] = weight [O,I] x^T [I,R]: A is the weight, taken
 * transposed, B is x, C the residual and D is y, each as it lies; the bias is the epilogue's. Products of 16-bit floats are summed
 * in f32, those of f32 are f32 throughout; sums split among blocks meet in the workspace, in f32, in one order. Bias and residual
 * are added before the one rounding of y. A shape is asked for once: asking takes tens of microseconds, finding it again none.
 */
#include "cublaslt.h"

#include <dlfcn.h>
#include <string.h>

#ifndef SEQMIX_CUBLASLT_LIBRARIES /* the emulator's tests bring their own */
#    define SEQMIX_CUBLASLT_LIBRARIES "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"
#endif

enum { ALIGNMENT = 16, MOST_WORKSPACE = 32 << 20, WAYS = 8 };

/* ---------------------------------------------------------------- the library */

static bool find_functions(struct seqmix_cublaslt *lt, void *library)
{
    bool all = true;
    void *symbol;
#define LT_FIND(name, function, parameters)                                                                            \
    symbol = dlsym(library, #function);                                                                                \
    all = all && symbol != NULL;                                                                                       \
    memcpy(&lt->name, &symbol, sizeof symbol);
    LT_FUNCTIONS(LT_FIND)
    return all;
}

/* One that the program has already before one that would have to be loaded, hundreds of megabytes; once loaded, it stays. */
void seqmix_cublaslt_open(struct seqmix_cublaslt *lt)
{
    static const char *const names[] = {SEQMIX_CUBLASLT_LIBRARIES};
    static const int how[] = {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE};
    for (size_t h = 0; h < sizeof how / sizeof *how; h++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            void *library = dlopen(names[i], how[h]);
            if (library == NULL) continue;
            if (find_functions(lt, library) && lt->create(&lt->handle) == LT_SUCCESS) return;
            lt->handle = NULL;
        }
}

void seqmix_cublaslt_close(struct seqmix_cublaslt *lt)
{
    if (lt->handle != NULL) (void)lt->destroy(lt->handle);
    lt->handle = NULL;
}

/* ---------------------------------------------------------------- shapes */

static int32_t type_of(seqmix_dtype dtype)
{
    return dtype == SEQMIX_BF16 ? LT_R_16BF : dtype == SEQMIX_F16 ? LT_R_16F : LT_R_32F;
}

/* The bytes, at most 16, of which all rows are multiples if the first one is. */
static uint32_t alignment_of(int64_t step, int64_t type)
{
    const uint64_t bytes = (uint64_t)step * (type == LT_R_32F ? 4 : 2) | ALIGNMENT;
    return (uint32_t)(bytes & (0 - bytes));
}

/* The shape of a call if it is one for cuBLASLt: plain weights of x's type, a bias of y's type without gaps. */
static bool shape_of(const seqmix_linear_args *a, struct seqmix_cublaslt_shape *s)
{
    memset(s, 0, sizeof *s);
    if (a->weight.dtype != a->x.dtype || a->weight.dtype > SEQMIX_F16) return false;
    s->rows = a->x.shape[0];
    s->inputs = a->x.shape[1];
    s->outputs = a->weight.shape[0];
    s->type = type_of(a->x.dtype);
    s->y_type = type_of(a->y.dtype);
    s->bias = a->bias.rank != 0;
    s->residual = a->residual.rank != 0;
    s->x_step = a->x.stride[0];
    s->weight_step = s->outputs > 1 ? a->weight.stride[0] : s->inputs;
    s->y_step = a->y.stride[0];
    s->residual_step = s->residual != 0 ? a->residual.stride[0] : s->y_step;
    if (s->bias != 0 && (a->bias.dtype != a->y.dtype || (s->outputs > 1 && a->bias.stride[0] != 1))) return false;
    return s->inputs > 0 && s->outputs > 0 && s->rows > 0 && s->inputs <= INT32_MAX && s->outputs <= INT32_MAX &&
           s->x_step >= s->inputs && s->weight_step >= s->inputs && s->y_step >= s->outputs &&
           s->residual_step >= s->outputs;
}

struct product {
    lt_desc desc;
    lt_layout a, b, c, d;
};

/* The descriptors of a shape. Of the bias's address only its alignment matters until the call. */
static bool describe(const struct seqmix_cublaslt *lt, const struct seqmix_cublaslt_shape *s, const void *bias,
                     struct product *p)
{
    const int32_t transposed = LT_OP_T, epilogue = LT_EPILOGUE_BIAS, type = (int32_t)s->type, y = (int32_t)s->y_type;
    const uint64_t rows = (uint64_t)s->rows, inputs = (uint64_t)s->inputs, outputs = (uint64_t)s->outputs;
    bool good = lt->desc_init(&p->desc, sizeof p->desc, LT_COMPUTE_32F, LT_R_32F) == LT_SUCCESS &&
                lt->desc_set(&p->desc, LT_DESC_TRANSA, &transposed, sizeof transposed) == LT_SUCCESS &&
                lt->layout_init(&p->a, sizeof p->a, type, inputs, outputs, s->weight_step) == LT_SUCCESS &&
                lt->layout_init(&p->b, sizeof p->b, type, inputs, rows, s->x_step) == LT_SUCCESS &&
                lt->layout_init(&p->c, sizeof p->c, y, outputs, rows, s->residual_step) == LT_SUCCESS &&
                lt->layout_init(&p->d, sizeof p->d, y, outputs, rows, s->y_step) == LT_SUCCESS;
    if (s->bias != 0)
        good = good && lt->desc_set(&p->desc, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue) == LT_SUCCESS &&
               lt->desc_set(&p->desc, LT_DESC_BIAS, &bias, sizeof bias) == LT_SUCCESS;
    return good;
}

/* Its best way that needs no more than alignment and workspace allow, and whose split sums are exact to f32 and repeatable. */
static bool choose(const struct seqmix_cublaslt *lt, struct seqmix_cublaslt_plan *plan)
{
    static const uint64_t workspace = MOST_WORKSPACE;
    static const uint32_t reductions = LT_REDUCTION_COMPUTE_TYPE;
    const struct seqmix_cublaslt_shape *s = &plan->shape;
    const uint32_t alignments[4] = {alignment_of(s->weight_step, s->type), alignment_of(s->x_step, s->type),
                                    alignment_of(s->residual_step, s->y_type), alignment_of(s->y_step, s->y_type)};
    struct product p;
    lt_preference preference;
    lt_choice choice;
    int32_t given = 0;
    const void *any_bias = (const void *)(uintptr_t)ALIGNMENT;
    bool good = describe(lt, s, any_bias, &p) && lt->preference_init(&preference, sizeof preference) == LT_SUCCESS &&
                lt->preference_set(&preference, LT_PREF_WORKSPACE, &workspace, sizeof workspace) == LT_SUCCESS &&
                lt->preference_set(&preference, LT_PREF_REDUCTIONS, &reductions, sizeof reductions) == LT_SUCCESS;
    for (int32_t matrix = 0; matrix < 4; matrix++)
        good = good && lt->preference_set(&preference, LT_PREF_ALIGNMENT_A + matrix, &alignments[matrix],
                                          sizeof alignments[matrix]) == LT_SUCCESS;
    memset(&choice, 0, sizeof choice);
    good =
        good && lt->choose(lt->handle, &p.desc, &p.a, &p.b, &p.c, &p.d, &preference, 1, &choice, &given) == LT_SUCCESS;
    plan->algo = choice.algo;
    plan->workspace = choice.workspace;
    return good && given == 1 && choice.state == LT_SUCCESS && choice.workspace <= MOST_WORKSPACE;
}

static uint64_t hash_of(const struct seqmix_cublaslt_shape *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* The plan of a shape, remembered or made: each has a few places, taken in turn. */
static const struct seqmix_cublaslt_plan *plan_of(struct seqmix_cublaslt *lt, const struct seqmix_cublaslt_shape *shape)
{
    const uint64_t hash = hash_of(shape);
    for (uint64_t way = 0; way < WAYS; way++) {
        const struct seqmix_cublaslt_plan *plan = &lt->plans[(hash + way) % SEQMIX_CUBLASLT_PLANS];
        if (memcmp(&plan->shape, shape, sizeof *shape) == 0) return plan;
    }
    struct seqmix_cublaslt_plan *plan = &lt->plans[(hash + lt->turn++ % WAYS) % SEQMIX_CUBLASLT_PLANS];
    plan->shape = *shape;
    plan->served = choose(lt, plan);
    return plan;
}

/* ---------------------------------------------------------------- calls */

bool seqmix_cublaslt_serves(struct seqmix_cublaslt *lt, const seqmix_linear_args *args, size_t *workspace)
{
    struct seqmix_cublaslt_shape shape;
    if (lt->handle == NULL || !shape_of(args, &shape)) return false;
    const struct seqmix_cublaslt_plan *plan = plan_of(lt, &shape);
    if (plan->served) *workspace = plan->workspace;
    return plan->served;
}

static bool stands(const seqmix_tensor *t, uint32_t alignment)
{
    return t->rank == 0 || (uintptr_t)t->data % alignment == 0;
}

/* Whether the tensors lie as the choice was told. */
static bool all_stand(const seqmix_linear_args *a, const struct seqmix_cublaslt_shape *s)
{
    return stands(&a->x, alignment_of(s->x_step, s->type)) && stands(&a->bias, ALIGNMENT) &&
           stands(&a->weight, alignment_of(s->weight_step, s->type)) &&
           stands(&a->residual, alignment_of(s->residual_step, s->y_type)) &&
           stands(&a->y, alignment_of(s->y_step, s->y_type));
}

bool seqmix_cublaslt_linear(struct seqmix_cublaslt *lt, const seqmix_linear_args *args, void *workspace, void *stream)
{
    static const float one = 1, none = 0;
    struct seqmix_cublaslt_shape shape;
    struct product p;
    if (lt->handle == NULL || !shape_of(args, &shape) || !all_stand(args, &shape)) return false;
    const struct seqmix_cublaslt_plan *plan = plan_of(lt, &shape);
    if (!plan->served || !describe(lt, &shape, args->bias.data, &p)) return false;
    const bool residual = shape.residual != 0;
    return lt->multiply(lt->handle, &p.desc, &one, args->weight.data, &p.a, args->x.data, &p.b, residual ? &one : &none,
                        residual ? args->residual.data : args->y.data, &p.c, args->y.data, &p.d, &plan->algo, workspace,
                        plan->workspace, stream) == LT_SUCCESS;
}
