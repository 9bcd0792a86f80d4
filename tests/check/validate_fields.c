/* SPDX-License-Identifier: MIT */
/* The names, shapes and options a dump may use, per op: one table, from which the loader works and --help is printed. */
#include "validate_case.h"

#include <string.h>

#include "tensor.h"

#define FIELD(args, name, axes, alt, role, optional, note)                                                             \
    {                                                                                                                  \
#        name, axes, alt, SEQMIX_VAL_##role, optional, offsetof(seqmix_##args##_args, name), note                      \
    }
#define END_FIELD                                                                                                      \
    {                                                                                                                  \
        NULL, NULL, NULL, SEQMIX_VAL_ROWS, false, 0, NULL                                                              \
    }
#define WORDS(args, name, words)                                                                                       \
    {                                                                                                                  \
#        name, SEQMIX_VAL_INT, offsetof(seqmix_##args##_args, name), words                                             \
    }
#define WHOLE(args, name) WORDS(args, name, NULL)
#define FLOAT(args, name)                                                                                              \
    {                                                                                                                  \
#        name, SEQMIX_VAL_FLOAT, offsetof(seqmix_##args##_args, name), NULL                                            \
    }
#define END_OPTION                                                                                                     \
    {                                                                                                                  \
        NULL, SEQMIX_VAL_INT, 0, NULL                                                                                  \
    }

static const struct seqmix_val_field conv_fields[] = {
    FIELD(conv, x, "R D", NULL, ROWS, false, NULL),
    FIELD(conv, weight, "D K", "D 1 K", PARAM, false, "oldest column first"),
    FIELD(conv, bias, "D", NULL, PARAM, true, NULL),
    FIELD(conv, state, "slots D K-1", NULL, STATE, true, "oldest column first; K columns: the oldest is dropped"),
    FIELD(conv, y, "R D", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option conv_options[] = {WORDS(conv, activation, "NONE SILU"), END_OPTION};

#define SCAN_AND_SSD_TAIL(args, per_head)                                                                              \
    FIELD(args, B, "R G N", NULL, ROWS, false, NULL), FIELD(args, C, "R G N", NULL, ROWS, false, NULL)

static const struct seqmix_val_field scan_fields[] = {
    FIELD(scan, x, "R D", NULL, ROWS, false, NULL),
    FIELD(scan, dt, "R D", NULL, SCALARS, false, "before bias and softplus, if the op applies them"),
    FIELD(scan, A, "D N", NULL, PARAM, false, "-exp(A_log)"),
    SCAN_AND_SSD_TAIL(scan, D),
    FIELD(scan, skip, "D", NULL, PARAM, true, "Mamba's D"),
    FIELD(scan, dt_bias, "D", NULL, PARAM, true, NULL),
    FIELD(scan, z, "R D", NULL, ROWS, true, "y is multiplied by silu(z)"),
    FIELD(scan, state, "slots D N", NULL, STATE, true, NULL),
    FIELD(scan, y, "R D", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option scan_options[] = {WHOLE(scan, dt_softplus), END_OPTION};

static const struct seqmix_val_field ssd_fields[] = {
    FIELD(ssd, x, "R H P", NULL, ROWS, false, NULL),
    FIELD(ssd, dt, "R H", NULL, SCALARS, false, "before bias, softplus and clamp, if the op applies them"),
    FIELD(ssd, A, "H", NULL, PARAM, false, "-exp(A_log)"),
    SCAN_AND_SSD_TAIL(ssd, H),
    FIELD(ssd, skip, "H", "H P", PARAM, true, "Mamba's D"),
    FIELD(ssd, dt_bias, "H", NULL, PARAM, true, NULL),
    FIELD(ssd, z, "R H P", NULL, ROWS, true, "y is multiplied by silu(z)"),
    FIELD(ssd, state, "slots H P N", NULL, STATE, true, NULL),
    FIELD(ssd, y, "R H P", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option ssd_options[] = {WHOLE(ssd, dt_softplus), WHOLE(ssd, chunk), FLOAT(ssd, dt_min),
                                                       FLOAT(ssd, dt_max), END_OPTION};

static const struct seqmix_val_field deltanet_fields[] = {
    FIELD(deltanet, q, "R HK DK", NULL, ROWS, false, NULL),
    FIELD(deltanet, k, "R HK DK", NULL, ROWS, false, NULL),
    FIELD(deltanet, v, "R HV DV", NULL, ROWS, false, NULL),
    FIELD(deltanet, gate, "R HV", "R HV DK", SCALARS, true, "in the space that gate_kind names"),
    FIELD(deltanet, beta, "R HV", NULL, SCALARS, false, "before the sigmoid, if beta_kind has one"),
    FIELD(deltanet, A, "HV", NULL, PARAM, true, "-exp(A_log)"),
    FIELD(deltanet, dt_bias, "HV", "HV DK", PARAM, true, NULL),
    FIELD(deltanet, state, "slots HV DK DV", NULL, STATE, true, NULL),
    FIELD(deltanet, o, "R HV DV", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option deltanet_options[] = {
    WORDS(deltanet, gate_kind, "NONE LOG ALPHA SOFTPLUS BOUNDED_SIGMOID"),
    WORDS(deltanet, beta_kind, "VALUE SIGMOID SIGMOID2"),
    WHOLE(deltanet, qk_l2norm),
    WORDS(deltanet, head_map, "GROUPED TILED"),
    WHOLE(deltanet, chunk),
    FLOAT(deltanet, eps),
    FLOAT(deltanet, scale),
    FLOAT(deltanet, gate_lower_bound),
    END_OPTION,
};

static const struct seqmix_val_field inverse_fields[] = {
    FIELD(inverse, a, "... n n", NULL, ROWS, false, "strictly lower part"),
    FIELD(inverse, inv, "... n n", NULL, OUTPUT, false, "of I + tril(a, -1)"),
    END_FIELD,
};
static const struct seqmix_val_option inverse_options[] = {END_OPTION};

static const struct seqmix_val_field norm_fields[] = {
    FIELD(norm, x, "R D", NULL, ROWS, false, NULL),
    FIELD(norm, z, "R D", NULL, ROWS, true, NULL),
    FIELD(norm, weight, "D", "group", PARAM, true, NULL),
    FIELD(norm, y, "R D", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option norm_options[] = {
    WHOLE(norm, group),
    WHOLE(norm, norm_before_gate),
    WORDS(norm, gate_act, "SILU SIGMOID"),
    WHOLE(norm, weight_plus_one),
    FLOAT(norm, eps),
    END_OPTION,
};

static const struct seqmix_val_field linear_fields[] = {
    FIELD(linear, x, "R I", NULL, ROWS, false, NULL),   FIELD(linear, weight, "O I", NULL, PARAM, false, NULL),
    FIELD(linear, bias, "O", NULL, PARAM, true, NULL),  FIELD(linear, residual, "R O", NULL, SCALARS, true, NULL),
    FIELD(linear, y, "R O", NULL, OUTPUT, false, NULL), END_FIELD,
};
static const struct seqmix_val_option linear_options[] = {END_OPTION};

static const struct seqmix_val_field embed_fields[] = {
    FIELD(embed, table, "V D", NULL, PARAM, false, "with tokens [R] in I32 or I64"),
    FIELD(embed, y, "R D", NULL, OUTPUT, false, NULL),
    END_FIELD,
};
static const struct seqmix_val_option embed_options[] = {END_OPTION};

#define FAMILY(family, batch, state_order, row_label, head_label)                                                      \
    [SEQMIX_VAL_##family] = {#family, family##_fields, family##_options, sizeof(seqmix_##family##_args),               \
                             batch,   state_order,     row_label,        head_label}
#define BATCH(family) offsetof(seqmix_##family##_args, batch)

const struct seqmix_val_family seqmix_val_families[SEQMIX_VAL_FAMILIES] = {
    FAMILY(conv, BATCH(conv), "DK", "row", NULL), FAMILY(scan, BATCH(scan), "DN", "row", NULL),
    FAMILY(ssd, BATCH(ssd), "PN", "row", "head"), FAMILY(deltanet, BATCH(deltanet), "KV", "row", "head"),
    FAMILY(inverse, 0, NULL, "matrix", "row"),    FAMILY(norm, 0, NULL, "row", NULL),
    FAMILY(linear, 0, NULL, "row", NULL),         FAMILY(embed, 0, NULL, "row", NULL),
};

const struct seqmix_val_op seqmix_val_ops[] = {
#define SEQMIX_OP(ID, op, family, step) {#op, SEQMIX_OP_##ID, SEQMIX_VAL_##family, step},
#define SEQMIX_OP_GLUE(ID, op, family, step)
#include "ops.def"
    {NULL, 0, SEQMIX_VAL_conv, false},
};

const struct seqmix_val_op *seqmix_val_find_op(const char *name)
{
    for (const struct seqmix_val_op *op = seqmix_val_ops; op->name != NULL; op++)
        if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

const struct seqmix_val_field *seqmix_val_find_field(const struct seqmix_val_family *family, const char *name)
{
    for (const struct seqmix_val_field *field = family->fields; field->name != NULL; field++)
        if (strcmp(field->name, name) == 0) return field;
    return NULL;
}

const struct seqmix_val_field *seqmix_val_field_of(const struct seqmix_val_family *family, enum seqmix_val_role role)
{
    for (const struct seqmix_val_field *field = family->fields; field->name != NULL; field++)
        if (field->role == role) return field;
    return NULL;
}

int seqmix_val_axes(const char *axes)
{
    int n = 1;
    for (; *axes != '\0'; axes++)
        n += *axes == ' ';
    return n;
}

static void print_axes(FILE *out, const char *axes)
{
    (void)fputc('[', out);
    for (; *axes != '\0'; axes++)
        (void)fputs(*axes == ' ' ? ", " : (const char[]){*axes, '\0'}, out);
    (void)fputc(']', out);
}

static void help_family(FILE *out, const struct seqmix_val_family *family)
{
    for (const struct seqmix_val_field *field = family->fields; field->name != NULL; field++) {
        (void)fprintf(out, "    %-9s", field->name);
        print_axes(out, field->axes);
        if (field->axes_alt != NULL) {
            (void)fputs(" or ", out);
            print_axes(out, field->axes_alt);
        }
        if (field->role == SEQMIX_VAL_OUTPUT) (void)fputs(", the engine's output", out);
        if (field->optional) (void)fputs(", optional", out);
        if (field->note != NULL) (void)fprintf(out, ": %s", field->note);
        (void)fputc('\n', out);
        if (field->role == SEQMIX_VAL_STATE)
            (void)fputs("    state_out the same, optional: the engine's final states, the whole pool\n", out);
    }
    if (family->batch_offset != 0)
        (void)fputs(
            "    row_begin [n_seqs+1], read_slot, write_slot [n_seqs], ckpt_seq, ckpt_row, ckpt_slot, in I32 or I64, "
            "optional: as in seqmix_batch\n",
            out);
    (void)fputs("    options: ", out);
    for (const struct seqmix_val_option *option = family->options; option->name != NULL; option++)
        (void)fprintf(out, "%s%s%s ", option->name, option->words != NULL ? " = " : "",
                      option->words != NULL ? option->words : "");
    if (family->state_order != NULL)
        (void)fprintf(out, "state_order = %c%c %c%c", family->state_order[0], family->state_order[1],
                      family->state_order[1], family->state_order[0]);
    else if (family->options->name == NULL)
        (void)fputs("none", out);
    (void)fputc('\n', out);
}

void seqmix_val_help(FILE *out, const struct seqmix_val_op *wanted)
{
    for (int family = 0; family < SEQMIX_VAL_FAMILIES; family++) {
        if (wanted != NULL && (int)wanted->family != family) continue;
        (void)fputs(" ", out);
        for (const struct seqmix_val_op *op = seqmix_val_ops; op->name != NULL; op++)
            if ((int)op->family == family) (void)fprintf(out, " %s", op->name);
        (void)fputc('\n', out);
        help_family(out, &seqmix_val_families[family]);
    }
}
