/* sandseal_logits.h: for plugins that decide which tokens a language model may choose next (stage "logits").
 *
 * They see text as bytes that an automaton takes one after the other: write `step`, which gives the state after a byte,
 * and sandseal_mask does the rest. What it costs to go through a vocabulary is paid once for each state.
 *
 *     static uint32_t step(void *automaton, uint32_t state, uint8_t byte) { ... return SANDSEAL_DEAD; }
 *
 *     static struct sandseal_masks masks;
 *     static uint32_t state;
 *     SANDSEAL_STAGE(stage) {
 *         if (sandseal_is_first(call)) sandseal_masks_start(&masks, 0);
 *         state = sandseal_follow(&masks, step, NULL, state, call);
 *         return sandseal_mask(call, &masks, sandseal_allowed(&masks, step, NULL, state), 1);
 *     }
 */
#ifndef SANDSEAL_LOGITS_H
#define SANDSEAL_LOGITS_H

#include "sandseal.h"

#define SANDSEAL_DEAD UINT32_MAX /* the state from which no byte leads anywhere */

/* ---- The model's tokens -------------------------------------------------------------------------------------- */

struct sandseal_vocabulary {
    uint32_t count, n_stops;
    const uint32_t *stops; /* ids that end an answer */
    const uint32_t *at;    /* where each token's bytes begin; those of the next one begin where they end */
    const uint8_t *bytes;
};

/* Reads the asset "vocabulary", which needs "asset" among the imports; all zeros where a host does not give it. */
static inline struct sandseal_vocabulary sandseal_read_vocabulary(void) {
    struct sandseal_vocabulary found = {0, 0, NULL, NULL, NULL};
    int64_t size = sandseal_import_asset("vocabulary", 10, NULL, 0);
    if (size < 4) return found;
    uint8_t *data = (uint8_t *)sandseal_keep((uint64_t)size), *end = data + size;
    sandseal_import_asset("vocabulary", 10, data, (uint32_t)size);
    __builtin_memcpy(&found.n_stops, data, 4);
    found.stops = (const uint32_t *)(const void *)(data + 4);
    uint8_t *first = data + 4 + 4 * found.n_stops;
    uint32_t length;
    for (const uint8_t *at = first; at < end; at += 4 + length, found.count++) __builtin_memcpy(&length, at, 4);
    uint32_t *places = (uint32_t *)sandseal_keep(4 * ((uint64_t)found.count + 1));
    uint8_t *to = first; /* the bytes move together, over the lengths */
    const uint8_t *from = first;
    for (uint32_t id = 0; id < found.count; id++) {
        __builtin_memcpy(&length, from, 4);
        places[id] = (uint32_t)(to - first);
        __builtin_memmove(to, from + 4, length);
        from += 4 + length, to += length;
    }
    places[found.count] = (uint32_t)(to - first);
    found.at = places, found.bytes = first;
    return found;
}

/* ---- Automata over bytes ---------------------------------------------------------------------------------------- */

/* The state after `byte`, or SANDSEAL_DEAD. */
typedef uint32_t sandseal_step(void *automaton, uint32_t state, uint8_t byte);

#define SANDSEAL_MASKS 128 /* states whose masks are remembered */
#define SANDSEAL_INLINE static inline __attribute__((always_inline))

struct sandseal_masks {
    struct sandseal_vocabulary vocabulary;
    int only_text;                   /* tokens that are no text are masked too */
    uint32_t words;                  /* of 32 bits in a mask */
    uint32_t states[SANDSEAL_MASKS]; /* whose mask it is, plus 1; 0 for none */
    uint32_t *bits;
};

/* In a stream's first call. */
static inline void sandseal_masks_start(struct sandseal_masks *masks, int only_text) {
    masks->only_text = only_text;
    masks->vocabulary = sandseal_read_vocabulary();
    masks->words = (masks->vocabulary.count + 31) / 32;
    masks->bits = (uint32_t *)sandseal_keep(4 * (uint64_t)masks->words * SANDSEAL_MASKS);
}

/* When states get other meanings. */
static inline void sandseal_masks_forget(struct sandseal_masks *masks) {
    __builtin_memset(masks->states, 0, sizeof masks->states);
}

/* The state after a token's bytes; the same after one that is no text. */
SANDSEAL_INLINE uint32_t sandseal_after(const struct sandseal_vocabulary *vocabulary, sandseal_step *step,
                                        void *automaton, uint32_t state, uint32_t id) {
    const uint8_t *at = vocabulary->bytes + vocabulary->at[id], *end = vocabulary->bytes + vocabulary->at[id + 1];
    for (; at < end && state != SANDSEAL_DEAD; at++) state = step(automaton, state, *at);
    return state;
}

/* Which tokens lead on from a state, as bits. */
SANDSEAL_INLINE const uint32_t *sandseal_allowed(struct sandseal_masks *masks, sandseal_step *step, void *automaton,
                                                 uint32_t state) {
    uint32_t place = state % SANDSEAL_MASKS, *bits = masks->bits + (uint64_t)place * masks->words;
    if (masks->states[place] == state + 1) return bits;
    for (uint32_t word = 0; word < masks->words; word++) {
        uint32_t left = masks->vocabulary.count - 32 * word, found = 0;
        for (uint32_t bit = 0; bit < 32 && bit < left; bit++) {
            uint32_t id = 32 * word + bit;
            int text = masks->vocabulary.at[id + 1] > masks->vocabulary.at[id];
            uint32_t after = sandseal_after(&masks->vocabulary, step, automaton, state, id);
            found |= (uint32_t)(text ? after != SANDSEAL_DEAD : !masks->only_text) << bit;
        }
        bits[word] = found;
    }
    masks->states[place] = state + 1;
    return bits;
}

/* Follows the answer's new tokens, the first input; SANDSEAL_DEAD where one of them was not allowed. */
SANDSEAL_INLINE uint32_t sandseal_follow(const struct sandseal_masks *masks, sandseal_step *step, void *automaton,
                                         uint32_t state, const struct sandseal_call *call) {
    const struct sandseal_tensor *ids = sandseal_input(call, 0);
    const int64_t *id = (const int64_t *)sandseal_data(ids);
    for (int64_t i = 0; i < ids->shape[0] && state != SANDSEAL_DEAD; i++) {
        int known = id[i] >= 0 && id[i] < masks->vocabulary.count;
        if (known) state = sandseal_after(&masks->vocabulary, step, automaton, state, (uint32_t)id[i]);
    }
    return state;
}

/* The logits, the second input, as the output, unchanged. */
static inline int32_t sandseal_pass(struct sandseal_call *call) {
    const struct sandseal_tensor *logits = sandseal_input(call, 1);
    sandseal_give(sandseal_output(call, 0), logits->shape, sandseal_data(logits), logits->byte_len);
    return SANDSEAL_DONE;
}

/* The logits with -infinity for every token whose bit is 0; those that end the answer stay where `ends` says so. */
static inline int32_t sandseal_mask(struct sandseal_call *call, const struct sandseal_masks *masks,
                                    const uint32_t *bits, int ends) {
    const struct sandseal_vocabulary *vocabulary = &masks->vocabulary;
    const struct sandseal_tensor *tensor = sandseal_input(call, 1);
    float *logits = (float *)sandseal_data(tensor), kept;
    uint32_t size = (uint32_t)tensor->shape[0], known = vocabulary->count < size ? vocabulary->count : size;
    float *saved = (float *)sandseal_need(4 * (uint64_t)vocabulary->n_stops);
    for (uint32_t i = 0; i < vocabulary->n_stops; i++) {
        saved[i] = vocabulary->stops[i] < size ? logits[vocabulary->stops[i]] : 0;
    }
    SANDSEAL_UNROLL
    for (uint32_t id = 0; id < known; id++) {
        kept = logits[id];
        logits[id] = bits[id / 32] >> id % 32 & 1 ? kept : -__builtin_inff();
    }
    for (uint32_t id = known; masks->only_text && id < size; id++) logits[id] = -__builtin_inff();
    for (uint32_t i = 0; ends && i < vocabulary->n_stops; i++) {
        if (vocabulary->stops[i] < size) logits[vocabulary->stops[i]] = saved[i];
    }
    return sandseal_pass(call);
}

#endif
