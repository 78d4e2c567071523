"""The handlers as XLA sees them, through the C interface: what they say of themselves, and calls that they refuse."""

import ctypes

import pytest

from regard import _core

SIZE, POINTER, INT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
METADATA, INVALID = 1, 3


class Extension(ctypes.Structure):
    _fields_ = [("size", SIZE), ("kind", INT), ("next", POINTER)]


class Version(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("major", INT), ("minor", INT)]


class Metadata(ctypes.Structure):
    _fields_ = [("size", SIZE), ("version", Version), ("traits", ctypes.c_uint32)]


class Asks(ctypes.Structure):
    _fields_ = [("base", Extension), ("metadata", ctypes.POINTER(Metadata))]


class CreateError(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("message", ctypes.c_char_p), ("code", INT)]


CREATE = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(CreateError))


class Api(ctypes.Structure):
    _fields_ = [
        ("size", SIZE),
        ("extensions", POINTER),
        ("version", Version),
        ("internal", POINTER),
        ("create", CREATE),
    ]
    _fields_ += [(name, POINTER) for name in ("get_message", "destroy", "register", "get_stream")]


class Buffers(ctypes.Structure):
    _fields_ = [
        ("size", SIZE),
        ("extensions", POINTER),
        ("count", ctypes.c_int64),
        ("kinds", POINTER),
        ("items", POINTER),
    ]


class Attributes(ctypes.Structure):
    _fields_ = [*Buffers._fields_[:4], ("names", POINTER), ("items", POINTER)]


class Call(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("api", ctypes.POINTER(Api)), ("context", POINTER)]
    _fields_ += [("stage", INT), ("arguments", Buffers), ("results", Buffers), ("attributes", Attributes)]


def handler(platform):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(Call))(pointer(_core.xla_handlers()[platform], None))


PLATFORMS = pytest.mark.parametrize("platform", ["cpu", "CUDA"])


@PLATFORMS
def test_the_lowest_version_and_no_promise_to_be_recorded(platform):
    metadata = Metadata(ctypes.sizeof(Metadata), Version(ctypes.sizeof(Version), None, 9, 9), 9)
    asks = Asks(Extension(ctypes.sizeof(Extension), METADATA, None), ctypes.pointer(metadata))
    call = Call(ctypes.sizeof(Call), ctypes.cast(ctypes.pointer(asks), POINTER))
    assert handler(platform)(ctypes.byref(call)) is None
    assert (metadata.version.major, metadata.version.minor, metadata.traits) == (0, 1, 0)


def answer(platform, major=0, of_api=0, of_call=0, stage=3):
    """What a handler says to a call without attributes, from an XLA of other sizes or another version."""
    said = []

    @CREATE
    def create(error):
        said.append((error.contents.code, error.contents.message.decode()))
        return 1

    api = Api(ctypes.sizeof(Api) + of_api, None, Version(ctypes.sizeof(Version), None, major, 1), None, create)
    api.get_stream = ctypes.cast(CREATE(lambda _: None), POINTER)
    call = Call(ctypes.sizeof(Call) + of_call, None, ctypes.pointer(api), None, stage)
    assert (handler(platform)(ctypes.byref(call)) is None) == (not said)
    return said


@PLATFORMS
def test_an_xla_of_another_kind_is_refused(platform):
    for wrong in ({"major": 1}, {"of_api": -8}, {"of_call": -8}):
        ((code, sentence),) = answer(platform, **wrong)
        assert code == INVALID and "calls foreign functions in a way that Regard does not know" in sentence


def test_a_call_of_another_version_of_regard_is_refused():
    ((code, sentence),) = answer("cpu")
    assert code == INVALID and "has no attribute 'problem'" in sentence
    assert answer("cpu", stage=0) == []  # nothing is to be done before a call
