// A character as a text, without a string stream (see ../builtins/str.hpp).
#include_next "pythonic/include/types/str.hpp"

#ifndef SANDSEAL_PYTHONIC_TYPES_STR_HPP
#define SANDSEAL_PYTHONIC_TYPES_STR_HPP

PYTHONIC_NS_BEGIN
namespace types
{
template <>
inline str::str(chr const &character) : str(character.c)
{
}
} // namespace types
PYTHONIC_NS_END

#endif
