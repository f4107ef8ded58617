// str(x) of text, numbers and bool, as Python writes them. Pythran's own rounds floats to six digits, and takes
// anything else through a string stream, which drags in all of libc++'s locales (200 KB, set up in every module).
#ifndef SANDSEAL_PYTHONIC_STR_HPP
#define SANDSEAL_PYTHONIC_STR_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_HPP
#define PYTHONIC_BUILTIN_STR_HPP

#include <cstddef>
#include <string>
#include <type_traits>

#include <sandseal_repr.hpp>

#include "pythonic/include/types/str.hpp"
#include "pythonic/include/utils/functor.hpp"

PYTHONIC_NS_BEGIN
namespace builtins
{
namespace anonymous
{
inline types::str str() { return types::str(); }

inline types::str str(types::str const &text) { return text; }

template <std::size_t N>
types::str str(char const (&text)[N])
{
    return types::str(text);
}

template <class Number>
std::enable_if_t<std::is_arithmetic_v<Number>, types::str> str(Number number)
{
    if constexpr (std::is_same_v<Number, bool>) return types::str(number ? "True" : "False");
    else if constexpr (std::is_integral_v<Number>) return types::str(std::to_string(number));
    else return types::str(::sandseal::repr(number));
}
// Pythran puts other things into the texts of its own exceptions.
template <class Other>
std::enable_if_t<!std::is_arithmetic_v<Other> && !std::is_convertible_v<Other const &, types::str>, types::str>
str(Other const &)
{
    return types::str();
}
} // namespace anonymous

DEFINE_FUNCTOR(pythonic::builtins::anonymous, str);
} // namespace builtins
PYTHONIC_NS_END

#endif
