"""The LoRA step of `bench train` in PyTorch, f32, as its own users would write it: frozen weights, rank 16 on the seven
linear maps of the trained layers, AdamW. It is given every help that costs nothing: logits on labelled rows only, no
gradient below the lowest trained layer, weights made by repetition, and with --cached the boundary in memory.

    python3 bench/peer/lora_step.py '{"layers": 24, "embedding": 896, ...}' --train 8 --threads 2 --steps 3

The shape is a row of test/models/shapes.ts. One JSON line on stdout: seconds of each step after the first, peak memory.
"""
import argparse
import json
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SEQUENCES, LENGTH, RANK = 2, 256, 16


def weights(*shape):
    """Random numbers of the size that a trained layer has; a million of them, repeated."""
    drawn = torch.randn(1 << 20) / math.sqrt(shape[-1])
    count = math.prod(shape)
    return drawn.repeat(count // drawn.numel() + 1)[:count].reshape(shape)


class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias, trained):
        super().__init__()
        self.weight = nn.Parameter(weights(outputs, inputs), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False) if bias else None
        if trained:
            self.a = nn.Parameter((torch.rand(RANK, inputs) * 2 - 1) / math.sqrt(inputs))
            self.b = nn.Parameter(torch.zeros(outputs, RANK))
        self.trained = trained

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        return y + F.linear(F.linear(x, self.a), self.b) if self.trained else y


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Block(nn.Module):
    def __init__(self, s, trained):
        super().__init__()
        d, width = s["embedding"], s["headDimension"]
        self.heads, self.key_heads, self.width = s["heads"], s["keyValueHeads"], width
        self.q = Linear(d, self.heads * width, True, trained)
        self.k = Linear(d, self.key_heads * width, True, trained)
        self.v = Linear(d, self.key_heads * width, True, trained)
        self.o = Linear(self.heads * width, d, False, trained)
        self.gate = Linear(d, s["feedForward"], False, trained)
        self.up = Linear(d, s["feedForward"], False, trained)
        self.down = Linear(s["feedForward"], d, False, trained)
        self.norms = nn.Parameter(torch.ones(2, d), requires_grad=False)

    def forward(self, x, cosine, sine, mask):
        normed = rms_norm(x, self.norms[0])
        split = lambda y, heads: y.view(SEQUENCES, LENGTH, heads, self.width).transpose(1, 2)
        q = rotate(split(self.q(normed), self.heads), cosine, sine)
        k = rotate(split(self.k(normed), self.key_heads), cosine, sine)
        v = split(self.v(normed), self.key_heads)
        group = self.heads // self.key_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        p = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(self.width) + mask, dim=-1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(SEQUENCES, LENGTH, -1))
        normed = rms_norm(x, self.norms[1])
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", type=json.loads)
    parser.add_argument("--train", type=int, required=True, help="trained layers, from the top")
    parser.add_argument("--cached", action="store_true", help="start from the boundary; the layers below are not made")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    s = options.shape
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)

    frozen = 0 if options.cached else s["layers"] - options.train
    blocks = nn.ModuleList([Block(s, i >= frozen) for i in range(frozen + options.train)])
    embedding = nn.Parameter(weights(s["vocabularySize"], s["embedding"]), requires_grad=False)  # and head: both shapes tie them
    last_norm = torch.ones(s["embedding"])
    angles = torch.outer(torch.arange(LENGTH), 1e6 ** (-torch.arange(0, s["headDimension"], 2) / s["headDimension"])).repeat(1, 2)
    cosine, sine = angles.cos(), angles.sin()
    mask = torch.full((LENGTH, LENGTH), -math.inf).triu(1)
    trained = [p for p in blocks.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-4)
    tokens = torch.randint(s["vocabularySize"], (SEQUENCES, LENGTH))
    boundary = torch.randn(SEQUENCES, LENGTH, s["embedding"])

    def step():
        x = boundary if options.cached else F.embedding(tokens, embedding)
        with torch.no_grad():
            for block in blocks[:frozen]:
                x = block(x, cosine, sine, mask)
        for block in blocks[frozen:]:
            x = block(x, cosine, sine, mask)
        # The second half of each sequence is labelled; position t predicts token t + 1.
        rows = x[:, LENGTH // 2 - 1 : -1].reshape(-1, s["embedding"])
        loss = F.cross_entropy(F.linear(rms_norm(rows, last_norm), embedding), tokens[:, LENGTH // 2 :].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return loss.item()

    seconds = []
    for _ in range(options.steps + 1):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    if not math.isfinite(loss):
        sys.exit("the loss is not finite")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds[1:], "peakRssBytes": peak, "version": torch.__version__}))


main()
