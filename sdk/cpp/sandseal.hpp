/* sandseal.hpp: write a Sandseal plugin in C++20 (plugin ABI v1), over sandseal.h.
 *
 *     #include <sandseal.hpp>
 *
 *     SANDSEAL_STAGE(scale) {
 *         auto from = call.input(0).data<float>();
 *         if (from.empty()) return call.refuse("x is empty");
 *         auto to = call.output(0).make<float>(call.input(0).shape());
 *         sandseal::scale(to, from, 1 / 255.0F);
 *         return sandseal::done;
 *     }
 *
 * No libc++, no exceptions, no RTTI. `new` takes memory that lives as long as the call; `delete` does nothing. Objects
 * with static storage are constructed at build time. The functions of <math.h> are there as __builtin_expf and so on.
 */
#ifndef SANDSEAL_HPP
#define SANDSEAL_HPP

#include <sandseal.h>

/* ---- What a C++ program expects of its runtime ------------------------------------------------------------------- */

SANDSEAL_SHARED void *operator new(size_t size) { return sandseal_need(size); }
SANDSEAL_SHARED void *operator new[](size_t size) { return sandseal_need(size); }
SANDSEAL_SHARED void operator delete(void *) noexcept {}
SANDSEAL_SHARED void operator delete[](void *) noexcept {}
SANDSEAL_SHARED void operator delete(void *, size_t) noexcept {}
SANDSEAL_SHARED void operator delete[](void *, size_t) noexcept {}

extern "C" {
/* Destructors of static objects never run: an instance is dropped whole. */
SANDSEAL_SHARED int __cxa_atexit(void (*)(void *), void *, void *) { return 0; }
SANDSEAL_SHARED void __cxa_pure_virtual() { __builtin_trap(); }
#ifndef __wasi__ /* whose startup code has one */
extern void __wasm_call_ctors();
SANDSEAL_EXPORT("_initialize") SANDSEAL_SHARED void _initialize() { __wasm_call_ctors(); }
#endif

/* The names in the trace when type or axes asked for are not the tensor's in plugin.toml. */
__attribute__((noinline, noreturn)) SANDSEAL_SHARED void sandseal_wrong_type() { __builtin_trap(); }
__attribute__((noinline, noreturn)) SANDSEAL_SHARED void sandseal_wrong_rank() { __builtin_trap(); }
}

namespace sandseal {

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* What a stage returns. */
using Status = int32_t;
inline constexpr Status done = SANDSEAL_DONE;

/* `size` values of type T that lie elsewhere; an index is not checked. */
template <class T>
class Span {
public:
    constexpr Span() = default;
    constexpr Span(T *data, size_t size) : data_(data), size_(size) {}
    constexpr operator Span<const T>() const { return {data_, size_}; }
    constexpr T *data() const { return data_; }
    constexpr size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr T &operator[](size_t index) const { return data_[index]; }
    constexpr T *begin() const { return data_; }
    constexpr T *end() const { return data_ + size_; }
    constexpr Span part(size_t from, size_t size) const { return {data_ + from, size}; }

private:
    T *data_ = nullptr;
    size_t size_ = 0;
};

/* Bytes that lie elsewhere; a string literal is one. */
class Text : public Span<const char> {
public:
    constexpr Text() = default;
    constexpr Text(const char *data, size_t size) : Span(data, size) {}
    constexpr Text(const char *terminated) : Span(terminated, __builtin_strlen(terminated)) {}
    constexpr bool operator==(Text other) const {
        return size() == other.size() && __builtin_memcmp(data(), other.data(), size()) == 0;
    }
};

/* Sizes of axes: `{1, 3, height, width}`, or a tensor's shape(). */
class Shape {
public:
    template <class... Sizes>
    constexpr Shape(Sizes... sizes) : sizes_{static_cast<int64_t>(sizes)...}, rank_(sizeof...(sizes)) {
        static_assert(sizeof...(sizes) <= 8, "ABI v1: a tensor has at most 8 axes");
    }
    constexpr Shape(const int64_t *sizes, uint32_t rank) : rank_(rank) {
        for (uint32_t axis = 0; axis < rank; axis++) sizes_[axis] = sizes[axis];
    }
    constexpr uint32_t rank() const { return rank_; }
    constexpr int64_t operator[](uint32_t axis) const { return sizes_[axis]; }
    constexpr const int64_t *data() const { return sizes_; }

private:
    int64_t sizes_[8] = {};
    uint32_t rank_ = 0;
};

/* Whether T can hold an element of a data type; FP16 and BF16 come as uint16_t. */
template <class T>
constexpr bool fits(uint32_t dtype) {
    if constexpr (__is_same(T, float)) return dtype == SANDSEAL_FP32;
    else if constexpr (__is_same(T, double)) return dtype == SANDSEAL_FP64;
    else if constexpr (__is_same(T, uint8_t)) return dtype == SANDSEAL_UINT8 || dtype == SANDSEAL_BOOL;
    else if constexpr (__is_same(T, int8_t)) return dtype == SANDSEAL_INT8;
    else if constexpr (__is_same(T, uint16_t))
        return dtype == SANDSEAL_UINT16 || dtype == SANDSEAL_FP16 || dtype == SANDSEAL_BF16;
    else if constexpr (__is_same(T, int16_t)) return dtype == SANDSEAL_INT16;
    else if constexpr (__is_same(T, uint32_t)) return dtype == SANDSEAL_UINT32;
    else if constexpr (__is_same(T, int32_t)) return dtype == SANDSEAL_INT32;
    else if constexpr (__is_same(T, uint64_t)) return dtype == SANDSEAL_UINT64;
    else if constexpr (__is_same(T, int64_t)) return dtype == SANDSEAL_INT64;
    else return false;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* The elements of a BYTES tensor: `for (sandseal::Text text : call.input(0).texts())`. */
class Texts {
public:
    struct End {};
    class Iterator {
    public:
        explicit Iterator(sandseal_reader reader) : reader_(reader) { ++*this; }
        Text operator*() const { return {text_.data, text_.size}; }
        Iterator &operator++() {
            more_ = sandseal_next(&reader_, &text_) != 0;
            return *this;
        }
        bool operator!=(End) const { return more_; }

    private:
        sandseal_reader reader_;
        sandseal_text text_{};
        bool more_ = false;
    };
    explicit Texts(const sandseal_tensor *tensor) : reader_(sandseal_read(tensor)) {}
    Iterator begin() const { return Iterator(reader_); }
    End end() const { return {}; }

private:
    sandseal_reader reader_;
};

class Input {
public:
    explicit Input(const sandseal_tensor *raw) : raw_(raw) {}
    Shape shape() const { return {raw_->shape, raw_->rank}; }
    int64_t axis(uint32_t index) const { return raw_->shape[index]; }
    size_t count() const { return static_cast<size_t>(sandseal_count(raw_)); }
    /* Its elements, row-major, for the plugin to change if it likes. */
    template <class T>
    Span<T> data() const {
        if (!fits<T>(raw_->dtype)) sandseal_wrong_type();
        return {static_cast<T *>(sandseal_data(raw_)), count()};
    }
    Texts texts() const {
        if (raw_->dtype != SANDSEAL_BYTES) sandseal_wrong_type();
        return Texts(raw_);
    }

private:
    const sandseal_tensor *raw_;
};

/* Collects the elements of a BYTES output. */
class Writer {
public:
    void append(Text text) { __builtin_memcpy(element(text.size()), text.data(), text.size()); }
    /* Adds an element and returns where to write it; the address is good until the next element. */
    char *element(size_t size) { return sandseal_element(&raw_, static_cast<uint32_t>(size)); }

private:
    friend class Output;
    sandseal_writer raw_{};
};

class Output {
public:
    explicit Output(sandseal_tensor *raw) : raw_(raw) {}
    /* Room for a numeric output of this shape, for the caller to fill. */
    template <class T>
    Span<T> make(Shape shape) const {
        check(shape, fits<T>(raw_->dtype));
        T *data = static_cast<T *>(sandseal_make(raw_, shape.data()));
        return {data, static_cast<size_t>(sandseal_count(raw_))};
    }
    /* Points it at elements that are already there (an input's, too) and stay until the call ends. */
    template <class T>
    void give(Shape shape, Span<T> data) const {
        check(shape, fits<T>(raw_->dtype));
        sandseal_give(raw_, shape.data(), data.data(), data.size() * sizeof(T));
    }
    void give(Shape shape, const Writer &texts) const {
        check(shape, raw_->dtype == SANDSEAL_BYTES);
        sandseal_finish(&texts.raw_, raw_, shape.data());
    }

private:
    void check(Shape shape, bool fits) const {
        if (!fits) sandseal_wrong_type();
        if (shape.rank() != raw_->rank) sandseal_wrong_rank();
    }
    sandseal_tensor *raw_;
};

/* One call of a stage; its tensors are in plugin.toml's order. */
class Call {
public:
    explicit Call(sandseal_call *raw) : raw_(raw) {}
    Input input(uint32_t index) const { return Input(sandseal_input(raw_, index)); }
    Output output(uint32_t index) const { return Output(sandseal_output(raw_, index)); }
    /* Refuses the input: the client gets this text. */
    Status refuse(Text why) const {
        raw_->error = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(why.data()));
        raw_->error_len = static_cast<uint32_t>(why.size());
        return 1;
    }
    /* A number of the stage's signed config; `otherwise` when it is absent or no number. */
    double config(const char *name, double otherwise) const { return sandseal_config(raw_, name, otherwise); }
    /* A number of the request's parameters. The client chooses them: check the range. */
    double param(const char *name, double otherwise) const { return sandseal_param(raw_, name, otherwise); }
    /* All of them, as JSON. */
    Text config() const { return text(raw_->config, raw_->config_len); }
    Text params() const { return text(raw_->params, raw_->params_len); }

private:
    static Text text(uint32_t at, uint32_t size) {
        return {reinterpret_cast<const char *>(static_cast<uintptr_t>(at)), size};
    }
    sandseal_call *raw_;
};

/* ---- Many numbers at once: see sandseal.h ------------------------------------------------------------------------ */

inline float sum(Span<const float> x) { return sandseal_sum(x.data(), x.size()); }
inline float dot(Span<const float> x, Span<const float> y) { return sandseal_dot(x.data(), y.data(), x.size()); }
inline void scale(Span<float> to, Span<const float> from, float factor, float offset = 0) {
    sandseal_scale(to.data(), from.data(), to.size(), factor, offset);
}
inline void scale(Span<float> to, Span<const uint8_t> from, float factor, float offset = 0) {
    sandseal_scale_u8(to.data(), from.data(), to.size(), factor, offset);
}

/* ---- The host's functions; each needs its name among the manifest's `imports` ------------------------------------ */

enum class Level : int32_t { debug, info, warning, error };

/* A line in the host's log (import "log"). */
inline void log(Level level, Text line) {
    sandseal_import_log(static_cast<int32_t>(level), line.data(), static_cast<uint32_t>(line.size()));
}

/* Milliseconds since 1970 (import "now"). */
inline int64_t now() { return sandseal_now(); }

/* Fills with random bytes, at most 65,536 (import "random"). */
inline void random(Span<uint8_t> to) { sandseal_random(to.data(), static_cast<uint32_t>(to.size())); }

/* A signed file that the manifest lists under `assets` (import "asset"); data() is null when it does not. */
inline Text asset(const char *name) {
    sandseal_text found = sandseal_asset(name);
    return {found.data, found.size};
}

}  // namespace sandseal

/* Starts the definition of the stage function that plugin.toml names; `call` is its argument. */
#undef SANDSEAL_STAGE
#define SANDSEAL_STAGE(function)                                                                      \
    static ::sandseal::Status function(::sandseal::Call call);                                        \
    extern "C" SANDSEAL_EXPORT(#function) int32_t sandseal_stage_##function(sandseal_call *raw);      \
    int32_t sandseal_stage_##function(sandseal_call *raw) { return function(::sandseal::Call(raw)); } \
    static ::sandseal::Status function(::sandseal::Call call)

#endif
