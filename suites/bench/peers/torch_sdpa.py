#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention, timed as kigo's benches time their own (docs/measuring.md).

usage: torch_sdpa.py < requests > records

A request is a JSON line: {"key", "name": cudnn|flash|efficient|math, "n_batch", "n_heads", "n_kv_heads", "n_queries",
"n_keys", "head_dim", "causal", "bytes", "flops", "seed"}. Each is answered by one line with the lists of a record of
results.ndjson: "key", "status" (pass, skip or fail), "reason", "timings" (kind graph; warm, and cold: inputs rotated
past twice the L2; each with its samples in ns), "errors" (some rows against float64) and "metrics". Where PyTorch or a
GPU is missing every answer is a skip that says so. The process ends at the end of its input.

A sample is the time, by events, of one CUDA graph of many launches on one stream, each dependent on the one before,
divided by them; calls of more than 0.3 ms and 100 TFLOP/s are timed in bursts, a sample and a pause of 40 ms, so that
the limit on power is not what is measured. Inputs are normal values in float16, outputs float16.
"""

import json
import math
import os
import random
import statistics
import sys
import time
import warnings

N_WARMUP, N_SAMPLES, ENOUGH_MS, MOST_REPEATS, MOST_SETS, MOST_BYTES = 3, 20, 1.0, 64, 4096, 8 << 30
BACKENDS = {
    "cudnn": "CUDNN_ATTENTION",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}

# The answers keep standard output for themselves, whatever a library prints.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

missing = None
try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if not torch.cuda.is_available():
        missing = "PyTorch sees no CUDA device"
except ImportError as error:
    missing = f"{sys.executable}: {error}: PyTorch is not installed"


class Skip(Exception):
    """Why this peer does not take this shape."""


def make_sets(request, l2_bytes):
    """Inputs, so many sets that all are more than twice the L2, and whether they are: not where that takes too many, or
    too much memory."""
    q_shape = [request[f] for f in ("n_batch", "n_heads", "n_queries", "head_dim")]
    k_shape = [request[f] for f in ("n_batch", "n_kv_heads", "n_keys", "head_dim")]
    set_bytes = 2 * (math.prod(q_shape) + 2 * math.prod(k_shape))
    n = 2 * l2_bytes // set_bytes + 1
    has_cold = n <= MOST_SETS and n * set_bytes <= MOST_BYTES
    generator = torch.Generator(device="cuda").manual_seed(int(request["seed"]) & (2**63 - 1))

    def normal(shape):
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).half()

    return [(normal(q_shape), normal(k_shape), normal(k_shape)) for _ in range(n if has_cold else 1)], has_cold


def attention_of(request):
    """A call of this peer on a set."""
    causal = request["causal"]
    if causal and request["n_queries"] == 1:
        causal = False  # the last query sees every key
    elif causal and request["n_queries"] != request["n_keys"]:
        raise Skip("PyTorch aligns a causal mask with the first key, not the last")
    backend = getattr(SDPBackend, BACKENDS[request["name"]])
    gqa = request["n_heads"] != request["n_kv_heads"]

    def call(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

    return call


def first_call(call, tensors):
    """PyTorch has no other way to say that a backend does not take a shape than to fail in the first call."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call(*tensors)
            torch.cuda.synchronize()
        except RuntimeError as error:
            reasons = [str(w.message).split(" (Triggered")[0].split(". ")[0] for w in said]
            reasons = [r for r in reasons if not r.endswith(":") and "runtime disabled" not in r]
            raise Skip("; ".join([str(error).strip().splitlines()[0]] + reasons[:1])) from error


def milliseconds(work):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def time_graph(call, sets, flops):
    """Samples of one call, in ns; and the output of the last one, which works on the last set."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        one_ms = statistics.median(milliseconds(lambda: call(*sets[0])) for _ in range(3))
        n_repeats = max(2, min(MOST_REPEATS, math.ceil(ENOUGH_MS / max(one_ms, 1e-3))))
        if len(sets) > 1:
            n_repeats = max(n_repeats, len(sets))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for iteration in range(n_repeats):
                out = call(*sets[iteration % len(sets)])
        bursts = one_ms > 0.3 and flops / one_ms > 100e9  # 100 TFLOP/s
        times = [] if bursts else [milliseconds(graph.replay) for _ in range(N_WARMUP + N_SAMPLES)][N_WARMUP:]
        while len(times) < N_SAMPLES:
            time.sleep(0.04)
            graph.replay()
            times.append(milliseconds(graph.replay))
    torch.cuda.synchronize()
    return [round(ms * 1e6 / n_repeats) for ms in times], out.clone(), sets[(n_repeats - 1) % len(sets)]


def timing(request, state, samples):
    median = statistics.median(samples)
    return {
        "name": "time",
        "kind": "graph",
        "state": state,
        "n": len(samples),
        "median": median,
        "mad": statistics.median(abs(s - median) for s in samples),
        "bytes": request["bytes"],
        "flops": request["flops"],
        "samples": samples,
    }


def against_float64(request, state, tensors, out):
    """Rows of the output, corners and some drawn, against the formula in float64."""
    q, k, v = tensors
    group = request["n_heads"] // request["n_kv_heads"]
    last = (request["n_batch"] - 1, request["n_heads"] - 1, request["n_queries"] - 1)
    draw = random.Random(int(request["seed"]))
    rows = [(0, 0, 0), last] + [tuple(draw.randint(0, n) for n in last) for _ in range(14)]
    got, want = [], []
    for b, h, i in rows:
        n_seen = request["n_keys"] - request["n_queries"] + i + 1 if request["causal"] else request["n_keys"]
        keys, values = (t[b, h // group, :n_seen].double() for t in (k, v))
        scores = keys @ q[b, h, i].double() / math.sqrt(request["head_dim"])
        want.append(torch.softmax(scores, 0) @ values)
        got.append(out[b, h, i].double())
    got, want = torch.stack(got), torch.stack(want)
    off = (got - want).flatten()
    worst = int(off.abs().argmax())
    return {
        "name": f"rows_from_float64.{state}",
        "n": off.numel(),
        "n_nonfinite": int((~torch.isfinite(got)).sum()),
        "max_abs": float(off.abs().max()),
        "nmse": float((off**2).sum() / (want**2).sum()),
        "worst_index": worst,
        "worst_got": float(got.flatten()[worst]),
        "worst_want": float(want.flatten()[worst]),
    }


def measure(request):
    properties = torch.cuda.get_device_properties(0)
    sets, has_cold = make_sets(request, properties.L2_cache_size)
    call = attention_of(request)
    first_call(call, sets[0])
    timings, errors = [], []
    for state, used in (("cold", sets), ("warm", sets[:1])):
        if state == "cold" and not has_cold:
            continue
        samples, out, tensors = time_graph(call, used, request["flops"])
        timings.append(timing(request, state, samples))
        errors.append(against_float64(request, state, tensors, out))
    metrics = [{"name": "sets", "unit": "count", "value": len(sets)}]
    return {"status": "pass", "timings": timings, "errors": errors, "metrics": metrics}


def answer(request):
    if missing:
        return {"status": "skip", "reason": missing}
    try:
        with torch.inference_mode():
            return measure(request)
    except Skip as why:
        return {"status": "skip", "reason": f"PyTorch {torch.__version__}, {request['name']}: {why}"}
    except Exception as error:  # the next request may still be good
        return {"status": "fail", "reason": f"{type(error).__name__}: {error}"}
    finally:
        torch.cuda.empty_cache()


with answers:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"key": request["key"], **answer(request)}), file=answers, flush=True)
