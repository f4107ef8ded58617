/* The token that was just chosen is less likely to come again at once. */
#include <sandseal.hpp>

SANDSEAL_STAGE(constrain) {
    auto ids = call.input(0).data<int64_t>();
    auto logits = call.input(1).data<float>();
    if (!ids.empty()) {
        size_t last = static_cast<size_t>(ids[ids.size() - 1]);
        if (last >= logits.size())
            return call.refuse("ids has a token that logits does not"); /* the answer ends with this text */
        logits[last] -= 2;
    }
    call.output(0).give({logits.size()}, logits);
    return sandseal::done;
}
