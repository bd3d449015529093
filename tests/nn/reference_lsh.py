"""Naive loops for attention by hashing and in chunks: one query at a time, with Python lists of what it sees."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from repro.nn import Hashing, LocalAttention, LSHAttention
from tests.nn.reference import attend_one, project, row_length


def weigh(query: Tensor, keys: Tensor, values: Tensor, seen: dict[int, float]) -> tuple[Tensor, Tensor]:
    """Softmax of one query ``(E,)`` over keys that count so often; its output and log-partition."""
    tokens = sorted(seen)
    counts = torch.tensor([seen[t] for t in tokens], dtype=query.dtype)
    scores = keys[tokens] @ query + counts.log()
    return scores.softmax(0) @ values[tokens], scores.logsumexp(0)


def instances(ids: Tensor, length: int, hashing: Hashing, causal: bool) -> list[list[list[int]]]:
    """For each round and token what it looks at and may see, itself included where it does, ids ``(R, T)``.

    Every token stands in a list as often as it is met.
    """
    rounds, steps = ids.shape
    chunk = min(hashing.chunk, steps)
    chunks: list[list[tuple[int, int, int]]] = []
    for r in range(rounds):
        # padding and fillers come last
        keyed = sorted((int(ids[r, t]) if t < length else 10**9, t) for t in range(steps))
        places = [(r, b, t) for b, t in keyed]
        places += [(r, 10**9, steps)] * (-steps % chunk)
        chunks += [places[i : i + chunk] for i in range(0, len(places), chunk)]
    result: list[list[list[int]]] = [[[] for _ in range(steps)] for _ in range(rounds)]
    for c, own in enumerate(chunks):
        alone = len(chunks) == 1 or (not hashing.wrap and c % (len(chunks) // rounds) == 0)
        looked_at = own if alone else own + chunks[c - 1]
        for r, bucket, t in own:
            for other_round, other_bucket, other in looked_at:
                if t >= length or other >= length or (causal and other > t):
                    continue
                if not hashing.across_buckets and (r, bucket) != (other_round, other_bucket):
                    continue
                if not hashing.duplicates and r != other_round:
                    continue
                result[r][t].append(other)
    return result


def one_query(
    query: Tensor, keys: Tensor, values: Tensor, met: list[list[int]], own: int, hashing: Hashing
) -> Tensor:
    """The output of one token, from what it meets in each round."""
    others = [[t for t in one if hashing.see_self or t != own] for one in met]
    if hashing.average:
        outputs = [
            weigh(query, keys, values, dict(Counter(one)))[0] if one else values[own] for one in others
        ]
        return torch.stack(outputs).mean(0)
    together = Counter(t for one in others for t in one)
    if not together:
        return values[own]
    counts = {t: float(n) if hashing.duplicates else 1.0 for t, n in together.items()}
    return weigh(query, keys, values, counts)[0]


def vectors(mixer: LSHAttention, x: Tensor, head: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of tokens ``(T, D)`` in one head."""
    e, ev = mixer.d_head, mixer.d_value
    query = project(mixer.qk_v, x, head * e, e)
    values = project(mixer.qk_v, x, mixer.n_heads * e + head * ev, ev)
    if not mixer.hashing.unit_keys:
        return query, query / math.sqrt(e), values
    keys = query / query.square().sum(-1, keepdim=True).sqrt()
    return query, keys / math.sqrt(e) if mixer.hashing.scaled else keys, values


def in_windows(
    mixer: LSHAttention, x: Tensor, causal: bool, lengths: Tensor | None, buckets: Tensor
) -> Tensor:
    """Attention with given bucket ids ``(B, H, R, T)``, ``x (B, T, D)`` to ``(B, T, D)``; zeros at padding."""
    rows = []
    for b in range(x.shape[0]):
        length, heads = row_length(x, lengths, b), []
        for h in range(mixer.n_heads):
            query, keys, values = vectors(mixer, x[b], h)
            met = instances(buckets[b, h], length, mixer.hashing, causal)
            seen = [[met[r][t] for r in range(len(met))] for t in range(length)]
            heads.append(
                [one_query(query[t], keys, values, seen[t], t, mixer.hashing) for t in range(length)]
            )
        rows.append(finish(mixer.out, [torch.cat(each) for each in zip(*heads, strict=True)], x[b]))
    return torch.stack(rows)


def covering(
    mixer: LSHAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Attention where hashing hides nothing, after tokens ``(P_b, D)`` of earlier calls."""
    rows = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        tokens = new if past is None else torch.cat([past[b], new])
        first, heads = len(tokens) - len(new), []
        for h in range(mixer.n_heads):
            query, keys, values = vectors(mixer, tokens, h)
            reach = [t + 1 if causal else len(tokens) for t in range(len(tokens))]
            heads.append(
                [
                    one_query(query[t], keys, values, [list(range(reach[t]))], t, mixer.hashing)
                    for t in range(first, len(tokens))
                ]
            )
        rows.append(finish(mixer.out, [torch.cat(each) for each in zip(*heads, strict=True)], x[b]))
    return torch.stack(rows)


def local(
    mixer: LocalAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Attention to chunks of the sequence, after tokens ``(P_b, D)`` of earlier calls."""
    size, width = mixer.d_head, mixer.n_heads * mixer.d_head
    rows = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        tokens = new if past is None else torch.cat([past[b], new])
        outputs = []
        for t in range(len(tokens) - len(new), len(tokens)):
            lowest = (t // mixer.chunk - mixer.before) * mixer.chunk
            highest = t + 1 if causal else (t // mixer.chunk + mixer.after + 1) * mixer.chunk
            seen = [s for s in range(len(tokens)) if lowest <= s < highest]
            if mixer.wrap and not causal:
                count = -(-len(tokens) // mixer.chunk)
                chunks = [(t // mixer.chunk + i) % count for i in range(-mixer.before, mixer.after + 1)]
                seen = [s for c in chunks for s in range(len(tokens)) if s // mixer.chunk == c]
            heads = []
            for h in range(mixer.n_heads):
                query = project(mixer.qkv, tokens[t : t + 1], h * size, size)[0]
                keys = project(mixer.qkv, tokens[seen], width + h * size, size)
                heads.append(
                    attend_one(query, keys, project(mixer.qkv, tokens[seen], 2 * width + h * size, size))
                )
            outputs.append(torch.cat(heads))
        rows.append(finish(mixer.out, outputs, x[b]))
    return torch.stack(rows)


def finish(out: torch.nn.Linear, rows: list[Tensor], like: Tensor) -> Tensor:
    """Projects the rows and sets zeros behind them, up to the length of ``like``."""
    y = [project(out, row[None], 0, out.out_features)[0] for row in rows]
    return torch.stack(y + [torch.zeros_like(like[0])] * (len(like) - len(y)))
