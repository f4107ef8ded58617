// The settings of a stage's function: members of the request's parameters or of the signed config, both JSON objects.
#ifndef SANDSEAL_JSON_HPP
#define SANDSEAL_JSON_HPP

#include <sandseal.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "pythonic/builtins/ValueError.hpp"
#include "pythonic/types/dict.hpp"
#include "pythonic/types/list.hpp"
#include "pythonic/types/str.hpp"

namespace sandseal
{
inline struct sandseal_text parameters()
{
    return {reinterpret_cast<const char *>(current->params), current->params_len};
}

inline struct sandseal_text config()
{
    return {reinterpret_cast<const char *>(current->config), current->config_len};
}

// Reads one JSON text, which the host has parsed before: only its types are in doubt. `fits` turns false at a value of
// another type than the wanted one.
class JsonReader
{
    const char *at, *end;

  public:
    bool fits = true;

    explicit JsonReader(struct sandseal_text text) : at(text.data), end(text.data + text.size) {}

    // Whether the object that starts here has the member; the reader then stands at its value.
    bool find(types::str const &name)
    {
        if (!take('{')) return false;
        while (!take('}')) {
            if (key() == name) return true;
            skip();
            take(',');
        }
        return false;
    }

    void read(bool &value)
    {
        value = word("true");
        fits = fits && (value || word("false"));
    }

    void read(long &value)
    {
        std::string digits = number();
        fits = fits && !digits.empty() && digits.find_first_of(".eE") == std::string::npos;
        errno = 0;
        value = std::strtoll(digits.c_str(), nullptr, 10);
        fits = fits && !errno;
    }

    void read(double &value)
    {
        std::string digits = number();
        fits = fits && !digits.empty();
        value = std::strtod(digits.c_str(), nullptr);
    }

    void read(types::str &value)
    {
        space();
        fits = fits && at < end && *at == '"';
        if (fits) value = types::str(text());
    }

    template <class T>
    void read(types::list<T> &list)
    {
        list = types::list<T>(0);
        if (!(fits = fits && take('['))) return;
        for (; fits && !take(']'); take(',')) {
            T element;
            read(element);
            list.push_back(element);
        }
    }

    template <class T>
    void read(types::dict<types::str, T> &dict)
    {
        dict = types::dict<types::str, T>(types::empty_dict());
        if (!(fits = fits && take('{'))) return;
        for (; fits && !take('}'); take(',')) {
            types::str name = key();
            T element;
            read(element);
            dict[name] = element;
        }
    }

  private:
    void space()
    {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    }

    bool take(char wanted)
    {
        space();
        if (at >= end || *at != wanted) return false;
        at++;
        return true;
    }

    bool word(std::string const &wanted)
    {
        space();
        if (wanted.compare(0, std::string::npos, at, std::min<std::size_t>(wanted.size(), end - at))) return false;
        at += wanted.size();
        return true;
    }

    std::string number()
    {
        space();
        const char *start = at;
        while (at < end && ((*at >= '0' && *at <= '9') || *at == '-' || *at == '+' || *at == '.' || (*at | 32) == 'e')) at++;
        return std::string(start, at);
    }

    types::str key()
    {
        space();
        types::str name(text());
        take(':');
        return name;
    }

    uint32_t hex()
    {
        uint32_t code = std::strtoul(std::string(at, at + 4).c_str(), nullptr, 16);
        at += 4;
        return code;
    }

    // The text in quotes that starts here, in UTF-8.
    std::string text()
    {
        std::string out;
        for (at++; at < end && *at != '"'; at++) {
            if (*at != '\\') {
                out += *at;
                continue;
            }
            switch (*++at) {
            case 'b': out += '\b'; break;
            case 'f': out += '\f'; break;
            case 'n': out += '\n'; break;
            case 'r': out += '\r'; break;
            case 't': out += '\t'; break;
            case 'u': at++, append(out, point()), at--; break;
            default: out += *at;
            }
        }
        at++;
        return out;
    }

    // A code point after \u: two of them where they are surrogates.
    uint32_t point()
    {
        uint32_t code = hex();
        if (code >> 10 == 0x36 && end - at > 6 && at[0] == '\\' && at[1] == 'u') {
            at += 2;
            code = 0x10000 + ((code & 0x3FF) << 10 | (hex() & 0x3FF));
        }
        return code;
    }

    static void append(std::string &out, uint32_t code)
    {
        if (code < 0x80) return void(out += static_cast<char>(code));
        int rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        out += static_cast<char>((0xFF00 >> (rest + 1) & 0xFF) | code >> 6 * rest);
        while (rest--) out += static_cast<char>(0x80 | (code >> 6 * rest & 0x3F));
    }

    void skip()
    {
        space();
        if (at < end && *at == '"') return void(text());
        int depth = 0;
        for (; at < end; at++) {
            if (*at == '"') text(), at--;
            else if (*at == '{' || *at == '[') depth++;
            else if (*at == '}' || *at == ']') {
                if (!depth) return;
                depth--;
            } else if (*at == ',' && !depth) return;
        }
    }
};

// A setting's value: the member `name`, else the JSON that plugin.toml gives; one of another type is refused.
template <class T>
T setting(struct sandseal_text document, const char *name, const char *otherwise, const char *words)
{
    JsonReader reader(document);
    if (!reader.find(types::str(name))) reader = JsonReader(sandseal_say(otherwise));
    T value;
    reader.read(value);
    if (!reader.fits) throw types::ValueError(types::str(words));
    return value;
}
} // namespace sandseal

#endif
