"""Sliding window: a deferred free takes the page of another request.

    ENV/bin/python docs/findings/scripts/swa-deferred-free.py
"""

from harness import Engine, main


def finding():
    engine = Engine(window=True)
    engine.submit("r1", [1, 2, 3, 1], 2)
    engine.submit("r2", [1], 0)
    engine.step()
    allocator, tree = engine.allocator, getattr(engine.cache, "inner", engine.cache)
    free = set(allocator.swa_attn_allocator.free_pages.tolist())
    nodes, in_tree = [tree.root_node], set()
    while nodes:
        node = nodes.pop()
        nodes += node.children.values()
        if node is not tree.root_node:
            in_tree |= set(allocator.full_to_swa_index_mapping[node.value].tolist()) - {0}
    print("sliding-window pages: in the tree", sorted(in_tree), "- free:", sorted(free))
    print("the engine's own check:", engine.check())
    both = sorted(free & in_tree)
    return f"page {both} is free and in the tree" if both else None


main(finding)
