/* SPDX-License-Identifier: MIT */
/*
 * JSON from bytes nobody vouches for: one strict entry to cJSON, and typed look-ups that say what is wrong. Header only, so
 * that safetensors.c needs nothing but cJSON and the C library.
 */
#ifndef SEQMIX_MODEL_JSON_H
#define SEQMIX_MODEL_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* The caller's buffer for one sentence about what went wrong. */
typedef struct seqmix_why {
    char *text;
    size_t size;
} seqmix_why;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
/* Always false, so that a check can `return seqmix_fail(...)`. */
static inline bool
seqmix_fail(seqmix_why why, const char *format, ...)
{
    if (why.text == NULL || why.size == 0) return false;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why.text, why.size, format, list);
    va_end(list);
    return false;
}

/*
 * The tree of a whole text, or NULL. cJSON 1.7.15 reads one byte past the end of a text that stops after a comma and takes
 * NUL bytes for blanks, hence the copy with a NUL behind it and the search for NULs inside.
 */
static inline cJSON *seqmix_json_parse(const void *bytes, size_t size, seqmix_why why)
{
    if (size == 0 || memchr(bytes, 0, size) != NULL) {
        (void)seqmix_fail(why, size == 0 ? "empty JSON text" : "JSON text holds a NUL byte");
        return NULL;
    }
    char *copy = malloc(size + 1);
    if (copy == NULL) {
        (void)seqmix_fail(why, "no memory for %zu bytes of JSON text", size);
        return NULL;
    }
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithLengthOpts(copy, size + 1, &end, 0);
    size_t at = end != NULL ? (size_t)(end - copy) : 0;
    while (tree != NULL && at < size && (unsigned char)copy[at] <= ' ')
        at++;
    if (tree == NULL || at < size) {
        (void)seqmix_fail(why, "not valid JSON near byte %zu of %zu", at < size ? at : size, size);
        cJSON_Delete(tree);
        tree = NULL;
    }
    free(copy);
    return tree;
}

/* Whether a node is a whole number in [low, high]; JSON numbers are doubles, exact up to 2^53. */
static inline bool seqmix_json_whole(const cJSON *node, int64_t low, int64_t high, int64_t *out)
{
    if (!cJSON_IsNumber(node)) return false;
    double value = node->valuedouble;
    if (!(value >= -9007199254740992.0 && value <= 9007199254740992.0)) return false;
    int64_t whole = (int64_t)value;
    if ((double)whole != value || whole < low || whole > high) return false;
    *out = whole;
    return true;
}

#endif
