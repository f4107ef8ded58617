// The methods of `str`, as those of Python's `bytes` work: case and white space are ASCII's. Pythran's own change the
// text that they are called on, strip what they split, or write past the end; theirs are shut out by their guards.
#ifndef SANDSEAL_TEXT_HPP
#define SANDSEAL_TEXT_HPP

#define PYTHONIC_INCLUDE_BUILTIN_STR_CAPITALIZE_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_ENDSWITH_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_FIND_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_ISALPHA_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_ISDIGIT_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_LOWER_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_LSTRIP_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_REPLACE_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_RSTRIP_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_SPLIT_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_STARTSWITH_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_STRIP_HPP
#define PYTHONIC_INCLUDE_BUILTIN_STR_UPPER_HPP
#define PYTHONIC_BUILTIN_STR_CAPITALIZE_HPP
#define PYTHONIC_BUILTIN_STR_ENDSWITH_HPP
#define PYTHONIC_BUILTIN_STR_FIND_HPP
#define PYTHONIC_BUILTIN_STR_ISALPHA_HPP
#define PYTHONIC_BUILTIN_STR_ISDIGIT_HPP
#define PYTHONIC_BUILTIN_STR_LOWER_HPP
#define PYTHONIC_BUILTIN_STR_LSTRIP_HPP
#define PYTHONIC_BUILTIN_STR_REPLACE_HPP
#define PYTHONIC_BUILTIN_STR_RSTRIP_HPP
#define PYTHONIC_BUILTIN_STR_SPLIT_HPP
#define PYTHONIC_BUILTIN_STR_STARTSWITH_HPP
#define PYTHONIC_BUILTIN_STR_STRIP_HPP
#define PYTHONIC_BUILTIN_STR_UPPER_HPP

#include <algorithm>
#include <string>

#include "pythonic/core.hpp"
#include "pythonic/builtins/ValueError.hpp"
#include "pythonic/types/NoneType.hpp"
#include "pythonic/types/list.hpp"
#include "pythonic/types/str.hpp"
#include "pythonic/utils/functor.hpp"

PYTHONIC_NS_BEGIN
namespace builtins::str
{
inline constexpr const char *white = " \t\n\r\v\f";

inline bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_alpha(char c) { return is_lower(c) || is_upper(c); }
inline bool is_alnum(char c) { return is_alpha(c) || is_digit(c); }
inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
inline char to_lower(char c) { return is_upper(c) ? c + 32 : c; }
inline char to_upper(char c) { return is_lower(c) ? c - 32 : c; }

template <class Change>
types::str changed(types::str const &text, Change change)
{
    std::string out(text.chars());
    std::transform(out.begin(), out.end(), out.begin(), change);
    return types::str(std::move(out));
}

template <class Test>
bool every(types::str const &text, Test test)
{
    return !text.empty() && std::all_of(text.chars().begin(), text.chars().end(), test);
}

inline types::str lower(types::str const &text) { return changed(text, to_lower); }
inline types::str upper(types::str const &text) { return changed(text, to_upper); }

inline types::str capitalize(types::str const &text)
{
    bool first = true;
    return changed(text, [&](char c) { return std::exchange(first, false) ? to_upper(c) : to_lower(c); });
}

inline bool isalpha(types::str const &text) { return every(text, is_alpha); }
inline bool isdigit(types::str const &text) { return every(text, is_digit); }
inline bool isalnum(types::str const &text) { return every(text, is_alnum); }
inline bool isspace(types::str const &text) { return every(text, is_space); }

inline bool islower(types::str const &text)
{
    auto const &chars = text.chars();
    return std::none_of(chars.begin(), chars.end(), is_upper) && std::any_of(chars.begin(), chars.end(), is_lower);
}

inline bool isupper(types::str const &text)
{
    auto const &chars = text.chars();
    return std::none_of(chars.begin(), chars.end(), is_lower) && std::any_of(chars.begin(), chars.end(), is_upper);
}

inline types::str stripped(types::str const &text, std::string const &of, bool left, bool right)
{
    std::string const &chars = text.chars();
    std::size_t start = left ? chars.find_first_not_of(of) : 0;
    std::size_t end = right ? chars.find_last_not_of(of) + 1 : chars.size();
    return start >= end ? types::str() : types::str(chars.substr(start, end - start));
}

inline types::str strip(types::str const &text) { return stripped(text, white, true, true); }
inline types::str lstrip(types::str const &text) { return stripped(text, white, true, false); }
inline types::str rstrip(types::str const &text) { return stripped(text, white, false, true); }
inline types::str strip(types::str const &text, types::str const &of) { return stripped(text, of.chars(), true, true); }
inline types::str lstrip(types::str const &text, types::str const &of) { return stripped(text, of.chars(), true, false); }
inline types::str rstrip(types::str const &text, types::str const &of) { return stripped(text, of.chars(), false, true); }

inline types::list<types::str> split(types::str const &text, types::none_type = {}, long most = -1)
{
    std::string const &chars = text.chars();
    types::list<types::str> parts(0);
    std::size_t start = chars.find_first_not_of(white);
    while (start != std::string::npos && most--) {
        std::size_t end = chars.find_first_of(white, start);
        parts.push_back(types::str(chars.substr(start, end - start)));
        start = chars.find_first_not_of(white, end);
    }
    if (start != std::string::npos) parts.push_back(types::str(chars.substr(start)));
    return parts;
}

inline types::list<types::str> split(types::str const &text, types::str const &at, long most = -1)
{
    if (at.empty()) throw types::ValueError(types::str("empty separator"));
    std::string const &chars = text.chars();
    types::list<types::str> parts(0);
    std::size_t start = 0, end;
    while (most-- && (end = chars.find(at.chars(), start)) != std::string::npos) {
        parts.push_back(types::str(chars.substr(start, end - start)));
        start = end + at.size();
    }
    parts.push_back(types::str(chars.substr(start)));
    return parts;
}

inline types::list<types::str> splitlines(types::str const &text)
{
    std::string const &chars = text.chars();
    types::list<types::str> lines(0);
    for (std::size_t start = 0; start < chars.size();) {
        std::size_t end = std::min(chars.find_first_of("\r\n", start), chars.size());
        lines.push_back(types::str(chars.substr(start, end - start)));
        start = end + 1 + (chars.compare(end, 2, "\r\n") == 0);
    }
    return lines;
}

inline types::str replace(types::str const &text, types::str const &old, types::str const &by, long most = -1)
{
    std::string const &chars = text.chars(), &from = old.chars();
    std::string out;
    std::size_t start = 0, at;
    if (from.empty()) { // before every character and at the end
        for (; start < chars.size() && most; most--) (out += by.chars()) += chars[start++];
        if (most) return types::str(out += by.chars());
    } else {
        for (; most && (at = chars.find(from, start)) != std::string::npos; most--, start = at + from.size())
            out.append(chars, start, at - start) += by.chars();
    }
    return types::str(out.append(chars, start, std::string::npos));
}

// Python's start and end: from the back where negative, and cut off at the text's ends.
struct Span {
    std::size_t start, end;
    Span(types::str const &text, long from, long to) : start(place(text, from)), end(place(text, to)) {}
    static std::size_t place(types::str const &text, long at)
    {
        return std::clamp<long>(at < 0 ? at + text.size() : at, 0, text.size());
    }
};

inline long find(types::str const &text, types::str const &what, long from = 0, long to = 1L << 62)
{
    Span span(text, from, to);
    if (from > text.size()) return -1;
    std::size_t at = text.chars().find(what.chars(), span.start);
    return at == std::string::npos || at + what.size() > span.end ? -1 : static_cast<long>(at);
}

inline long rfind(types::str const &text, types::str const &what)
{
    std::size_t at = text.chars().rfind(what.chars());
    return at == std::string::npos ? -1 : static_cast<long>(at);
}

inline bool startswith(types::str const &text, types::str const &start, long from = 0, long to = 1L << 62)
{
    Span span(text, from, to);
    return from <= text.size() && span.start + start.size() <= span.end &&
           text.chars().compare(span.start, start.size(), start.chars()) == 0;
}

inline bool endswith(types::str const &text, types::str const &end, long from = 0, long to = 1L << 62)
{
    Span span(text, from, to);
    return from <= text.size() && span.start + end.size() <= span.end &&
           text.chars().compare(span.end - end.size(), end.size(), end.chars()) == 0;
}

inline types::str removeprefix(types::str const &text, types::str const &start)
{
    return startswith(text, start) ? types::str(text.chars().substr(start.size())) : text;
}

inline types::str removesuffix(types::str const &text, types::str const &end)
{
    return endswith(text, end) ? types::str(text.chars().substr(0, text.size() - end.size())) : text;
}

DEFINE_FUNCTOR(pythonic::builtins::str, lower);
DEFINE_FUNCTOR(pythonic::builtins::str, upper);
DEFINE_FUNCTOR(pythonic::builtins::str, capitalize);
DEFINE_FUNCTOR(pythonic::builtins::str, isalpha);
DEFINE_FUNCTOR(pythonic::builtins::str, isdigit);
DEFINE_FUNCTOR(pythonic::builtins::str, isalnum);
DEFINE_FUNCTOR(pythonic::builtins::str, isspace);
DEFINE_FUNCTOR(pythonic::builtins::str, islower);
DEFINE_FUNCTOR(pythonic::builtins::str, isupper);
DEFINE_FUNCTOR(pythonic::builtins::str, strip);
DEFINE_FUNCTOR(pythonic::builtins::str, lstrip);
DEFINE_FUNCTOR(pythonic::builtins::str, rstrip);
DEFINE_FUNCTOR(pythonic::builtins::str, split);
DEFINE_FUNCTOR(pythonic::builtins::str, splitlines);
DEFINE_FUNCTOR(pythonic::builtins::str, replace);
DEFINE_FUNCTOR(pythonic::builtins::str, find);
DEFINE_FUNCTOR(pythonic::builtins::str, rfind);
DEFINE_FUNCTOR(pythonic::builtins::str, startswith);
DEFINE_FUNCTOR(pythonic::builtins::str, endswith);
DEFINE_FUNCTOR(pythonic::builtins::str, removeprefix);
DEFINE_FUNCTOR(pythonic::builtins::str, removesuffix);
} // namespace builtins::str
PYTHONIC_NS_END

#endif
