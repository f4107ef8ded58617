// a % b with the sign of b, as in Python; Pythran's own is right for a positive b only.
#ifndef SANDSEAL_PYTHONIC_MOD_HPP
#define SANDSEAL_PYTHONIC_MOD_HPP
#define PYTHONIC_INCLUDE_OPERATOR_MOD_HPP
#define PYTHONIC_OPERATOR_MOD_HPP

#include <cmath>
#include <type_traits>

#include "pythonic/include/utils/functor.hpp"

PYTHONIC_NS_BEGIN
namespace operator_
{
template <class A, class B>
constexpr bool are_numbers = std::is_arithmetic_v<std::decay_t<A>> &&std::is_arithmetic_v<std::decay_t<B>>;

template <class A, class B>
auto mod(A const &a, B const &b) -> std::enable_if_t<are_numbers<A, B>, decltype(a + b)>
{
    using Result = decltype(a + b);
    Result x = static_cast<Result>(a), y = static_cast<Result>(b), rest;
    if constexpr (std::is_integral_v<Result>) rest = x % y;
    else rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? static_cast<Result>(rest + y) : rest;
}

template <class A, class B>
auto mod(A &&a, B &&b) -> std::enable_if_t<!are_numbers<A, B>, decltype(std::forward<A>(a) % std::forward<B>(b))>
{
    return std::forward<A>(a) % std::forward<B>(b);
}

DEFINE_FUNCTOR(pythonic::operator_, mod);
} // namespace operator_
PYTHONIC_NS_END

#endif
