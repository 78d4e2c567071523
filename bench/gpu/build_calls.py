"""Several builds of the library in one process, called through the C ABI (include/regard/regard.h)."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import site
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.int32: 16}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 4),
        ("strides", ctypes.c_int64 * 4),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("target", ctypes.c_char_p),
        ("family", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
    ]


class Build:
    """The build of a checkout, or the build of `tree` with the kernels of another folder."""

    def __init__(self, folder: Path, tree: Path, copy: Path) -> None:
        """`copy`: where a copy of the library is put, because a file is loaded only once."""
        built = folder / "build/release/libregard.so"
        shutil.copyfile(built if built.exists() else tree / "build/release/libregard.so", copy)
        self.library = ctypes.CDLL(str(copy))
        self.library.regard_status_message.restype = ctypes.c_char_p
        self.library.regard_role_name.restype = ctypes.c_char_p
        self.library.regard_plan_workspace_bytes.restype = ctypes.c_int64
        self.library.regard_package_folders.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int64]
        self.roles: dict[str, int] = {}
        while name := self.library.regard_role_name(len(self.roles)):
            self.roles[name.decode()] = len(self.roles)
        folders = [path.encode() for path in site.getsitepackages()]
        self.need(self.library.regard_package_folders((ctypes.c_char_p * len(folders))(*folders), len(folders)))
        # Settings are read once, by the first call that needs any.
        os.environ["REGARD_DATA_DIR"] = str(folder.resolve())
        text = ctypes.c_char_p()
        self.need(self.library.regard_info(ctypes.byref(text)))
        del os.environ["REGARD_DATA_DIR"]

    def need(self, status: int) -> None:
        if status != 0:
            raise SystemExit(self.library.regard_status_message().decode())

    @functools.cache  # noqa: B019
    def plan(self, problem: str) -> BuildPlan:
        return BuildPlan(self, problem)


class BuildPlan:
    def __init__(self, build: Build, text: str) -> None:
        self.build = build
        problem, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        build.need(build.library.regard_problem_parse(text.encode(), ctypes.byref(problem)))
        options = PlanOptions(ctypes.sizeof(PlanOptions), b"cuda", None, 0)
        build.need(build.library.regard_plan_create(problem, ctypes.byref(options), ctypes.byref(self.handle)))
        self.workspace_bytes = build.library.regard_plan_workspace_bytes(self.handle)

    def prepare(self) -> None:
        self.build.need(self.build.library.regard_plan_prepare(self.handle))

    def call(self, tensors: dict[str, Any], workspace: Any) -> Callable[[], None]:
        """A run on these tensors, by the names of their roles, in PyTorch's current stream."""
        roles = self.build.roles

        class Arguments(ctypes.Structure):
            _fields_ = [
                ("size", ctypes.c_size_t),
                ("seed", ctypes.c_uint64),
                ("offset", ctypes.c_uint64),
                ("tensor", Tensor * len(roles)),
            ]

        arguments = Arguments(size=ctypes.sizeof(Arguments))
        for name, x in tensors.items():
            four = ctypes.c_int64 * 4
            arguments.tensor[roles[name]] = Tensor(
                x.data_ptr(), DTYPES[x.dtype], x.dim(), four(*x.shape), four(*x.stride())
            )
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        place, size = ctypes.c_void_p(workspace.data_ptr()), ctypes.c_int64(self.workspace_bytes)

        def run() -> None:
            held = tensors, workspace  # kept as long as the call can be made  # noqa: F841
            self.build.need(
                self.build.library.regard_plan_run(self.handle, ctypes.byref(arguments), place, size, stream)
            )

        return run
