// int(text): all of the text, or a ValueError with Python's words; as float(text) in float_.hpp.
#include_next "pythonic/builtins/int_.hpp"

#ifndef SANDSEAL_PYTHONIC_INT_HPP
#define SANDSEAL_PYTHONIC_INT_HPP

#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "pythonic/types/exceptions.hpp"
#include "pythonic/types/str.hpp"

PYTHONIC_NS_BEGIN
namespace builtins::functor
{
template <>
inline long int_::operator()(types::str const &text) const
{
    const char *start = text.c_str();
    char *end;
    errno = 0;
    long value = std::strtoll(start, &end, 10);
    if (errno == ERANGE) throw types::OverflowError("a Python int has 64 bits in a plugin");
    while (std::isspace(static_cast<unsigned char>(*end))) end++;
    if (end == start || end != start + text.size())
        throw types::ValueError(types::str("invalid literal for int() with base 10: '") + text + types::str("'"));
    return value;
}

template <>
inline long int_::operator()(types::str &text) const
{
    return (*this)(std::as_const(text));
}

template <>
inline long int_::operator()(types::str &&text) const
{
    return (*this)(std::as_const(text));
}
} // namespace builtins::functor
PYTHONIC_NS_END

#endif
