/* SPDX-License-Identifier: MIT */
/*
 * A made-up engine for the tests of `validate`: random inputs, and the op computed in double by the shortest loops, with
 * faults that can be switched on by the names that `validate` has for them. It shares no code with what it tests.
 */
#ifndef SEQMIX_CHECK_TEST_VALIDATE_H
#define SEQMIX_CHECK_TEST_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SAMPLE_TENSORS = 24, SAMPLE_STRINGS = 24 };

struct sample_tensor {
    char name[16];
    int32_t dtype; /* SEQMIX_ST_F32 in memory as float, or SEQMIX_ST_I32 as int32_t */
    int rank;
    int64_t shape[8], count;
    void *data;
};

struct sample {
    struct sample_tensor tensor[SAMPLE_TENSORS];
    int n;
    char string[SAMPLE_STRINGS][2][48];
    int n_strings;
};

/* Inputs and outputs of `op` with "key=value ..." traits (see each maker) and up to two faults, which may be NULL. */
void sample_make(struct sample *s, const char *op, const char *traits, const char *fault, const char *second_fault);
void sample_free(struct sample *s);

struct sample_tensor *sample_find(struct sample *s, const char *name);
void sample_string(struct sample *s, const char *key, const char *value);

/* Between the parts of the engine: whether a fault is switched on, and the ops without states. */
bool sample_has(const char *fault);
void sample_make_norm(struct sample *s, const char *traits);
void sample_make_inverse(struct sample *s);
void sample_make_linear(struct sample *s);
void sample_make_embed(struct sample *s);

/* A new tensor of zeros, or of gaussian numbers in f32; "5 4 3" is its shape. */
void *sample_tensor(struct sample *s, const char *name, int32_t dtype, const char *shape);
float *sample_add(struct sample *s, const char *name, double mean, double deviation, const char *shape);
const float *sample_values(struct sample *s, const char *name); /* NULL: there is none */
void sample_round(bool to_bf16);                                /* what sample_add gives from now on */
void sample_number(struct sample *s, const char *key, double value);
/* The number in "key=number key=number". */
int sample_trait(const char *traits, const char *key, int otherwise);
const char *sample_shape(const char *format, int a, int b, int c); /* one of 32 buffers in turn */
void sample_seed(uint64_t seed);
double sample_uniform(void); /* (0, 1) */

/* Writes F32 tensors as they are, or rounded to bf16 or f16, or as F64; params, states and integers keep their dtype. */
bool sample_write(const struct sample *s, const char *path, int32_t dtype);

/* ---------------------------------------------------------------- checks and runs, shared by the test's files */

extern int test_checks, test_failures;
extern char test_scratch[512]; /* a file to overwrite */

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        test_checks++;                                                                                                 \
        if (!(condition)) {                                                                                            \
            test_failures++;                                                                                           \
            (void)printf("FAILED %s:%d: ", __FILE__, __LINE__);                                                        \
            (void)printf(__VA_ARGS__);                                                                                 \
            (void)printf("\n");                                                                                        \
        }                                                                                                              \
    } while (0)

/* The exit status; what was printed goes to *out and *err, to be freed. */
int test_run(const char *path, const char *const *extra, char **out, char **err);

/* Runs with --json, and --rows if not NULL, and collects the names of what explains the dump: "a", "a+b", "a, b". */
int test_explanations(const char *path, const char *rows, char *names, size_t size);

/* Runs on test_scratch: the wanted status, and `word` on stdout. */
void test_expect(int status, const char *word);

/* test_validate_files.c: forms of files, unusable ones, golden ones (directory NULL: none). */
void test_files(const char *golden_directory);

#endif
