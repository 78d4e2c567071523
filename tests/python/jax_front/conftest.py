import importlib.util
import os

# Set before JAX initialises its devices: eight of them, so that programs can be sharded. Compiling without
# optimisation takes an eighth of the time.
_flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flags}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

if importlib.util.find_spec("jaxlib") is None:
    collect_ignore_glob = ["test_*.py"]
