/* SPDX-License-Identifier: MIT */
/* What every fuzz target has: the entry that libFuzzer, or standalone.c, calls. */
#ifndef SEQMIX_TESTS_FUZZ_FUZZ_H
#define SEQMIX_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, as a stray read does under the sanitizer. */
static inline void seqmix_must(int holds)
{
    if (!holds) abort();
}

#endif
