// str(text), without the string stream that Pythran's own str(anything) would use: every exception text goes
// through it, and a stream drags in all of libc++'s locales (200 KB, and their set-up in every fresh instance).
#ifndef SANDSEAL_PYTHONIC_STR_HPP
#define SANDSEAL_PYTHONIC_STR_HPP

#include <cstddef>

#include "pythonic/include/types/str.hpp"

PYTHONIC_NS_BEGIN
namespace builtins::anonymous
{
inline types::str str(types::str const &text) { return text; }

template <std::size_t N>
types::str str(char const (&text)[N])
{
    return types::str(text);
}
} // namespace builtins::anonymous
PYTHONIC_NS_END

#endif

#include_next "pythonic/include/builtins/str.hpp"
