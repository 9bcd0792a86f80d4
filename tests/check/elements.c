/* SPDX-License-Identifier: MIT */
/* Elements of tensors of every dtype, f64 included: offsets, values, rounding, bits. */
#include <math.h>

#include "harness.h"

int64_t check_offset(const seqmix_tensor *t, const int64_t *index)
{
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++)
        offset += index[axis] * t->stride[axis];
    return offset;
}

bool check_next(const seqmix_tensor *t, int64_t *index, int first, int end)
{
    for (int axis = end - 1; axis >= first; axis--) {
        if (++index[axis] < t->shape[axis]) return true;
        index[axis] = 0;
    }
    return false;
}

double check_get(const seqmix_tensor *t, int64_t offset)
{
    if (t->dtype == SEQMIX_F64_INTERNAL) return ((const double *)t->data)[offset];
    if (t->dtype == SEQMIX_I32) return ((const int32_t *)t->data)[offset];
    return (double)seqmix_load_f32(t, offset);
}

void check_put(const seqmix_tensor *t, int64_t offset, double value)
{
    if (t->dtype == SEQMIX_F64_INTERNAL)
        ((double *)t->data)[offset] = value;
    else if (t->dtype == SEQMIX_I32)
        ((int32_t *)t->data)[offset] = (int32_t)value;
    else
        seqmix_store_f32(t, offset, (float)value);
}

double check_round(seqmix_dtype dtype, double value)
{
    switch (dtype) {
    case SEQMIX_BF16:
        return (double)seqmix_bf16_to_f32(seqmix_f32_to_bf16((float)value));
    case SEQMIX_F16:
        return (double)seqmix_f16_to_f32(seqmix_f32_to_f16((float)value));
    case SEQMIX_F32:
        return (double)(float)value;
    default:
        return value;
    }
}

double check_half_ulp(seqmix_dtype dtype, double value)
{
    const int digits = dtype == SEQMIX_BF16 ? 8 : dtype == SEQMIX_F16 ? 11 : 24;
    const int lowest = dtype == SEQMIX_F16    ? -24
                       : dtype == SEQMIX_BF16 ? -133
                                              : -149; /* exponent of the least subnormal */
    int exponent;
    frexp(value, &exponent);
    const int ulp = value == 0 || exponent - digits < lowest ? lowest : exponent - digits;
    return ldexp(0.5, ulp);
}

bool check_is_poison(const seqmix_tensor *t, int64_t offset)
{
    const size_t size = seqmix_dtype_size(t->dtype);
    uint16_t halves[4];
    memcpy(halves, (const char *)t->data + offset * (int64_t)size, size);
    for (size_t i = 0; i < size / 2; i++)
        if (halves[i] != CHECK_POISON) return false;
    return true;
}

void check_copy_row(const seqmix_tensor *from, int64_t i, const seqmix_tensor *to, int64_t j)
{
    const int64_t size = (int64_t)seqmix_dtype_size(from->dtype);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (seqmix_tensor_count(from) == 0) return;
    do {
        const int64_t at = check_offset(from, index) + i * from->stride[0];
        const int64_t to_at = check_offset(to, index) + j * to->stride[0];
        memcpy((char *)to->data + to_at * size, (const char *)from->data + at * size, (size_t)size);
    } while (check_next(from, index, 1, from->rank));
}

bool check_same_row(const seqmix_tensor *a, int64_t i, const seqmix_tensor *b, int64_t j)
{
    const int64_t size = (int64_t)seqmix_dtype_size(a->dtype);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (seqmix_tensor_count(a) == 0) return true;
    do {
        const int64_t at_a = check_offset(a, index) + i * a->stride[0];
        const int64_t at_b = check_offset(b, index) + j * b->stride[0];
        if (memcmp((const char *)a->data + at_a * size, (const char *)b->data + at_b * size, (size_t)size) != 0)
            return false;
    } while (check_next(a, index, 1, a->rank));
    return true;
}
