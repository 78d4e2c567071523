"""The kernels that are compiled into the library."""

import subprocess

from places import BUILD

OF_LIBC = {"memcpy", "memmove", "memset", "memcmp", "sched_yield"}


def test_kernels_call_functions_of_the_c_library_alone():
    """The same sources compiled on demand are linked with nothing else."""
    objects = (BUILD / "built_in" / "objects.txt").read_text().split()
    assert objects
    listed = subprocess.run(["nm", "--undefined-only", "--format=posix", *objects], capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    names = {line.split()[0] for line in listed.stdout.splitlines() if line and not line.endswith(":")}
    assert "memset" in names and names <= OF_LIBC, names - OF_LIBC
