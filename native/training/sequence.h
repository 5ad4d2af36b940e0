// What is trained on: the tokens of one text, which of them are targets, and what the objectives
// need beside.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isopro::training {

// Values that the caller keeps alive during the call: a boundary is megabytes a sequence.
struct HalfRows {
  const std::uint16_t* data = nullptr;
  std::size_t size = 0;

  bool empty() const { return size == 0; }
};

// One sequence of a batch. Token t is a target where labelled[t] is 1 (never t = 0); it is
// predicted at t - 1.
struct TrainSequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> labelled;  // [tokens]
  float weight = 1;
  std::vector<float> advantages;  // [tokens], policy gradient only; empty: 0
  std::vector<float>
      oldLogprobs;  // [tokens], empty: those of this very pass (the ratio is exactly 1)
  std::vector<float>
      referenceLogprobs;  // [tokens], of the base model; needed where klCoefficient is not 0
  // What enters `boundaryLayer`, [tokens, width] or [tokens - 1, width] in f16; empty where it has
  // to be computed.
  HalfRows boundary;
  std::int64_t boundaryLayer = -1;
  // The first token that the adapter acts on. Those before it are the base model's and take no part
  // in the backward: what later rows see of them are constants. 0: it acts on all. The trainer sets
  // it.
  std::int64_t adapterFrom = 0;

  std::int64_t labels() const {
    return std::count(labelled.begin(), labelled.end(), std::uint8_t{1});
  }
};

}  // namespace isopro::training
