"""Families of data movement for random networks: shared memory, in-place results, permuted axes."""

from __future__ import annotations

from generator import Growing, Tensor, family


@family("f", least=4, most=4, weight=2)
def windows(g: Growing, x: Tensor) -> None:
    """Cut an image into windows, multiply their pixels, reassemble and add them."""
    n, c, h, w = x.shape
    if h % 2 or w % 2:
        return
    apart = [n, c, h // 2, 2, w // 2, 2]
    cut = g.add("Transpose", [g.add("Reshape", [x, g.whole(apart)])], perm=[0, 2, 4, 3, 5, 1])
    rows = g.add("Reshape", [cut, g.whole([-1, 4, c])])
    rows = g.add("MatMul", [rows, g.like(x, c, c, scale=0.3)])
    again = g.add("Reshape", [rows, g.whole([n, h // 2, w // 2, 2, 2, c])])
    image = g.add("Transpose", [again], perm=[0, 5, 1, 3, 2, 4])
    image = g.add("Reshape", [image, g.whole([n, c, h, w])])
    if g.chance(0.7):
        g.add("Add", [x, image])


@family("fiub", least=1, weight=2)
def roll(g: Growing, x: Tensor) -> None:
    axis = g.random.randrange(x.rank)
    if x.shape[axis] > 1:
        at, end = g.whole([g.random.randint(1, x.shape[axis] - 1)]), g.whole([2**31])
        parts = [g.add("Slice", [x, *ends, g.whole([axis])])
                 for ends in ((at, end), (g.whole([0]), at))]  # fmt: skip
        y = g.add("Concat", parts, axis=axis)
        if x.kind == "f" and g.chance(0.5):
            g.add("Add", [y, x])


@family("f", least=4, most=4, weight=2)
def dense_block(g: Growing, x: Tensor) -> None:
    """Make a dense block: each layer reads all previous results."""
    parts, channels = [x.name], x.shape[1]
    if channels > 16:
        return
    for _ in range(g.random.randint(2, 3)):
        y = g.add("Concat", parts, axis=1) if len(parts) > 1 else x.name
        y = g.add("Relu", [y]) if g.chance(0.5) else y
        y = g.add("Conv", [y, g.like(x, 4, channels, 3, 3, scale=0.2)], pads=[1] * 4)
        parts, channels = [*parts, y], channels + 4
    g.add("Concat", parts, axis=1)


@family("f", least=4, most=4)
def shuffle(g: Growing, x: Tensor) -> None:
    """Shuffle channels and compute a layer on half of them."""
    n, c, h, w = x.shape
    if c % 2:
        return
    apart = g.add("Reshape", [x, g.whole([n, 2, c // 2, h, w])])
    turned = g.add("Transpose", [apart], perm=[0, 2, 1, 3, 4])
    first = g.add("Reshape", [turned, g.whole([n, c, h, w])])
    a, b = (g.add("Slice", [first, g.whole([i * c // 2]), g.whole([(i + 1) * c // 2]),
                            g.whole([1])]) for i in (0, 1))  # fmt: skip
    b = g.add("Conv", [b, g.like(x, c // 2, c // 2, 1, 1, scale=0.4)])
    g.add("Concat", [a, b] if g.chance(0.5) else [b, a], axis=1)


@family("f", least=3, most=4)
def normalised_and_added(g: Growing, x: Tensor) -> None:
    """Add two readers: one needs all of it in rows, the other adds it by pixels."""
    rows = g.add("Reshape", [x, g.whole([x.shape[0], 1, -1])])
    rows = g.add("InstanceNormalization", [rows, g.like(x, 1), g.like(x, 1)])
    y = g.add("Reshape", [rows, g.whole(list(x.shape))])
    c = x.shape[1]
    y = g.add("Conv", [y, g.like(x, c, c, *[1] * (x.rank - 2), scale=0.4)])
    g.add("Add", [x, y] if g.chance(0.5) else [y, x])
