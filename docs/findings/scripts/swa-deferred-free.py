"""Sliding window: a deferred free takes the page of another request.

ENV/bin/python docs/findings/scripts/swa-deferred-free.py
"""

from harness import Engine, main  # first, because the harness makes SGLang's imports possible

from sglang.srt.mem_cache.unified_cache.component_type import ComponentType


def finding():
    engine = Engine(window=2)
    engine.submit("r1", [1, 2, 3, 1], 2)
    engine.submit("r2", [1], 0)
    engine.step()
    allocator, core = engine.allocator, engine.cache.tree_core
    free = set(allocator.swa_attn_allocator.free_pages.tolist())
    if "rust" not in type(core).__module__:
        nodes, in_tree = list(core.root_node.children.values()), set()
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            value = node.component_data[ComponentType.SWA].value
            in_tree |= set() if value is None else set(value.tolist())
    else:  # 0.5.23
        full = core.all_values_flatten()
        in_tree = set(allocator.full_to_swa_index_mapping[full].tolist()) - {0}
    print("sliding-window pages: in the tree", sorted(in_tree), "- free:", sorted(free))
    print("the engine's own check:", engine.check())
    both = sorted(free & in_tree)
    return f"page {both} is free and in the tree" if both else None


main(finding)
