/* One row of values, standardised: what many models were trained on. */
#include <sandseal.hpp>

SANDSEAL_STAGE(preprocess) {
    auto values = call.input(0).data<float>();
    if (values.empty()) return call.refuse("values is empty"); /* the client gets this text */

    double sum = 0, squares = 0, n = static_cast<double>(values.size());
    for (float value : values) sum += value;
    double mean = sum / n;
    for (float value : values) squares += (value - mean) * (value - mean);
    double spread = __builtin_sqrt(squares / n);
    if (spread == 0) return call.refuse("all values are the same");

    auto x = call.output(0).make<float>({1, values.size()});
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>((values[i] - mean) / spread);
    return sandseal::done;
}
