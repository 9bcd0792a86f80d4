/* SPDX-License-Identifier: MIT */
/*
 * ssd_chunk_forward on cuda-sm80. A block is one (sequence, head, tile of P columns) and walks the sequence in cells of Q rows,
 * the state S [N x P] in registers. With gamma the inclusive sum of log decays (pairs of f32), per cell:
 *     Y = exp(gamma) o (C S) + (tril(C B^T) o exp(gamma_i - gamma_j) o delta_j) X,    then + skip X, * silu(z)
 *     S = exp(gamma_Q) S + B^T (X o exp(gamma_Q - gamma) o delta)
 * Warps stand as Q/16 rows of 16 by two halves of P; for S as as many bands of N. While a cell is worked on, the next one's rows
 * arrive by cp.async, and the one warp that has no tile of C B^T sums the next log decays. C B^T is made per head: sharing it
 * between heads would leave half the multiprocessors without a block where one sequence is all there is.
 * Grain: Q rows (bf16 64, else 32), or `chunk` if less. NUMERICS.md rules 1-4.
 */
#include "ctx.h"
#include "cuda.h"
#include "ssd.cuh"
#include "tile.cuh"

namespace
{

/* The sizes of one instance: N and P padded, Q rows of a cell. */
template <class X_, int N_, int P_, int Q_> struct ssd_form {
    typedef X_ X;
    typedef typename tile_of<X_>::type tile;
    typedef typename tile::element element;
    static constexpr int N = N_, P = P_, Q = Q_, BANDS = Q_ / 16, THREADS = BANDS * 64;
    static constexpr int M_TILES = N / BANDS / 16, P_TILES = P / 16; /* of a warp: 16 x 8 tiles of S; and of Y */
    static constexpr int PITCH_N = N + tile::PAD_ROWS, PITCH_X = P + tile::PAD_ROWS, PITCH_S = P + tile::PAD_COLUMNS;
    static constexpr int PITCH_SCORES = Q + tile::PAD_ROWS;
    /* Y in f32, the first and the second four of every eight columns apart, so that rows go out in whole lanes without conflicts */
    static constexpr int SECOND = (P / 2 + 15) / 32 * 32 + 16, PITCH_Y = (SECOND + P / 2 + 27) / 32 * 32 + 4;
    static constexpr int Y_ELEMENTS = Q * PITCH_Y * (int)(4 / sizeof(element));
    static constexpr int CELL = Q * PITCH_N + Q * PITCH_X; /* elements of B and X */
    static constexpr int SCORES = tile::PLANES * Q * PITCH_SCORES, MIXED = SCORES + Q * PITCH_X;
    static constexpr int SHARED = MIXED > Y_ELEMENTS ? MIXED : Y_ELEMENTS; /* scores and weighed X, then Y */
    static constexpr int STATE = N * PITCH_S;                              /* a plane of S */
    static size_t shared(int stages)
    {
        const int elements = Q * PITCH_N + stages * CELL + SHARED + tile::PLANES * STATE;
        return (size_t)elements * sizeof(element) + 6 * Q * sizeof(float) + 64;
    }
};

struct ssd_call {
    int64_t n_tasks;
    int tiles, step,
        stages; /* tiles of P; rows of a cell; cells in shared memory: 2 while the next one is on its way */
    bool eights;
};

struct gates { /* of a cell's rows, in shared memory */
    float *high, *low, *delta;
};

/* What a block works on. */
template <class F> struct ssd_block {
    typename F::element *C, *cells, *state, *scores, *weighed;
    float *Y, *sums; /* Y takes the place of scores and weighed; sums of two cells in turn */
    sequence s;
    int64_t h, group, p0;
    int columns, warp_row, half;

    DV_MEMBER typename F::element *B(int stage) const { return cells + stage * F::CELL; }
    DV_MEMBER typename F::element *X(int stage) const { return B(stage) + F::Q * F::PITCH_N; }
    DV_MEMBER gates gates_of(int parity) const
    {
        float *at = sums + parity * 3 * F::Q;
        return {at, at + F::Q, at + 2 * F::Q};
    }
    DV_MEMBER bool has_no_tile() const { return warp_row == 0 && half == 1; } /* of C B^T */
};

/* Asks for a cell's rows of C, */
template <class F>
DV_DEV void fetch_queries(const seqmix_ssd_args &a, const ssd_call &call, const ssd_block<F> &b, int64_t row, int rows)
{
    typedef typename F::X X;
    copy_tile<X, F::Q, F::N, F::THREADS>(b.C, F::PITCH_N,
                                         elements<X>(a.C) + row * a.C.stride[0] + b.group * a.C.stride[1],
                                         a.C.stride[0], rows, (int)a.C.shape[2], call.eights);
    dv_cp_async_commit();
}

/* and of B and X. */
template <class F>
DV_DEV void fetch_cell(const seqmix_ssd_args &a, const ssd_call &call, const ssd_block<F> &b, int stage, int64_t row,
                       int rows)
{
    typedef typename F::X X;
    copy_tile<X, F::Q, F::N, F::THREADS>(b.B(stage), F::PITCH_N,
                                         elements<X>(a.B) + row * a.B.stride[0] + b.group * a.B.stride[1],
                                         a.B.stride[0], rows, (int)a.B.shape[2], call.eights);
    copy_tile<X, F::Q, F::P, F::THREADS>(b.X(stage), F::PITCH_X,
                                         elements<X>(a.x) + row * a.x.stride[0] + b.h * a.x.stride[1] + b.p0,
                                         a.x.stride[0], rows, b.columns, call.eights);
    dv_cp_async_commit();
}

/* A warp: raw dt of the cell's rows, Q/32 a lane, ahead of their use. */
template <class F>
DV_DEV void fetch_dt(const seqmix_ssd_args &a, const ssd_block<F> &b, int64_t row, int rows, float (&dt)[F::Q / 32])
{
#pragma unroll
    for (int i = 0; i < F::Q / 32; i++) {
        const int at = (int)(threadIdx.x % 32) * (F::Q / 32) + i;
        dt[i] = at < rows ? get(a.dt, (row + at) * a.dt.stride[0] + b.h * a.dt.stride[1]) : 0;
    }
}

/* A warp: step sizes and sums of log decays; rows beyond the cell's add nothing. */
template <class F>
DV_DEV void sum_gates(const seqmix_ssd_args &a, const ssd_block<F> &b, int rows, const float (&dt)[F::Q / 32],
                      const gates &to)
{
    float g[F::Q / 32];
#pragma unroll
    for (int i = 0; i < F::Q / 32; i++) {
        const int at = (int)(threadIdx.x % 32) * (F::Q / 32) + i;
        const float delta = at < rows ? ssd_step_size(a, dt[i], b.h) : 0;
        const float log_decay = at < rows ? delta * get(a.A, b.h * a.A.stride[0]) : 0;
        to.delta[at] = delta;
        g[i] = bounded_log_decay(log_decay);
    }
    scan_pairs<F::Q>(g, to.high, to.low);
}

/* X o exp(gamma_stop - gamma) o delta for the rows before `stop`, zeros after them. */
template <class F> DV_DEV void weigh(const ssd_block<F> &b, int stage, const gates &gate, int stop)
{
    constexpr int UNIT = 16 / (int)sizeof(typename F::element), UNITS = F::P / UNIT;
    for (int i = (int)threadIdx.x; i < F::Q * UNITS; i += F::THREADS) {
        const int row = i / UNITS, at = row * F::PITCH_X + i % UNITS * UNIT;
        const float weight =
            row < stop ? decay_between(gate.high, gate.low, stop - 1, row) * gate.delta[row] * SCALE : 0;
        float v[UNIT];
        F::tile::load_unit(b.X(stage) + at, v);
#pragma unroll
        for (int e = 0; e < UNIT; e++)
            v[e] = row < stop ? weight * v[e] : 0;
        F::tile::store_unit(b.weighed + at, v);
    }
}

/* One pass over N: Y = exp(gamma) o (C S), and the warp's tiles of C B^T with decays, to shared memory. */
template <class F>
DV_DEV void across_states(const ssd_block<F> &b, int stage, const gates &gate, float (&Y)[F::P_TILES][4])
{
    typedef typename F::tile tile;
    constexpr int TILES = F::Q / 32; /* of C B^T: columns half, half + 2, ... of the warp's row */
    float scores[TILES][2][4] = {};
    const int first = 16 * b.warp_row;
#pragma unroll 1
    for (int k = 0; k < F::N; k += 32) {
        typename tile::a_part c;
        tile::a_by_rows(c, b.C + first * F::PITCH_N + k, F::PITCH_N);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            if (2 * i + b.half > b.warp_row) continue;
#pragma unroll
            for (int n = 0; n < 2; n++) {
                typename tile::b_part part;
                tile::b_by_columns(part, b.B(stage) + (16 * (2 * i + b.half) + 8 * n) * F::PITCH_N + k, F::PITCH_N);
                tile::multiply(scores[i][n], c, part);
            }
        }
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++) {
#pragma unroll
            for (int i = tile::PLANES - 1; i >= 0; i--) {
                typename tile::b_part part;
                tile::b_by_rows(part, b.state + i * F::STATE + k * F::PITCH_S + b.half * (F::P / 2) + 8 * n,
                                F::PITCH_S);
                tile::multiply(Y[n], c, part);
            }
        }
    }
    const int rows[2] = {first + lane_g(), first + lane_g() + 8};
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const float d = gate.high[rows[e]] + gate.low[rows[e]];
        const float decay = expf(d);
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++) {
            Y[n][2 * e] *= decay;
            Y[n][2 * e + 1] *= decay;
        }
    }
#pragma unroll
    for (int i = 0; i < TILES;
         i++) { /* also the tile right of the diagonal, zeros, which the sum over pairs of tiles reads */
        if (2 * i + b.half > (b.warp_row | 1)) continue;
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int column = 16 * (2 * i + b.half) + 8 * n + 2 * lane_t(), row = rows[e];
                float v[2];
#pragma unroll
                for (int w = 0; w < 2; w++)
                    v[w] = column + w <= row
                               ? scores[i][n][2 * e + w] * decay_between(gate.high, gate.low, row, column + w) *
                                     gate.delta[column + w] * tile::SCALE_A
                               : 0;
                tile::store_two_paired(b.scores + row * F::PITCH_SCORES, column, v[0], v[1]);
                if (tile::PLANES == 2)
                    tile::store_two_paired(b.scores + (F::Q + row) * F::PITCH_SCORES, column, tile::rest(v[0]),
                                           tile::rest(v[1]));
            }
    }
}

/* Y += scores X */
template <class F> DV_DEV void inside_cell(const ssd_block<F> &b, int stage, float (&Y)[F::P_TILES][4])
{
    typedef typename F::tile tile;
#pragma unroll 1
    for (int k = 0; k <= 16 * b.warp_row; k += 32) {
        typename tile::a_part scores[tile::PLANES];
#pragma unroll
        for (int i = 0; i < tile::PLANES; i++)
            tile::a_by_rows(scores[i], b.scores + (F::Q * i + 16 * b.warp_row) * F::PITCH_SCORES + k, F::PITCH_SCORES);
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++) {
            typename tile::b_part part;
            tile::b_by_rows_paired(part, b.X(stage) + k * F::PITCH_X + b.half * (F::P / 2) + 8 * n, F::PITCH_X);
            tile::scale_b(part);
#pragma unroll
            for (int i = tile::PLANES - 1; i >= 0; i--)
                tile::multiply(Y[n], scores[i], part);
        }
    }
}

/* T = decay S + B^T (weighed X): the warp's band of the state. */
template <class F>
DV_DEV void advance(const ssd_block<F> &b, int stage, float decay, const float (&S)[F::M_TILES][F::P_TILES][4],
                    float (&T)[F::M_TILES][F::P_TILES][4])
{
    typedef typename F::tile tile;
#pragma unroll
    for (int m = 0; m < F::M_TILES; m++)
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                T[m][n][e] = decay * S[m][n][e];
#pragma unroll 1
    for (int k = 0; k < F::Q; k += 32) {
        typename tile::b_part x[F::P_TILES];
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++)
            tile::b_by_rows_paired(x[n], b.weighed + k * F::PITCH_X + b.half * (F::P / 2) + 8 * n, F::PITCH_X);
#pragma unroll
        for (int m = 0; m < F::M_TILES; m++) {
            typename tile::a_part part;
            tile::a_by_columns_paired(part, b.B(stage) + k * F::PITCH_N + 16 * (b.warp_row * F::M_TILES + m),
                                      F::PITCH_N);
#pragma unroll
            for (int n = 0; n < F::P_TILES; n++)
                tile::multiply(T[m][n], part, x[n]);
        }
    }
}

/* Calls f(n, p, value) for the elements of the state that the thread holds, neighbours in p one after the other. */
template <class F, class Visit> DV_DEV void each_state(const ssd_block<F> &b, Visit visit)
{
#pragma unroll
    for (int m = 0; m < F::M_TILES; m++)
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                visit(16 * (b.warp_row * F::M_TILES + m) + lane_g() + e / 2 * 8,
                      b.half * (F::P / 2) + 8 * n + 2 * lane_t() + e % 2, m, n, e);
}

template <class F>
DV_DEV int64_t state_offset(const seqmix_ssd_args &a, const ssd_block<F> &b, int32_t slot, int n, int p)
{
    return slot * a.state.stride[0] + b.h * a.state.stride[1] + (b.p0 + p) * a.state.stride[2] + n * a.state.stride[3];
}

template <class F, class D>
DV_DEV void load_state_of(const seqmix_ssd_args &a, const ssd_block<F> &b, float (&S)[F::M_TILES][F::P_TILES][4])
{
    const int states = (int)a.B.shape[2];
    each_state<F>(b, [&](int n, int p, int i, int j, int e) {
        if (n < states && p < b.columns)
            S[i][j][e] = SCALE * D::up(elements<D>(a.state)[state_offset(a, b, b.s.read, n, p)]);
    });
}

template <class F>
DV_DEV void load_state(const seqmix_ssd_args &a, const ssd_block<F> &b, float (&S)[F::M_TILES][F::P_TILES][4])
{
    each_state<F>(b, [&](int, int, int i, int j, int e) { S[i][j][e] = 0; });
    if (b.s.read < 0) return;
    if (a.state.dtype == SEQMIX_F32)
        load_state_of<F, as_f32>(a, b, S);
    else if (a.state.dtype == SEQMIX_BF16)
        load_state_of<F, as_bf16>(a, b, S);
    else
        load_state_of<F, as_f16>(a, b, S);
}

template <class F, class D>
DV_DEV void store_state_of(const seqmix_ssd_args &a, const ssd_block<F> &b, int32_t slot,
                           const float (&S)[F::M_TILES][F::P_TILES][4])
{
    const int states = (int)a.B.shape[2];
    each_state<F>(b, [&](int n, int p, int i, int j, int e) {
        if (n < states && p < b.columns)
            elements<D>(a.state)[state_offset(a, b, slot, n, p)] = D::down(UNSCALE * S[i][j][e]);
    });
}

template <class F>
DV_DEV void store_state(const seqmix_ssd_args &a, const ssd_block<F> &b, int32_t slot,
                        const float (&S)[F::M_TILES][F::P_TILES][4])
{
    if (slot < 0) return;
    if (a.state.dtype == SEQMIX_F32)
        store_state_of<F, as_f32>(a, b, slot, S);
    else if (a.state.dtype == SEQMIX_BF16)
        store_state_of<F, as_bf16>(a, b, slot, S);
    else
        store_state_of<F, as_f16>(a, b, slot, S);
}

/* The state as an operand, for the next cell. */
template <class F> DV_DEV void publish(const ssd_block<F> &b, const float (&S)[F::M_TILES][F::P_TILES][4])
{
    typedef typename F::tile tile;
#pragma unroll
    for (int m = 0; m < F::M_TILES; m++)
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                typename F::element *row =
                    b.state + (16 * (b.warp_row * F::M_TILES + m) + lane_g() + 4 * e) * F::PITCH_S;
                const int column = b.half * (F::P / 2) + 8 * n + 2 * lane_t();
                tile::store_two(row, column, S[m][n][e], S[m][n][e + 1]);
                if (tile::PLANES == 2)
                    tile::store_two(row + F::STATE, column, tile::rest(S[m][n][e]), tile::rest(S[m][n][e + 1]));
            }
}

template <class F> DV_DEV void stage_outputs(const ssd_block<F> &b, const float (&Y)[F::P_TILES][4])
{
#pragma unroll
    for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e += 2)
            dv_stv(reinterpret_cast<float2 *>(b.Y + (16 * b.warp_row + lane_g() + 4 * e) * F::PITCH_Y +
                                              b.half * (F::P / 4) + 4 * n + lane_t() / 2 * F::SECOND +
                                              lane_t() % 2 * 2),
                   float2{UNSCALE * Y[n][e], UNSCALE * Y[n][e + 1]});
}

/* Skip term, gate, and out. */
template <class F>
DV_DEV void finish_rows(const seqmix_ssd_args &a, const ssd_call &call, const ssd_block<F> &b, int stage, int64_t row,
                        int rows)
{
    typedef typename F::X X;
    for (int i = (int)threadIdx.x; i < rows * (F::P / 8); i += F::THREADS) {
        const int r = i / (F::P / 8), q = i % (F::P / 8), left = b.columns - 8 * q;
        if (left <= 0) continue;
        const int64_t p = b.p0 + 8 * q;
        const float4 first = dv_ldv(reinterpret_cast<const float4 *>(b.Y + r * F::PITCH_Y + 4 * q));
        const float4 second = dv_ldv(reinterpret_cast<const float4 *>(b.Y + r * F::PITCH_Y + 4 * q + F::SECOND));
        float y[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
        if (present(a.skip)) {
            float x[8];
            F::tile::load_row(b.X(stage) + r * F::PITCH_X + 8 * q, x);
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (e < left)
                    y[e] += get(a.skip, b.h * a.skip.stride[0] + (a.skip.rank == 2 ? (p + e) * a.skip.stride[1] : 0)) *
                            x[e];
        }
        if (present(a.z)) {
            float z[8];
            load_some<X>(elements<X>(a.z) + (row + r) * a.z.stride[0] + b.h * a.z.stride[1] + p, left, call.eights, z);
#pragma unroll
            for (int e = 0; e < 8; e++)
                y[e] *= silu(z[e]);
        }
        store_some<X>(elements<X>(a.y) + (row + r) * a.y.stride[0] + b.h * a.y.stride[1] + p, left, call.eights, y);
    }
}

/* The state of an empty sequence moves bit for bit. */
template <class F> DV_DEV void move_state(const seqmix_ssd_args &a, const ssd_block<F> &b)
{
    for (int p = (int)threadIdx.x; p < b.columns; p += F::THREADS)
        move_lane(a.state,
                  {b.h * a.state.stride[1] + (b.p0 + p) * a.state.stride[2], a.state.stride[3], (int)a.B.shape[2]},
                  b.s);
}

/* The next row of the cell after which a state is due: a checkpoint's, or the last. */
template <class F> DV_DEV int next_stop(const seqmix_batch &batch, ssd_block<F> &b, int64_t before, int done, int rows)
{
    while (b.s.ckpt < b.s.ckpt_end && batch.ckpt_row[b.s.ckpt] <= before + done)
        b.s.ckpt++;
    if (b.s.ckpt >= b.s.ckpt_end || batch.ckpt_row[b.s.ckpt] >= before + rows) return rows;
    return (int)(batch.ckpt_row[b.s.ckpt] - before);
}

/* One sequence, whose first cell is on its way. */
template <class F>
DV_DEV void ssd_sequence(const seqmix_ssd_args &a, const seqmix_batch &batch, const ssd_call &call, ssd_block<F> &b)
{
    float S[F::M_TILES][F::P_TILES][4], T[F::M_TILES][F::P_TILES][4];
    const int64_t length = b.s.end - b.s.begin;
    const bool sums = b.has_no_tile();
    load_state<F>(a, b, S);
    publish<F>(b, S);
    int stage = 0, parity = 0;
    for (int64_t at = 0; at < length; at += call.step) {
        const int64_t row = b.s.begin + at;
        const int rows = (int)(length - at < call.step ? length - at : call.step);
        const int64_t left = length - at - rows;
        const int rows_next = (int)(left < call.step ? left : call.step);
        const gates gate = b.gates_of(parity);
        dv_cp_async_wait<0>();
        __syncthreads(); /* the cell is there, S published, the cell before done with */
        if (call.stages == 2 && rows_next > 0) fetch_cell<F>(a, call, b, stage ^ 1, row + rows, rows_next);
        float dt[F::Q / 32] = {};
        if (sums) fetch_dt<F>(a, b, row + rows, rows_next, dt);

        float Y[F::P_TILES][4] = {};
        int stop = next_stop<F>(batch, b, at, 0, rows);
        weigh<F>(b, stage, gate, stop);
        across_states<F>(b, stage, gate, Y);
        if (sums) sum_gates<F>(a, b, rows_next, dt, b.gates_of(parity ^ 1));
        __syncthreads(); /* C is read; scores and weighed rows are there */
        if (rows_next > 0) fetch_queries<F>(a, call, b, row + rows, rows_next);
        inside_cell<F>(b, stage, Y);
        for (;;) {
            advance<F>(b, stage, expf(gate.high[stop - 1] + gate.low[stop - 1]), S, T);
            for (; b.s.ckpt < b.s.ckpt_end && batch.ckpt_row[b.s.ckpt] <= at + stop; b.s.ckpt++)
                if (batch.ckpt_row[b.s.ckpt] == at + stop)
                    store_state<F>(a, b, slot_or_none(batch.ckpt_slot[b.s.ckpt], a.state), T);
            __syncthreads(); /* B and weighed rows are read */
            if (stop == rows) break;
            stop = next_stop<F>(batch, b, at, stop, rows);
            weigh<F>(b, stage, gate, stop);
            __syncthreads();
        }
#pragma unroll
        for (int m = 0; m < F::M_TILES; m++)
#pragma unroll
            for (int n = 0; n < F::P_TILES; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    S[m][n][e] = T[m][n][e];
        publish<F>(b, S);
        stage_outputs<F>(b, Y);
        __syncthreads();
        finish_rows<F>(a, call, b, stage, row, rows);
        if (call.stages == 1) {
            __syncthreads();
            if (rows_next > 0) fetch_cell<F>(a, call, b, stage, row + rows, rows_next);
        } else {
            stage ^= 1;
        }
        parity ^= 1;
    }
    store_state<F>(a, b, b.s.write, S);
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, 1) ssd_chunk_kernel(seqmix_ssd_args a, seqmix_batch batch, ssd_call call)
{
    dv_smem memory;
    ssd_block<F> b;
    b.C = memory.take<typename F::element>(F::Q * F::PITCH_N);
    b.cells = memory.take<typename F::element>(call.stages * F::CELL);
    b.scores = memory.take<typename F::element>(F::SHARED);
    b.weighed = b.scores + F::SCORES;
    b.Y = reinterpret_cast<float *>(b.scores);
    b.state = memory.take<typename F::element>(F::tile::PLANES * F::STATE);
    b.sums = memory.take<float>(6 * F::Q);
    b.warp_row = (int)(threadIdx.x / 32 % F::BANDS);
    b.half = (int)(threadIdx.x / 32 / F::BANDS);
    const int64_t heads = a.x.shape[1];
    for (int64_t task = blockIdx.x; task < call.n_tasks; task += gridDim.x) {
        const int64_t columns_left = a.x.shape[2] - task % call.tiles * F::P;
        b.p0 = task % call.tiles * F::P;
        b.columns = (int)(columns_left < F::P ? columns_left : F::P);
        b.h = task / call.tiles % heads;
        b.group = b.h / (heads / a.B.shape[1]);
        b.s = sequence_of(batch, a.x.shape[0], a.state, (int32_t)(task / call.tiles / heads));
        const int64_t length = b.s.end - b.s.begin;
        if (length == 0) {
            move_state<F>(a, b);
            continue;
        }
        __syncthreads(); /* the task before is done with */
        const int rows = (int)(length < call.step ? length : call.step);
        fetch_queries<F>(a, call, b, b.s.begin, rows);
        fetch_cell<F>(a, call, b, 0, b.s.begin, rows);
        if (b.has_no_tile()) {
            float dt[F::Q / 32];
            fetch_dt<F>(a, b, b.s.begin, rows, dt);
            sum_gates<F>(a, b, rows, dt, b.gates_of(0));
        }
        ssd_sequence<F>(a, batch, call, b);
    }
}

} /* namespace */

/* ---------------------------------------------------------------- which form, and the launch */

namespace
{

struct ssd_launch { /* a form's answer: whether it takes the call, and, having run, the runtime's error */
    bool taken;
    int error;
};

template <class F> ssd_launch try_form(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    if (F::shared(1) > (size_t)ctx->shared_bytes) return {false, cudaSuccess};
    if (!run) return {true, cudaSuccess};
    ssd_call call = {};
    call.tiles = (int)((a.x.shape[2] + F::P - 1) / F::P);
    call.n_tasks = a.batch->n_seqs * a.x.shape[1] * call.tiles;
    call.step = step;
    call.stages = F::shared(2) <= (size_t)ctx->shared_bytes ? 2 : 1;
    call.eights = in_eights(a.x) && in_eights(a.B) && in_eights(a.C) && in_eights(a.z) && in_eights(a.y);
    if (call.n_tasks == 0) return {true, cudaSuccess};
    return {true, dv_launch(ssd_chunk_kernel<F>, blocks_for(call.n_tasks), dim3(F::THREADS), F::shared(call.stages),
                            static_cast<cudaStream_t>(ctx->stream), a, *a.batch, call)};
}

/* The tile of P with the least padding that the device has the memory for; bits do not depend on it. */
template <int N> ssd_launch try_bf16(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    constexpr int WIDE = N == 64 ? 64 : N == 128 ? 80 : 32, MIDDLE = N == 256 ? 32 : 64;
    const int64_t P = a.x.shape[2];
    ssd_launch done = {false, cudaSuccess};
    if (P > 16 && (P + WIDE - 1) / WIDE * WIDE < (P + MIDDLE - 1) / MIDDLE * MIDDLE)
        done = try_form<ssd_form<as_bf16, N, WIDE, 64>>(ctx, a, step, run);
    if (P > 16 && !done.taken) done = try_form<ssd_form<as_bf16, N, MIDDLE, 64>>(ctx, a, step, run);
    return done.taken ? done : try_form<ssd_form<as_bf16, N, 16, 64>>(ctx, a, step, run);
}

template <int N> ssd_launch try_any(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    constexpr int P = N == 256 ? 16 : 32;
    switch (a.x.dtype) {
    case SEQMIX_BF16:
        return try_bf16<N>(ctx, a, step, run);
    case SEQMIX_F16:
        return try_form<ssd_form<as_f16, N, P, 32>>(ctx, a, step, run);
    default:
        return try_form<ssd_form<as_f32, N, P, 32>>(ctx, a, step, run);
    }
}

ssd_launch ssd_chunk(const struct seqmix_context *ctx, const seqmix_ssd_args &a, int step, bool run)
{
    const int64_t N = a.B.shape[2];
    if (N <= 64) return try_any<64>(ctx, a, step, run);
    return N <= 128 ? try_any<128>(ctx, a, step, run) : try_any<256>(ctx, a, step, run);
}

int cell_rows(const seqmix_ssd_args &a)
{
    const int most = a.x.dtype == SEQMIX_BF16 ? 64 : 32;
    return a.chunk > 0 && a.chunk < most ? a.chunk : most;
}

} /* namespace */

extern "C" seqmix_status seqmix_ssd_chunk_forward_plan__cuda_sm80(const struct seqmix_context *ctx,
                                                                  const seqmix_ssd_args *a, struct seqmix_plan *plan)
{
    const int step = cell_rows(*a);
    if (!ssd_chunk(ctx, *a, step, false).taken) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = "cuda-sm80/ssd_chunk";
    plan->grain = step;
    return SEQMIX_OK;
}

extern "C" int seqmix_ssd_chunk_forward__cuda_sm80(const struct seqmix_context *ctx, const seqmix_ssd_args *a, void *)
{
    return ssd_chunk(ctx, *a, cell_rows(*a), true).error;
}
