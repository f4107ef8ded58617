"""The dashboard: it tells nothing by itself, loads nothing from elsewhere, and reads metrics as Prometheus would."""

import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from api.web import Web
from sandseal_host.api import dashboard

NODE = shutil.which("node")


@pytest.fixture
def stranger(host):
    with Web(host.app) as stranger:
        yield stranger


def test_the_page_and_its_parts_need_no_token_and_run_nothing_from_elsewhere(stranger):
    page = stranger.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert parts == ["dashboard/dashboard.css", "dashboard/dashboard.js"]
    for path in (*parts, "dashboard/metrics.js"):
        part = stranger.get(f"/{path}")
        assert part.status_code == 200
        policy = part.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert part.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script>|<style>| on\w+=| style=", page.text)


def test_publishers_texts_never_become_markup():
    script = files(dashboard).joinpath("dashboard.js").read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


@pytest.mark.parametrize("name", ["__init__.py", "nothing.js", "..%2Fapp.py", ""])
def test_nothing_else_is_served(stranger, name):
    assert stranger.get(f"/dashboard/{name}").status_code == 404


def test_what_it_shows_needs_one(stranger):
    for path in ("/v1/bundles", "/v1/trust", "/v1/revocations", "/v1/log/checkpoint", "/metrics"):
        assert stranger.get(path).status_code == 401


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_metrics_are_read_as_they_are_written(host, tmp_path):
    meter = host.metrics.requests.meter('a"b', 1, {"standard": 2.0})
    for status, seconds in ((200, 0.002), (200, 0.004), (503, 0.0005), (200, 20.0)):
        meter.count(status, "standard", "t", seconds)
    (tmp_path / "metrics.mjs").write_bytes(files(dashboard).joinpath("metrics.js").read_bytes())
    (tmp_path / "metrics.txt").write_bytes(host.metrics.render())
    (tmp_path / "read.mjs").write_text(
        """import { levels, quantile, requests, since } from "./metrics.mjs";
import { readFileSync } from "node:fs";
const text = readFileSync("metrics.txt", "utf8");
const now = [...requests(text).values()][0];
const nothing = since(now, now);
console.log(JSON.stringify([
  now.answered, now.failed, quantile(now.buckets, 0.5), quantile(now.buckets, 0.99),
  nothing.answered, quantile(nothing.buckets, 0.5), levels(text),
]));
"""
    )
    done = subprocess.run([NODE, "read.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    level = {"tenant": "t", "class": "standard", "requests": 4, "met": 2}
    assert json.loads(done.stdout) == [4, 1, 0.0025, 30, 0, None, [level]]
