"""Tuning records in a manifest: the build has the chosen kernels, and its bundle carries the records."""

import json

import pytest

PROBLEM = "fwd fp32 b=1 hq=4 hk=1 sq=1 sk=300 d=64"
ON = "--target=cpu-generic --threads=1"
MANIFEST = """
[build]
targets = ["cpu-generic"]
tuning = "my.tuning"
"""


def explained(regard, *words, **settings):
    done = regard("explain", PROBLEM, ON, "--json", *words, **settings)
    assert done.code == 0, done.err
    return json.loads(done.out)


def other_of(explanation):
    """An accepted candidate that the cost model does not take, and that is not the generic one."""
    names = [each["candidate"] for each in explanation["verdicts"] if each["accepted"]]
    return next(name for name in names if name != explanation["by_cost"] and "generic" not in name)


@pytest.fixture
def record(regard, tmp_path):
    """A record, in a file, of a candidate that the cost model does not take."""
    regard("tune", PROBLEM, ON, "--seconds=0 --out=my.tuning")
    (record,) = [json.loads(line) for line in (tmp_path / "my.tuning").read_text().splitlines()]
    other = other_of(explained(regard))
    stages = explained(regard, f"--family={other.split()[0]}")["plan"]["stages"]
    record |= {"candidate": other, "times": {other: 1.0}}
    (tmp_path / "my.tuning").write_text(json.dumps(record) + "\n")
    (tmp_path / "te.toml").write_text(MANIFEST)
    return record | {"stages": [stage["kernel"] for stage in stages]}


def test_the_build_has_exactly_the_chosen_kernels(record, regard):
    listed = json.loads(regard("build te.toml --list --json").out)
    assert [row["kernel"] for row in listed["kernels"]] == sorted(record["stages"])
    assert [table["what"] for table in listed["variants"]] == ["tuning my.tuning"]


def test_problems_with_a_record_too(record, regard, tmp_path):
    near = PROBLEM.replace("sk=300", "sk=500")
    (tmp_path / "te.toml").write_text(MANIFEST + f'[[variants]]\nproblems = ["{near}"]\n')
    listed = json.loads(regard("build te.toml --list --json").out)
    assert [row["kernel"] for row in listed["kernels"]] == sorted(record["stages"])


def test_the_bundle_carries_the_records(record, regard, tmp_path):
    done = regard("build te.toml --output=out")
    assert done.code == 0, done.err
    (tmp_path / "my.tuning").unlink()
    bundle = str(tmp_path / "out/te.bundle")
    found = explained(regard, REGARD_BUNDLE=bundle)
    assert found["chosen_by"] == "record" and bundle in found["record"]
    assert next(each["candidate"] for each in found["verdicts"] if each["chosen"]) == record["candidate"]
    assert {stage["tier"] for stage in found["plan"]["stages"]} == {"bundle"}
    regard("bundle keygen key")
    public = regard("bundle sign --key=key", bundle).out
    assert regard("bundle verify", bundle).code == 0, public
    data = bytearray((tmp_path / "out/te.bundle").read_bytes())
    at = data.index(b"tuning")
    data[at + 20] ^= 1
    (tmp_path / "out/te.bundle").write_bytes(data)
    assert regard("bundle verify", bundle).code != 0


def test_bad_records(record, regard, tmp_path):
    for contents, sentence in [
        (None, "te.toml:4: the tuning records"),
        ("", "has no tuning records"),
        ("hello", "my.tuning:1: not a tuning record"),
        (
            json.dumps({name: value for name, value in record.items() if name != "stages"} | {"target": "sm_90a"}),
            "none of the targets",
        ),
    ]:
        (tmp_path / "my.tuning").unlink(missing_ok=True)
        if contents is not None:
            (tmp_path / "my.tuning").write_text(contents)
        done = regard("build te.toml --check")
        assert done.code == 2 and sentence in done.err, (contents, done.err)
