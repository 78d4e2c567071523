"""Ctrl-C, SystemExit and out-of-memory errors raised in the code of an argument reach the caller unchanged."""

import numpy
import pytest

import regard

Q = numpy.ones((1, 9, 2, 16), "float32")
PLAN = regard.plan("bwd fp32 b=1 h=2 s=9 d=16")
TENSORS = dict(grad_o=Q, q=Q, k=Q, v=Q, o=Q, lse=numpy.zeros((1, 2, 9), "float32"))


class Urgent(BaseException):
    pass


def raising(error):
    def answer(*_, **__):
        raise error

    return answer


def array(asked, error):
    """An array of no known library, for which one query raises the error."""
    answers = {
        "shape": Q.shape,
        "dtype": Q.dtype,
        "__dlpack__": lambda _, **words: Q.__dlpack__(),
        "__dlpack_device__": lambda _: (1, 0),
    }
    answers[asked] = raising(error) if asked in ("__dlpack__", "__dlpack_device__") else property(raising(error))
    return type("Array", (), answers)()


def in_cuda(entry, error):
    """An array on a GPU, one number of which raises the error."""
    number = type("Number", (), {"__index__": raising(error)})()
    interface = {"shape": (1, 9, 2, 16), "typestr": "<f4", "data": (4096, False), "version": 3}
    interface[entry] = {"shape": (number,), "data": (number, False), "version": number, "stream": number}[entry]
    return type("Array", (), {"__cuda_array_interface__": interface})()


def value(question, error):
    return type("Value", (), {question: raising(error)})()


def run_with(workspace):
    gradients = {name: numpy.empty_like(Q) for name in ("grad_q", "grad_k", "grad_v")}
    PLAN.run(workspace=workspace, **TENSORS, **gradients)


CALLS = {
    **{
        f"{asked} of q": lambda error, asked=asked: regard.attention(array(asked, error), Q, Q)
        for asked in ("shape", "dtype", "__dlpack__", "__dlpack_device__", "requires_grad")
    },
    "mask of k": lambda error: regard.attention(Q, array("mask", error), Q),
    "__dlpack__ of o": lambda error: regard.attention(Q, Q, Q, out=array("__dlpack__", error)),
    "__dlpack__ of a workspace": lambda error: run_with(array("__dlpack__", error)),
    "__dlpack__ of what is checked": lambda error: regard.check(
        "fwd fp32 b=1 h=2 s=9 d=16", q=array("__dlpack__", error), k=Q, v=Q, o=Q
    ),
    **{
        f"{entry} in CUDA's interface": lambda error, entry=entry: PLAN.run(**TENSORS | {"q": in_cuda(entry, error)})
        for entry in ("shape", "data", "version", "stream")
    },
    "__index__ of a seed": lambda error: regard.attention(Q, Q, Q, dropout=0.5, seed=value("__index__", error)),
    "__index__ of threads": lambda error: regard.plan("fwd fp32 s=9 d=16", threads=value("__index__", error)),
    "__float__ of a scale": lambda error: regard.attention(Q, Q, Q, scale=value("__float__", error)),
    "__iter__ of a window": lambda error: regard.attention(Q, Q, Q, window=value("__iter__", error)),
    "__str__ of a word": lambda error: regard.Problem("fwd", scale=value("__str__", error)),
    "__array__ of a mask": lambda error: regard.pack_bits(value("__array__", error)),
    "__array__ in a list": lambda error: regard.attention(Q, Q, Q, lengths_k=[value("__array__", error)]),
    "__array__ of offsets": lambda error: regard.attention(
        Q[0], Q[0], Q[0], offsets_q=value("__array__", error), offsets_k=[0, 9]
    ),
}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, Urgent])
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_answer_reaches_the_caller(call, kind):
    error = kind("as it is")
    with pytest.raises(kind) as caught:
        CALLS[call](error)
    assert caught.value is error


OPTIONAL = {"requires_grad of q", "mask of k"}


@pytest.mark.parametrize("call", sorted(CALLS.keys() - OPTIONAL))
def test_what_is_one_becomes_a_sentence_of_ours(call):
    with pytest.raises((regard.InvalidError, TypeError)) as caught:
        CALLS[call](RuntimeError("it cannot do that"))
    assert "\n" not in str(caught.value)
