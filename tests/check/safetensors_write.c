/* SPDX-License-Identifier: MIT */
/* Header length, JSON header padded to 8 bytes with blanks, then the tensors, wide elements first so that all are aligned. */
#include "safetensors_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "safetensors.h"

static size_t tensor_bytes(const struct seqmix_st_out *t)
{
    size_t bytes = seqmix_st_dtype_size(t->dtype);
    for (int axis = 0; axis < t->rank; axis++)
        bytes *= (size_t)t->shape[axis];
    return bytes;
}

/* Pass 0 writes the elements of 8 bytes, 1 those of 4, 2 those of 2, 3 the rest. */
static bool is_turn(const struct seqmix_st_out *t, int pass)
{
    return seqmix_st_dtype_size(t->dtype) == (size_t)8 >> pass;
}

static char *make_header(const struct seqmix_st_out *tensors, int n, const char *const *metadata)
{
    cJSON *root = cJSON_CreateObject();
    if (metadata != NULL) {
        cJSON *strings = cJSON_AddObjectToObject(root, "__metadata__");
        for (; metadata[0] != NULL; metadata += 2)
            (void)cJSON_AddStringToObject(strings, metadata[0], metadata[1]);
    }
    size_t at = 0;
    for (int k = 0; k < 4 * n; k++) {
        const int i = k % n;
        if (!is_turn(&tensors[i], k / n)) continue;
        cJSON *entry = cJSON_AddObjectToObject(root, tensors[i].name);
        (void)cJSON_AddStringToObject(entry, "dtype", seqmix_st_dtype_name(tensors[i].dtype));
        cJSON *shape = cJSON_AddArrayToObject(entry, "shape"), *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
        for (int axis = 0; axis < tensors[i].rank; axis++)
            (void)cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensors[i].shape[axis]));
        (void)cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)at));
        at += tensor_bytes(&tensors[i]);
        (void)cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)at));
    }
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

bool seqmix_st_write(const char *path, const struct seqmix_st_out *tensors, int n, const char *const *metadata)
{
    char *header = make_header(tensors, n, metadata);
    FILE *file = header != NULL ? fopen(path, "wb") : NULL;
    bool ok = file != NULL;
    if (ok) {
        const size_t used = strlen(header), length = (used + 7) / 8 * 8;
        unsigned char prefix[8];
        for (int i = 0; i < 8; i++)
            prefix[i] = (unsigned char)((uint64_t)length >> (8 * i) & 0xff);
        ok = fwrite(prefix, 1, 8, file) == 8 && fwrite(header, 1, used, file) == used;
        for (size_t i = used; i < length && ok; i++)
            ok = fputc(' ', file) != EOF;
        for (int k = 0, i = 0; k < 4 * n && ok; k++, i = k % n)
            ok = !is_turn(&tensors[i], k / n) ||
                 fwrite(tensors[i].data, 1, tensor_bytes(&tensors[i]), file) == tensor_bytes(&tensors[i]);
        ok = fclose(file) == 0 && ok;
    }
    cJSON_free(header);
    return ok;
}
