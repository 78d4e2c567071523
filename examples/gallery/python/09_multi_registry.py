"""Several sets of kernels in one process: each is a bundle, built from a manifest with a namespace of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gallery import judge, target, tensor

import regard

os.environ["REGARD_BUILT_IN"] = "off"  # settings are read at the first call: kernels come from the bundles alone
os.environ["REGARD_JIT"] = os.environ["REGARD_CACHE"] = "off"
name = regard.plan("fwd fp32 s=64 d=64", target).target
with tempfile.TemporaryDirectory() as folder:
    for namespace, mask in (("plain", "none"), ("decoder", "causal")):
        problem = f"fwd fp32 b=1 h=4 s=64 d=64 mask={mask}"
        manifest = Path(folder, f"{namespace}.toml")
        manifest.write_text(
            f'[build]\nnamespace = "{namespace}"\ntargets = ["{name}"]\n[[variants]]\nproblems = ["{problem}"]\n'
        )
        build = [sys.executable, "-m", "regard", "build", manifest, "--output", Path(folder, namespace)]
        settings = {"REGARD_BUILT_IN": "on", "REGARD_JIT": "on", "REGARD_CACHE": "on"}
        subprocess.run(build, env=os.environ | settings, check=True, capture_output=True)
        (bundle,) = Path(folder, namespace).rglob("*.bundle")
        regard.add_bundle(str(bundle))

        q, k, v = (tensor(1, 64, 4, 64) for _ in range(3))
        o = regard.attention(q, k, v, mask=mask)
        judge(problem, q=q, k=k, v=v, o=o)

bundles = regard.info()["bundles"]
print(f"bundles: {len(bundles)}")
