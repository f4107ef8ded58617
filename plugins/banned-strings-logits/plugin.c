/* Texts that an answer must not have: no token may complete one of them, however it is cut into tokens. */
#include <sandseal_json.h>
#include <sandseal_logits.h>

#define MAX_STATES 8192 /* bytes of all texts together */

/* Aho and Corasick's automaton, whole: every state knows where every byte leads. */
static uint16_t (*next)[256];
static uint16_t *back;
static uint8_t *banned; /* whether the text so far ends in one */
static uint32_t n_states;

static struct sandseal_masks masks;
static uint32_t state;

static uint32_t step(void *unused, uint32_t from, uint8_t byte) {
    (void)unused;
    uint32_t to = next[from][byte];
    return banned[to] ? SANDSEAL_DEAD : to;
}

/* Adds a text's states; 0 where there are too many, or the text is empty. */
static int add(struct sandseal_json text) {
    char *bytes = sandseal_need((uint64_t)(text.end - text.at));
    uint32_t size = sandseal_json_text(text, bytes), at = 0;
    for (uint32_t i = 0; i < size; i++) {
        uint16_t *place = &next[at][(uint8_t)bytes[i]];
        if (!*place) {
            if (n_states == MAX_STATES) return 0;
            *place = (uint16_t)n_states++;
        }
        at = *place;
    }
    banned[at] = 1;
    return size != 0;
}

/* Fills the places that no text has: with where the next shorter end of the text so far leads. */
static void link_states(void) {
    uint16_t *queue = sandseal_need(MAX_STATES * sizeof *queue);
    uint32_t first = 0, last = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        if (next[0][byte]) queue[last++] = next[0][byte];
    }
    for (; first < last; first++) {
        uint32_t from = queue[first], shorter = back[from];
        banned[from] |= banned[shorter];
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint16_t to = next[from][byte];
            if (to) back[to] = next[shorter][byte], queue[last++] = to;
            else next[from][byte] = next[shorter][byte];
        }
    }
}

static const char *read_texts(uint32_t address, uint32_t size) {
    struct sandseal_json json = sandseal_json(address, size), list, text;
    for (struct sandseal_items items = sandseal_items(json); sandseal_item(&items, &text);) {
        if (!sandseal_json_is(items.key, "banned_strings"))
            return "this model's plugin knows no constraint but banned_strings";
    }
    if (!sandseal_json_member(json, "banned_strings", &list)) return NULL;
    if (sandseal_json_kind(list) != '[') return "banned_strings must be a list of texts";
    for (struct sandseal_items items = sandseal_items(list); sandseal_item(&items, &text);) {
        if (sandseal_json_kind(text) != '"') return "banned_strings must be a list of texts";
        if (!add(text)) return "banned_strings has an empty text, or more than 8,191 bytes";
    }
    return NULL;
}

/* What is kept in a stream's first call is all zeros. */
static const char *start(const struct sandseal_call *call) {
    next = sandseal_keep(MAX_STATES * sizeof *next);
    back = sandseal_keep(MAX_STATES * sizeof *back);
    banned = sandseal_keep(MAX_STATES);
    n_states = 1;
    const char *wrong = read_texts(call->config, call->config_len);
    if (!wrong) wrong = read_texts(call->params, call->params_len);
    if (wrong || n_states == 1) return wrong;
    link_states();
    sandseal_masks_start(&masks, 0);
    return NULL;
}

SANDSEAL_STAGE(ban) {
    if (sandseal_is_first(call)) {
        const char *wrong = start(call);
        if (wrong) return sandseal_refuse(call, wrong);
    }
    if (n_states == 1) return sandseal_pass(call);
    state = sandseal_follow(&masks, step, NULL, state, call);
    if (state == SANDSEAL_DEAD) state = 0; /* chosen all the same: the next one counts again */
    return sandseal_mask(call, &masks, sandseal_allowed(&masks, step, NULL, state), 1);
}
