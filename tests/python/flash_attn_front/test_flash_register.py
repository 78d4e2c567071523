"""`import flash_attn` finds regard.flash_attn, and stops finding it after `unregister`."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

THEIRS = "def flash_attn_func(): pass\n"


def run(program, folder):
    """A fresh interpreter with another flash_attn and flash_attn_interface on its path."""
    (folder / "flash_attn").mkdir()
    (folder / "flash_attn/__init__.py").write_text(THEIRS + "__version__ = '1.0'\n")
    (folder / "flash_attn_interface.py").write_text(THEIRS)
    program = f"import sys, warnings; sys.path.insert(0, {str(folder)!r})\n{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wins_over_what_is_installed_and_tells_so(tmp_path):
    out = run(
        """
import regard.flash_attn
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    regard.flash_attn.register()
    regard.flash_attn.register()
print(*[str(warning.message) for warning in told], sep="\\n")
import flash_attn, flash_attn.bert_padding, flash_attn_interface
assert flash_attn.flash_attn_func is regard.flash_attn.flash_attn_func
from regard.flash_attn import v3
assert flash_attn_interface.flash_attn_func is v3.flash_attn_func
regard.flash_attn.unregister()
import flash_attn, flash_attn_interface
print(flash_attn.__version__, flash_attn_interface.flash_attn_func.__module__)
""",
        tmp_path,
    )
    first, second, last = out.splitlines()
    assert first.startswith("flash_attn is installed (") and second.startswith("flash_attn_interface is installed (")
    assert last == "1.0 flash_attn_interface"


def test_what_is_imported_already_is_not_replaced(tmp_path):
    out = run(
        """
import flash_attn, regard.flash_attn
try:
    regard.flash_attn.register()
except ImportError as error:
    print(error)
assert not hasattr(flash_attn, "flash_attn_varlen_func")
""",
        tmp_path,
    )
    assert out.startswith("flash_attn is already imported, from ") and "before its first import" in out


def test_looks_like_an_installed_package(tmp_path):
    run(
        """
import importlib.metadata, importlib.util
import regard.flash_attn
warnings.simplefilter("ignore")
regard.flash_attn.register("ck")
import flash_attn
assert flash_attn.__name__ == flash_attn.__spec__.name == "flash_attn"
assert importlib.util.find_spec("flash_attn").name == "flash_attn"
assert flash_attn.__version__ == importlib.metadata.version("flash_attn") == importlib.metadata.version("flash-attn")
assert flash_attn.__version__.startswith("2.")
assert importlib.metadata.version("flash_attn_3").startswith("3.")
from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
from flash_attn.flash_attn_interface import USE_TRITON_ROCM, _flash_attn_varlen_forward, _get_block_size_n
from flash_attn.flash_attn_interface import _wrapped_flash_attn_backward, flash_attn_gpu
from flash_attn.layers.rotary import apply_rotary_emb
from flash_attn.ops.triton.rotary import apply_rotary
from flash_attn_3.flash_attn_interface import flash_attn_varlen_func
from flash_attn.modules.mha import MHA
from flash_attn.cute.interface import flash_attn_func
import flash_attn_2_cuda
distributions = importlib.metadata.packages_distributions()  # which transformers uses to distinguish the releases
assert distributions["flash_attn"] == ["flash_attn", "flash-attn-4"]
assert distributions["flash_attn_interface"] == distributions["flash_attn_3"] == ["flash_attn_3"]
assert flash_attn.cute.__version__ == importlib.metadata.version("flash_attn_4")
assert flash_attn.cute.__version__.startswith("4.")
assert regard.flash_attn.flavour.chosen() == "ck"
try:
    import flash_attn.losses
    raise AssertionError("there are no losses here")
except ModuleNotFoundError:
    pass
regard.flash_attn.unregister()
assert regard.flash_attn.flavour.chosen() == "cuda"
assert not [name for name in sys.modules if name.startswith("flash_attn")]
""",
        tmp_path,
    )


def test_a_flavour_that_there_is_not():
    import regard.flash_attn

    with pytest.raises(ValueError, match="flavour is 'rocm'; it must be 'cuda' .* or 'ck'"):
        regard.flash_attn.register("rocm")


def test_regard_alone_needs_no_torch(tmp_path):
    run("import regard; assert 'torch' not in sys.modules", tmp_path)
