/* The token that was just chosen is less likely to come again at once. */
#include <sandseal.h>

SANDSEAL_STAGE(constrain) {
    const struct sandseal_tensor *ids = sandseal_input(call, 0), *given = sandseal_input(call, 1);
    float *logits = sandseal_data(given);
    if (ids->shape[0]) {
        int64_t last = ((const int64_t *)sandseal_data(ids))[ids->shape[0] - 1];
        if (last < 0 || last >= given->shape[0])
            return sandseal_refuse(call, "ids has a token that logits does not"); /* the answer ends with this text */
        logits[last] -= 2;
    }
    sandseal_give(sandseal_output(call, 0), given->shape, logits, given->byte_len);
    return SANDSEAL_DONE;
}
