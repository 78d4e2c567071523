"""FlashMLA's functions for packed sequences against fp64, one sequence after the other."""

import pytest

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402
from argument_audit import Audit, cases, check_wrong_values, undecided  # noqa: E402
from cached import attention, ints, numbers  # noqa: E402
from latent_cases import close, starts  # noqa: E402
from regard import flash_mla  # noqa: E402

pytestmark = pytest.mark.no_compiler

COUNTS, LENGTHS, D, DV = [3, 0, 7], [5, 2, 7], 24, 16
STARTS, OF_KEYS = starts(COUNTS), starts(LENGTHS)
Q, K, V = numbers(1, 10, 4, D), numbers(2, 14, 2, D), numbers(3, 14, 2, DV)
GIVEN = {
    **{"q": Q, "k": K, "v": V, "cu_seqlens_qo": STARTS, "cu_seqlens_kv": OF_KEYS},
    **{"max_seqlen_qo": 7, "max_seqlen_kv": 7},
}
PACKED = {
    "flash_attn_varlen_kvpacked_func": {
        **{name: GIVEN[name] for name in GIVEN if name not in "kv"},
        **{"kv": torch.cat([K, V], -1), "head_dim_qk": D},
    },
    "flash_attn_varlen_qkvpacked_func": {
        "qkv": torch.cat([K, K.flip(0), V], -1),
        **{"cu_seqlens": OF_KEYS, "max_seqlen": 7, "head_dim_qk": D},
    },
}


def expected(q, k, v, counts, lengths, **masks):
    found = [attention(*rows, **masks) for rows in zip(q.split(counts), k.split(lengths), v.split(lengths))]
    o, lse = ([torch.from_numpy(x.copy()) for x in one] for one in zip(*found))
    return torch.cat(o), torch.cat(lse, dim=1).T


@pytest.mark.parametrize("causal", [False, True])
def test_against_one_sequence_after_the_other(causal):
    out, lse = flash_mla.flash_attn_varlen_func(**GIVEN, softmax_scale=0.3, causal=causal)
    right, of_right = expected(Q, K, V, COUNTS, LENGTHS, scale=0.3, causal=causal)
    close(out, right)
    close(lse, of_right)


def test_packed_columns():
    for name, given in PACKED.items():
        out, lse = getattr(flash_mla, name)(**given, causal=True)
        q, k, counts = (Q, K, COUNTS) if "q" in given else (K, K.flip(0), LENGTHS)
        right, of_right = expected(q, k, V, counts, LENGTHS, causal=True)
        close(out, right)
        close(lse, of_right)


def test_gradients():
    leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
    out, lse = flash_mla.flash_attn_varlen_func(**{**GIVEN, **dict(zip("qkv", leaves))}, causal=True)
    found = torch.autograd.grad((out * out.detach()).sum() + lse.sin().sum(), leaves)
    o, of_o = regard.torch.attention_varlen(*leaves, STARTS, OF_KEYS, 7, 7, causal=True, lse=True)
    right = torch.autograd.grad((o * o.detach()).sum() + of_o.sin().sum(), leaves)
    for one, other in zip(found, right):
        close(one, other, 1e-6)


OPTIONS = {"dropout_p": 0.5, "softmax_scale": 0.7, "causal": True}
AUDITS = {
    name: Audit(getattr(flash_mla, name), given, OPTIONS, {"deterministic": True, "is_varlen": False})
    for name, given in {"flash_attn_varlen_func": GIVEN, **PACKED}.items()
}


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_arguments(name, argument):
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_none_is_left_out(name):
    assert not undecided(AUDITS[name])


@pytest.mark.parametrize("name", AUDITS)
def test_values_of_the_wrong_kind(name):
    audit = AUDITS[name]
    for argument in {**audit.inputs, **audit.changes, **audit.harmless}:
        check_wrong_values(audit.results, argument)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match=r"kv has shape \[14, 2, 40\] and head_dim_qk is 40; it must be .* first 40"):
        flash_mla.flash_attn_varlen_kvpacked_func(**{**PACKED["flash_attn_varlen_kvpacked_func"], "head_dim_qk": 40})
    with pytest.raises(ValueError, match=r"cu_seqlens_qo|offsets_q"):
        flash_mla.flash_attn_varlen_func(**{**GIVEN, "cu_seqlens_qo": ints(0, 4, 3, 10)})
