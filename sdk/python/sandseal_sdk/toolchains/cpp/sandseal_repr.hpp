// A floating-point number as Python's str() writes it: the shortest digits that read back as the same number.
#ifndef SANDSEAL_REPR_HPP
#define SANDSEAL_REPR_HPP

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace sandseal
{
inline double parsed(const char *text, double) { return std::strtod(text, nullptr); }
inline float parsed(const char *text, float) { return std::strtof(text, nullptr); }

template <class Float>
std::string repr(Float value)
{
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char text[40];
    int digits = sizeof(Float) == 8 ? 15 : 6; // so many always survive the way to binary and back
    do std::snprintf(text, sizeof text, "%.*e", digits++ - 1, static_cast<double>(value));
    while (parsed(text, value) != value);
    std::string mantissa = text, out = value < 0 || std::signbit(value) ? "-" : "";
    std::size_t e = mantissa.find('e');
    int exponent = std::atoi(text + e + 1);
    mantissa = mantissa.substr(out.size(), e - out.size());
    mantissa.erase(mantissa.find_last_not_of('0') + 1); // "1." where nothing is left behind the point
    if (exponent < -4 || exponent >= 16) {
        if (mantissa.back() == '.') mantissa.pop_back();
        std::snprintf(text, sizeof text, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
        return out + mantissa + text;
    }
    mantissa.erase(1, 1);
    if (exponent < 0) return out + "0." + std::string(-exponent - 1, '0') + mantissa;
    std::size_t whole = exponent + 1;
    if (mantissa.size() <= whole) return out + mantissa + std::string(whole - mantissa.size(), '0') + ".0";
    return out + mantissa.insert(whole, ".");
}
} // namespace sandseal

#endif
