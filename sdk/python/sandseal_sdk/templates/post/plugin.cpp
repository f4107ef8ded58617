/* Per row of scores: which is the best, and its probability (softmax). */
#include <sandseal.hpp>

SANDSEAL_STAGE(postprocess) {
    auto scores = call.input(0);
    size_t rows = static_cast<size_t>(scores.axis(0)), labels = static_cast<size_t>(scores.axis(1));
    if (labels == 0) return call.refuse("scores is empty"); /* the client gets this text */

    auto best = call.output(0).make<int64_t>({rows});
    auto probability = call.output(1).make<float>({rows});
    for (size_t i = 0; i < rows; i++) {
        auto row = scores.data<float>().part(i * labels, labels);
        size_t largest = 0;
        for (size_t j = 1; j < labels; j++)
            if (row[j] > row[largest]) largest = j;
        float sum = 0;
        for (float score : row) sum += __builtin_expf(score - row[largest]);
        best[i] = static_cast<int64_t>(largest);
        probability[i] = 1 / sum;
    }
    return sandseal::done;
}
