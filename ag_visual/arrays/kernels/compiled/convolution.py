"""Convolution of images without columns: products of shifted lines.

Layer 1. `compiled/__init__.py` says what kernels are given; `kernels/direct.py` makes the plans.

An image is laid out, with its padding, as a plane for each place in the stride. Then what a tap of
the kernel meets at all places of the output is one line of memory, as long as the output and a
little more: places between two lines of the output are computed and left out.
"""

from __future__ import annotations

from ag_visual.arrays.kernels.compiled.making import summing
from ag_visual.arrays.kernels.compiled.tiles import (
    copied,
    parted,
    products1,
    products4,
    sums1,
    sums4,
)

# So many numbers of a line are added up before the next output: what is met lies in a cache.
_TOGETHER = 1024


@summing
def _laid_out(x, begin, channels, height, width, to, stride_y, stride_x, top, left, plane, pitch):
    """Channels (C, H, W) from x[begin] on as planes (C, places in the stride, rows, pitch).

    The padding stays. (Flat arrays, as a slice costs as much as a line.)
    """
    pairs = width // 8 if stride_x == 2 else 0
    for c in range(channels):
        for y in range(height):
            row, py = (y + top) // stride_y, (y + top) % stride_y
            start = begin + (c * height + y) * width
            to_row = (c * stride_y + py) * stride_x * plane + row * pitch
            if stride_x == 1:
                copied(to, to_row + left, x, start, width)
                continue
            if pairs:
                at = to_row + left % 2 * plane + left // 2
                other = to_row + (left + 1) % 2 * plane + (left + 1) // 2
                parted(to, at, other, x, start, pairs)
            for i in range(min(stride_x, width)):
                column, px = (i + left) // stride_x, (i + left) % stride_x
                at = to_row + px * plane + column
                for j in range(4 * pairs, (width - 1 - i) // stride_x + 1):
                    to[at + j] = x[start + i + j * stride_x]


@summing
def convolution(x, weights, offsets, bias, layout, parts, memory, sums, out):
    """out[n, o, y + sy r, x + sx q] = bias[o]
                          + sum over k of weights[o, k] memory[base + offsets[k] + r pitch + q]

    x: (N, C, H, W), which `memory` (zeros) is filled with. layout:
    groups; stride_y, stride_x, top, left, size and pitch of the input's planes; sy and sx; the
    places that a tile of four outputs has and one of one. parts, of the output: y, x, lines and
    columns of each, the number of its k, where its weights (outputs, K) and offsets begin, and its
    base. sums: room for a line of so many places as are computed together, and for four.
    """
    groups, stride_y, stride_x, top, left, plane, pitch, sy, sx, wide, narrow = layout
    outs = out.shape[1] // groups
    apart = x.shape[1] // groups * stride_y * stride_x * plane
    height, width = out.shape[2:]
    flat, to = x.reshape(-1), out.reshape(-1)
    room = sums.size // 4
    most = max(1, _TOGETHER // pitch)
    for n in range(x.shape[0]):
        _laid_out(
            *(flat, n * x[0].size, *x.shape[1:], memory),
            *(stride_y, stride_x, top, left, plane, pitch),
        )
        for part in range(parts.shape[0]):
            y0, x0, lines, columns, depth, first, offs, base = parts[part]
            for begin in range(0, lines, most):
                end = min(lines, begin + most)
                length = (end - begin - 1) * pitch + columns
                for o in range(out.shape[1]):
                    group, place = o // outs, o % outs
                    start = group * apart + base + begin * pitch
                    count = 1
                    if place < outs // 4 * 4:
                        count = 4
                        if place % 4:
                            continue
                    at = first + o * depth
                    if count == 4:
                        for i in range(0, length, wide):
                            here = start + i
                            products4(
                                *(memory, here, offsets, offs, depth, weights, at, depth),
                                *(bias, o, sums, i, room),
                            )
                    else:
                        for i in range(0, length, narrow):
                            here = start + i
                            products1(
                                *(memory, here, offsets, offs, depth, weights, at, depth),
                                *(bias, o, sums, i, room),
                            )
                    for j in range(count):
                        row = (n * out.shape[1] + o + j) * height + y0 + begin * sy
                        for r in range(end - begin):
                            at = (row + r * sy) * width + x0
                            if sx == 1:
                                copied(to, at, sums, j * room + r * pitch, columns)
                            else:
                                for i in range(columns):
                                    to[at + i * sx] = sums[j * room + r * pitch + i]


@summing
def convolution_weight(g, x, offsets, layout, memory, upper, total):
    """total[o, k] = sum over places of g[o] memory[offsets[k] + place], of all images.

    g: (N, O, lines, columns), which `upper` (zeros) is filled with. layout: as above, up to pitch,
    then the size of g's planes and how many places are added up together, both whole vectors.
    offsets and total (float64): for whole tiles of 9.
    """
    groups, stride_y, stride_x, top, left, plane, pitch, length, together = layout
    outs, depth = g.shape[1] // groups, total.shape[1]
    apart = x.shape[1] // groups * stride_y * stride_x * plane
    given, upper_given, flat = x.reshape(-1), g.reshape(-1), total.reshape(-1)
    for n in range(x.shape[0]):
        _laid_out(
            *(given, n * x[0].size, *x.shape[1:], memory),
            *(stride_y, stride_x, top, left, plane, pitch),
        )
        _laid_out(
            *(upper_given, n * g[0].size, *g.shape[1:], upper),
            *(1, 1, 0, 0, length, pitch),
        )
        for begin in range(0, length, together):
            count = min(together, length - begin)
            for o in range(g.shape[1]):
                group, place = o // outs, o % outs
                there = memory[group * apart + begin :]
                here = o * length + begin
                if place >= outs // 4 * 4:
                    for k in range(0, depth, 9):
                        at = o * depth + k
                        sums1(upper, here, length, there, offsets, k, count, flat, at, depth)
                elif place % 4 == 0:
                    for k in range(0, depth, 3):
                        at = o * depth + k
                        sums4(upper, here, length, there, offsets, k, count, flat, at, depth)


TAKES = {
    convolution: "i v n v n p v v i",
    convolution_weight: "i i n n v v w",
}
