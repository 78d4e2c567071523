"""check_wheel.py WHEEL: lists the contents of a wheel for other machines, and fails if it is unsuitable for them.

It must be small, tagged manylinux, without debug symbols, and export only the C ABI and the extension's entry point.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

LARGEST = 10_000_000  # bytes


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def exported(library):
    """Exported names without their versions; names of versions themselves (A) are left out."""
    symbols = (line.split() for line in lines("nm", "-D", "--defined-only", library))
    return {words[-1].split("@")[0] for words in symbols if words[-2] != "A"}


def complaints_about(wheel, folder):
    """One sentence for each problem."""
    if wheel.stat().st_size > LARGEST:
        yield f"it has {wheel.stat().st_size} bytes, and may have {LARGEST}"
    if "-manylinux_2_" not in wheel.name:
        yield "it is not tagged manylinux"
    libraries = sorted(path for path in folder.rglob("*") if ".so" in path.name)
    for binary in (*libraries, folder / "regard" / "bin" / "regard"):
        if any(".symtab" in line for line in lines("readelf", "--section-headers", "--wide", binary)):
            yield f"{binary.name} is not stripped"
    ours = {path.name.split(".")[0]: exported(path) for path in libraries if path.parent.name == "regard"}
    if ours.get("_core") != {"PyInit__core"}:
        yield f"the extension exports {sorted(ours.get('_core', []))[:9]}, and not its entry alone"
    foreign = {name for name in ours.get("libregard", {"nothing"}) if not name.startswith("regard_")}
    if foreign:
        yield f"the library exports {sorted(foreign)[:9]}"


def main():
    wheel = Path(sys.argv[1])
    with TemporaryDirectory() as name, ZipFile(wheel) as archive:
        archive.extractall(name)
        complaints = list(complaints_about(wheel, Path(name)))
        sizes = sorted((item.compress_size, item.filename) for item in archive.infolist())
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    for size, name in reversed(sizes):
        if size > 50_000:
            print(f"  {size / 1e6:5.2f} MB  {name}")
    if complaints:
        sys.exit("".join(f"check_wheel: {wheel.name}: {complaint}\n" for complaint in complaints).rstrip())


if __name__ == "__main__":
    main()
