/* The little of BLAS that Pythran asks for in products of arrays, as plain loops. No tensor holds complex numbers. */
#ifndef SANDSEAL_CBLAS_H
#define SANDSEAL_CBLAS_H

enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112, CblasConjTrans = 113 };

template <class T>
T sandseal_dot(int n, const T *x, int step_x, const T *y, int step_y) {
    T sum = 0;
    for (int i = 0; i < n; i++) sum += x[i * step_x] * y[i * step_y];
    return sum;
}

/* y = a x, or a' x; `rows` and `columns` are those of `a` as it lies in memory. */
template <class T>
void sandseal_gemv(CBLAS_ORDER order, CBLAS_TRANSPOSE turn, int rows, int columns, T alpha, const T *a, int pitch,
                   const T *x, int step_x, T beta, T *y, int step_y) {
    bool turned = (turn != CblasNoTrans) != (order == CblasColMajor);
    int count = turn == CblasNoTrans ? rows : columns, inner = turn == CblasNoTrans ? columns : rows;
    for (int i = 0; i < count; i++) {
        T sum = turned ? sandseal_dot(inner, a + i, pitch, x, step_x) : sandseal_dot(inner, a + i * pitch, 1, x, step_x);
        y[i * step_y] = alpha * sum + (beta == 0 ? 0 : beta * y[i * step_y]);
    }
}

/* c = a b, either of them turned, all in rows. */
template <class T>
void sandseal_gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m, int n, int k, T alpha,
                   const T *a, int pitch_a, const T *b, int pitch_b, T beta, T *c, int pitch_c) {
    if (order == CblasColMajor)
        return sandseal_gemm(CblasRowMajor, turn_b, turn_a, n, m, k, alpha, b, pitch_b, a, pitch_a, beta, c, pitch_c);
    int row_a = turn_a == CblasNoTrans ? pitch_a : 1, step_a = turn_a == CblasNoTrans ? 1 : pitch_a;
    int row_b = turn_b == CblasNoTrans ? pitch_b : 1, step_b = turn_b == CblasNoTrans ? 1 : pitch_b;
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) c[i * pitch_c + j] = beta == 0 ? 0 : beta * c[i * pitch_c + j];
        for (int l = 0; l < k; l++) {
            T factor = alpha * a[i * row_a + l * step_a];
            for (int j = 0; j < n; j++) c[i * pitch_c + j] += factor * b[l * row_b + j * step_b];
        }
    }
}

#define SANDSEAL_BLAS(letter, T)                                                                          \
    inline T cblas_##letter##dot(int n, const T *x, int step_x, const T *y, int step_y) {                 \
        return sandseal_dot(n, x, step_x, y, step_y);                                                     \
    }                                                                                                     \
    inline void cblas_##letter##gemv(CBLAS_ORDER order, CBLAS_TRANSPOSE turn, int m, int n, T alpha, const T *a, int pitch, \
                              const T *x, int step_x, T beta, T *y, int step_y) {                         \
        sandseal_gemv<T>(order, turn, m, n, alpha, a, pitch, x, step_x, beta, y, step_y);                 \
    }                                                                                                     \
    inline void cblas_##letter##gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m, int n, \
                                     int k, T alpha, const T *a, int pitch_a, const T *b, int pitch_b, T beta, T *c, \
                                     int pitch_c) {                                                       \
        sandseal_gemm<T>(order, turn_a, turn_b, m, n, k, alpha, a, pitch_a, b, pitch_b, beta, c, pitch_c); \
    }
SANDSEAL_BLAS(s, float)
SANDSEAL_BLAS(d, double)
#undef SANDSEAL_BLAS

#define SANDSEAL_NO_BLAS(name) \
    template <class... Arguments> void name(Arguments...) { __builtin_trap(); }
SANDSEAL_NO_BLAS(cblas_cdotu_sub)
SANDSEAL_NO_BLAS(cblas_zdotu_sub)
SANDSEAL_NO_BLAS(cblas_cgemv)
SANDSEAL_NO_BLAS(cblas_zgemv)
SANDSEAL_NO_BLAS(cblas_cgemm)
SANDSEAL_NO_BLAS(cblas_zgemm)
#undef SANDSEAL_NO_BLAS

#endif
