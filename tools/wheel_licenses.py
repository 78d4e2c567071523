"""wheel_licenses.py WHEEL NAME=FILE...: adds the licenses of code inside a wheel next to the wheel's own.

The wheel's file list (RECORD) does not include them until auditwheel rewrites it.
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
