/* Answers that are JSON by a schema: no token may lead where the schema has no way on. */
#include <sandseal_json.h>
#include <sandseal_logits.h>

#include "grammar.h"

#define MAX_STATES 1024
#define MAX_MEMBERS (1 << 20) /* nodes in all states together */
#define UNKNOWN 0xFFFF
#define NOWHERE 0xFFFE

/* A state of the deterministic automaton: the nodes at which the answer may be, in ascending order. */
struct state {
    uint32_t first, size; /* among `held` */
    int ends;             /* the answer may end here */
    uint16_t next[256];
};

static struct state *states;
static at *held;
static uint32_t n_states, n_held;
static uint32_t *marks, mark; /* of each node, whether it is in the set that is being made */
static at *found;             /* that set */
static uint32_t n_found;
static int may_end;

static struct sandseal_masks masks;
static uint32_t state;
static int constrains;

static void insert(at node) {
    uint32_t place = n_found++;
    for (; place && found[place - 1] > node; place--) found[place] = found[place - 1];
    found[place] = node;
}

/* Adds a node, or those to which it leads without a byte; long lists of choices hang on `then`, and take no stack. */
static void reach(at node) {
    for (; marks[node] != mark; node = nodes[node].then) {
        marks[node] = mark;
        if (node == DONE) {
            may_end = 1;
            return;
        }
        if (nodes[node].low <= nodes[node].high) {
            insert(node);
            return;
        }
        reach(nodes[node].other);
    }
}

static void begin_set(void) { mark++, n_found = 0, may_end = 0; }

/* The state that has the set's nodes; NOWHERE where it is empty, or there is no room for one more. */
static uint32_t state_of_set(void) {
    uint32_t size = n_found * sizeof *found;
    if (!n_found && !may_end) return NOWHERE;
    for (uint32_t i = 0; i < n_states; i++) {
        struct state *its = &states[i];
        if (its->size == n_found && its->ends == may_end && !__builtin_memcmp(held + its->first, found, size)) return i;
    }
    if (n_states == MAX_STATES || n_held + n_found > MAX_MEMBERS) return NOWHERE;
    struct state *its = &states[n_states];
    its->first = n_held, its->size = n_found, its->ends = may_end;
    __builtin_memcpy(held + n_held, found, size);
    __builtin_memset(its->next, 0xFF, sizeof its->next);
    n_held += n_found;
    return n_states++;
}

static uint32_t find_next(uint32_t from, uint8_t byte) {
    begin_set();
    for (uint32_t i = 0; i < states[from].size; i++) {
        struct node node = nodes[held[states[from].first + i]];
        if (node.low <= byte && byte <= node.high) reach(node.then);
    }
    return states[from].next[byte] = (uint16_t)state_of_set();
}

static uint32_t step(void *unused, uint32_t from, uint8_t byte) {
    (void)unused;
    uint32_t to = states[from].next[byte];
    if (to == UNKNOWN) to = find_next(from, byte);
    return to == NOWHERE ? SANDSEAL_DEAD : to;
}

/* Forgets all states but the present one. */
static void make_room(void) {
    begin_set();
    for (uint32_t i = 0; i < states[state].size; i++) reach(held[states[state].first + i]);
    may_end = states[state].ends;
    n_states = n_held = 0;
    state = state_of_set();
    sandseal_masks_forget(&masks);
}

static const char *start(const struct sandseal_call *call) {
    struct sandseal_json params = sandseal_json(call->params, call->params_len), schema;
    for (struct sandseal_items items = sandseal_items(params); sandseal_item(&items, &schema);) {
        if (!sandseal_json_is(items.key, "json_schema") && !sandseal_json_is(items.key, "within"))
            return "this model's plugin knows no constraint but json_schema";
    }
    struct sandseal_json within;
    if (!sandseal_json_member(params, "within", &within)) within.at = within.end;
    constrains = sandseal_json_member(params, "json_schema", &schema);
    if (!constrains) return NULL;
    at first = grammar(schema, within);
    if (wrong) return wrong;
    states = sandseal_keep(MAX_STATES * sizeof *states);
    held = sandseal_keep(MAX_MEMBERS * sizeof *held);
    marks = sandseal_keep(MAX_NODES * sizeof *marks);
    found = sandseal_keep(MAX_NODES * sizeof *found);
    sandseal_masks_start(&masks, 1);
    begin_set();
    reach(first);
    state = state_of_set();
    return NULL;
}

SANDSEAL_STAGE(constrain) {
    if (sandseal_is_first(call)) {
        const char *why = start(call);
        if (why) return sandseal_refuse(call, why);
    }
    if (!constrains) return sandseal_pass(call);
    state = sandseal_follow(&masks, step, NULL, state, call);
    if (state == SANDSEAL_DEAD) return sandseal_refuse(call, "a token was chosen that the schema does not allow");
    if (n_states > MAX_STATES / 2 || n_held > MAX_MEMBERS / 2) make_room();
    return sandseal_mask(call, &masks, sandseal_allowed(&masks, step, NULL, state), states[state].ends);
}
