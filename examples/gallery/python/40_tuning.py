"""What is fastest here: `regard tune` measures the candidates once, and later plans follow its records."""

import subprocess
import sys
import tempfile

from gallery import kind

import regard

PROBLEM = "fwd fp32 b=1 hq=8 hk=2 sq=1 sk=2048 d=64"
LONGER = PROBLEM.replace("sk=2048", "sk=3000")  # the nearest record answers
target = regard.plan(PROBLEM, None if kind == "cpu" else kind).target

with tempfile.TemporaryDirectory() as folder:
    records = f"{folder}/my.tuning"
    words = ["tune", PROBLEM, f"--target={target}", f"--seconds={1 if kind == 'cpu' else 10}", f"--out={records}"]
    subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
    regard.use_tuning(records)
    for problem in (PROBLEM, LONGER):
        print(problem, "is chosen by", regard.explain(problem, target, format="json")["chosen_by"])
    regard.use_tuning(None)
    print(PROBLEM, "is chosen by", regard.explain(PROBLEM, target, format="json")["chosen_by"])
