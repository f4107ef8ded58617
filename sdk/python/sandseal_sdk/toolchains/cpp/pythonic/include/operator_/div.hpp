// a / b in float32 where NumPy stays in float32. Pythran knows division in double only, which gives results of
// another data type than NumPy's and twice the work.
#ifndef SANDSEAL_PYTHONIC_DIV_HPP
#define SANDSEAL_PYTHONIC_DIV_HPP

#include <type_traits>

#include "pythonic/core.hpp"

PYTHONIC_NS_BEGIN
namespace operator_
{
// What NumPy 2 takes beside a float32 without widening it: itself, integers of 16 bits, Python's int (a long here).
template <class T>
constexpr bool beside_float =
    std::is_same_v<T, float> || std::is_same_v<T, long> || (std::is_integral_v<T> && sizeof(T) <= 2);

template <class A, class B,
          std::enable_if_t<(std::is_same_v<A, float> || std::is_same_v<B, float>)&&beside_float<A> && beside_float<B>,
                           int> = 0>
float div(A a, B b)
{
    return static_cast<float>(a) / static_cast<float>(b);
}
} // namespace operator_
PYTHONIC_NS_END

#endif

#include_next "pythonic/include/operator_/div.hpp"
