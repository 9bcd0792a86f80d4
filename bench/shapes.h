/* SPDX-License-Identifier: MIT */
/*
 * Model shapes as data: one text file per model, `key value` lines, `#` starts a comment. A family that a file does not
 * name is absent (its first size is 0). Nothing here allocates; every error names the file, the line and what is wrong.
 *
 *   model NAME                          must be the first key
 *   conv.D conv.K conv.bias             channels, width, 0|1
 *   scan.D scan.N scan.G                channels, state, groups
 *   ssd.H ssd.P ssd.G ssd.N             heads, head dim, groups, state
 *   deltanet.HK .HV .DK .DV .channels   key heads, value heads, their dims; 1: a gate per key channel
 *   norm.D norm.group norm.gated norm.before_gate
 *   inverse.n inverse.heads             matrix size; heads that each need one matrix per n rows
 *   linear NAME I O                     one projection; may be repeated
 */
#ifndef SEQMIX_BENCH_SHAPES_H
#define SEQMIX_BENCH_SHAPES_H

#include <stddef.h>
#include <stdint.h>

enum { SEQMIX_SHAPES_MAX = 64, SEQMIX_SHAPE_LINEARS = 8, SEQMIX_SHAPE_NAME = 40 };

struct seqmix_shape_linear {
    char name[SEQMIX_SHAPE_NAME];
    int64_t I, O; /* weight [O,I] */
};

struct seqmix_shape {
    char name[SEQMIX_SHAPE_NAME];
    struct {
        int64_t D, K, bias;
    } conv;
    struct {
        int64_t D, N, G;
    } scan;
    struct {
        int64_t H, P, G, N;
    } ssd;
    struct {
        int64_t HK, HV, DK, DV, channels;
    } deltanet;
    struct {
        int64_t D, group, gated, before_gate;
    } norm;
    struct {
        int64_t n, heads;
    } inverse;
    int n_linear;
    struct seqmix_shape_linear linear[SEQMIX_SHAPE_LINEARS];
};

/* Reads one file. 0, or -1 with the sentence in `why`. */
int seqmix_shape_load(const char *path, struct seqmix_shape *out, char *why, size_t why_len);

/* Reads every *.txt of a directory, in the order of their names. The count, or -1 with the sentence in `why`. */
int seqmix_shapes_load_dir(const char *dir, struct seqmix_shape *out, int max, char *why, size_t why_len);

/* Where the shapes lie: `shapes` beside the running program (build tree), else ../share/seqmix/shapes from it (installed). */
int seqmix_shapes_find_dir(char *out, size_t out_len, char *why, size_t why_len);

#endif
