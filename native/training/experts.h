// A feed-forward layer of experts, forward beside backward: each token goes through the few that
// its router prefers. Router and experts are frozen; the gradient passes through both.
#pragma once

#include <cstdint>
#include <vector>

#include "training/buffer.h"
#include "training/linear.h"

namespace isopro::training {

// d = width, f = the width of an expert.
struct Experts {
  Matrix router;                       // [experts, d]
  std::vector<Matrix> gate, up, down;  // of each expert: [f, d], [f, d], [d, f]
  // Empty, or of the router [experts], and of each expert, one after the other.
  Buffer routerBias, gateBias, upBias, downBias;

  explicit operator bool() const { return !gate.empty(); }
};

// Which experts a token goes to, and the share of each; shares add up to 1.
struct Routing {
  std::vector<std::int32_t> experts;  // [tokens, used]
  Buffer shares;                      // [tokens, used]
};

// How an expert joins the halves of its hidden row: the product of `up` and what `gate` passes.
struct ExpertGate {
  void (*forward)(const float* gate, const float* up, float* h, std::int64_t count);
  void (*backward)(const float* gate, const float* up, const float* dh, float* dGate, float* dUp,
                   std::int64_t count);
};

// y[tokens, d] of x[tokens, d]; fills `routing`.
void expertsForward(Engine& engine, const Experts& experts, const ExpertGate& gate,
                    std::int64_t tokens, std::int64_t used, const float* x, Routing& routing,
                    float* y);
// dx[tokens, d] = the gradient of x from that of y. Hidden rows are computed again.
void expertsBackward(Engine& engine, const Experts& experts, const ExpertGate& gate,
                     std::int64_t tokens, std::int64_t used, const float* x, const Routing& routing,
                     const float* dy, float* dx);

// Floats that either takes for each token, at most.
std::int64_t expertScratch(std::int64_t width, std::int64_t expertWidth, std::int64_t experts,
                           std::int64_t used);

}  // namespace isopro::training
