/* Per row of scores: which is the best, and its probability (softmax). */
#include <sandseal.h>

SANDSEAL_STAGE(postprocess) {
    const struct sandseal_tensor *scores = sandseal_input(call, 0);
    int64_t rows = scores->shape[0], labels = scores->shape[1];
    if (labels == 0) return sandseal_refuse(call, "scores is empty"); /* the client gets this text */

    const float *row = sandseal_data(scores);
    int64_t *best = sandseal_make(sandseal_output(call, 0), &rows);
    float *probability = sandseal_make(sandseal_output(call, 1), &rows);
    for (int64_t i = 0; i < rows; i++, row += labels) {
        best[i] = 0;
        for (int64_t j = 1; j < labels; j++)
            if (row[j] > row[best[i]]) best[i] = j;
        float sum = 0;
        for (int64_t j = 0; j < labels; j++) sum += __builtin_expf(row[j] - row[best[i]]);
        probability[i] = 1 / sum;
    }
    return SANDSEAL_DONE;
}
