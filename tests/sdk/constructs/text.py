"""Text"""

MARKS = ".,!?"
GREETINGS = ("a", "Hello")


def lengths(text, words):
    """`len`, `+`, `*`, `in`, `not in`, comparison"""
    joined = text + "|" + words[0]
    return [len(text), len(joined), len(words[0] * 3), int("a" in text), int("zz" not in text), int(text < joined)]


def characters(text):
    """`s[i]`, `s[-1]`, `s[a:b]`, `s[::-1]`, `s[::2]`"""
    return [text[0], text[-1], text[1:3], text[-2:], text[::-1], text[::2], text[100:], text[:-1]]


def loops_over_characters(text):
    """`for c in s`, `ord`, `chr`"""
    out = ""
    total = 0
    for c in text:
        total += ord(c)
        if c in MARKS:
            out += "_"
        else:
            out += c
    return out + chr(65 + total % 26)


def cases(text):
    """`lower`, `upper`, `capitalize`: of ASCII letters"""
    return [text.lower(), text.upper(), text.capitalize()]


def strips(text):
    """`strip`, `lstrip`, `rstrip`, with and without characters"""
    return [text.strip(), text.lstrip(), text.rstrip(), text.strip(" .,"), text.rstrip("!."), text.lstrip("a ")]


def splits(text):
    """`s.split()`: at white space"""
    return text.split()


def splits_at(text):
    """`s.split(",")`"""
    return text.split(",")


def splits_at_once(text):
    """`s.split(" ", 1)`"""
    return text.split(" ", 1)


def joins(words):
    """`sep.join(list)`"""
    return ", ".join(words) + "".join(words) + "-".join([word.upper() for word in words])


def searches(text):
    """`find`, `count`, `startswith`, `endswith`"""
    return [text.find("a"), text.find("zz"), text.count("a"), int(text.startswith("a")), int(text.endswith("."))]


def replaces(text):
    """`replace`"""
    return text.replace("a", "<a>").replace(" ", "")


def kinds(text, words):
    """`isalpha`, `isdigit`"""
    return [text.isalpha(), text.isdigit(), words[0].isalpha(), "12".isdigit(), words[-1].isdigit()]


def numbers_from_text(i, f):
    """`int(s)`, `float(s)`, `str(n)`, `str(x)`, `str(flag)`"""
    return [
        str(int(str(i)) + int(" -12 ")),
        str(float("1.5e3") + 0.25),
        str(i),
        str(f),
        str(i > 0),
        str(1e22),
        str(0.1),
    ]


def interpolation(text, i, f):
    """`f"{x}"`, `f"{n:d}"`, `f"{n:05d}"`, `f"{x:.3f}"`, `f"{x:8.2e}"`, `f"{x:g}"`, `f"{n:x}"`"""
    return [
        f"{text}: {i}, {f}",
        f"{i:d} {i:05d} {i:+d}",
        f"{f:.3f}|{f:8.2e}|{f:g}|{i:.1f}",
        f"{abs(i):x}",
        f"{{{i}}}",
        f"{i > 0}",
    ]


def equal_texts(text, words):
    """`==`, `!=`, `in` a list or tuple of texts"""
    return [
        text == words[0],
        text != words[0],
        words[0] in words,
        text in words,
        words[0] in ("a", "Hello"),
        text in GREETINGS,
    ]


def sorted_words(words):
    """`sorted(list)`, by bytes"""
    return sorted(words)


def kinds_of_words(text, words):
    """`isspace`, `isalnum`, `islower`, `isupper`"""
    return [" \t".isspace() and text[:1].isspace(), words[0].isalnum(), text.islower(), words[0].upper().isupper()]


def ends_removed(text):
    """`removeprefix`, `removesuffix`, `rfind`, `splitlines`"""
    lines = (text + "\nb\r\nc").splitlines()
    return lines + [text.removeprefix(" a"), text.removesuffix("."), str(text.rfind("o")), str(text.rfind("zz"))]


def texts_do_not_change(text, words):
    """texts never change: `b = a; b += "x"` leaves `a`, as `upper()` does"""
    other = text
    other += "!"
    first = words[0]
    first += words[-1]
    return [text, other, text.upper(), text, words[0], first]
