// round(x): an integer, and round(x, digits): the same type; a half goes to the even neighbour. Pythran's own rounds
// away from zero, and always to a float.
#ifndef SANDSEAL_PYTHONIC_ROUND_HPP
#define SANDSEAL_PYTHONIC_ROUND_HPP
#define PYTHONIC_INCLUDE_BUILTIN_ROUND_HPP
#define PYTHONIC_BUILTIN_ROUND_HPP

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "pythonic/include/utils/functor.hpp"

PYTHONIC_NS_BEGIN
namespace builtins
{
template <class Number>
long round(Number number)
{
    if constexpr (std::is_integral_v<Number>) return number;
    else return static_cast<long>(std::nearbyint(number));
}

// Through the decimal text of the exact value, as Python does it.
template <class Number>
Number round(Number number, long digits)
{
    if constexpr (std::is_integral_v<Number>) return number;
    else {
        if (!std::isfinite(number) || digits > 22) return number;
        if (digits < 0) {
            double unit = std::pow(10.0, -digits);
            return static_cast<Number>(std::nearbyint(number / unit) * unit);
        }
        char text[400];
        std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), static_cast<double>(number));
        return static_cast<Number>(std::strtod(text, nullptr));
    }
}

DEFINE_FUNCTOR(pythonic::builtins, round);
} // namespace builtins
PYTHONIC_NS_END

#endif
