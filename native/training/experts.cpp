#include "training/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace isopro::training {
namespace {

float* rowsFor(Buffer& buffer, std::int64_t size) {
  buffer.resize(static_cast<std::size_t>(size));
  return buffer.data();
}

// The preferred experts of a token, and the softmax of their logits: the same as that of all
// logits, divided by the sum of those chosen. Where two are equal the first is preferred.
void route(const float* logits, std::int64_t count, std::int64_t used, std::int32_t* experts,
           float* shares) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + used, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                    });
  double sum = 0;
  for (std::int64_t i = 0; i < used; ++i) {
    experts[i] = order[static_cast<std::size_t>(i)];
    sum += std::exp(static_cast<double>(logits[experts[i]] - logits[order[0]]));
  }
  for (std::int64_t i = 0; i < used; ++i) {
    shares[i] = static_cast<float>(
        std::exp(static_cast<double>(logits[experts[i]] - logits[order[0]])) / sum);
  }
}

// The places [tokens, used] that chose each expert, in the order of the tokens.
std::vector<std::vector<std::int64_t>> placesOf(const Experts& experts, const Routing& routing) {
  std::vector<std::vector<std::int64_t>> places(experts.gate.size());
  for (std::size_t i = 0; i < routing.experts.size(); ++i)
    places[static_cast<std::size_t>(routing.experts[i])].push_back(static_cast<std::int64_t>(i));
  return places;
}

void addBias(const Buffer& bias, std::size_t expert, std::int64_t rows, std::int64_t width,
             float* y) {
  if (bias.empty()) return;
  const float* b = bias.data() + expert * static_cast<std::size_t>(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) y[row * width + i] += b[i];
  }
}

// Of the tokens that chose one expert: their rows, and its hidden rows.
struct Group {
  Buffer x, gate, up, h;

  void compute(Engine& engine, const Experts& experts, const ExpertGate& join, std::size_t expert,
               const std::vector<std::int64_t>& places, std::int64_t used, const float* from) {
    const std::int64_t rows = static_cast<std::int64_t>(places.size());
    const std::int64_t d = experts.router.columns, f = experts.gate[expert].rows;
    gather(places, used, d, from, x);
    engine.xWt(experts.gate[expert], x.data(), rowsFor(gate, rows * f), rows);
    engine.xWt(experts.up[expert], x.data(), rowsFor(up, rows * f), rows);
    addBias(experts.gateBias, expert, rows, f, gate.data());
    addBias(experts.upBias, expert, rows, f, up.data());
    join.forward(gate.data(), up.data(), rowsFor(h, rows * f), rows * f);
  }

  static void gather(const std::vector<std::int64_t>& places, std::int64_t used, std::int64_t d,
                     const float* from, Buffer& to) {
    float* at = rowsFor(to, static_cast<std::int64_t>(places.size()) * d);
    for (const std::int64_t place : places) at = std::copy_n(from + place / used * d, d, at);
  }
};

}  // namespace

void expertsForward(Engine& engine, const Experts& experts, const ExpertGate& gate,
                    std::int64_t tokens, std::int64_t used, const float* x, Routing& routing,
                    float* y) {
  const std::int64_t count = experts.router.rows, d = experts.router.columns;
  Buffer logits, out;
  engine.xWt(experts.router, x, rowsFor(logits, tokens * count), tokens);
  addBias(experts.routerBias, 0, tokens, count, logits.data());
  routing.experts.resize(static_cast<std::size_t>(tokens * used));
  routing.shares.resize(routing.experts.size());
  engine.pool().parallelFor(tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      route(logits.data() + t * count, count, used, routing.experts.data() + t * used,
            routing.shares.data() + t * used);
    }
  });
  std::fill(y, y + tokens * d, 0.0f);
  Group group;
  const auto places = placesOf(experts, routing);
  for (std::size_t e = 0; e < places.size(); ++e) {
    if (places[e].empty()) continue;
    const auto rows = static_cast<std::int64_t>(places[e].size());
    group.compute(engine, experts, gate, e, places[e], used, x);
    engine.xWt(experts.down[e], group.h.data(), rowsFor(out, rows * d), rows);
    addBias(experts.downBias, e, rows, d, out.data());
    // A token chooses an expert once: no two rows are added to the same one.
    engine.pool().parallelFor(rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t place = places[e][static_cast<std::size_t>(row)];
        const float share = routing.shares[static_cast<std::size_t>(place)];
        float* to = y + place / used * d;
        for (std::int64_t i = 0; i < d; ++i)
          to[i] += share * out[static_cast<std::size_t>(row * d + i)];
      }
    });
  }
}

void expertsBackward(Engine& engine, const Experts& experts, const ExpertGate& gate,
                     std::int64_t tokens, std::int64_t used, const float* x, const Routing& routing,
                     const float* dy, float* dx) {
  const std::int64_t count = experts.router.rows, d = experts.router.columns;
  Group group;
  Buffer dOut, dh, dUp, dRows, dShares(routing.shares.size());
  std::fill(dx, dx + tokens * d, 0.0f);
  const auto places = placesOf(experts, routing);
  for (std::size_t e = 0; e < places.size(); ++e) {
    if (places[e].empty()) continue;
    const auto rows = static_cast<std::int64_t>(places[e].size());
    const std::int64_t f = experts.gate[e].rows;
    group.compute(engine, experts, gate, e, places[e], used, x);
    Group::gather(places[e], used, d, dy, dOut);
    // Of the share it is what the expert gave; of the hidden row, the share's part.
    engine.yW(experts.down[e], dOut.data(), rowsFor(dh, rows * f), rows, false);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto place = static_cast<std::size_t>(places[e][static_cast<std::size_t>(row)]);
      const float* h = group.h.data() + row * f;
      float* slope = dh.data() + row * f;
      double sum = 0;
      for (std::int64_t i = 0; i < f; ++i) {
        sum += static_cast<double>(slope[i]) * static_cast<double>(h[i]);
        slope[i] *= routing.shares[place];
      }
      for (std::int64_t i = 0; i < d && !experts.downBias.empty(); ++i) {
        sum += static_cast<double>(dOut[static_cast<std::size_t>(row * d + i)]) *
               static_cast<double>(
                   experts.downBias[e * static_cast<std::size_t>(d) + static_cast<std::size_t>(i)]);
      }
      dShares[place] = static_cast<float>(sum);
    }
    // group.h is free: it takes the gradient of the gate.
    gate.backward(group.gate.data(), group.up.data(), dh.data(), group.h.data(),
                  rowsFor(dUp, rows * f), rows * f);
    engine.yW(experts.gate[e], group.h.data(), rowsFor(dRows, rows * d), rows, false);
    engine.yW(experts.up[e], dUp.data(), dRows.data(), rows, true);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* to = dx + places[e][static_cast<std::size_t>(row)] / used * d;
      for (std::int64_t i = 0; i < d; ++i) to[i] += dRows[static_cast<std::size_t>(row * d + i)];
    }
  }
  // The softmax of the chosen logits; those of the others have no part.
  Buffer dLogits(static_cast<std::size_t>(tokens * count), 0.0f);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<std::size_t>(t * used);
    double mean = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(used); ++i)
      mean += static_cast<double>(routing.shares[i]) * static_cast<double>(dShares[i]);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(used); ++i) {
      dLogits[static_cast<std::size_t>(t * count + routing.experts[i])] = static_cast<float>(
          static_cast<double>(routing.shares[i]) * (static_cast<double>(dShares[i]) - mean));
    }
  }
  engine.yW(experts.router, dLogits.data(), dx, tokens, true);
}

std::int64_t expertScratch(std::int64_t width, std::int64_t expertWidth, std::int64_t experts,
                           std::int64_t used) {
  return 3 * width + 5 * expertWidth + experts + 2 * used;
}

}  // namespace isopro::training
