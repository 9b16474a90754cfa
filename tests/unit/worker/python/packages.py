"""Imported first: without Debian's packages these tests are skipped, with the reason."""

import sys

try:
    import google.protobuf  # noqa: F401
    import grpc  # noqa: F401
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; /usr/bin/python3 needs python3-grpcio, -numpy and -protobuf")
    sys.exit(77)
