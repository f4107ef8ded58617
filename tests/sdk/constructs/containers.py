"""Lists, tuples, dicts and sets"""

PRIMES = [2, 3, 5, 7, 11]
NAMES = {1: "one", 2: "two", -4: "minus four"}
WEIGHTS = {"Hello": 1.5, "a": 2.5}
STOP = {"the", "a"}
PAIRS = [(1, "x", 0.5), (2, "y", 1.5)]
NESTED = {"a": [1, 2], "b": [3]}
UMLAUT = "ü"


def lists(i, j):
    """`[a, b]`, `append`, `extend`, `+`, `len`, `x[i]`, `x[-1]`, `x[i] = y`"""
    x = [i, j]
    x.append(3)
    x.extend([4, 5])
    x[1] = x[0] * 2
    x = x + [x[-1]]
    return x + [len(x), x[-2]]


def lists_changed(i):
    """`insert`, `pop`, `remove`, `index`, `count`, `reverse`, `sort`"""
    x = [3, i, 1, 3]
    x.insert(1, 7)
    last = x.pop()
    x.remove(1)
    x.sort()
    x.reverse()
    return x + [last, x.index(7), x.count(3)]


def slices_of_lists(words):
    """`x[a:b]`, `x[::-1]`, `x[-2:]`"""
    return words[1:] + words[::-1] + words[-2:] + words[:100]


def comprehensions(i, words):
    """`[f(x) for x in y if c]`, nested and over `enumerate`, `zip`, `range`"""
    lengths = [len(word) for word in words if word != "a"]
    products = [a * b for a in range(3) for b in range(a)]
    return (
        lengths
        + products
        + [n * len(word) for n, word in enumerate(words)]
        + [a - b for a, b in zip(range(9, 5, -1), products)]
    )


def reductions(i, words):
    """`sum`, `min`, `max`, `any`, `all` of a list or generator"""
    x = [len(word) for word in words]
    return [sum(x), min(x), max(x), int(any([n > 3 for n in x])), int(all(n > 0 for n in x)), sum(n * n for n in x)]


def sorting(words, i):
    """`sorted(x)`, `sorted(x, reverse=True)`, `sorted(x, key=f)`, `reversed`"""
    x = [5, i, -3, 2]
    return sorted(x) + sorted(x, reverse=True) + sorted(x, key=abs) + [n for n in reversed(x)]


def tuples(i, f):
    """`(a, b)`, unpacking, swapping, `t[0]`, several values returned from a function"""
    pair = i, f
    a, b = pair
    c, d = 1, 2
    c, d = d, c
    return [a + b, pair[0] * 1.0, float(c), float(d)]


def dicts(words, i):
    """`{k: v}`, `d[k]`, `d[k] = v`, `k in d`, `d.get(k, default)`, `len`"""
    d = {"a": 1, "b": i}
    d["c"] = 3
    d["a"] += 10
    for word in words:
        d[word] = d.get(word, 0) + 1
    return [d["a"], d["b"], d.get("zz", -1), int("c" in d), int("zz" in d), len(d)]


def loops_over_dicts(words):
    """`for k in sorted(d)`, `d.items()`, `d.keys()`, `d.values()`: sort them, for the order differs"""
    d = {}
    for n, word in enumerate(words):
        d[word] = n
    out = [k + str(d[k]) for k in sorted(d)]
    for k, v in sorted(d.items()):
        out.append(str(v) + k)
    return out + [str(sum(d.values()))]


def dict_comprehensions(words):
    """`{k: v for ...}`, `dict(pairs)`, `d.pop(k)`, `d.setdefault`"""
    d = {word: len(word) for word in words}
    e = dict([(1, 2), (3, 4)])
    e.setdefault(5, 6)
    return [d[words[0]], e.pop(1), len(e), e[5]]


def sets(words, i):
    """`{a, b}`, `set(x)`, `add`, `in`, `| & -`, `len`, `sorted(s)`"""
    s = set(words)
    s.add("zz")
    small = {"a", "zz"}
    return sorted(s | small) + sorted(s & small) + sorted(s - small) + [str(len(s))]


def tables(i, words):
    """tables at the top level of the module: `TABLE[k]`, `k in TABLE`, `TABLE.get(k, d)`, loops"""
    found = NAMES[i] if i in NAMES else "?"
    total = 0.0
    for a, _, c in PAIRS:
        total += a * c
    for p in PRIMES:
        total += p
    weight = WEIGHTS.get(words[0], 0.0) + len(NESTED["a"]) + PRIMES[-1]
    return [found, str(total + weight), str(words[0] in STOP), PAIRS[1][1], UMLAUT]


def lists_of_lists(i):
    """lists of lists, `x[i][j]`, `len(x[i])`"""
    rows = [[i, 1], [2, 3, 4]]
    rows[0][1] = 9
    rows.append([5])
    return [rows[0][0], rows[0][1], rows[1][-1], len(rows), len(rows[1]), sum([sum(row) for row in rows])]


def maps_and_filters(words, i):
    """`map`, `filter`, `lambda`, which may use variables around it"""
    return [n for n in map(lambda word: len(word) + i, words)] + [n for n in filter(lambda n: n > 1, [1, 2, 3])]


def typed_empty_lists(words):
    """`x = []` that is filled later"""
    long = []
    short = []
    for word in words:
        if len(word) > 3:
            long.append(word)
        else:
            short.append(word)
    return long + short
