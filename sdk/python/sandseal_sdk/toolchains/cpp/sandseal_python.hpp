// Between the plugin ABI and Pythran's types: what the glue around a translated plugin.py calls.
// Included after the translated source, which brings in Pythran's headers.
#ifndef SANDSEAL_PYTHON_HPP
#define SANDSEAL_PYTHON_HPP

#include <sandseal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>
#include <utility>

#include "pythonic/builtins/ValueError.hpp"
#include "pythonic/numpy/array.hpp"
#include "pythonic/types/list.hpp"
#include "pythonic/types/ndarray.hpp"
#include "pythonic/types/str.hpp"

#include "heap.h"
#include "wasi.h"

namespace sandseal
{
namespace numpy = pythonic::numpy;
namespace types = pythonic::types;

// The call that is being served, for whoever throws.
inline struct sandseal_call *current = nullptr;

// ---- Inputs: views of what the host wrote -----------------------------------------------------------------

template <class T, class... Axes>
struct Array {
    using Shape = types::pshape<Axes...>;

    static types::ndarray<T, Shape> view(const struct sandseal_tensor *tensor)
    {
        return view(tensor, std::index_sequence_for<Axes...>());
    }

  private:
    template <std::size_t... I>
    static types::ndarray<T, Shape> view(const struct sandseal_tensor *tensor, std::index_sequence<I...>)
    {
        return {static_cast<T *>(sandseal_data(tensor)), Shape(static_cast<long>(tensor->shape[I])...),
                types::ownership::external};
    }
};

// Axes are `long`, or std::integral_constant<long, N> where the manifest fixes the size: loops over those unroll.
template <class T, class... Axes>
auto array(uint32_t index)
{
    return Array<T, Axes...>::view(sandseal_input(current, index));
}

template <class T>
T scalar(uint32_t index)
{
    return *static_cast<const T *>(sandseal_data(sandseal_input(current, index)));
}

inline types::list<types::str> texts(uint32_t index)
{
    types::list<types::str> list(0);
    struct sandseal_reader reader = sandseal_read(sandseal_input(current, index));
    for (struct sandseal_text element; sandseal_next(&reader, &element);)
        list.push_back(types::str(element.data, element.size));
    return list;
}

inline types::str text(uint32_t index) { return texts(index).fast(0); }

inline types::str asset(const char *name)
{
    struct sandseal_text found = sandseal_asset(name);
    if (!found.data) __builtin_trap(); // the host grants every asset that the manifest lists
    return types::str(found.data, found.size);
}

// ---- Outputs ----------------------------------------------------------------------------------------------

// Arrays whose memory the host still has to read.
struct Kept {
    Kept *next;
    virtual ~Kept() = default;
};
inline Kept *kept = nullptr;

template <class Value>
Value &keep(Value value)
{
    struct Held : Kept {
        Value value;
        explicit Held(Value &&value) : value(std::move(value)) {}
    };
    auto *held = new Held(std::move(value));
    held->next = std::exchange(kept, held);
    return held->value;
}

inline void begin(struct sandseal_call *call)
{
    while (kept) delete std::exchange(kept, kept->next);
    current = call;
}

template <class T, class Shape>
types::ndarray<T, Shape> contiguous(types::ndarray<T, Shape> const &array)
{
    return array;
}

template <class Lazy>
auto contiguous(Lazy const &expression)
{
    return numpy::functor::array{}(expression);
}

template <class Result>
using ArrayOf = decltype(contiguous(std::declval<Result const &>()));

// How many axes the function's result has, and of what type its elements are.
template <class Result>
constexpr std::size_t rank()
{
    if constexpr (std::is_arithmetic_v<Result>) return 0;
    else return ArrayOf<Result>::value;
}

template <class Result>
auto element()
{
    if constexpr (std::is_arithmetic_v<Result>) return Result();
    else return typename ArrayOf<Result>::dtype();
}

// NumPy's casting rule "same_kind": never a float to an integer, a sign away, or a number to a bool.
template <class Result, class To>
constexpr bool casts()
{
    using From = decltype(element<Result>());
    if constexpr (std::is_same_v<From, bool> || std::is_same_v<To, bool>) return std::is_same_v<From, bool>;
    else if constexpr (std::is_floating_point_v<From>) return std::is_floating_point_v<To>;
    else return std::is_unsigned_v<From> || std::is_signed_v<To>;
}

template <class T, class Array, std::size_t... I>
void put_array(struct sandseal_tensor *output, Array &&array, std::index_sequence<I...>)
{
    const int64_t shape[] = {array.template shape<I>()...};
    if constexpr (std::is_same_v<typename std::decay_t<Array>::dtype, T>) {
        auto &held = keep(std::decay_t<Array>(array));
        sandseal_give(output, shape, held.buffer, sizeof(T) * static_cast<uint64_t>(held.flat_size()));
    } else {
        std::copy(array.buffer, array.buffer + array.flat_size(), static_cast<T *>(sandseal_make(output, shape)));
    }
}

template <class T, class Result>
void put(uint32_t index, Result const &result)
{
    struct sandseal_tensor *output = sandseal_output(current, index);
    if constexpr (std::is_arithmetic_v<Result>)
        *static_cast<T *>(sandseal_make(output, nullptr)) = static_cast<T>(result);
    else
        put_array<T>(output, contiguous(result), std::make_index_sequence<ArrayOf<Result>::value>());
}

template <class Result>
constexpr bool is_text = std::is_convertible_v<Result const &, types::str>;

// Elements fill the fixed axes and, if there is one, the free axis; where they do not, the host says so.
template <class Result>
void put_texts(uint32_t index, Result const &result)
{
    struct sandseal_tensor *output = sandseal_output(current, index);
    struct sandseal_writer writer = {};
    int64_t left = 0;
    auto append = [&](types::str const &text) {
        sandseal_append(&writer, {text.c_str(), static_cast<uint32_t>(text.size())});
        left++;
    };
    if constexpr (is_text<Result>) append(result);
    else
        for (auto const &text : result) append(types::str(text));
    int64_t shape[8], *free = nullptr;
    for (uint32_t axis = 0; axis < output->rank; axis++) {
        shape[axis] = output->shape[axis];
        if (shape[axis] < 0) free = &shape[axis];
        else if (shape[axis] > 0) left /= shape[axis];
    }
    if (free) *free = left;
    sandseal_finish(&writer, output, shape);
}

// How many values a function returns: the size of a tuple, else one.
template <class Result>
struct Count : std::integral_constant<std::size_t, 1> {
};
template <class... Values>
struct Count<std::tuple<Values...>> : std::integral_constant<std::size_t, sizeof...(Values)> {
};
template <class Value, std::size_t Size>
struct Count<types::array_tuple<Value, Size>> : std::integral_constant<std::size_t, Size> {
};

// ---- Exceptions -------------------------------------------------------------------------------------------

inline types::str said(types::BaseException const *error)
{
    return error && error->args.size() ? error->args[0] : types::str("(no text)");
}

// The class at the end of a mangled name such as N8pythonic5types8KeyErrorE.
inline types::str class_name(const char *mangled)
{
    const char *name = mangled;
    std::size_t length = 0;
    for (const char *at = mangled; *at;) {
        if (*at < '0' || *at > '9') at++;
        else {
            char *end;
            length = std::strtoul(at, &end, 10);
            name = end;
            at = end + std::min(length, std::strlen(end));
        }
    }
    return types::str(name, std::min(length, std::strlen(name)));
}
} // namespace sandseal

extern "C" void *__cxa_allocate_exception(std::size_t size) noexcept
{
    return sandseal_need(size);
}

// A wasm guest cannot unwind, so an exception ends the call. A ValueError (or a kind of it) refuses the input with
// its text: the host takes call.error with `unreachable` for a refusal. Any other exception is the plugin's own
// fault: a trap, with a line in the log where the manifest asks for `log`.
extern "C" [[noreturn]] void __cxa_throw(void *thrown, std::type_info *type, void *(*)(void *))
{
    auto *error = dynamic_cast<sandseal::types::BaseException *>(static_cast<std::exception *>(thrown));
    if (dynamic_cast<sandseal::types::ValueError *>(error) && sandseal::current) {
        auto &text = sandseal::keep(sandseal::said(error));
        sandseal::current->error = reinterpret_cast<uint32_t>(text.c_str());
        sandseal::current->error_len = static_cast<uint32_t>(text.size());
    }
#ifdef SANDSEAL_IMPORTS_LOG
    else {
        sandseal::types::str line = sandseal::class_name(type->name()) + sandseal::types::str(": ") + sandseal::said(error);
        sandseal_import_log(SANDSEAL_ERROR, line.c_str(), static_cast<uint32_t>(line.size()));
    }
#endif
    (void)type;
    __builtin_trap();
}

#endif
