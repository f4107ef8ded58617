// Reads the tables that a plugin's functions use out of the module's data, while the module initialises.
#ifndef SANDSEAL_TABLES_HPP
#define SANDSEAL_TABLES_HPP

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "pythonic/core.hpp"
#include "pythonic/types/dict.hpp"
#include "pythonic/types/list.hpp"
#include "pythonic/types/ndarray.hpp"
#include "pythonic/types/set.hpp"
#include "pythonic/types/str.hpp"
#include "pythonic/types/tuple.hpp"

extern const unsigned char sandseal_table_data[];

namespace sandseal
{
// Takes values off the data in the order in which they were written (tables.py).
class TableReader
{
    const unsigned char *at;

    template <class T>
    struct Kind {
    };

  public:
    explicit constexpr TableReader(const unsigned char *data) : at(data) {}

    template <class T>
    T read()
    {
        return read(Kind<T>());
    }

  private:
    template <class T>
    T number()
    {
        T value;
        std::memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    }

    template <class T>
    std::enable_if_t<std::is_arithmetic_v<T>, T> read(Kind<T>)
    {
        return number<T>();
    }

    pythonic::types::str read(Kind<pythonic::types::str>)
    {
        auto size = number<uint32_t>();
        at += size;
        return pythonic::types::str(reinterpret_cast<const char *>(at - size), size);
    }

    template <class T>
    pythonic::types::list<T> read(Kind<pythonic::types::list<T>>)
    {
        auto size = number<uint32_t>();
        pythonic::types::list<T> list(0);
        list.reserve(size);
        while (size--) list.push_back(read<T>());
        return list;
    }

    template <class T>
    pythonic::types::set<T> read(Kind<pythonic::types::set<T>>)
    {
        pythonic::types::set<T> set{pythonic::types::empty_set()};
        for (auto size = number<uint32_t>(); size; size--) set.add(read<T>());
        return set;
    }

    template <class K, class V>
    pythonic::types::dict<K, V> read(Kind<pythonic::types::dict<K, V>>)
    {
        pythonic::types::dict<K, V> dict{pythonic::types::empty_dict()};
        for (auto size = number<uint32_t>(); size; size--) {
            auto key = read<K>();
            dict[key] = read<V>();
        }
        return dict;
    }

    template <class T, std::size_t N, class Version>
    pythonic::types::array_base<T, N, Version> read(Kind<pythonic::types::array_base<T, N, Version>>)
    {
        pythonic::types::array_base<T, N, Version> tuple;
        for (auto &element : tuple) element = read<T>();
        return tuple;
    }

    template <class... T>
    std::tuple<T...> read(Kind<std::tuple<T...>>)
    {
        return std::tuple<T...>{read<T>()...}; // braces: from left to right
    }

    // Elements stay where they are: a view.
    template <class T, class... Axes>
    pythonic::types::ndarray<T, pythonic::types::pshape<Axes...>>
    read(Kind<pythonic::types::ndarray<T, pythonic::types::pshape<Axes...>>>)
    {
        at += -reinterpret_cast<uintptr_t>(at) & 15;
        auto *data = const_cast<T *>(reinterpret_cast<const T *>(at));
        pythonic::types::ndarray<T, pythonic::types::pshape<Axes...>> array(
            data, pythonic::types::pshape<Axes...>(Axes()...), pythonic::types::ownership::external);
        at += sizeof(T) * array.flat_size();
        return array;
    }
};
} // namespace sandseal

#endif
