"""The sweep in several processes, each of which takes one module of models at a time."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

SECONDS = 120  # for one class


def modules() -> list[str]:
    """transformers.models.*.modeling_*"""
    import transformers.models

    found = []
    for package in pkgutil.iter_modules(transformers.models.__path__, "transformers.models."):
        folder = importlib.util.find_spec(package.name).submodule_search_locations
        found += [x.name for x in pkgutil.iter_modules(folder, package.name + ".") if ".modeling_" in x.name]
    return sorted(found)


def run(names: list[str], file: Path, jobs: int) -> list[dict[str, Any]]:
    """Results that are already in the file are not computed again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {result["module"] for result in found}
    missing = [name for name in names if name not in done]
    spawned = multiprocessing.get_context("spawn")
    with file.open("a") as written, ProcessPoolExecutor(jobs, spawned, begin, (file.with_suffix(".log"),)) as pool:
        try:
            for future in as_completed([pool.submit(of_module, name) for name in missing]):
                found += future.result()
                written.writelines(json.dumps(result) + "\n" for result in future.result())
                written.flush()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for result in found if result["module"] in set(names)]


def begin(log: Path) -> None:
    """Redirects reports of slow kernels to the log."""
    import torch

    with log.open("a") as stderr:
        os.dup2(stderr.fileno(), sys.stderr.fileno())
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, too_long)


def too_long(*_: Any) -> None:
    raise TimeoutError(f"takes more than {SECONDS} seconds")


def of_module(name: str) -> list[dict[str, Any]]:
    from . import models, sweep

    try:
        kinds = models.classes(name)
    except Exception as error:
        return [{"module": name, "class": "", "why": f"cannot be imported: {sweep.words(error)}"}]
    results = []
    for kind in kinds:
        signal.alarm(SECONDS)
        try:
            results.append({"module": name, "class": kind.__name__, **sweep.swept(kind)})
        except TimeoutError as error:
            results.append({"module": name, "class": kind.__name__, "why": str(error)})
        except Exception as error:
            raise RuntimeError(f"the sweep itself fails at {kind.__name__}") from error
        finally:
            signal.alarm(0)
    return results or [{"module": name, "class": "", "why": "has no models"}]
