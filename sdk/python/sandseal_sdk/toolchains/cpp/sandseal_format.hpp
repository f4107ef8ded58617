// What translated functions call beside Pythran's own: what f-strings with a format become, and more (program.py).
#ifndef SANDSEAL_FORMAT_HPP
#define SANDSEAL_FORMAT_HPP

#include <cmath>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "pythonic/core.hpp"
#include "pythonic/include/operator_/mod.hpp"
#include "pythonic/types/str.hpp"

PYTHONIC_NS_BEGIN
namespace sandseal
{
template <class Number>
types::str format_int(types::str const &format, Number number)
{
    static_assert(std::is_integral_v<Number>, "plugin.toml: an f-string's d or x takes an integer"); // as in Python
    char text[128];
    return types::str(text, std::snprintf(text, sizeof text, format.c_str(), static_cast<long>(number)));
}

template <class Number>
types::str format_float(types::str const &format, Number number)
{
    double value = static_cast<double>(number);
    if (std::isnan(value)) value = std::fabs(value); // Python's nan has no sign
    char text[512];
    return types::str(text, std::snprintf(text, sizeof text, format.c_str(), value));
}

// A character as a text, where it stands beside longer ones.
inline types::str text(types::str const &text) { return text; }

// a += b where a text does not change under those who have it too: Pythran shares it, and appends in place.
template <class A, class B>
decltype(auto) iadd(A &&a, B &&b)
{
    if constexpr (std::is_same_v<A, types::str &>) {
        // Pythran keeps the count of those who share a text behind it (shared_ref::memory).
        auto shared = *reinterpret_cast<std::size_t const *>(a.id() + static_cast<intptr_t>(sizeof(std::string)));
        if (shared > 1) return a = a + types::str(b);
    }
    return std::forward<A>(a) += std::forward<B>(b);
}

// a %= b with the sign of b.
template <class A, class B>
decltype(auto) imod(A &a, B const &b)
{
    if constexpr (operator_::are_numbers<A, B>) return a = static_cast<A>(operator_::mod(a, b));
    else return a %= b;
}

DEFINE_FUNCTOR(pythonic::sandseal, text);
DEFINE_FUNCTOR(pythonic::sandseal, format_int);
DEFINE_FUNCTOR(pythonic::sandseal, format_float);
} // namespace sandseal
PYTHONIC_NS_END

#endif
