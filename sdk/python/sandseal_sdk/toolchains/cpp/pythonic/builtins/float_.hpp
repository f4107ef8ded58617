// float(text): all of the text, or a ValueError with Python's words. Pythran's own takes "1x" for 1, and its error is
// no ValueError and made with a string stream (see include/builtins/str.hpp).
#include_next "pythonic/builtins/float_.hpp"

#ifndef SANDSEAL_PYTHONIC_FLOAT_HPP
#define SANDSEAL_PYTHONIC_FLOAT_HPP

#include <cctype>
#include <cstdlib>

#include "pythonic/types/exceptions.hpp"
#include "pythonic/types/str.hpp"

PYTHONIC_NS_BEGIN
namespace builtins::functor
{
template <>
inline double float_::operator()(types::str const &text) const
{
    const char *start = text.c_str();
    char *end;
    double value = std::strtod(start, &end);
    while (std::isspace(static_cast<unsigned char>(*end))) end++;
    if (end == start || end != start + text.size())
        throw types::ValueError(types::str("could not convert string to float: '") + text + types::str("'"));
    return value;
}

template <>
inline double float_::operator()(types::str &text) const
{
    return (*this)(std::as_const(text));
}

template <>
inline double float_::operator()(types::str &&text) const
{
    return (*this)(std::as_const(text));
}
} // namespace builtins::functor
PYTHONIC_NS_END

#endif
