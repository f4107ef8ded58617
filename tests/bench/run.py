"""Run a suite: `python tests/bench/run.py --suite first-light [--json] [--only TEXT]`."""

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, whose suites are called as rooms are
sys.path.append(str(Path(__file__).resolve().parents[2] / "sdk" / "examples"))

SUITES = ("first-light", "trust", "sandbox", "core", "protocol", "beyond", "generation")


def main() -> int:
    """Print every figure of the suite; 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default=SUITES[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    parser.add_argument("--only", default="", help="run only the measures whose name contains this text")
    options = parser.parse_args()
    suite = importlib.import_module(f"bench.{options.suite.replace('-', '_')}")
    figures = []
    for measure in suite.MEASURES:
        if options.only not in measure.name:
            continue
        print(f"measuring {measure.name} ...", file=sys.stderr, flush=True)
        for figure in measure.run():
            figures.append(figure)
            if not options.json:
                print(figure.line(), flush=True)
    if options.json:
        print(json.dumps([figure.record() for figure in figures], indent=2))
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
