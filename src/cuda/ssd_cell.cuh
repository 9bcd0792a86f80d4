/* SPDX-License-Identifier: MIT */
/* The parts of ssd.cu's kernel: sizes, what a block keeps, a cell's rows, gates, products and outputs. */
#ifndef SEQMIX_CUDA_SSD_CELL_CUH
#define SEQMIX_CUDA_SSD_CELL_CUH

#include "ssd.cuh"
#include "tile.cuh"

/* The sizes of one instance: N and P padded, Q rows of a cell. */
template <class X_, int N_, int P_, int Q_> struct ssd_form {
    typedef X_ X;
    typedef typename tile_of<X_>::type tile;
    typedef typename tile::element element;
    static constexpr int N = N_, P = P_, Q = Q_, BANDS = Q_ / 16, THREADS = BANDS * 64;
    static constexpr int M_TILES = N / BANDS / 16, P_TILES = P / 16; /* of a warp: 16 x 8 tiles of S; and of Y */
    static constexpr int PITCH_N = N + tile::PAD_ROWS, PITCH_X = P + tile::PAD_ROWS, PITCH_S = P + tile::PAD_COLUMNS;
    static constexpr int PITCH_SCORES = Q + tile::PAD_ROWS;
    static constexpr int CELL = Q * PITCH_N + Q * PITCH_X; /* elements of B and X */
    static constexpr int SCORES = tile::PLANES * Q * PITCH_SCORES;
    static constexpr int STATE = N * PITCH_S; /* a plane of S */
    static size_t shared(int stages)
    {
        const int elements = Q * PITCH_N + stages * CELL + SCORES + tile::PLANES * STATE;
        return (size_t)elements * sizeof(element) + 10 * Q * sizeof(float) + 64;
    }
};

struct ssd_call {
    int64_t n_tasks;
    int tiles, step,
        stages; /* tiles of P; rows of a cell; cells in shared memory: 2 while the next one is on its way */
    bool eights;
};

struct gates {     /* of a cell's rows, in shared memory */
    float4 *rows;  /* sum of log decays, high and low part; step size */
    float *weight; /* of the row in the state after the cell */

    DV_MEMBER float4 row(int i) const { return dv_ldv(rows + i); }
};

DV_DEV float decay_between(float4 i, float4 j)
{
    return decay_between(two_floats{i.x, i.y}, two_floats{j.x, j.y});
}

/* What a block works on. */
template <class F> struct ssd_block {
    typename F::element *C, *cells, *state, *scores;
    float *sums; /* of two cells in turn */
    sequence s;
    int64_t h, group, p0;
    int columns, warp_row, half;

    DV_MEMBER typename F::element *B(int stage) const { return cells + stage * F::CELL; }
    DV_MEMBER typename F::element *X(int stage) const { return B(stage) + F::Q * F::PITCH_N; }
    DV_MEMBER gates gates_of(int parity) const
    {
        float *at = sums + parity * 5 * F::Q;
        return {reinterpret_cast<float4 *>(at), at + 4 * F::Q};
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
    constexpr int PER = F::Q / 32;
    float g[PER], delta[PER];
    two_floats sum[PER], end = {};
    const int first = (int)(threadIdx.x % 32) * PER;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        delta[i] = first + i < rows ? ssd_step_size(a, dt[i], b.h) : 0;
        g[i] = bounded_log_decay(first + i < rows ? delta[i] * get(a.A, b.h * a.A.stride[0]) : 0);
    }
    scan_lanes<PER>(g, sum);
#pragma unroll
    for (int i = 0; i < PER; i++) { /* the last row's: an element of the scan (rule 2) */
        const int lane = (rows > 0 ? rows - 1 : 0) / PER;
        const two_floats last = {__shfl_sync(ALL_LANES, sum[i].high, lane), __shfl_sync(ALL_LANES, sum[i].low, lane)};
        if (rows > 0 && (rows - 1) % PER == i) end = last;
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
        dv_stv(to.rows + first + i, float4{sum[i].high, sum[i].low, delta[i], 0});
        to.weight[first + i] = first + i < rows ? decay_between(end, sum[i]) * delta[i] * F::tile::SCALE_A : 0;
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
    const float4 own[2] = {gate.row(rows[0]), gate.row(rows[1])};
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const float decay = expf(own[e].x + own[e].y);
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
        for (int n = 0; n < 2; n++) {
            const int column = 16 * (2 * i + b.half) + 8 * n + 2 * lane_t();
            const float4 other[2] = {gate.row(column), gate.row(column + 1)};
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float v[2];
#pragma unroll
                for (int w = 0; w < 2; w++)
                    v[w] = column + w <= rows[e]
                               ? scores[i][n][2 * e + w] * decay_between(own[e], other[w]) * other[w].z * tile::SCALE_A
                               : 0;
                typename F::element *to = b.scores + rows[e] * F::PITCH_SCORES;
                tile::store_two_paired(to, column, v[0], v[1]);
                if (tile::PLANES == 2)
                    tile::store_two_paired(to + F::Q * F::PITCH_SCORES, column, tile::rest(v[0]), tile::rest(v[1]));
            }
        }
    }
}

/* The weights of rows k + 8m + 2t + b in the state after `stop` of the cell's rows. */
template <class F> DV_DEV void weights_of(const gates &gate, int k, int stop, bool whole, float (&w)[4][2])
{
#pragma unroll
    for (int m = 0; m < 4; m++) {
        const int row = k + 8 * m + 2 * lane_t();
        if (whole) {
            const float2 two = dv_ldv(reinterpret_cast<const float2 *>(gate.weight + row));
            w[m][0] = two.x;
            w[m][1] = two.y;
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float4 of_row = gate.row(row + i);
            w[m][i] = row + i < stop ? decay_between(gate.row(stop - 1), of_row) * of_row.z * F::tile::SCALE_A : 0;
        }
    }
}

/* T = decay S + B^T (weights o X), the warp's band of the state after `stop` rows; and with `inside`, Y += scores X on the way. */
template <class F>
DV_DEV void advance(const ssd_block<F> &b, int stage, const gates &gate, int stop, bool whole, bool inside,
                    const float (&S)[F::M_TILES][F::P_TILES][4], float (&T)[F::M_TILES][F::P_TILES][4],
                    float (&Y)[F::P_TILES][4])
{
    typedef typename F::tile tile;
    const float4 last = gate.row(stop - 1);
    const float decay = expf(last.x + last.y);
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
        for (int n = 0; n < F::P_TILES; n++) {
            tile::b_by_rows_paired(x[n], b.X(stage) + k * F::PITCH_X + b.half * (F::P / 2) + 8 * n, F::PITCH_X);
            tile::scale_b(x[n]);
        }
        if (inside && k <= 16 * b.warp_row) {
#pragma unroll
            for (int i = tile::PLANES - 1; i >= 0; i--) {
                typename tile::a_part scores;
                tile::a_by_rows(scores, b.scores + (F::Q * i + 16 * b.warp_row) * F::PITCH_SCORES + k, F::PITCH_SCORES);
#pragma unroll
                for (int n = 0; n < F::P_TILES; n++)
                    tile::multiply(Y[n], scores, x[n]);
            }
        }
        if (stop - k < 32) { /* rows after the stop may hold anything */
#pragma unroll
            for (int n = 0; n < F::P_TILES; n++)
                tile::keep_b(x[n], stop - k);
        }
        float w[4][2];
        weights_of<F>(gate, k, stop, whole, w);
#pragma unroll
        for (int m = 0; m < F::M_TILES; m++) {
            typename tile::a_part part;
            tile::a_by_columns_paired(part, b.B(stage) + k * F::PITCH_N + 16 * (b.warp_row * F::M_TILES + m),
                                      F::PITCH_N);
            tile::weigh_a(part, w);
            if (stop - k < 32) tile::keep_a(part, stop - k);
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
            S[i][j][e] = TILE_SCALE * D::up(elements<D>(a.state)[state_offset(a, b, b.s.read, n, p)]);
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
            elements<D>(a.state)[state_offset(a, b, slot, n, p)] = D::down(TILE_UNSCALE * S[i][j][e]);
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

/* The first n <= 2 of two, in one access where `pairs` allows it. */
template <class X> DV_DEV void load_two(const uint16_t *at, int n, bool pairs, float (&v)[2])
{
    if (pairs && n >= 2) {
        const unsigned two = dv_ldv(reinterpret_cast<const unsigned *>(at));
        v[0] = X::up((uint16_t)two);
        v[1] = X::up((uint16_t)(two >> 16));
        return;
    }
    v[0] = n > 0 ? X::up(at[0]) : 0;
    v[1] = n > 1 ? X::up(at[1]) : 0;
}

template <class X> DV_DEV void load_two(const float *at, int n, bool pairs, float (&v)[2])
{
    if (pairs && n >= 2) {
        const float2 two = dv_ldv(reinterpret_cast<const float2 *>(at));
        v[0] = two.x;
        v[1] = two.y;
        return;
    }
    v[0] = n > 0 ? at[0] : 0;
    v[1] = n > 1 ? at[1] : 0;
}

template <class X> DV_DEV void store_two(uint16_t *at, int n, bool pairs, const float (&v)[2])
{
    if (pairs && n >= 2) {
        dv_stv(reinterpret_cast<unsigned *>(at), (unsigned)X::down(v[0]) | (unsigned)X::down(v[1]) << 16);
        return;
    }
    if (n > 0) at[0] = X::down(v[0]);
    if (n > 1) at[1] = X::down(v[1]);
}

template <class X> DV_DEV void store_two(float *at, int n, bool pairs, const float (&v)[2])
{
    if (pairs && n >= 2) {
        dv_stv(reinterpret_cast<float2 *>(at), float2{v[0], v[1]});
        return;
    }
    if (n > 0) at[0] = v[0];
    if (n > 1) at[1] = v[1];
}

/* Neighbours of a row in shared memory, the first at an even column. */
DV_DEV void two_of(const uint16_t *at, float (&v)[2])
{
    load_two<as_bf16>(at, 2, true, v);
}
DV_DEV void two_of(const float *at, float (&v)[2])
{
    load_two<as_f32>(at, 2, true, v);
}

/* Skip term, gate, and out, from where the products left Y: a quarter of a warp writes 16 or 32 bytes of a row. */
template <class F>
DV_DEV void finish_rows(const seqmix_ssd_args &a, const ssd_call &call, const ssd_block<F> &b, int stage, int64_t row,
                        int rows, const float (&Y)[F::P_TILES][4])
{
    typedef typename F::X X;
    const int64_t skip_at = b.h * a.skip.stride[0];
    const float skip = a.skip.rank == 1 ? get(a.skip, skip_at) : 0;
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
        const int r = 16 * b.warp_row + lane_g() + 4 * e, first = b.half * (F::P / 2) + 2 * lane_t();
        if (r >= rows) continue;
        const typename F::element *x_row = b.X(stage) + r * F::PITCH_X;
        const int64_t z_at = (row + r) * a.z.stride[0] + b.h * a.z.stride[1] + b.p0;
        const int64_t y_at = (row + r) * a.y.stride[0] + b.h * a.y.stride[1] + b.p0;
#pragma unroll
        for (int n = 0; n < F::P_TILES; n++) {
            const int p = first + 8 * n, left = b.columns - p;
            if (left <= 0) continue;
            float y[2] = {TILE_UNSCALE * Y[n][e], TILE_UNSCALE * Y[n][e + 1]};
            if (present(a.skip)) {
                float x[2];
                two_of(x_row + p, x);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (i < left)
                        y[i] +=
                            (a.skip.rank == 2 ? get(a.skip, skip_at + (b.p0 + p + i) * a.skip.stride[1]) : skip) * x[i];
            }
            if (present(a.z)) {
                float z[2];
                load_two<X>(elements<X>(a.z) + z_at + p, left, call.eights, z);
                y[0] *= silu(z[0]);
                y[1] *= silu(z[1]);
            }
            store_two<X>(elements<X>(a.y) + y_at + p, left, call.eights, y);
        }
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

#endif
