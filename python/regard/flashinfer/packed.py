"""What the wrappers of packed queries have in common: queries in fixed memory, masks, scores and results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.tensors import refuse_others
from .attend import Planned, Result, Scales, attend, memory_for, refuse_other_tensors, scaled
from .lists import most_between, moved
from .masks import bits_of
from .scores import score_options, with_scores
from .words import integers
from .wrapper import Wrapper


class Queries(NamedTuple):
    """Packed queries, as the host knows them."""

    indptr: Tensor  # on the CPU
    rows: int
    longest: int

    @property
    def lengths(self) -> numpy.ndarray:
        return numpy.diff(self.indptr.numpy()).astype(numpy.int64)


def queries_of(qo_indptr: Any) -> Queries:
    indptr = integers("qo_indptr", qo_indptr).cpu()
    longest = most_between("qo_indptr", indptr)
    return Queries(indptr, int(indptr[-1]), longest)


class PackedWrapper(Wrapper):
    """What both wrappers of packed queries do: queries in fixed memory, masks, scores and results."""

    _qo_indptr: Tensor | None
    _rows: int  # of the queries
    # With use_cuda_graph, what later plans may not exceed: the rows of the first plan, and the most of a sequence; the
    # memory of the first plan with a mask, and the keys that it has room for.
    _most_rows: int | None = None
    _longest = 0
    _bits: Tensor | None = None
    _most_keys = 0

    def _take_buffers(
        self, qo_indptr_buf: Any, custom_mask_buf: Any, mask_indptr_buf: Any, name: str = "qo_indptr_buf"
    ) -> None:
        """Masks become bits in memory of the wrapper, so the two buffers for masks are not used."""
        refuse_others(custom_mask_buf=custom_mask_buf, mask_indptr_buf=mask_indptr_buf, **{name: qo_indptr_buf})
        if self._use_cuda_graph and qo_indptr_buf is None:
            raise invalid(f"{name} is missing: with use_cuda_graph=True plan copies into the memory that you give")
        self._qo_indptr = integers(name, qo_indptr_buf) if self._use_cuda_graph else None

    def _query_options(self, given: Tensor, queries: Queries, most: int | None, non_blocking: bool) -> dict[str, Any]:
        """most: the caller's bound for the queries of a sequence."""
        self._rows = queries.rows
        longest = queries.longest if most is None else max(queries.longest, most)
        if self._qo_indptr is None:
            return {"offsets_q": moved(given, self.device, non_blocking), "sq": longest}
        if self._qo_indptr.shape != given.shape:
            raise invalid(
                f"qo_indptr has {given.shape[0]} numbers, and the wrapper's buffer {self._qo_indptr.shape[0]}: with "
                "use_cuda_graph=True the number of sequences is fixed, so use a wrapper for each"
            )
        if self._most_rows is None:
            self._most_rows, self._longest = queries.rows, longest
        for name, now, most_of_first in (
            ("in all", queries.rows, self._most_rows),
            ("in a sequence", longest, self._longest),
        ):
            if now > most_of_first:
                raise invalid(
                    f"qo_indptr has {now} queries {name}, and the first plan had {most_of_first}: with "
                    "use_cuda_graph=True later plans cannot have more: plan the most first, or give the first "
                    "plan max_token_per_sequence"
                )
        self._qo_indptr.copy_(given, non_blocking=non_blocking)
        return {"offsets_q": self._qo_indptr, "sq": self._longest}

    def _mask_options(
        self, mask: Tensor, queries: numpy.ndarray, keys: numpy.ndarray, options: dict[str, Any], bound: int | None
    ) -> dict[str, Any]:
        """bound: the caller's, for the keys of a sequence."""
        if not self._use_cuda_graph:
            return {"bits": bits_of(mask, queries, keys, options["sq"], options["sk"], self.device)}
        longest = max(int(keys.max(initial=1)), 1)
        if self._bits is None:
            self._most_keys = 1 << (longest - 1).bit_length() if bound is None else bound
        if longest > self._most_keys:
            raise invalid(
                f"custom_mask has {longest} keys in a sequence, and the first one had room for {self._most_keys}: with "
                "use_cuda_graph=True later masks cannot be larger: plan the largest first, or give the first plan "
                "max_sequence_kv"
            )
        bits = bits_of(mask, queries, keys, options["sq"], self._most_keys, self.device)
        self._bits = bits if self._bits is None else self._bits.copy_(bits)
        return {"bits": self._bits, "sk": self._most_keys}

    def _remember(
        self, planned: Planned, *, causal: bool, window_left: int, logits_soft_cap: float | None, sm_scale: float | None
    ) -> None:
        self._planned, self._pages = planned, None
        self._causal, self._window_left, self._sm_scale = causal, window_left, sm_scale
        self._logits_soft_cap = 0.0 if logits_soft_cap is None else logits_soft_cap

    def _set_scores(self, causal: Any, **scores: Any) -> None:
        planned = self._has_plan()
        causal = is_on("causal", causal) and "bits" not in planned.options
        options = score_options(planned.q_tail[1], causal=causal, heads=planned.q_tail[0], device=self.device, **scores)
        of_scores = {name: scores[name] for name in ("window_left", "logits_soft_cap", "sm_scale")}
        self._remember(with_scores(planned, options), causal=causal, **of_scores)

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, scales: Scales, sinks: Tensor | None, out: Any, lse: Any, return_lse: Any
    ) -> Result:
        planned = self._has_plan()
        refuse_other_tensors(planned, q, k, v)
        if q.shape[0] != self._rows:
            raise invalid(
                f"q has {q.shape[0]} tokens, and qo_indptr ended at {self._rows}: plan again for other tokens"
            )
        memory = memory_for(q, v.shape[-1], planned.o_type, out, lse, return_lse)
        options, times = scaled(planned, scales, k, sinks)
        return attend(q, k, v, options, planned.out, memory, times)
