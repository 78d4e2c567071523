"""wheel_licenses.py WHEEL NAME=FILE...: puts licenses of code that a wheel has inside beside its own.

The wheel's list of files (RECORD) does not know them until auditwheel writes it anew.
"""

import sys
from zipfile import ZIP_DEFLATED, ZipFile


def main():
    with ZipFile(sys.argv[1], "a", ZIP_DEFLATED) as wheel:
        (record,) = (name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
        for argument in sys.argv[2:]:
            name, file = argument.split("=", 1)
            wheel.write(file, record.replace("RECORD", f"licenses/{name}"))


if __name__ == "__main__":
    main()
