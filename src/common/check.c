/* SPDX-License-Identifier: MIT */
/*
 * The rules that all ops share: presence, rank, dtype and shape of the fields of a form, strides, data pointers, aliasing.
 *
 * Strides: the elements of a view span 1 + sum (size-1)*stride addresses; that, times the element size, must fit ptrdiff_t,
 * so that no offset a kernel forms can overflow. A written tensor nests: with its axes sorted by stride, each stride is at
 * least the span of the axes below, hence no two elements share an address.
 *
 * Aliasing is decided on bytes, not on ranges. A view becomes a lattice of (count, stride) axes, strides ascending, the
 * element's bytes first, neighbours merged where they are contiguous. Two lattices at distance d meet iff two of their points
 * coincide; the axis with the largest stride is laid out, only the copies whose ranges touch are followed, and two axes of
 * equal stride (slices of one buffer) are laid out together, where only their difference counts. Views whose strides have
 * little in common could need many steps; past a budget the pair is accepted.
 */
#include "check_internal.h"

#include <float.h>

static seqmix_status check_presence(struct seqmix_context *ctx, const struct seqmix_field *field)
{
    const int32_t rank = field->tensor->rank;
    if (rank == 0) {
        if ((field->traits & SEQMIX_OPTIONAL) != 0) return SEQMIX_OK;
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s is missing (its rank is 0)", field->name);
    }
    if (rank >= field->min_rank && rank <= field->max_rank) return SEQMIX_OK;
    if (field->min_rank == field->max_rank)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.rank=%" PRId32 ", must be %d", field->name, rank,
                           field->max_rank);
    return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.rank=%" PRId32 ", must be %d to %d", field->name, rank,
                       field->min_rank, field->max_rank);
}

static seqmix_status check_dtype(struct seqmix_context *ctx, struct seqmix_form *form, const struct seqmix_field *field)
{
    const seqmix_dtype dtype = field->tensor->dtype;
    if (field->dtype == SEQMIX_IS_WEIGHT && seqmix_dtype_block(dtype) > 1) return SEQMIX_OK;
    if (field->dtype == SEQMIX_IS_I32) {
        if (dtype == SEQMIX_I32) return SEQMIX_OK;
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "%s.dtype=%" PRId32 ", must be i32 (%d)", field->name, dtype,
                           SEQMIX_I32);
    }
    if (dtype != SEQMIX_F32 && dtype != SEQMIX_BF16 && dtype != SEQMIX_F16)
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "%s.dtype=%" PRId32 " is none of f32 (1), bf16 (2), f16 (3)",
                           field->name, dtype);
    const char *name = seqmix_dtype_name(dtype);
    switch (field->dtype) {
    case SEQMIX_IS_X:
        if (form->x_name == NULL) {
            form->x_name = field->name;
            form->x = dtype;
        }
        if (dtype == form->x) return SEQMIX_OK;
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "%s.dtype=%s differs from %s.dtype=%s", field->name, name,
                           form->x_name, seqmix_dtype_name(form->x));
    case SEQMIX_IS_X_OR_F32:
        if (dtype == form->x || dtype == SEQMIX_F32) return SEQMIX_OK;
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "%s.dtype=%s, must be f32 or %s.dtype=%s", field->name, name,
                           form->x_name, seqmix_dtype_name(form->x));
    case SEQMIX_IS_F32:
        if (dtype == SEQMIX_F32) return SEQMIX_OK;
        return seqmix_fail(ctx, SEQMIX_ERR_DTYPE, "%s.dtype=%s, must be f32", field->name, name);
    case SEQMIX_IS_ANY:
    case SEQMIX_IS_WEIGHT:
    case SEQMIX_IS_I32:
        break;
    }
    return SEQMIX_OK;
}

/* Rows of a block-quantised tensor are whole blocks. */
static seqmix_status check_blocks(struct seqmix_context *ctx, const struct seqmix_field *field)
{
    const seqmix_tensor *t = field->tensor;
    const int64_t block = seqmix_dtype_block(t->dtype);
    const int last = t->rank - 1;
    if (block == 1) return SEQMIX_OK;
    if (t->shape[last] % block != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.shape[%d]=%" PRId64 " is no multiple of %s's block of %" PRId64,
                           field->name, last, t->shape[last], seqmix_dtype_name(t->dtype), block);
    for (int axis = 0; axis < last; axis++)
        if (t->stride[axis] % block != 0)
            return seqmix_fail(ctx, SEQMIX_ERR_STRIDE,
                               "%s.stride[%d]=%" PRId64 " is no multiple of %s's block of %" PRId64, field->name, axis,
                               t->stride[axis], seqmix_dtype_name(t->dtype), block);
    return SEQMIX_OK;
}

/* The tensor in units of whole blocks, for all that only looks at its bytes; a plain type's is itself. */
static seqmix_tensor in_blocks(const seqmix_tensor *t)
{
    const int64_t block = seqmix_dtype_block(t->dtype);
    seqmix_tensor unit = *t;
    if (block == 1) return unit;
    for (int axis = 0; axis < t->rank - 1; axis++)
        unit.stride[axis] /= block;
    unit.shape[t->rank - 1] /= block;
    return unit;
}

static seqmix_status check_shape(struct seqmix_context *ctx, struct seqmix_dim *dims, const struct seqmix_field *field)
{
    const seqmix_tensor *t = field->tensor;
    for (int axis = 0; axis < t->rank; axis++) {
        struct seqmix_dim *dim = &dims[field->axes[axis]];
        if (t->shape[axis] < 0)
            return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.shape[%d]=%" PRId64 " is negative", field->name, axis,
                               t->shape[axis]);
        if (!dim->bound) {
            dim->size = t->shape[axis];
            dim->bound = true;
        }
        if (t->shape[axis] != dim->size)
            return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.shape[%d]=%" PRId64 " differs from %s=%" PRId64, field->name,
                               axis, t->shape[axis], dim->name, dim->size);
    }
    return SEQMIX_OK;
}

seqmix_status seqmix_check_form(struct seqmix_context *ctx, struct seqmix_form *form)
{
    for (int i = 0; i < form->n_fields; i++)
        SEQMIX_TRY(check_presence(ctx, &form->fields[i]));
    for (int i = 0; i < form->n_fields; i++)
        if (seqmix_present(form->fields[i].tensor)) SEQMIX_TRY(check_dtype(ctx, form, &form->fields[i]));
    for (int i = 0; i < form->n_fields; i++)
        SEQMIX_TRY(check_shape(ctx, form->dims, &form->fields[i]));
    return SEQMIX_OK;
}

/* Bytes from the first to the end of the last element, axes of size 0 counted as 1; false when they exceed ptrdiff_t. Also
 * false when the number of elements times their size does, which strides of 0 could hide. */
static bool span_bytes(const seqmix_tensor *t, size_t *bytes)
{
    const seqmix_tensor unit = in_blocks(t);
    const int64_t size = (int64_t)seqmix_dtype_size(t->dtype);
    int64_t count = size, span = size;
    for (int axis = 0; axis < t->rank; axis++) {
        const int64_t n = unit.shape[axis] > 0 ? unit.shape[axis] : 1;
        int64_t step;
        if (__builtin_mul_overflow(count, n, &count) || __builtin_mul_overflow(n - 1, unit.stride[axis], &step) ||
            __builtin_mul_overflow(step, size, &step) || __builtin_add_overflow(span, step, &span))
            return false;
    }
    *bytes = (size_t)span;
    return span <= PTRDIFF_MAX && count <= PTRDIFF_MAX;
}

static bool is_empty(const seqmix_tensor *t)
{
    for (int axis = 0; axis < t->rank; axis++)
        if (t->shape[axis] == 0) return true;
    return false;
}

/* Puts the axes with more than one element and a stride that is not 0 into `order`, strides ascending; returns how many. */
static int sort_axes(const seqmix_tensor *t, bool with_zero, int order[SEQMIX_MAX_RANK])
{
    int n = 0;
    for (int axis = 0; axis < t->rank; axis++) {
        if (t->shape[axis] <= 1 || (t->stride[axis] == 0 && !with_zero)) continue;
        int at = n++;
        for (; at > 0 && t->stride[order[at - 1]] > t->stride[axis]; at--)
            order[at] = order[at - 1];
        order[at] = axis;
    }
    return n;
}

static seqmix_status check_nesting(struct seqmix_context *ctx, const struct seqmix_field *field)
{
    const seqmix_tensor *t = field->tensor;
    int order[SEQMIX_MAX_RANK];
    const int n = sort_axes(t, true, order);
    int64_t span = 1;
    for (int i = 0; i < n; i++) {
        const int axis = order[i];
        if (t->stride[axis] < span)
            return seqmix_fail(ctx, SEQMIX_ERR_STRIDE,
                               "%s.stride[%d]=%" PRId64 " is below the span %" PRId64
                               " of the axes below it, so that elements to be written would share an address",
                               field->name, axis, t->stride[axis], span);
        span += (t->shape[axis] - 1) * t->stride[axis];
    }
    return SEQMIX_OK;
}

static seqmix_status check_strides(struct seqmix_context *ctx, const struct seqmix_field *field, size_t *bytes)
{
    const seqmix_tensor *t = field->tensor;
    const int last = t->rank - 1;
    for (int axis = 0; axis < t->rank; axis++)
        if (t->stride[axis] < 0)
            return seqmix_fail(ctx, SEQMIX_ERR_STRIDE, "%s.stride[%d]=%" PRId64 " is negative", field->name, axis,
                               t->stride[axis]);
    if ((field->traits & SEQMIX_ROWS) != 0 && t->shape[last] > 1 && t->stride[last] != 1)
        return seqmix_fail(ctx, SEQMIX_ERR_STRIDE, "%s.stride[%d]=%" PRId64 ", must be 1", field->name, last,
                           t->stride[last]);
    SEQMIX_TRY(check_blocks(ctx, field));
    if (!span_bytes(t, bytes))
        return seqmix_fail(ctx, SEQMIX_ERR_STRIDE, "%s: its shape and strides span more than %td bytes", field->name,
                           (ptrdiff_t)PTRDIFF_MAX);
    if (is_empty(t)) *bytes = 0;
    return (field->traits & SEQMIX_WRITTEN) != 0 && *bytes != 0 ? check_nesting(ctx, field) : SEQMIX_OK;
}

static seqmix_status check_data(struct seqmix_context *ctx, const struct seqmix_field *field, size_t bytes)
{
    const uintptr_t at = (uintptr_t)field->tensor->data;
    const size_t size = seqmix_dtype_block(field->tensor->dtype) > 1 ? 1 : seqmix_dtype_size(field->tensor->dtype);
    if (bytes == 0) return SEQMIX_OK;
    if (at == 0) return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s.data is NULL", field->name);
    if (at % size != 0)
        return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s.data is not aligned to its elements of %zu bytes",
                           field->name, size);
    if (bytes > UINTPTR_MAX - at)
        return seqmix_fail(ctx, SEQMIX_ERR_STRIDE, "%s: its shape and strides reach beyond the address space",
                           field->name);
    return SEQMIX_OK;
}

/* A set of bytes: base + sum i[k]*stride[k], 0 <= i[k] < count[k]; span[k] is that of the axes below k. */
struct lattice {
    int n;
    int64_t count[SEQMIX_MAX_RANK + 1], stride[SEQMIX_MAX_RANK + 1], span[SEQMIX_MAX_RANK + 2];
};

static void make_lattice(const seqmix_tensor *tensor, struct lattice *l)
{
    const seqmix_tensor unit = in_blocks(tensor), *t = &unit;
    const int64_t size = (int64_t)seqmix_dtype_size(t->dtype);
    int order[SEQMIX_MAX_RANK];
    const int n = sort_axes(t, false, order);
    l->n = 1;
    l->count[0] = size;
    l->stride[0] = 1;
    for (int i = 0; i < n; i++) {
        const int top = l->n - 1;
        const int64_t count = t->shape[order[i]], stride = t->stride[order[i]] * size;
        if (top == 0 && stride <= l->count[0]) { /* one solid run of bytes, also where rows overlap */
            l->count[0] += (count - 1) * stride;
        } else if (stride == l->count[top] * l->stride[top]) {
            l->count[top] *= count;
        } else {
            l->count[l->n] = count;
            l->stride[l->n++] = stride;
        }
    }
    l->span[0] = 1;
    for (int k = 0; k < l->n; k++)
        l->span[k + 1] = l->span[k] + (l->count[k] - 1) * l->stride[k];
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Whether b's first kb axes, laid d bytes after a's first ka, share a byte with them. Each level takes an axis away, or swaps a
 * and b before it does; `budget` bounds the calls. */
static bool lattices_meet(const struct lattice *a, int ka, const struct lattice *b, int kb, int64_t d, int *budget)
{
    if (ka == 0 && kb == 0) return d == 0;
    if (--*budget < 0) return false;

    const int64_t sa = ka > 0 ? a->stride[ka - 1] : 0, sb = kb > 0 ? b->stride[kb - 1] : 0;
    if (sa < sb) return lattices_meet(b, kb, a, ka, -d, budget);

    /* copy i of a's inner part (or, with equal strides, the copies i apart) touches b where d - i*sa is in (-width, inner) */
    const bool both = sa == sb;
    const int64_t inner = a->span[ka - 1], width = both ? b->span[kb - 1] : b->span[kb];
    const int64_t least = both ? 1 - b->count[kb - 1] : 0, most = a->count[ka - 1] - 1;
    int64_t first = -floor_div(inner - 1 - d, sa), last = floor_div(d + width - 1, sa);
    if (first < least) first = least;
    if (last > most) last = most;
    /* two copies, one after the other, touch solid b: the last element of the first lies in it */
    if (first < last && !both && kb <= 1 && inner <= sa) return true;
    for (int64_t i = first; i <= last && *budget >= 0; i++)
        if (lattices_meet(a, ka - 1, b, both ? kb - 1 : kb, d - i * sa, budget)) return true;
    return false;
}

/* Whether two tensors of so many bytes share one; false also where that is too costly to decide. */
static bool tensors_overlap(const seqmix_tensor *a, size_t bytes_a, const seqmix_tensor *b, size_t bytes_b)
{
    const size_t undecided = (size_t)PTRDIFF_MAX / 8; /* no object is that large, and sums of a few such spans fit */
    const uintptr_t at_a = (uintptr_t)a->data, at_b = (uintptr_t)b->data;
    if (at_a >= at_b ? at_a - at_b >= bytes_b : at_b - at_a >= bytes_a) return false; /* the common case */
    if (bytes_a > undecided || bytes_b > undecided) return false;

    struct lattice la, lb;
    int budget = 2048;
    make_lattice(a, &la);
    make_lattice(b, &lb);
    const int64_t d = at_b >= at_a ? (int64_t)(at_b - at_a) : -(int64_t)(at_a - at_b);
    return lattices_meet(&la, la.n, &lb, lb.n, d, &budget);
}

/* Same elements in the same order; the stride of an axis of size 1 means nothing. */
static bool is_same_view(const seqmix_tensor *a, const seqmix_tensor *b)
{
    if (a->data != b->data || a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int axis = 0; axis < a->rank; axis++)
        if (a->shape[axis] != b->shape[axis] || (a->shape[axis] > 1 && a->stride[axis] != b->stride[axis]))
            return false;
    return true;
}

static seqmix_status check_aliasing(struct seqmix_context *ctx, const struct seqmix_form *form)
{
    for (int i = 0; i < form->n_fields; i++) {
        const struct seqmix_field *out = &form->fields[i];
        if ((out->traits & SEQMIX_WRITTEN) == 0 || form->bytes[i] == 0) continue;
        for (int j = 0; j < form->n_fields; j++) {
            const struct seqmix_field *other = &form->fields[j];
            const bool seen = j < i && (other->traits & SEQMIX_WRITTEN) != 0;
            if (j == i || seen || form->bytes[j] == 0) continue;
            const bool may_be = (out->may_be >> j & 1u) != 0;
            if (may_be && is_same_view(out->tensor, other->tensor)) continue;
            if (tensors_overlap(out->tensor, form->bytes[i], other->tensor, form->bytes[j]))
                return seqmix_fail(ctx, SEQMIX_ERR_ALIAS, "%s overlaps %s%s", out->name, other->name,
                                   may_be ? " without being exactly it" : "");
        }
    }
    return SEQMIX_OK;
}

seqmix_status seqmix_check_memory(struct seqmix_context *ctx, struct seqmix_form *form, unsigned how)
{
    for (int i = 0; i < form->n_fields; i++)
        if (seqmix_present(form->fields[i].tensor)) SEQMIX_TRY(check_strides(ctx, &form->fields[i], &form->bytes[i]));
    if ((how & SEQMIX_CHECK_QUERY) != 0) return SEQMIX_OK;
    for (int i = 0; i < form->n_fields; i++)
        SEQMIX_TRY(check_data(ctx, &form->fields[i], form->bytes[i]));
    return check_aliasing(ctx, form);
}

seqmix_status seqmix_check_enum(struct seqmix_context *ctx, const char *name, int32_t value, int32_t last)
{
    if (value >= 0 && value <= last) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s=%" PRId32 " is not in 0..%" PRId32, name, value, last);
}

seqmix_status seqmix_check_zero(struct seqmix_context *ctx, const char *name, int32_t value)
{
    if (value == 0) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s=%" PRId32 ", must be 0", name, value);
}

seqmix_status seqmix_check_ints(struct seqmix_context *ctx, const char *name, const int32_t *array)
{
    if ((uintptr_t)array % sizeof *array == 0) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "%s is not aligned to its elements of 4 bytes", name);
}

seqmix_status seqmix_check_chunk(struct seqmix_context *ctx, int32_t chunk)
{
    if (chunk == 0 || chunk == 16 || chunk == 32 || chunk == 64 || chunk == 128 || chunk == 256) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "chunk=%" PRId32 " is none of 0, 16, 32, 64, 128, 256", chunk);
}

seqmix_status seqmix_check_eps(struct seqmix_context *ctx, float eps)
{
    if (eps > 0 && eps <= FLT_MAX) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_INVALID_ARG, "eps=%g, must be above 0 and finite", (double)eps);
}

seqmix_status seqmix_check_limit(struct seqmix_context *ctx, const struct seqmix_dim *dim, int64_t limit)
{
    if (dim->size <= limit) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_UNSUPPORTED, "%s=%" PRId64 " exceeds the limit %" PRId64, dim->name, dim->size,
                       limit);
}

seqmix_status seqmix_check_rows(struct seqmix_context *ctx, int64_t rows)
{
    const struct seqmix_dim dim = {"R", rows, true};
    return seqmix_check_limit(ctx, &dim, INT32_MAX);
}

seqmix_status seqmix_check_divides(struct seqmix_context *ctx, const char *field, int axis, int64_t divisor,
                                   const struct seqmix_dim *whole)
{
    if (divisor != 0 ? whole->size % divisor == 0 : whole->size == 0) return SEQMIX_OK;
    return seqmix_fail(ctx, SEQMIX_ERR_SHAPE, "%s.shape[%d]=%" PRId64 " does not divide %s=%" PRId64, field, axis,
                       divisor, whole->name, whole->size);
}
