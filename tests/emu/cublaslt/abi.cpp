/* SPDX-License-Identifier: MIT */
/* Compiled where a CUDA toolkit has cublasLt.h: cublaslt_abi.h's numbers, sizes and parameters are the header's. */
#include <cublasLt.h>

#include <type_traits>

#include "cublaslt_abi.h"

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)
SAME(LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(LT_R_32F, CUDA_R_32F);
SAME(LT_R_16F, CUDA_R_16F);
SAME(LT_R_16BF, CUDA_R_16BF);
SAME(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(LT_OP_T, CUBLAS_OP_T);
SAME(LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(LT_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(LT_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_PREF_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(LT_PREF_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(LT_PREF_ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(LT_PREF_ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(LT_PREF_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

SAME(sizeof(lt_desc), sizeof(cublasLtMatmulDescOpaque_t));
SAME(sizeof(lt_layout), sizeof(cublasLtMatrixLayoutOpaque_t));
SAME(sizeof(lt_preference), sizeof(cublasLtMatmulPreferenceOpaque_t));
SAME(sizeof(lt_algo), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(lt_choice), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(lt_choice, algo), offsetof(cublasLtMatmulHeuristicResult_t, algo));
SAME(offsetof(lt_choice, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(lt_choice, state), offsetof(cublasLtMatmulHeuristicResult_t, state));

/* One parameter and another are passed alike: both pointers, or numbers of one size. */
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value;
template <class... A> struct pack {
    template <class... B> static constexpr bool fits(pack<B...>)
    {
        if constexpr (sizeof...(A) == sizeof...(B))
            return (alike<A, B> && ...);
        else
            return false;
    }
};
template <class R, class... A> constexpr pack<R, A...> signature(R (*)(A...))
{
    return {};
}
#define SAME_PARAMETERS(name, function, parameters)                                                                    \
    typedef int32_t type_of_##name parameters;                                                                         \
    static_assert(decltype(signature(static_cast<type_of_##name *>(nullptr)))::fits(                                   \
                      signature(static_cast<decltype(&function)>(nullptr))),                                           \
                  #function);
LT_FUNCTIONS(SAME_PARAMETERS)
