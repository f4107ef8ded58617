"""Control flow and functions"""

import itertools

LIMIT = 5


def helper(a, b=10):
    return a * b


def pair(n):
    return n, float(n) / 2


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def loops(i, words):
    """`for`, `while`, `break`, `continue`, `else` of a loop"""
    total = 0
    for n in range(10):
        if n == LIMIT:
            break
        if n % 2:
            continue
        total += n
    while total < 20:
        total += 7
    for word in words:
        if word == "nowhere":
            total = -1
            break
    else:
        total += 100
    return total


def ranges(i):
    """`range(n)`, `range(a, b)`, `range(a, b, step)`, backwards too"""
    return (
        [n for n in range(3)]
        + [n for n in range(-2, 2)]
        + [n for n in range(9, 0, -4)]
        + [n for n in range(i)]
        + [n for n in range(i, 0)]
    )


def branches(i):
    """`if`, `elif`, `else`, `pass`"""
    if i > 100:
        out = 1
    elif i > 0:
        out = 2
    else:
        out = 3
        pass
    return out


def pairs(words):
    """`enumerate(x)`, `enumerate(x, 1)`, `zip(x, y)`"""
    total = 0
    for n, word in enumerate(words, 1):
        total += n * len(word)
    for a, b in zip(words, words[1:]):
        total += len(a) - len(b)
    return total


def functions(i, j):
    """functions of the module: default values, names of arguments, several results"""
    a, b = pair(i)
    return helper(i) + helper(j, b=3) + helper(b=2, a=i) + a + int(b)


def recursion(j):
    """recursion"""
    return factorial(abs(j) % 10)


def inner_functions(i):
    """a function in a function, which may use the variables around it"""

    def scaled(n):
        return n * i

    return scaled(3) + scaled(4)


def augmented(i, f):
    """`+= -= *= /= //= %= <<= &=`"""
    n = -abs(i)
    n += 5
    n *= 3
    n -= 1
    n //= 2
    n %= 1000
    n <<= 2
    n &= 0xFFFF
    x = f
    x /= 4
    return n + int(x * 0)


def annotated(i: int) -> int:
    """annotations of variables and functions; they are not needed"""
    total: int = 0
    total += i
    return total


def generators(i):
    """functions with `yield`, generator expressions"""

    def squares(n):
        for k in range(n):
            yield k * k

    return [s for s in squares(5)] + [sum(n for n in range(4))]


def products(i):
    """`itertools`: `product`, `islice`, `count`"""
    out = [a * b for a, b in itertools.product([1, 2], [3, 4])]
    return out + [n for n in itertools.islice(itertools.count(i), 3)]


def early_returns(i):
    """several `return`"""
    for n in range(100):
        if n * n > abs(i):
            return n
    return -1


def asserted(i):
    """`assert`: a false one is the plugin's own fault"""
    assert i < 1 << 50, "too large"
    return i


def nothing(i):
    """`None`, `is None`"""
    best = None
    for n in range(3):
        if best is None or n > best:
            best = n
    return 0 if best is None else best
