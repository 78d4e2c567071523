import importlib.util
import os

# Before JAX begins with its devices: eight of them, so that programs can be sharded.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

if importlib.util.find_spec("jaxlib") is None:
    collect_ignore_glob = ["test_*.py"]
