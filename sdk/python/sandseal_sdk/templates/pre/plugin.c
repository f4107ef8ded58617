/* One row of values, standardised: what many models were trained on. */
#include <sandseal.h>

SANDSEAL_STAGE(preprocess) {
    const struct sandseal_tensor *values = sandseal_input(call, 0);
    int64_t n = values->shape[0];
    const float *from = sandseal_data(values);
    if (n == 0) return sandseal_refuse(call, "values is empty"); /* the client gets this text */

    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += from[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (from[i] - mean) * (from[i] - mean);
    double spread = __builtin_sqrt(squares / (double)n);
    if (spread == 0) return sandseal_refuse(call, "all values are the same");

    float *to = sandseal_make(sandseal_output(call, 0), (int64_t[]){1, n});
    SANDSEAL_UNROLL
    for (int64_t i = 0; i < n; i++) to[i] = (float)((from[i] - mean) / spread);
    return SANDSEAL_DONE;
}
