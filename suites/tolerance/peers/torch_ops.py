#!/usr/bin/env python3
"""Every operation of a back end against PyTorch in float64, on random inputs.

usage: torch_ops.py --kigo PATH [--backend NAME] [--dtype f32|f16] [--seed N] [--op NAME]

Inputs go through `kigo op` as safetensors, in the precision asked for, so that both sides compute with the same
numbers. Each case prints one JSON line: what was compared, the largest error, and `margin`, the largest error as a
share of its bound. The bound is made element by element from what the arithmetic allows (`why`); a margin above 1
fails.

Exit code: 0 all within their bounds, 1 not so, 77 PyTorch is missing (the reason is on standard error).
"""

import argparse
import ctypes
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"{sys.executable}: {missing}: PyTorch is not installed", file=sys.stderr)
    sys.exit(77)

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.int32: "I32", torch.uint8: "U8", torch.int8: "I8"}
ROUND_F32, ROUND_F16, SMALLEST_F16 = 2.0**-24, 2.0**-11, 2.0**-25


def e4m3_value(byte):
    """OCP 8-bit Floating Point Specification: bias 7, subnormals, 0x7F and 0xFF are NaN."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if byte & 0x7F == 0x7F:
        return math.nan
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if byte & 0x80 else magnitude


def float32(value):
    """What a parameter that the operation takes as float32 is."""
    return struct.unpack("f", struct.pack("f", value))[0]


E4M3 = torch.tensor([e4m3_value(byte) for byte in range(256)], dtype=torch.float64)


def write_safetensors(path, tensors):
    header, data = {}, []
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        raw = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        begin = sum(len(d) for d in data)
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, begin + len(raw)]}
        data.append(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    (n,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + n]).items():
        begin, end = entry["data_offsets"]
        raw = bytearray(content[8 + n + begin : 8 + n + end])
        if entry["dtype"] == "F8_E4M3":
            values = E4M3[torch.frombuffer(raw, dtype=torch.uint8).long()]
        elif entry["dtype"] == "I8":
            values = torch.frombuffer(raw, dtype=torch.int8).double()
        elif entry["dtype"] == "I32":
            values = torch.frombuffer(raw, dtype=torch.int32).double()
        else:
            values = torch.frombuffer(raw, dtype=torch.float32).double()
        tensors[name] = values.reshape(entry["shape"])
    return tensors


class Case:
    """Tensors and parameters of a run, what they give in float64, and how far off an element may be."""

    def __init__(self, op, name, tensors, params, want, bound, why):
        self.op, self.name, self.tensors, self.params = op, name, tensors, params
        self.want, self.bound, self.why = want, bound, why


class Maker:
    def __init__(self, seed, dtype):
        self.random = torch.Generator().manual_seed(seed)
        self.dtype = torch.float16 if dtype == "f16" else torch.float32

    def normal(self, *shape, deviation=1.0, mean=0.0):
        x = torch.randn(*shape, generator=self.random, dtype=torch.float64) * deviation + mean
        return x.to(self.dtype)

    def vector(self, shape, deviation=1.0, mean=0.0):
        """float32 in every precision; the values are those of activations."""
        return self.normal(*(shape if isinstance(shape, tuple) else (shape,)), deviation=deviation, mean=mean).float()

    def quantized(self, form, *shape):
        """Bytes of E4M3 or int8, and the numbers they stand for."""
        if form == "int8":
            x = torch.randint(-127, 128, shape, generator=self.random, dtype=torch.int8)
            return x, x.double()
        x = torch.randint(0, 120, shape, generator=self.random, dtype=torch.uint8)
        x += 128 * torch.randint(0, 2, shape, generator=self.random, dtype=torch.uint8)
        return x, E4M3[x.long()]

    def ids(self, n, below):
        return torch.randint(below, (n,), generator=self.random, dtype=torch.int32)

    def rounded(self, want, computed):
        """`computed` is the error before the result is rounded to the precision of activations."""
        if self.dtype == torch.float16:
            return computed + want.abs() * ROUND_F16 * 1.01 + SMALLEST_F16
        return computed + want.abs() * ROUND_F32 * 1.01 + 2.0**-149


def embedding_cases(m):
    for n_vocab, n_embd in ((97, 33), (1000, 896)):
        weight, ids = m.normal(n_vocab, n_embd), m.ids(11, n_vocab)
        want = F.embedding(ids.long(), weight.double())
        yield Case("embedding", f"{n_vocab}x{n_embd}", {"weight": weight, "ids": ids}, {}, {"out": want},
                   {"out": m.rounded(want, 0 * want)}, "a row is copied, rounded once")
    for n_vocab, n_embd, n_positions, position in ((97, 33, 11, 0), (50, 768, 1024, 1013)):
        weight, ids, positions = m.normal(n_vocab, n_embd), m.ids(11, n_vocab), m.vector((n_positions, n_embd))
        want = F.embedding(ids.long(), weight.double()) + positions.double()[position : position + 11]
        yield Case("embedding", f"{n_vocab}x{n_embd} positions from {position} of {n_positions}",
                   {"weight": weight, "ids": ids, "positions": positions}, {"first_position": position}, {"out": want},
                   {"out": m.rounded(want, want.abs() * ROUND_F32)}, "one sum, rounded")


def rmsnorm_cases(m):
    for rows, cols, eps in ((1, 896, 1e-6), (5, 897, 1e-5), (3, 3072, 1e-5)):
        x, weight = m.normal(rows, cols), m.vector(cols, 0.1, 1.0)
        xd = x.double()
        want = xd / torch.sqrt((xd * xd).mean(-1, keepdim=True) + float32(eps)) * weight.double()
        error = want.abs() * (math.log2(cols) + 6) * ROUND_F32
        yield Case("rmsnorm", f"{rows}x{cols}", {"x": x, "weight": weight}, {"eps": eps}, {"out": want},
                   {"out": m.rounded(want, error)},
                   "a tree sum of n squares in float32, then root, quotient and products")


def layernorm_cases(m):
    for rows, cols, eps, offset, with_bias in ((1, 768, 1e-5, 0.0, True), (5, 897, 1e-5, 3.0, True),
                                               (3, 1600, 1e-6, -200.0, False)):
        x, weight = m.normal(rows, cols, mean=offset), m.vector(cols, 0.1, 1.0)
        tensors, bias = {"x": x, "weight": weight}, None
        if with_bias:
            tensors["bias"] = bias = m.vector(cols)
        eps = float32(eps)
        want = F.layer_norm(x.double(), (cols,), weight.double(), bias.double() if with_bias else None, eps)
        unit = want.abs() + weight.double().abs() + (bias.double().abs() if with_bias else 0)
        yield Case("layernorm", f"{rows}x{cols} mean={offset:g}{' bias' if with_bias else ''}", tensors, {"eps": eps},
                   {"out": want},
                   {"out": m.rounded(want, unit * (math.log2(cols) + 8) * ROUND_F32)},
                   "tree sums of n differences and squares in float32, the mean corrected, then root, quotient, "
                   "products and sum")


def linear_cases(m):
    for rows, n_out, n_in, bias in ((1, 896, 4864, False), (1, 1152, 896, True), (7, 33, 96, True), (65, 3, 129, False),
                                    (2, 17, 63, True), (130, 257, 256, True), (1, 1, 1, False)):
        x, weight = m.normal(rows, n_in), m.normal(n_out, n_in, deviation=1 / math.sqrt(n_in))
        tensors, b = {"x": x, "weight": weight}, None
        if bias:
            tensors["bias"] = b = m.vector(n_out)
        want = F.linear(x.double(), weight.double(), b.double() if bias else None)
        unit = F.linear(x.double().abs(), weight.double().abs(), b.double().abs() if bias else None)
        yield Case("linear", f"M={rows} N={n_out} K={n_in}{' bias' if bias else ''}", tensors, {}, {"out": want},
                   {"out": m.rounded(want, unit * (8 + math.sqrt(n_in)) * ROUND_F32)},
                   "float32 sums of K products err by about sqrt(K) roundings of sum|x w|")


def rope_cases(m):
    for rows, heads, dim, n_rot, position, interleaved, with_factors, magnitude in (
            (5, 14, 64, 64, 0, 0, False, 1.0), (3, 8, 96, 96, 4093, 0, False, 1.0),
            (4, 4, 128, 128, 32765, 1, True, 1.0),
            (2, 3, 80, 32, 131000, 1, False, 1.0), (6, 2, 64, 48, 997, 0, True, 1.0),
            (5, 8, 64, 64, 4099, 0, True, 1.3465736), (3, 4, 96, 72, 997, 1, True, 0.75)):
        magnitude = float32(magnitude)
        x = m.normal(rows, heads, dim)
        base, scale = 500000.0, 0.25 if with_factors else 1.0
        tensors = {"x": x}
        i = torch.arange(n_rot // 2, dtype=torch.float64)
        freq = base ** (-2 * i / n_rot)
        if with_factors:
            tensors["factors"] = m.vector(n_rot // 2, 0.1, 2.0)
            freq = freq / tensors["factors"].double()
        angle = (position + torch.arange(rows, dtype=torch.float64))[:, None] * scale * freq[None]
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        want = x.double().clone()
        first = slice(0, n_rot, 2) if interleaved else slice(0, n_rot // 2)
        second = slice(1, n_rot, 2) if interleaved else slice(n_rot // 2, n_rot)
        a, b = x.double()[..., first], x.double()[..., second]
        want[..., first], want[..., second] = (a * cos - b * sin) * magnitude, (a * sin + b * cos) * magnitude
        error = torch.full_like(want, 4 * ROUND_F32 * math.sqrt(2) * x.abs().max().item() * max(1, magnitude))
        yield Case("rope", f"{rows}x{heads}x{dim} rot={n_rot} at={position} interleaved={interleaved} "
                   f"magnitude={magnitude:g}", tensors,
                   {"first_position": position, "n_rot": n_rot, "interleaved": interleaved, "base": base,
                    "scale": scale, "magnitude": magnitude},
                   {"out": want}, {"out": m.rounded(want, error)},
                   "cos, sin, two products and a sum in float32 of exact angles, times the magnitude; what does not "
                   "turn is copied")


def kv_write_cases(m):
    rows, heads, dim, n_ctx, position = 3, 2, 64, 9, 4
    k, v = m.normal(rows, heads, dim), m.normal(rows, heads, dim)
    want = {"k_cache": torch.zeros(heads, n_ctx, dim, dtype=torch.float64)}
    want["v_cache"] = want["k_cache"].clone()
    want["k_cache"][:, position : position + rows] = k.double().transpose(0, 1)
    want["v_cache"][:, position : position + rows] = v.double().transpose(0, 1)
    yield Case("kv_write", f"{rows} rows at {position} of {n_ctx}", {"k": k, "v": v},
               {"n_ctx": n_ctx, "first_position": position}, want,
               {name: m.rounded(w, 0 * w) for name, w in want.items()},
               "rows are copied, rounded once; the rest stays zero")


def sdpa_mask(queries, keys, causal, window):
    at, key = keys - queries + torch.arange(queries)[:, None], torch.arange(keys)[None]
    seen = (key <= at) if causal else torch.ones(queries, keys, dtype=torch.bool)
    return seen & (at - key < window) if window else seen


def sdpa_want(q, k, v, seen, scale, sinks):
    """A sink is one more key, whose value is 0; a query that sees nothing gives zeros."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q @ k.transpose(2, 3) * scale).masked_fill(~seen, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    weights = F.softmax(scores, -1).nan_to_num(0.0)[..., : k.shape[2]]
    return (weights @ v).masked_fill(~seen.any(1)[None, None, :, None], 0.0)


def attention_cases(m):
    for rows, keys, heads, kv_heads, dim, causal, window, sink in (
            (1, 1, 14, 2, 64, 1, 0, None), (1, 513, 14, 2, 64, 1, 0, None), (64, 64, 8, 8, 96, 1, 0, None),
            (17, 65, 6, 2, 64, 1, 0, None), (65, 65, 4, 1, 128, 1, 0, None), (9, 40, 4, 2, 80, 0, 0, None),
            (33, 129, 8, 2, 64, 1, 16, None), (1, 1025, 8, 2, 128, 1, 128, None), (1, 1, 8, 1, 64, 1, 0, 1.0),
            (1, 513, 8, 1, 64, 1, 128, 1.0), (65, 65, 16, 2, 64, 1, 0, 1.0), (33, 161, 8, 1, 64, 1, 32, 3.0),
            (7, 40, 4, 2, 80, 0, 0, 8.0)):
        q, k, v = m.normal(rows, heads, dim), m.normal(keys, kv_heads, dim), m.normal(keys, kv_heads, dim)
        tensors = {"q": q, "k": k, "v": v}
        qd, kd, vd = (t.double().transpose(0, 1) for t in (q, k, v))
        kd, vd = kd.repeat_interleave(heads // kv_heads, 0), vd.repeat_interleave(heads // kv_heads, 0)
        seen, scale = sdpa_mask(rows, keys, causal, window), 1 / math.sqrt(dim)
        products = (qd.abs() @ kd.abs().transpose(1, 2)).max().item() * scale
        if sink is None:
            want = F.scaled_dot_product_attention(qd[None], kd[None], vd[None], attn_mask=seen, scale=scale)
        else:
            tensors["sinks"] = m.vector(heads, deviation=sink)
            want = sdpa_want(qd[None], kd[None], vd[None], seen, scale, tensors["sinks"])
            products += tensors["sinks"].abs().max().item()
        want = want[0].transpose(0, 1)
        largest = v.abs().max().item()
        error = largest * (4 + products) * 2 * ROUND_F32
        if m.dtype == torch.float16:
            error += largest * 3 * ROUND_F16
        yield Case("attention", f"rows={rows} keys={keys} heads={heads}/{kv_heads} dim={dim} causal={causal} "
                   f"window={window}{'' if sink is None else f' sinks={sink:g}'}", tensors,
                   {"causal": causal, "window": window}, {"out": want},
                   {"out": m.rounded(want, torch.full_like(want, error))},
                   "a logit errs by a few roundings of sum|q k| scale and moves its weight by that share; weights sum "
                   "to 1, and in f16 may be halves themselves")


def sdpa_cases(m):
    for batch, queries, keys, heads, kv_heads, dim, causal, window, with_sinks, quantized in (
            (1, 1, 1, 8, 8, 64, 0, 0, 0, 0), (2, 65, 65, 4, 2, 64, 1, 0, 0, 0), (1, 17, 513, 14, 2, 64, 1, 0, 1, 0),
            (1, 130, 63, 4, 1, 128, 1, 0, 0, 0), (1, 33, 127, 8, 2, 80, 1, 16, 1, 0), (2, 9, 40, 4, 4, 96, 0, 0, 1, 0),
            (1, 65, 65, 8, 2, 64, 1, 0, 1, "E4M3"), (2, 3, 200, 6, 3, 128, 0, 0, 0, "E4M3"),
            (1, 65, 65, 8, 2, 64, 1, 0, 1, "int8"), (2, 3, 200, 6, 3, 128, 0, 0, 0, "int8")):
        shapes = {"q": (batch, heads, queries, dim), "k": (batch, kv_heads, keys, dim),
                  "v": (batch, kv_heads, keys, dim)}
        tensors, values = {}, {}
        for name, shape in shapes.items():
            if quantized:
                tensors[name], numbers = m.quantized(quantized, *shape)
                tensors[f"{name}_scale"] = m.normal(*shape[:2]).float().abs() * 0.001 + 0.01
                values[name] = numbers * tensors[f"{name}_scale"].double()[..., None, None]
            else:
                tensors[name] = m.normal(*shape)
                values[name] = tensors[name].double()
        if with_sinks:
            tensors["sinks"] = m.vector(heads)
        scale = float32(1 / math.sqrt(dim))
        want = sdpa_want(values["q"], values["k"], values["v"], sdpa_mask(queries, keys, causal, window), scale,
                         tensors.get("sinks"))
        products = scale * (values["q"].abs() @ values["k"].abs().repeat_interleave(heads // kv_heads, 1).transpose(
            2, 3)).max().item()
        largest = values["v"].abs().max().item()
        error = largest * (4 + products) * 2 * ROUND_F32
        if m.dtype == torch.float16:
            error += largest * 3 * ROUND_F16
        yield Case("sdpa", f"B={batch} Sq={queries} Sk={keys} H={heads}/{kv_heads} D={dim} causal={causal} "
                   f"window={window} sinks={with_sinks}{f' {quantized}' if quantized else ''}", tensors,
                   {"causal": causal, "window": window}, {"out": want},
                   {"out": m.rounded(want, torch.full_like(want, error))},
                   "a logit errs by a few roundings of sum|q k| scale and moves its weight by that share; weights sum "
                   "to 1, and in f16 may be halves themselves")


def sdpa_quantize_cases(m):
    for batch, heads, rows, dim, deviation, int8 in ((1, 8, 512, 64, 1.0, 0), (2, 3, 5, 80, 100.0, 0),
                                                     (1, 2, 33, 97, 0.001, 0), (1, 8, 512, 64, 1.0, 1),
                                                     (2, 3, 5, 97, 0.001, 1)):
        x = m.normal(batch, heads, rows, dim, deviation=deviation)
        scale = x.float().abs().amax((2, 3)) / torch.tensor(127.0 if int8 else 448.0)
        quotient = (x.float() / scale[..., None, None]).double()
        step = 1.0 if int8 else 2.0 ** (torch.frexp(quotient).exponent - 1).clamp(min=-6).double() / 8
        want = {"out": (torch.round(quotient / step) * step).clamp(-448, 448), "scale": scale.double()}
        yield Case("sdpa_quantize", f"{batch}x{heads}x{rows}x{dim} x={deviation:g}{' int8' if int8 else ''}", {"x": x},
                   {"int8": int8}, want, {name: torch.zeros_like(w) for name, w in want.items()},
                   "quotients in float32 rounded to nearest even, to 3 bits after the first, multiples of 2^-9 or "
                   "whole numbers: the same numbers")


def attention_weights_cases(m):
    for rows, keys, heads, kv_heads, dim, causal, window, sink in (
            (1, 513, 14, 2, 64, 1, 0, None), (65, 65, 6, 2, 64, 1, 0, None), (17, 129, 4, 1, 128, 0, 0, None),
            (33, 129, 8, 2, 80, 1, 16, None), (1, 1025, 8, 2, 128, 1, 128, 1.0), (3, 40, 4, 4, 33, 0, 0, 3.0)):
        q, k = m.normal(rows, heads, dim), m.normal(keys, kv_heads, dim)
        tensors, scale = {"q": q, "k": k}, float32(1 / math.sqrt(dim))
        qd, kd = q.double().transpose(0, 1), k.double().transpose(0, 1).repeat_interleave(heads // kv_heads, 0)
        scores = (qd @ kd.transpose(1, 2) * scale).masked_fill(~sdpa_mask(rows, keys, causal, window), -math.inf)
        products = (qd.abs() @ kd.abs().transpose(1, 2)).max().item() * scale
        if sink is not None:
            tensors["sinks"] = m.vector(heads, deviation=sink)
            scores = torch.cat((scores, tensors["sinks"].double()[:, None, None].expand(heads, rows, 1)), -1)
        want = F.softmax(scores, -1)[..., :keys]
        error = want * (2 * math.log2(keys) + 16 + 2 * (8 + math.sqrt(dim)) * products) * ROUND_F32 + 2.0**-126
        yield Case("attention_weights", f"rows={rows} keys={keys} heads={heads}/{kv_heads} dim={dim} causal={causal} "
                   f"window={window}{'' if sink is None else f' sinks={sink:g}'}", tensors,
                   {"causal": causal, "window": window}, {"out": want}, {"out": m.rounded(want, error)},
                   "a logit errs by sqrt(dim) roundings of sum|q k| scale and moves its weight by that share; "
                   "exponentials, a tree sum and a product in float32")


def softmax_cases(m):
    for rows, cols, deviation, scale, masked in ((1, 513, 3.0, 1.0, False), (65, 65, 8.0, 0.125, True),
                                                 (3, 4099, 2.0, 1.0, False)):
        x = m.normal(rows, cols, deviation=deviation)
        if masked:
            x[torch.ones(rows, cols, dtype=torch.bool).triu(1)] = -math.inf
        exponent = x.double() * scale
        want = F.softmax(exponent, -1)
        span = (exponent.amax(-1, keepdim=True) - exponent).nan_to_num(posinf=0.0)
        yield Case("softmax", f"{rows}x{cols} scale={scale:g}{' causal' if masked else ''}", {"x": x}, {"scale": scale},
                   {"out": want},
                   {"out": m.rounded(want, want * (2 * math.log2(cols) + 16 + 2 * span) * ROUND_F32)},
                   "exponents rounded twice, exponentials, a tree sum of n, a quotient and a product in float32; "
                   "masked gives 0")


def add_cases(m):
    a, b = m.normal(5, 897), m.normal(5, 897)
    want = a.double() + b.double()
    yield Case("add", "5x897", {"a": a, "b": b}, {}, {"out": want}, {"out": m.rounded(want, want.abs() * ROUND_F32)},
               "one sum, rounded")


def swiglu_cases(m):
    for deviation, limit, alpha, up_offset in ((1.0, 0.0, 1.0, 0.0), (10.0, 0.0, 1.0, 0.0), (4.0, 7.0, 1.702, 1.0),
                                               (30.0, 7.0, 1.702, 1.0), (4.0, 1.0, 1.0, -0.5)):
        gate, up, alpha = (m.normal(3, 4865, deviation=deviation), m.normal(3, 4865, deviation=max(1, limit)),
                           float32(alpha))
        g, u = gate.double(), up.double()
        if limit > 0:
            g, u = g.clamp(max=limit), u.clamp(-limit, limit)
        want = g * torch.sigmoid(alpha * g) * (u + up_offset)
        exponent = 0 if alpha == 1 else (alpha * g).abs().clamp(max=88) * torch.sigmoid(-alpha * g)
        yield Case("swiglu", f"3x4865 gate={deviation:g} limit={limit:g} alpha={alpha:g} up_offset={up_offset:g}",
                   {"gate": gate, "up": up}, {"limit": limit, "alpha": alpha, "up_offset": up_offset}, {"out": want},
                   {"out": m.rounded(want, want.abs() * (8 + exponent) * ROUND_F32 +
                                     (g * (u + up_offset)).abs() * (1 + 2.0**-12) * 2.0**-128 + 2.0**-149)},
                   "an exponential within two units in the last place, of an exponent rounded once unless alpha is 1, "
                   "infinite from 2^128 on; sums, a quotient and a product")


def gelu_cases(m):
    for erf in (0, 1):
        for deviation in (1.0, 10.0):
            x = m.normal(3, 4865, deviation=deviation)
            want = F.gelu(x.double(), approximate="none" if erf else "tanh")
            exponent = 0 if erf else (1.6 * x.double().abs() + 0.072 * x.double().abs() ** 3).clamp(max=88)
            yield Case("gelu", f"3x4865 {'erf' if erf else 'tanh'} x={deviation}", {"x": x}, {"erf": erf},
                       {"out": want},
                       {"out": m.rounded(want, want.abs() * (12 + 4 * exponent) * ROUND_F32 +
                                         x.double().abs() * 2.0**-52)},
                       "tanh: an exponential of an exponent rounded four times, a sum and a quotient; erf: five units "
                       "in the last place; PyTorch itself loses |x| 2^-52 to a difference from 1")


def router_cases(m):
    """Of equal logits the lower expert comes first, as a stable sort has them."""
    for rows, n_experts, n_used, deviation, rounded in ((1, 32, 4, 2.0, False), (67, 32, 4, 2.0, True),
                                                        (9, 5, 5, 20.0, False), (3, 1, 1, 1.0, False),
                                                        (5, 1024, 37, 3.0, True)):
        logits = m.vector((rows, n_experts), deviation=deviation)
        logits = logits.round() if rounded else logits
        chosen, ids = torch.sort(logits.double(), dim=-1, descending=True, stable=True)
        chosen, ids = chosen[:, :n_used], ids[:, :n_used].double()
        want = {"ids": ids, "weights": F.softmax(chosen, -1)}
        error = want["weights"] * (2 * math.log2(n_used) + 16 + 2 * (chosen[:, :1] - chosen)) * ROUND_F32 + 2.0**-147
        yield Case("router", f"{rows}x{n_experts} used={n_used}{' equal ones' if rounded else ''}", {"logits": logits},
                   {"n_used": n_used}, want, {"ids": torch.zeros_like(ids), "weights": error},
                   "the same experts; exponents rounded once, exponentials, a sum and a quotient in float32")


def normed(m, rows, n_in, eps):
    """x, the norm's weight, n = rmsnorm(x) and what n may be off by: a tree sum and products, in f16 one rounding."""
    x, weight = m.normal(rows, n_in), m.vector(n_in, 0.1, 1.0)
    xd = x.double()
    n = xd / torch.sqrt((xd * xd).mean(-1, keepdim=True) + float32(eps)) * weight.double()
    error = n.abs() * (math.log2(n_in) + 6) * ROUND_F32
    return x, weight, n, m.rounded(n, error) if m.dtype == torch.float16 else error


def product_of(m, n, n_error, weight, bias):
    """n weight^T + bias, and what it may be off by before it is rounded."""
    w, b = weight.double(), 0 if bias is None else bias.double()
    sums = 8 + math.sqrt(weight.shape[1])
    return n @ w.T + b, (n.abs() @ w.abs().T + abs(b)) * sums * ROUND_F32 + n_error @ w.abs().T


def norm_qkv_cases(m):
    for rows, n_in, n_q, n_k, eps, with_bias in ((1, 896, 896, 128, 1e-6, True), (7, 96, 64, 32, 1e-5, False),
                                                 (65, 256, 256, 64, 1e-5, True), (3, 63, 18, 6, 1e-5, False)):
        x, weight, n, n_error = normed(m, rows, n_in, eps)
        tensors, want, bound = {"x": x, "norm_weight": weight}, {}, {}
        for name, n_out in (("q", n_q), ("k", n_k), ("v", n_k)):
            w = tensors[f"{name}_weight"] = m.normal(n_out, n_in, deviation=1 / math.sqrt(n_in))
            b = m.vector(n_out) if with_bias else None
            if with_bias:
                tensors[f"{name}_bias"] = b
            want[name], error = product_of(m, n, n_error, w, b)
            bound[name] = m.rounded(want[name], error)
        yield Case("norm_qkv", f"M={rows} K={n_in} N={n_q}+2x{n_k}{' bias' if with_bias else ''}", tensors,
                   {"eps": eps}, want, bound, "the norm's error and, in f16, its rounding times sum|w|; float32 sums")


def norm_swiglu_cases(m):
    for rows, n_in, n_out, limit, alpha, up_offset in ((1, 896, 1030, 0.0, 1.0, 0.0), (7, 96, 64, 7.0, 1.702, 1.0),
                                                       (65, 256, 512, 0.0, 1.0, 0.0), (3, 63, 5, 0.0, 1.0, 0.0)):
        x, weight, n, n_error = normed(m, rows, n_in, 1e-5)
        tensors, alpha = {"x": x, "norm_weight": weight}, float32(alpha)
        parts = []
        for name in ("gate", "up"):
            w = tensors[f"{name}_weight"] = m.normal(n_out, n_in, deviation=1 / math.sqrt(n_in))
            value, error = product_of(m, n, n_error, w, None)
            parts += [value, m.rounded(value, error)]  # in f16 a product may be rounded
        g, g_error, u, u_error = parts
        if limit > 0:
            g, u = g.clamp(max=limit), u.clamp(-limit, limit)
        gate, up = g * torch.sigmoid(alpha * g), u + up_offset
        want = gate * up
        exponent = 8 + (alpha * g).abs()
        error = 1.1 * g_error * (up.abs() + u_error) + gate.abs() * u_error + want.abs() * exponent * ROUND_F32
        yield Case("norm_swiglu", f"M={rows} K={n_in} N={n_out} limit={limit:g} alpha={alpha:g}", tensors,
                   {"eps": 1e-5, "limit": limit, "alpha": alpha, "up_offset": up_offset}, {"out": want},
                   {"out": m.rounded(want, error)},
                   "errors of gate and up, each of which f16 may round, times the other; a gate's slope is below 1.1")


def linear_add_cases(m):
    for rows, n_in, n_out, with_bias in ((1, 4864, 896, False), (7, 96, 33, True), (65, 256, 512, True),
                                         (3, 63, 5, False)):
        x, residual = m.normal(rows, n_in), m.normal(rows, n_out)
        tensors = {"x": x, "residual": residual, "weight": m.normal(n_out, n_in, deviation=1 / math.sqrt(n_in))}
        if with_bias:
            tensors["bias"] = m.vector(n_out)
        product, error = product_of(m, x.double(), torch.zeros_like(x).double(), tensors["weight"], tensors.get("bias"))
        want = residual.double() + product
        yield Case("linear_add", f"M={rows} K={n_in} N={n_out}{' bias' if with_bias else ''}", tensors, {},
                   {"out": want}, {"out": m.rounded(want, m.rounded(product, error) + want.abs() * ROUND_F32)},
                   "a float32 sum of K products, which f16 may round before it is added")


def experts_linear_cases(m):
    for tokens, n_used, n_experts, n_out, n_in, shared, bias in (
            (1, 4, 32, 64, 96, True, True), (1, 4, 32, 96, 64, False, True), (17, 4, 8, 33, 96, True, False),
            (65, 2, 5, 24, 129, False, True), (3, 1, 1, 7, 2880, True, True)):
        ids = torch.stack([torch.randperm(n_experts, generator=m.random)[:n_used] for _ in range(tokens)]).flatten()
        x = m.normal(tokens if shared else len(ids), n_in)
        weight = m.normal(n_experts, n_out, n_in, deviation=1 / math.sqrt(n_in))
        tensors, b = {"x": x, "weight": weight, "ids": ids.int()}, 0
        if bias:
            tensors["bias"] = m.vector((n_experts, n_out))
            b = tensors["bias"].double()[ids]
        rows = x.double().repeat_interleave(len(ids) // len(x), 0)
        want = torch.einsum("ri,roi->ro", rows, weight.double()[ids]) + b
        unit = torch.einsum("ri,roi->ro", rows.abs(), weight.double().abs()[ids]) + abs(b)
        yield Case("experts_linear", f"M={len(ids)}{' shared' if shared else ''} N={n_out} K={n_in} "
                   f"experts={n_used}/{n_experts}{' bias' if bias else ''}", tensors, {}, {"out": want},
                   {"out": m.rounded(want, unit * (8 + math.sqrt(n_in)) * ROUND_F32)},
                   "float32 sums of K products err by about sqrt(K) roundings of sum|x w|")


def experts_combine_cases(m):
    for rows, n_used, n_cols, with_residual in ((1, 4, 2880, True), (5, 4, 97, False), (33, 1, 64, True),
                                                (3, 7, 1025, True)):
        x, weights = m.normal(rows, n_used, n_cols), F.softmax(m.vector((rows, n_used)), -1)
        tensors = {"x": x, "weights": weights}
        want, unit = (torch.einsum("rj,rji->ri", weights.double(), part) for part in (x.double(), x.double().abs()))
        if with_residual:
            tensors["residual"] = residual = m.normal(rows, n_cols, deviation=8.0)
            want, unit = want + residual.double(), unit + residual.double().abs()
        yield Case("experts_combine", f"{rows}x{n_used}x{n_cols}{' residual' if with_residual else ''}", tensors, {},
                   {"out": want},
                   {"out": m.rounded(want, unit * (n_used + 1) * ROUND_F32)},
                   "float32 products and sums of n_used terms and the residual, each rounding at most the sum of "
                   "magnitudes")


MAKERS = {"embedding": embedding_cases, "rmsnorm": rmsnorm_cases, "layernorm": layernorm_cases, "linear": linear_cases,
          "rope": rope_cases, "kv_write": kv_write_cases, "attention": attention_cases, "softmax": softmax_cases,
          "sdpa": sdpa_cases, "sdpa_quantize": sdpa_quantize_cases, "attention_weights": attention_weights_cases,
          "norm_qkv": norm_qkv_cases, "norm_swiglu": norm_swiglu_cases, "linear_add": linear_add_cases,
          "add": add_cases, "swiglu": swiglu_cases, "gelu": gelu_cases, "router": router_cases,
          "experts_linear": experts_linear_cases, "experts_combine": experts_combine_cases}

# Operations that a back end does not have in a precision, by their contracts.
ABSENT = {("cuda", "f32"): {"sdpa", "sdpa_quantize"}}


def run(case, options, folder):
    given, got = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    write_safetensors(given, case.tensors)
    command = [options.kigo, "op", case.op, "--in", given, "-o", got, "--backend", options.backend,
               "--dtype", options.dtype]
    for key, value in case.params.items():
        command += ["--param", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
    return read_safetensors(got)


def judge(case, got, options):
    good = True
    for name, want in case.want.items():
        record = {"op": case.op, "case": case.name, "tensor": name, "backend": options.backend, "dtype": options.dtype,
                  "n": want.numel(), "why": case.why}
        if name not in got or got[name].shape != want.shape:
            raise RuntimeError(f"no tensor {name} of shape {tuple(want.shape)}")
        n_nonfinite = int((~torch.isfinite(got[name])).sum())
        error = (got[name] - want).abs()
        share = (error / case.bound[name]).nan_to_num(nan=math.inf if n_nonfinite else 0.0, posinf=math.inf)
        worst = int(share.flatten().argmax())
        square = float((want * want).sum())
        record.update(n_nonfinite=n_nonfinite, worst_index=worst)
        if n_nonfinite == 0:
            record.update(margin=float(share.flatten()[worst]), max_abs=float(error.max()),
                          nmse=float((error * error).sum()) / square if square > 0 else 0.0,
                          worst_got=float(got[name].flatten()[worst]), worst_want=float(want.flatten()[worst]))
        record["pass"] = n_nonfinite == 0 and record["margin"] <= 1
        good = good and record["pass"]
        print(json.dumps(record), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kigo", required=True, help="the kigo program")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--op", choices=sorted(MAKERS), help="this operation only")
    options = parser.parse_args()
    listed = json.loads(subprocess.run([options.kigo, "op", "--list", "--json"], capture_output=True,
                                       check=True).stdout)
    unknown = [row["op"] for row in listed if row["op"] not in MAKERS]
    if unknown:
        print(f"no PyTorch reference for {', '.join(unknown)}", file=sys.stderr)
        return 1
    good = True
    with tempfile.TemporaryDirectory() as folder:
        absent = ABSENT.get((options.backend, options.dtype), set())
        for op in [options.op] if options.op else [op for op in MAKERS if op not in absent]:
            for case in MAKERS[op](Maker(options.seed, options.dtype)):
                try:
                    good = judge(case, run(case, options, folder), options) and good
                except RuntimeError as failure:
                    good = False
                    print(f"{case.op} {case.name}: {failure}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
