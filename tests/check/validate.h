/* SPDX-License-Identifier: MIT */
/* `seqmix-check validate`: judges another engine's dump of one op against the double-precision recurrence. */
#ifndef SEQMIX_CHECK_VALIDATE_H
#define SEQMIX_CHECK_VALIDATE_H

#include <stdio.h>

enum { SEQMIX_VALIDATE_PASS = 0, SEQMIX_VALIDATE_FAIL = 1, SEQMIX_VALIDATE_BAD_INPUT = 2 };

/* argv[0] is the subcommand's own name. Prints to stdout and stderr; the exit status is one of SEQMIX_VALIDATE_*. */
int seqmix_validate_main(int argc, char **argv);

/* The same, printing where the caller says. */
int seqmix_validate_to(int argc, char **argv, FILE *out, FILE *err);

#endif
