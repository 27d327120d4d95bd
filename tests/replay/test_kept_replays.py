"""What changes would save of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/zoo_llm.tar.xz/zoo_llm/nonzero.bad.sqlite",
    "nsys/zoo_llm.tar.xz/zoo_llm/exposed_out.bad.sqlite",
    "places/workers.stacks.json.gz",
    "nsys/one_nccl.sqlite.xz",
    "nsys/attn.sqlite.xz",
    "nsys/decode.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "torch/decode.json.gz",
    "serve/batches.sqlite.xz",
    "nsys/planted.tar.xz/planted/exposed_copy.bad.sqlite",
    "nsys/planted.tar.xz/planted/device_sync.bad.sqlite",
    "nsys/structures.tar.xz/structures/graph_branches.branches.sqlite",
    "nsys/structures.tar.xz/structures/side_streams.two_streams.sqlite",
    "nsys/structures.tar.xz/structures/two_ranks.uneven.sqlite",
    "nsys/structures.tar.xz/structures/legacy_stream.non_blocking.sqlite",
)


@pytest.mark.parametrize(
    "question", ["whatif", "whatif --host=2", "whatif --launch-cost=2us", "whatif --speedup=gemm=2 --hide=copy"]
)
@pytest.mark.parametrize("capture", CAPTURES)
def test_replays_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)
