// divmod(a, b) towards minus infinity, as in Python; Pythran's own goes towards zero.
#ifndef SANDSEAL_PYTHONIC_DIVMOD_HPP
#define SANDSEAL_PYTHONIC_DIVMOD_HPP
#define PYTHONIC_INCLUDE_BUILTIN_DIVMOD_HPP
#define PYTHONIC_BUILTIN_DIVMOD_HPP

#include "pythonic/include/operator_/mod.hpp"
#include "pythonic/include/types/tuple.hpp"
#include "pythonic/include/utils/functor.hpp"

PYTHONIC_NS_BEGIN
namespace builtins
{
template <class A, class B>
auto divmod(A const &a, B const &b)
{
    auto rest = operator_::mod(a, b);
    return types::make_tuple(static_cast<decltype(rest)>((a - rest) / b), rest);
}

DEFINE_FUNCTOR(pythonic::builtins, divmod);
} // namespace builtins
PYTHONIC_NS_END

#endif
