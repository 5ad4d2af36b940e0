// What generateRollouts holds of a sample and of a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/adapter.h"
#include "inference/rollouts.h"

namespace isopro {

// One live sample.
struct LiveSample {
  Rollout rollout;
  std::unique_ptr<Sampler> sampler;
  llama_seq_id id = 0;
  int promptLength = 0;
  bool activated = false;   // its rows have the request's activated adapter
  size_t searchedUpTo = 0;  // bytes of text in which no stop string ends
  bool done = false;
  std::vector<std::uint16_t> sampledBoundary;
};

// A prompt that is evaluated and has samples to start.
struct PromptGroup {
  int index = 0;
  int activation = 0;  // the first token that an activated adapter acts on
  int samples = 0;
  int started = 0;
  llama_seq_id id = 0;  // whose keys and values it is; a prompt of one sample has the sample's
  std::vector<float> logits;  // [vocabulary] after its last token
  std::vector<std::uint16_t> boundary;

  // Most tokens of it that may be another prompt's: what an activated adapter acts on is not, since
  // the other may be activated elsewhere.
  int framed(int rowGroup, bool activated) const {
    return activated ? activation / rowGroup * rowGroup : Adapter::kNever;
  }
};

}  // namespace isopro
