"""The part of XLA's C interface for foreign calls that a handler sees, and calls made through it without XLA."""

from __future__ import annotations

import ctypes

from regard import _core

SIZE, POINTER, INT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
METADATA, INVALID, EXHAUSTED, UNIMPLEMENTED = 1, 3, 8, 12
EXECUTE = 3


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


DESTROY = ctypes.CFUNCTYPE(None, POINTER)
CREATE = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(CreateError))


class AllocateMemory(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("context", POINTER), ("bytes", SIZE), ("alignment", SIZE)]
    _fields_ += [("data", POINTER)]


class FreeMemory(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("context", POINTER), ("bytes", SIZE), ("data", POINTER)]


ALLOCATE = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(AllocateMemory))
FREE = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(FreeMemory))


class Api(ctypes.Structure):
    _fields_ = [
        ("size", SIZE),
        ("extensions", POINTER),
        ("version", Version),
        ("internal", POINTER),
        ("create", CREATE),
    ]
    _fields_ += [(name, POINTER) for name in ("get_message", "destroy_error", "register_handler", "get_stream")]
    _fields_ += [(name, POINTER) for name in ("register_type", "get_context", "set_state", "get_state")]
    _fields_ += [("allocate", ALLOCATE), ("free", FREE)]


class GetStream(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("context", POINTER), ("stream", POINTER)]


GET_STREAM = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(GetStream))


class Buffer(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extensions", POINTER), ("dtype", INT), ("data", POINTER), ("rank", ctypes.c_int64)]
    _fields_ += [("dims", POINTER)]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", SIZE)]


class Scalar(ctypes.Structure):
    _fields_ = [("dtype", INT), ("value", POINTER)]


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


STREAM = 0x5EED


def array(items, kind):
    """The address of an array, which Python keeps with it."""
    made = (kind * max(len(items), 1))(*items)
    return ctypes.cast(made, POINTER), made


def buffers(arrays):
    """Arrays are (dtype, shape, address)."""
    kept = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for _, shape, _ in arrays]
    made = [
        Buffer(ctypes.sizeof(Buffer), None, dtype, address, len(shape), ctypes.cast(dims, POINTER))
        for (dtype, shape, address), dims in zip(arrays, kept, strict=True)
    ]
    kinds, kinds_kept = array([1] * len(made), INT)
    items, items_kept = array([ctypes.addressof(one) for one in made], POINTER)
    return Buffers(ctypes.sizeof(Buffers), None, len(made), kinds, items), (kept, made, kinds_kept, items_kept)


def attributes(values):
    """Text, or a 32-bit number."""
    names = [Text(name.encode(), len(name)) for name in sorted(values)]
    numbers, items = [], []
    for name in sorted(values):
        value = values[name]
        if isinstance(value, str):
            items.append(Text(value.encode(), len(value)))
        else:
            numbers.append(INT(value))
            items.append(Scalar(4, ctypes.addressof(numbers[-1])))
    kinds, kinds_kept = array([4 if isinstance(item, Text) else 3 for item in items], INT)
    of_names, names_kept = array([ctypes.addressof(name) for name in names], POINTER)
    of_items, items_kept = array([ctypes.addressof(item) for item in items], POINTER)
    kept = (names, numbers, items, kinds_kept, names_kept, items_kept)
    return Attributes(ctypes.sizeof(Attributes), None, len(items), kinds, of_names, of_items), kept


def answer(
    platform, arguments=(), results=(), values=(), major=0, of_api=0, of_call=0, stage=EXECUTE, allocate=None, freed=()
):
    """The errors that a handler returns for a call from an XLA with other sizes or another version. `allocate` takes a
    number of bytes and gives the address of as many, or 0; (address, bytes) of each freed block is added to `freed`.
    Like XLA, it refuses an alignment above 16."""
    said = []

    @ALLOCATE
    def allocated(asked):
        asked.contents.data = allocate(asked.contents.bytes) if asked.contents.alignment <= 16 else 0
        return None if asked.contents.data else 1

    @FREE
    def gone(memory):
        freed.append((memory.contents.data, memory.contents.bytes))
        return None

    @DESTROY
    def destroy(_):
        pass

    @CREATE
    def create(error):
        said.append((error.contents.code, error.contents.message.decode()))
        return 1

    @GET_STREAM
    def get_stream(request):
        request.contents.stream = STREAM
        return None

    version = Version(ctypes.sizeof(Version), None, major, 1)
    api = Api(ctypes.sizeof(Api) + of_api, None, version, None, create)
    api.get_stream, api.destroy_error = ctypes.cast(get_stream, POINTER), ctypes.cast(destroy, POINTER)
    api.allocate, api.free = allocated, gone
    call = Call(ctypes.sizeof(Call) + of_call, None, ctypes.pointer(api), None, stage)
    call.arguments, kept = buffers(arguments)
    call.results, also = buffers(results)
    call.attributes, too = attributes(dict(values))
    assert (handler(platform)(ctypes.byref(call)) is None) == (not said)
    del kept, also, too
    return said
