"""`regard report`: one page whose numbers are those of the files."""

import html.parser
import json
import re

import pytest

from conftest import FORWARD

LENGTHS = (256, 512, 2048)


def line(length, ms, torch_ms, **more):
    """As `regard bench` writes it."""
    return {
        "problem": f"fwd bf16 b={4096 // length} hq={8192 // length} hk={4096 // length} sq={length} sk={length} d=64",
        "machine": "A <CPU> & more",
        "regard_ms": ms,
        "gflops": ms and 1000 / ms,
        "peers": {"torch": torch_ms, "cudnn": None},
        "ceilings": {"openblas_gflops": 1250.0},
        "kernel": "cpu-avx2 cpu_forward block_q=64 block_k=96 | fwd bf16 d=64",
        "target": "cpu-avx2",
    } | more


LINES = [line(256, 2.0, 4.0), line(512, 1.6, 2.5), line(2048, 1.25, 1.0)]
CHECK = {"max_absolute": 0.5, "max_relative": 0.1, "ok": False, "tolerance": 0.25, "worst": "inf", "wrong": 3}
VERIFIED = "regard verify: fwd fp32 s=8 d=16 beside "


class Page(html.parser.HTMLParser):
    """The tables by their headings, and the charts' parts."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.charts, self.heading, self.cell, self.words = {}, [], "", None, ""
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        self.words = ""
        if tag == "tr":
            self.tables.setdefault(self.heading, []).append([])
        elif tag == "svg":
            self.charts.append({"heading": self.heading, "circle": [], "rect": [], "text": []})
        elif tag in ("circle", "rect"):
            self.charts[-1][tag].append(given)
        elif tag == "text":
            self.charts[-1]["text"].append([float(given["x"]), float(given["y"]), ""])

    def handle_data(self, data):
        self.words += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[self.heading][-1].append(self.words)
        elif tag == "h2":
            self.heading = self.words
        elif tag == "text":
            self.charts[-1]["text"][-1][2] = self.words


@pytest.fixture
def page(regard, tmp_path):
    def make(*files):
        shown = regard("report", *files, "--out page.html")
        assert shown.code == 0, shown.err
        return Page((tmp_path / "page.html").read_text())

    return make


def rows(page, heading):
    header, *rest = page.tables[heading]
    return [dict(zip(header, row, strict=True)) for row in rest]


def test_the_machine_and_its_kernels(page, regard_json):
    shown = page()
    about = regard_json("info")
    machine = dict(row for row in shown.tables["Machine"] if len(row) == 2)
    assert machine["CPU"] == about["machine"]["cpu"] and machine["Regard"] == about["version"]
    by_tier = sum(int(row["built-in"] or 0) for row in rows(shown, "Kernels by tier"))
    assert by_tier == about["built_in_kernels"] or by_tier == len(regard_json("list --tier=built-in"))
    assert not shown.links  # nothing from outside


def test_measurements_are_those_of_the_file(page, tmp_path):
    refused = line(4096, None, None, refused="no kernel")
    text = "".join(json.dumps(one) + "\n" for one in [*LINES, refused, {"other": 1}])
    (tmp_path / "bench.jsonl").write_text(text)
    shown = page("bench.jsonl")
    table = rows(shown, "Measurements")
    for row, one in zip(table, [*LINES, refused], strict=True):
        assert row["problem"] == one["problem"] and row["machine"] == one["machine"]
        if one is refused:
            assert row["ms"] == "refused: no kernel"
            continue
        assert float(row["ms"]) == pytest.approx(one["regard_ms"], rel=1e-3)
        assert float(row["GFLOP/s"]) == pytest.approx(one["gflops"], rel=1e-3)
        assert float(row["torch GFLOP/s"]) == pytest.approx(1000 / one["peers"]["torch"], rel=1e-3)
        assert float(row["% of openblas_gflops"]) == pytest.approx(one["gflops"] / 12.5, rel=1e-3)
    assert "cudnn GFLOP/s" not in table[0]
    (chart,) = shown.charts
    # A rate by its height between the labels of two lines, a length by that between the labels of two others.
    heights = {float(words): y - 4 for x, y, words in chart["text"] if x < 70 and re.fullmatch(r"[\d.]+", words)}
    (low, y0), (high, y1) = min(heights.items()), max(heights.items())
    drawn = sorted(low + (high - low) * (float(one["cy"]) - y0) / (y1 - y0) for one in chart["circle"])
    rates = sorted([one["gflops"] for one in LINES] + [1000 / one["peers"]["torch"] for one in LINES])
    assert drawn == pytest.approx(rates, abs=0.005 * high) and high >= rates[-1]
    places = {words: x for x, y, words in chart["text"]}
    assert {places[str(length)] for length in LENGTHS} == {round(float(one["cx"]), 1) for one in chart["circle"]}
    assert {"regard", "torch"} <= set(places) and "cudnn" not in places


def test_errors_reruns_and_counters(page, regard, regard_json, tmp_path):
    run = regard("run", FORWARD, "--repeat=0 --json", REGARD_SAVE_CALLS=f"{tmp_path / 'calls'}").out
    (tmp_path / "run.json").write_text(run)
    rerun = regard("rerun calls/call-0001 --target=cpu-generic --oracle --json").out
    (tmp_path / "rerun.json").write_text(rerun)
    (tmp_path / "log").write_text(
        "other words\n" + VERIFIED + "oracle: " + json.dumps({"ok": False, "outputs": {"o": CHECK}}) + "\n"
        f"{VERIFIED}generic: o differs by at most 3e-07\n"
    )
    shown = page("run.json rerun.json log")
    run, rerun = json.loads(run), json.loads(rerun)
    expected = [
        (source, output, one)
        for source, check in (
            (f"run on {run['plan']['target']}", run["check"]),
            (f"rerun on {rerun['target']}", rerun["oracle"]["rerun"]),
            (f"saved on {rerun['saved']['target']}", rerun["oracle"]["saved"]),
            ("REGARD_VERIFY", {"outputs": {"o": CHECK}}),
        )
        for output, one in check["outputs"].items()
    ]
    table = rows(shown, "Error against the tolerance of the fp64 oracle")
    assert len(table) == len(expected)
    bars = next(chart for chart in shown.charts if chart["rect"])["rect"]
    for row, bar, (source, output, one) in zip(table, bars, expected, strict=True):
        assert (row["by"], row["output"]) == (source, output)
        assert float(row["largest error"]) == pytest.approx(one["max_absolute"], rel=1e-3)
        assert float(row["worst part of a tolerance"]) == pytest.approx(float(one["worst"]), rel=1e-3)
        part = min(float(one["worst"]), 1.1) / 1.1  # the chart ends a tenth beyond the tolerance
        assert float(bar["width"]) == pytest.approx(560 * part, abs=0.1)
    counters = {row["counter"]: int(row["of all runs"]) for row in rows(shown, "Counters")}
    assert counters == run["counters"]
    (row,) = rows(shown, "Saved calls that were run again")
    assert row["verdict"] == rerun["verdict"] and row["problem"] == rerun["problem"]
    assert int(row["elements with other bits"]) == sum(one["different"] for one in rerun["outputs"].values())
    (row,) = rows(shown, "Compared with another path (REGARD_VERIFY)")
    assert (row["compared with"], row["difference"]) == ("generic", "o differs by at most 3e-07")


@pytest.mark.parametrize("text", ["", "words\n", '{"a": 1}', '{"verdict": "x", "saved": {}}'])
def test_a_file_that_says_nothing_is_an_error(regard, tmp_path, text):
    (tmp_path / "file").write_text(text)
    shown = regard("report file")
    assert shown.code == 2 and shown.err.startswith("regard: file: ") and not (tmp_path / "report.html").exists()


def test_tuning_records(page, tmp_path):
    record = {"tuning": 1, "problem": "fwd fp32 s=8 d=16", "target": "cpu-avx2", "device": "A <CPU>", "threads": 2}
    record |= {"candidate": "fast", "by_cost": "slow", "times": {"fast": 0.5, "slow": 0.75}}
    (tmp_path / "my.tuning").write_text(json.dumps(record) + "\n" + json.dumps(record | {"candidate": "slow"}) + "\n")
    changed = {
        "problem": "p",
        "candidate": "fast",
        "verdict": "changed",
        "ms": 2.0,
        "faster": "other",
        "faster_ms": 1.0,
    }
    (tmp_path / "check.json").write_text(
        json.dumps([changed, {"problem": "q", "candidate": "c", "verdict": "not used"}])
    )
    table = rows(page("my.tuning check.json"), "Tuning records, compared with the cost model's choices")
    shown = [(row["candidate"], row["ms"], row["its ms"], row["times as fast"], row["measured again"]) for row in table]
    assert shown == [
        ("fast", "0.5", "0.75", "1.5", ""),
        ("slow", "0.75", "0.75", "1", ""),
        ("fast", "2", "1", "0.5", "changed"),
        ("c", "", "", "", "not used"),
    ]
    assert table[0]["on"] == "cpu-avx2, A <CPU>, 2 threads"
