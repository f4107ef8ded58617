/* Every part of sandseal.hpp; test_languages.py says what each stage must answer. */
#include <sandseal.hpp>

using namespace sandseal;

SANDSEAL_STAGE(layout) { /* the structs are sandseal.h's, which tour.c tells of */
    static int64_t facts[] = {
        sizeof(sandseal_call), offsetof(sandseal_call, error),
        sizeof(sandseal_tensor), offsetof(sandseal_tensor, shape),
        int64_t(Level::debug), int64_t(Level::info), int64_t(Level::warning), int64_t(Level::error),
    };
    call.output(0).give({8}, Span<int64_t>(facts, 8));
    return done;
}

SANDSEAL_STAGE(texts) {
    if (call.input(0).count() == 0) return call.refuse("keine Wörter");
    if (call.config() == "{}" || call.params().empty()) return call.refuse("no config");
    Writer writer;
    int64_t count = 1;
    for (Text text : call.input(0).texts()) {
        char *to = writer.element(text.size());
        for (size_t i = 0; i < text.size(); i++) to[i] = text[text.size() - 1 - i];
        count++;
    }
    writer.append("end");
    call.output(0).give({count}, writer);
    return done;
}

SANDSEAL_STAGE(numbers) {
    auto y = call.output(0).make<double>(call.input(0).shape());
    size_t i = 0;
    for (Text name : call.input(0).texts()) {
        char *terminated = new char[name.size() + 1]();
        __builtin_memcpy(terminated, name.data(), name.size());
        y[i++] = call.param(terminated, -1) * call.config("scale", 0);
        delete[] terminated;
    }
    return done;
}

SANDSEAL_STAGE(asks) {
    Text asset = sandseal::asset("table.bin");
    if (asset.data() == nullptr || sandseal::asset("other.bin").data()) return call.refuse("the assets are others");
    uint8_t first[16], second[16];
    random({first, 16});
    random({second, 16});
    log(Level::warning, "asked");
    auto y = call.output(0).make<int64_t>({3});
    y[0] = int64_t(asset.size()) * 1000 + asset[1];
    y[1] = now();
    y[2] = __builtin_memcmp(first, second, 16) != 0;
    return done;
}

SANDSEAL_STAGE(vectors) {
    auto x = call.input(0).data<float>();
    auto sums = call.output(0).make<float>({2});
    sums[0] = sum(x);
    sums[1] = dot(x, x);
    scale(call.output(1).make<float>({x.size()}), x, 0.5F, 1);
    scale(call.output(2).make<float>({x.size()}), call.input(1).data<uint8_t>(), 0.25F, -1);
    return done;
}

struct Table { /* what C++ does before the first call */
    float largest;
    Table() : largest(__builtin_sqrtf(float(sandseal_abi()))) {}
    ~Table() { largest = 0; }
};
static Table table;

struct Deep {
    virtual float inside(Span<const float> x) const {
        if (x.size() > size_t(table.largest)) __builtin_trap();
        return x[0];
    }
};

__attribute__((noinline)) static float deep_inside(Span<const float> x) {
    Deep deep;
    const Deep *volatile hidden = &deep;
    return hidden->inside(x);
}

SANDSEAL_STAGE(faulty) {
    call.output(0).make<float>({1})[0] = deep_inside(call.input(0).data<float>());
    return done;
}
