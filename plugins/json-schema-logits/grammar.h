/* A JSON schema as a nondeterministic automaton over bytes.
 *
 * Every function here gives the node at which a value of its kind begins, when what follows it begins at `then`
 * (Thompson, 1968, from the end to the start). A schema without recursion describes a regular language.
 */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <sandseal_json.h>

#define MAX_NODES 40000
#define MAX_DEPTH 24 /* of a schema, references followed */
#define MAX_MEMBERS_OF_ONE 256
#define MAX_MARK 64
#define ANY_DEPTH 5  /* of a value that the schema says nothing about */

/* A byte from low to high leads to `then`; or, where low is above high, `then` and `other` both begin here. */
struct node {
    uint16_t then, other;
    uint8_t low, high;
};

enum { DONE = 0 }; /* the node at which the answer is complete */

static struct node *nodes;
static uint32_t n_nodes;
static struct sandseal_json root; /* the schema, for references into it */
static const char *wrong;         /* why there is no grammar */

typedef uint16_t at; /* a node */

static at complain(const char *why) {
    if (!wrong) wrong = why;
    return DONE;
}

static at add(uint8_t low, uint8_t high, at then, at other) {
    if (n_nodes == MAX_NODES) return complain("the schema is too large");
    nodes[n_nodes] = (struct node){then, other, low, high};
    return (at)n_nodes++;
}

static at range(uint8_t low, uint8_t high, at then) { return add(low, high, then, 0); }
static at byte(char value, at then) { return range((uint8_t)value, (uint8_t)value, then); }
static at either(at one, at other) { return add(1, 0, one, other); }

static at text(const char *bytes, uint32_t size, at then) {
    while (size--) then = byte(bytes[size], then);
    return then;
}

static at word(const char *terminated, at then) {
    struct sandseal_text said = sandseal_say(terminated);
    return text(said.data, said.size, then);
}

/* One space or none, as models like to write it behind ':' and ','. */
static at space(at then) { return either(byte(' ', then), then); }

/* A loop is made before what it repeats: loop = repeat_start(); repeat(loop, what leads back to the loop, then). */
static at repeat_start(void) { return either(DONE, DONE); }
static at repeat(at loop, at one, at then) {
    nodes[loop].then = one, nodes[loop].other = then;
    return loop;
}

/* ---- Numbers and strings ------------------------------------------------------------------------------------- */

/* None to so many: a model that cannot stop must not be able to go on for ever. */
static at digits(int most, at then) {
    at found = then;
    while (most--) found = either(range('0', '9', found), then);
    return found;
}

static at some_digits(int most, at then) { return range('0', '9', digits(most - 1, then)); }

static at integer(at then) {
    at whole = either(byte('0', then), range('1', '9', digits(17, then)));
    return either(byte('-', whole), whole);
}

static at number(at then) {
    at power = some_digits(2, then), sign = either(either(byte('+', power), byte('-', power)), power);
    at exponent = either(either(byte('e', sign), byte('E', sign)), then);
    return integer(either(byte('.', some_digits(17, exponent)), exponent));
}

static at tail(int count, at then) { /* of a UTF-8 sequence */
    while (count--) then = range(0x80, 0xBF, then);
    return then;
}

static at hex(at then) { return either(range('0', '9', then), either(range('A', 'F', then), range('a', 'f', then))); }

/* Four hexadecimal digits behind a backslash and u: of a character by itself, and so of no surrogate. */
static at unicode(at then) {
    at two = hex(hex(then)), low = range('0', '7', two), any = hex(two);
    at found = either(range('D', 'D', low), range('d', 'd', low));
    found = either(either(range('E', 'F', any), range('e', 'f', any)), found);
    return either(either(range('0', '9', any), either(range('A', 'C', any), range('a', 'c', any))), found);
}

/* One character of a string: UTF-8 (Unicode 15, table 3-7), or an escape. */
static at character(at then) {
    at last = tail(1, then), two = tail(1, last);
    at escape = byte('u', unicode(then));
    for (const char *letter = "\"\\/bfnrt"; *letter; letter++) escape = either(byte(*letter, then), escape);
    at found = byte('\\', escape);
    found = either(range(0xF4, 0xF4, range(0x80, 0x8F, two)), found);
    found = either(range(0xF1, 0xF3, range(0x80, 0xBF, two)), found);
    found = either(range(0xF0, 0xF0, range(0x90, 0xBF, two)), found);
    found = either(range(0xEE, 0xEF, two), found);
    found = either(range(0xED, 0xED, range(0x80, 0x9F, last)), found);
    found = either(range(0xE1, 0xEC, two), found);
    found = either(range(0xE0, 0xE0, range(0xA0, 0xBF, last)), found);
    found = either(range(0xC2, 0xDF, last), found);
    found = either(range(0x5D, 0x7F, then), found);
    found = either(range(0x23, 0x5B, then), found);
    return either(range(0x20, 0x21, then), found);
}

/* A string of so many characters, or without an upper bound where that is negative. */
static at string(double least, double most, at then) {
    if (most >= 0 && most < least) return complain("a length in the schema is over its maximum");
    at end = byte('"', then);
    if (most < 0) {
        at loop = repeat_start();
        end = repeat(loop, character(loop), end);
    }
    at found = end;
    for (double i = most; i > least && !wrong; i--) found = either(character(found), end);
    for (double i = least; i > 0 && !wrong; i--) found = character(found);
    return byte('"', found);
}

/* ---- Lists and objects ---------------------------------------------------------------------------------------- */

static at value(struct sandseal_json schema, uint32_t depth, at then);
static at anything(uint32_t depth, at then);

/* A value by its schema, or any where that is empty. */
static at item(struct sandseal_json schema, uint32_t depth, at then) {
    return schema.at == schema.end ? anything(depth ? depth - 1 : 0, then) : value(schema, depth, then);
}

/* A list of so many items, or without an upper bound where that is negative; from its last item to its first. */
static at array(struct sandseal_json schema, double least, double most, uint32_t depth, at then) {
    if (most >= 0 && most < least) return complain("a length in the schema is over its maximum");
    at end = byte(']', then), one = end;
    double count = most;
    if (most < 0) {
        at loop = repeat_start();
        one = item(schema, depth, loop);
        repeat(loop, byte(',', space(one)), end);
        count = least > 1 ? least : 1;
    } else if (most > 0) {
        one = item(schema, depth, end);
    }
    for (double k = count - 1; k >= 1 && !wrong; k--) { /* `one` begins item k + 1 */
        at more = byte(',', space(one));
        one = item(schema, depth, k >= least ? either(more, end) : more);
    }
    return byte('[', least >= 1 ? one : either(one, end));
}

/* An object whose members may have any names. */
static at map(struct sandseal_json schema, uint32_t depth, at then) {
    at end = byte('}', then), loop = repeat_start();
    at member = string(0, -1, byte(':', space(item(schema, depth, loop))));
    repeat(loop, byte(',', space(member)), end);
    return byte('{', either(member, end));
}

static int is_same(struct sandseal_json one, struct sandseal_json other) {
    uint32_t size = (uint32_t)(one.end - one.at);
    return other.end - other.at == (int32_t)size && !__builtin_memcmp(one.at, other.at, size);
}

static int is_required(struct sandseal_json required, struct sandseal_json key) {
    struct sandseal_json name;
    for (struct sandseal_items names = sandseal_items(required); sandseal_item(&names, &name);) {
        if (is_same(name, key)) return 1;
    }
    return 0;
}

static void check_required(struct sandseal_json required, struct sandseal_json properties) {
    struct sandseal_json name, ignored;
    for (struct sandseal_items names = sandseal_items(required); sandseal_item(&names, &name);) {
        int found = 0;
        struct sandseal_items items = sandseal_items(properties);
        while (!found && sandseal_item(&items, &ignored)) found = is_same(items.key, name);
        if (!found) complain("the schema requires a property that it does not describe");
    }
}

struct member {
    struct sandseal_json key, schema;
};

/* An object with these members, in their order; from its last member to its first. */
static at record(struct sandseal_json properties, struct sandseal_json required, uint32_t depth, at then) {
    struct member *all = sandseal_need(MAX_MEMBERS_OF_ONE * sizeof *all), found;
    uint32_t count = 0;
    for (struct sandseal_items items = sandseal_items(properties); sandseal_item(&items, &found.schema);) {
        if (count == MAX_MEMBERS_OF_ONE) return complain("an object in the schema has too many properties");
        found.key = items.key;
        all[count++] = found;
    }
    at after = byte('}', then), fresh = after; /* what begins behind a member, and where none was written */
    while (count-- && !wrong) {
        at member = byte(':', space(value(all[count].schema, depth, after)));
        member = text(all[count].key.at, (uint32_t)(all[count].key.end - all[count].key.at), member);
        at more = byte(',', space(member));
        int must = is_required(required, all[count].key);
        after = must ? more : either(more, after);
        fresh = must ? member : either(member, fresh);
    }
    return byte('{', fresh);
}

static at object(struct sandseal_json schema, uint32_t depth, at then) {
    struct sandseal_json properties = {NULL, NULL}, required = {NULL, NULL}, others = {NULL, NULL};
    int described = sandseal_json_member(schema, "properties", &properties);
    if (sandseal_json_member(schema, "required", &required)) check_required(required, properties);
    if (described) return record(properties, required, depth, then);
    sandseal_json_member(schema, "additionalProperties", &others);
    if (sandseal_json_kind(others) == 'f') return word("{}", then);
    if (sandseal_json_kind(others) != '{') others.at = others.end;
    return map(others, depth, then);
}

/* ---- Schemas ---------------------------------------------------------------------------------------------------- */

static at anything(uint32_t depth, at then) {
    static const struct sandseal_json none;
    if (wrong) return DONE;
    if (depth > ANY_DEPTH) depth = ANY_DEPTH;
    at found = either(either(word("true", then), word("false", then)), word("null", then));
    found = either(either(number(then), string(0, -1, then)), found);
    if (!depth) return found;
    return either(either(map(none, depth, then), array(none, 0, -1, depth, then)), found);
}

/* A value as it stands in the schema, without the space between its parts. */
static at literal(struct sandseal_json given, at then) {
    int quoted = 0;
    for (const char *c = given.end; c > given.at;) {
        char said = *--c;
        const char *before = c;
        while (before > given.at && before[-1] == '\\') before--;
        if (said == '"' && (c - before) % 2 == 0) quoted = !quoted;
        if (!quoted && (said == ',' || said == ':')) then = space(then);
        if (quoted || !(said == ' ' || said == '\n' || said == '\r' || said == '\t')) then = byte(said, then);
    }
    return then;
}

static double bound(struct sandseal_json schema, const char *name, double otherwise) {
    struct sandseal_json found;
    if (!sandseal_json_member(schema, name, &found)) return otherwise;
    double given = sandseal_decimal(found.at, found.end);
    if (!(given >= 0 && given <= MAX_NODES)) complain("a length in the schema is negative or too large");
    return given;
}

static at typed(struct sandseal_json schema, struct sandseal_json type, uint32_t depth, at then) {
    struct sandseal_json items = {NULL, NULL};
    if (sandseal_json_is(type, "object")) return object(schema, depth, then);
    if (sandseal_json_is(type, "string"))
        return string(bound(schema, "minLength", 0), bound(schema, "maxLength", -1), then);
    if (sandseal_json_is(type, "integer")) return integer(then);
    if (sandseal_json_is(type, "number")) return number(then);
    if (sandseal_json_is(type, "boolean")) return either(word("true", then), word("false", then));
    if (sandseal_json_is(type, "null")) return word("null", then);
    if (!sandseal_json_is(type, "array")) return complain("a type in the schema is unknown");
    sandseal_json_member(schema, "items", &items);
    if (sandseal_json_kind(items) != '{') items.at = items.end;
    return array(items, bound(schema, "minItems", 0), bound(schema, "maxItems", -1), depth, then);
}

/* What "#/$defs/name" points to. */
static struct sandseal_json referred(struct sandseal_json reference) {
    struct sandseal_json found = root;
    const char *from = reference.at + 2, *end = reference.end - 1;
    if (sandseal_json_kind(reference) != '"' || from > end || from[-1] != '#')
        complain("a $ref does not begin with '#'");
    while (!wrong && from < end) {
        const char *name = ++from;
        while (from < end && *from != '/') from++;
        struct sandseal_json part;
        struct sandseal_items items = sandseal_items(found);
        int known = 0;
        while (!known && sandseal_item(&items, &part)) {
            uint32_t size = (uint32_t)(from - name);
            known = items.keyed && items.key.end - items.key.at - 2 == (int32_t)size &&
                    !__builtin_memcmp(items.key.at + 1, name, size);
        }
        if (!known) complain("a $ref leads nowhere");
        found = part;
    }
    return found;
}

/* What a member of a schema does. */
enum keyword { UNKNOWN_KEYWORD, SAYS_NOTHING, DESCRIBES, LISTS_VALUES, CHOOSES };

static enum keyword keyword_of(struct sandseal_json key) {
    static const struct {
        const char *name;
        enum keyword what;
    } all[] = {
        {"type", DESCRIBES}, {"properties", DESCRIBES}, {"required", DESCRIBES}, {"additionalProperties", DESCRIBES},
        {"items", DESCRIBES}, {"minItems", DESCRIBES}, {"maxItems", DESCRIBES}, {"minLength", DESCRIBES},
        {"maxLength", DESCRIBES}, {"enum", LISTS_VALUES}, {"const", LISTS_VALUES}, {"anyOf", CHOOSES},
        {"oneOf", CHOOSES}, {"$ref", CHOOSES}, {"$defs", SAYS_NOTHING}, {"definitions", SAYS_NOTHING},
        {"title", SAYS_NOTHING}, {"description", SAYS_NOTHING}, {"default", SAYS_NOTHING}, {"examples", SAYS_NOTHING},
        {"$schema", SAYS_NOTHING}, {"$id", SAYS_NOTHING}, {"$comment", SAYS_NOTHING}, {"deprecated", SAYS_NOTHING},
        {"readOnly", SAYS_NOTHING}, {"writeOnly", SAYS_NOTHING},
    };
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (sandseal_json_is(key, all[i].name)) return all[i].what;
    }
    return UNKNOWN_KEYWORD;
}

/* Sees that nothing in a schema would be passed over that says what its answers are. */
static void check_keywords(struct sandseal_json schema) {
    struct sandseal_json ignored;
    uint32_t count[CHOOSES + 1] = {0};
    for (struct sandseal_items items = sandseal_items(schema); sandseal_item(&items, &ignored);) {
        count[keyword_of(items.key)]++;
    }
    if (count[UNKNOWN_KEYWORD]) complain("the schema has a keyword that is not supported; see the README");
    if (count[LISTS_VALUES] + count[CHOOSES] > 1 || (count[CHOOSES] && count[DESCRIBES]))
        complain("the schema combines keywords in a way that is not supported; see the README");
}

static at one_of(struct sandseal_json list, int literals, uint32_t depth, at then) {
    struct sandseal_json given;
    at found = DONE;
    for (struct sandseal_items items = sandseal_items(list); !wrong && sandseal_item(&items, &given);) {
        at one = literals ? literal(given, then) : value(given, depth, then);
        found = found ? either(found, one) : one;
    }
    return found ? found : complain("a list of choices in the schema is empty");
}

static at typed_as_any(struct sandseal_json schema, struct sandseal_json types, uint32_t depth, at then) {
    struct sandseal_json type;
    at found = DONE;
    for (struct sandseal_items items = sandseal_items(types); !wrong && sandseal_item(&items, &type);) {
        at one = typed(schema, type, depth, then);
        found = found ? either(found, one) : one;
    }
    return found ? found : complain("a list of types in the schema is empty");
}

static at value(struct sandseal_json schema, uint32_t depth, at then) {
    struct sandseal_json found, ignored;
    if (!depth) return complain("the schema is nested too deeply, or refers to itself");
    if (sandseal_json_kind(schema) == 't') return anything(depth, then);
    if (sandseal_json_kind(schema) != '{') return complain("a schema must be an object, or true");
    check_keywords(schema);
    if (wrong) return DONE;
    depth--;
    if (sandseal_json_member(schema, "$ref", &found)) return value(referred(found), depth, then);
    if (sandseal_json_member(schema, "const", &found)) return literal(found, then);
    if (sandseal_json_member(schema, "enum", &found)) return one_of(found, 1, depth, then);
    if (sandseal_json_member(schema, "anyOf", &found)) return one_of(found, 0, depth, then);
    if (sandseal_json_member(schema, "oneOf", &found)) return one_of(found, 0, depth, then);
    if (!sandseal_json_member(schema, "type", &found)) {
        if (sandseal_json_member(schema, "properties", &ignored)) return object(schema, depth, then);
        return anything(depth, then);
    }
    if (sandseal_json_kind(found) == '[') return typed_as_any(schema, found, depth, then);
    return typed(schema, found, depth, then);
}

static at whole(struct sandseal_json schema, at then) {
    struct sandseal_items items = sandseal_items(schema);
    struct sandseal_json member;
    if (sandseal_json_kind(schema) == '{' && !sandseal_item(&items, &member)) {
        static const struct sandseal_json none; /* any object, as `json_object` means it */
        return map(none, ANY_DEPTH, then);
    }
    return value(schema, MAX_DEPTH, then);
}

/* ---- Values in text --------------------------------------------------------------------------------------------- */

struct mark {
    uint32_t size;
    char bytes[MAX_MARK];
};

/* How many of a mark's first bytes a text ends with that ended with `known` of them, and has one more byte. */
static uint32_t known_after(const struct mark *mark, uint32_t known, uint8_t byte) {
    while ((uint8_t)mark->bytes[known] != byte) {
        if (!known) return 0;
        uint32_t less = known - 1;
        while (less && __builtin_memcmp(mark->bytes, mark->bytes + known - less, less)) less--;
        known = less;
    }
    return known + 1;
}

static at line(at then) { return either(byte('\n', then), space(then)); }

/* Any text, which may end anywhere but between the marks: there nothing but a value may stand. */
static at text_with_values(struct sandseal_json schema, const struct mark *opening, const struct mark *closing) {
    at free[MAX_MARK]; /* by how much of the opening is there */
    for (uint32_t known = 0; known < opening->size; known++) free[known] = repeat_start();
    at first = line(whole(schema, line(text(closing->bytes, closing->size, free[0]))));
    for (uint32_t known = 0; known < opening->size; known++) {
        at found = DONE;
        for (uint32_t low = 0, high; low < 256; low = high + 1) {
            uint32_t to = known_after(opening, known, (uint8_t)low);
            for (high = low; high < 255 && known_after(opening, known, (uint8_t)(high + 1)) == to;) high++;
            found = either(range((uint8_t)low, (uint8_t)high, to == opening->size ? first : free[to]), found);
        }
        repeat(free[known], found, DONE);
    }
    return free[0];
}

static struct mark read_mark(struct sandseal_json given) {
    struct mark mark = {0, {0}};
    if (sandseal_json_kind(given) != '"' || given.end - given.at > MAX_MARK + 2)
        complain("a mark must be a string of a few bytes");
    else if (!(mark.size = sandseal_json_text(given, mark.bytes)))
        complain("a mark is empty");
    return mark;
}

/* The node at which an answer begins; `wrong` says why there is none. Without `within`, all of it is the value. */
static at grammar(struct sandseal_json schema, struct sandseal_json within) {
    nodes = sandseal_keep(MAX_NODES * sizeof *nodes);
    n_nodes = 1;
    root = schema;
    if (!sandseal_json_kind(within)) return whole(schema, DONE);
    struct sandseal_json opening, closing;
    struct sandseal_items items = sandseal_items(within);
    if (sandseal_json_kind(within) != '[' || !sandseal_item(&items, &opening) || !sandseal_item(&items, &closing))
        return complain("within must be two marks");
    struct mark before = read_mark(opening), after = read_mark(closing);
    return wrong ? DONE : text_with_values(schema, &before, &after);
}

#endif
