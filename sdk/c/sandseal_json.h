/* sandseal_json.h: reading JSON where it lies, for plugins whose parameters or config are more than numbers.
 *
 *     struct sandseal_json value = sandseal_json(call->params, call->params_len), list, word;
 *     if (sandseal_json_member(value, "words", &list))
 *         for (struct sandseal_items items = sandseal_items(list); sandseal_item(&items, &word);) ...
 *
 * The host hands out valid JSON; what is none ends a walk early, and is never read beyond its end.
 */
#ifndef SANDSEAL_JSON_H
#define SANDSEAL_JSON_H

#include "sandseal.h"

/* A value: its text begins at `at` and ends before `end`. */
struct sandseal_json {
    const char *at, *end;
};

/* Walks the items of an array, or the members of an object. */
struct sandseal_items {
    struct sandseal_json rest;
    struct sandseal_json key; /* of the last member, with its quotes */
    int keyed;
};

static inline struct sandseal_json sandseal_json_trim(struct sandseal_json text) {
    while (text.at < text.end && (*text.at == ' ' || (*text.at >= '\t' && *text.at <= '\r'))) text.at++;
    return text;
}

/* From an address and a size, as the call has them. */
static inline struct sandseal_json sandseal_json(uint32_t address, uint32_t size) {
    const char *at = (const char *)(uintptr_t)address;
    return sandseal_json_trim((struct sandseal_json){at, at + size});
}

/* The first character, which says what it is: { [ " t f n, or a digit or minus; 0 of nothing. */
static inline char sandseal_json_kind(struct sandseal_json value) { return value.at < value.end ? *value.at : 0; }

/* The first value of a text that goes on behind it. */
static inline struct sandseal_json sandseal_json_first(struct sandseal_json text) {
    const char *at = text.at;
    uint32_t depth = 0;
    for (; at < text.end; at++) {
        if (*at == '"') {
            for (at++; at < text.end && *at != '"'; at++) at += *at == '\\';
            if (!depth) {
                at += at < text.end;
                break;
            }
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (!depth) break;
            if (!--depth) {
                at++;
                break;
            }
        } else if (!depth && (*at == ',' || *at == ':' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
            break;
        }
    }
    return (struct sandseal_json){text.at, at < text.end ? at : text.end};
}

static inline struct sandseal_items sandseal_items(struct sandseal_json value) {
    char kind = sandseal_json_kind(value);
    struct sandseal_items items = {{value.end, value.end}, {NULL, NULL}, kind == '{'};
    if (kind == '{' || kind == '[') items.rest = sandseal_json_trim((struct sandseal_json){value.at + 1, value.end});
    return items;
}

/* The next item, or the next member's value, whose name is then items->key; 0 at the end. */
static inline int sandseal_item(struct sandseal_items *items, struct sandseal_json *value) {
    for (int part = !items->keyed; part < 2; part++) {
        struct sandseal_json found = sandseal_json_first(items->rest);
        if (found.at == found.end) return 0;
        *(part ? value : &items->key) = found;
        items->rest = sandseal_json_trim((struct sandseal_json){found.end, items->rest.end});
        if (items->rest.at < items->rest.end && (*items->rest.at == ',' || *items->rest.at == ':')) items->rest.at++;
        items->rest = sandseal_json_trim(items->rest);
    }
    return 1;
}

/* Whether a string's text, without escapes, is `name`. */
static inline int sandseal_json_is(struct sandseal_json text, const char *name) {
    const char *at = text.at + 1;
    if (sandseal_json_kind(text) != '"') return 0;
    for (; *name && at < text.end && *at == *name; at++) name++;
    return !*name && at == text.end - 1;
}

/* The member of an object that has this name; 0 where there is none. */
static inline int sandseal_json_member(struct sandseal_json object, const char *name, struct sandseal_json *value) {
    if (sandseal_json_kind(object) != '{') return 0;
    for (struct sandseal_items items = sandseal_items(object); sandseal_item(&items, value);) {
        if (sandseal_json_is(items.key, name)) return 1;
    }
    return 0;
}

static inline uint32_t sandseal_json_hex(const char *at) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t digit = (uint32_t)(at[i] <= '9' ? at[i] - '0' : (at[i] | 32) - 'a' + 10);
        value = value << 4 | (digit & 15);
    }
    return value;
}

/* A string as UTF-8, without quotes and escapes; `to` needs room for its whole text. Gives its size. */
static inline uint32_t sandseal_json_text(struct sandseal_json text, char *to) {
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    char *first = to;
    for (const char *at = text.at + 1, *end = text.end - 1; at < end; at++) {
        if (*at != '\\' || at + 1 >= end) {
            *to++ = *at;
            continue;
        }
        at++;
        if (*at == 'u' && at + 4 < text.end) {
            uint32_t code = sandseal_json_hex(at + 1);
            at += 4;
            if (code >> 10 == 0x36 && at + 6 < text.end && at[1] == '\\' && at[2] == 'u') {
                code = 0x10000 + ((code & 0x3FF) << 10) + (sandseal_json_hex(at + 3) & 0x3FF);
                at += 6;
            }
            int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            static const uint8_t heads[] = {0, 0xC0, 0xE0, 0xF0};
            *to++ = (char)(heads[more] | code >> 6 * more);
            while (more--) *to++ = (char)(0x80 | (code >> 6 * more & 0x3F));
            continue;
        }
        char plain = *at;
        for (int i = 0; escapes[i]; i += 2) plain = *at == escapes[i] ? escapes[i + 1] : plain;
        *to++ = plain;
    }
    return (uint32_t)(to - first);
}

#endif
