/* SPDX-License-Identifier: MIT */
/* What seqmix-check --replay needs of a program that knows the device: to record what a call enqueues, and to run it again. */
#ifndef SEQMIX_TESTS_CHECK_RECORDER_H
#define SEQMIX_TESTS_CHECK_RECORDER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct check_recorder {
    void *(*begin)(void);                      /* a stream that records */
    void *(*end)(void *stream);                /* what it has; NULL: a call did more than enqueue */
    bool (*run)(void *stream, void *recorded); /* and waits for it */
    void (*close)(void *stream, void *recorded);
};
extern const struct check_recorder *check_recorder; /* set by such a program before main; NULL: nothing records */

#ifdef __cplusplus
}
#endif

#endif
