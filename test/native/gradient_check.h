// Batches and trainers of small random models, and every gradient against differences of the
// reference model in double.
#pragma once

#include <algorithm>
#include <functional>

#include "check.h"
#include "reference_model.h"

namespace isopro::testing {

inline const std::atomic<bool> kNever{false};

inline std::vector<TrainSequence> randomBatch(const Shape& shape, std::uint64_t seed,
                                              bool policy = false) {
  Random random(seed);
  std::vector<TrainSequence> batch;
  for (const std::size_t length : {std::size_t{9}, std::size_t{2}, std::size_t{14}}) {
    TrainSequence s;
    for (std::size_t t = 0; t < length; ++t) {
      s.tokens.push_back(
          static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(shape.vocabulary)));
      s.labelled.push_back(t > 0 && (t == 1 || random.nextDouble() < 0.6) ? 1 : 0);
      if (!policy) continue;
      s.advantages.push_back(static_cast<float>(random.nextDouble() * 2 - 1));
      s.oldLogprobs.push_back(static_cast<float>(-3.9 + random.nextDouble() * 0.6));
      s.referenceLogprobs.push_back(static_cast<float>(-3.9 + random.nextDouble() * 0.6));
    }
    s.weight = static_cast<float>(0.5 + random.nextDouble());
    batch.push_back(std::move(s));
  }
  return batch;
}

inline TrainerOptions allTargets(const Shape& shape, std::int64_t lowest = 0) {
  TrainerOptions options;
  for (std::int64_t layer = lowest; layer < shape.layers; ++layer) {
    for (int m = 0; m < kFused; ++m)
      options.targets.push_back({layer, m, 2 + m % 3, 0.5f + 0.25f * static_cast<float>(m), 0});
  }
  options.optimiser.learningRate = 1e-2f;
  options.seed = 5;
  options.threads = 2;
  return options;
}

// Those that the model has.
inline TrainerOptions allTargets(const ModelWeights& model, const Shape& shape,
                                 std::int64_t lowest = 0) {
  TrainerOptions options = allTargets(shape, lowest);
  options.targets.clear();
  for (std::int64_t layer = lowest; layer < shape.layers; ++layer) {
    for (int m = 0; m < kModules; ++m) {
      if (hasModule(model.hyper.architecture, m))
        options.targets.push_back({layer, m, 2 + m % 3, 0.5f + 0.25f * static_cast<float>(m), 0});
    }
  }
  return options;
}

inline std::unique_ptr<Trainer> adapterTrainer(const std::string& architecture, const Shape& shape,
                                               std::int64_t lowest = 0) {
  auto model = randomModel(architecture, shape, 1);
  const TrainerOptions options = allTargets(*model, shape, lowest);
  return std::make_unique<Trainer>(std::move(model), options);
}

// B away from zero, so that A has a gradient.
inline void randomiseB(Trainer& trainer, std::uint64_t seed) {
  Random random(seed);
  for (Lora* lora : trainer.loras()) {
    for (float& value : lora->b.value)
      value = static_cast<float>((random.nextDouble() * 2 - 1) * 0.2);
  }
}

inline std::size_t largestEntry(const std::vector<float>& values) {
  const auto smaller = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end(), smaller) -
                                  values.begin());
}

// Gradient of every parameter against central differences of the reference: its largest entry and
// others, `entries` in all, by the error relative to that largest one.
inline void checkGradients(Trainer& trainer, const std::vector<TrainSequence>& batch,
                           const Objective& objective, double tolerance, std::size_t entries = 6) {
  const StepStatistics s = trainer.differentiate(batch, objective, kNever);
  ReferenceModel reference(trainer.model());
  CHECK_NEAR(s.loss, reference.loss(batch, objective), 3e-6);
  Random random(99);
  for (const Parameter* p : trainer.parameters()) {
    std::vector<std::pair<double, double>> pairs;
    double largest = 0;
    for (std::size_t n = 0; n < entries; ++n) {
      auto i = static_cast<std::size_t>(random.nextDouble() * static_cast<double>(p->value.size()));
      if (n == 0) i = largestEntry(p->gradient);
      // An embedding's row that does not occur has no gradient: look at rows that do.
      if (p->name == "token_embd.weight" && n > 0)
        i = static_cast<std::size_t>(batch[0].tokens[n]) * static_cast<std::size_t>(p->columns) + n;
      const auto places = reference.entry(*p, i);
      CHECK(!places.empty());
      const double h = 1e-4;
      const auto moved = [&](double by) {
        for (double* place : places) *place += by;
        const double loss = reference.loss(batch, objective);
        for (double* place : places) *place -= by;
        return loss;
      };
      // Fourth order, so that the step's own error is far below the tolerance.
      const double exact = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
      pairs.emplace_back(static_cast<double>(p->gradient[i]), exact);
      largest = std::max(largest, std::fabs(exact));
    }
    CHECK(largest > 0);
    for (const auto& [ours, exact] : pairs) {
      check::report(std::fabs(ours - exact) <= tolerance * largest, __FILE__, __LINE__,
                    p->name + ": " + std::to_string(ours) + " and " + std::to_string(exact) +
                        ", off by " + std::to_string(std::fabs(ours - exact) / largest));
    }
  }
}

using ArchitectureBody = std::function<void(const std::string&, const Shape&)>;

// Those in which nothing depends on a row's place in its text but rotation and windows.
inline void forArchitectures(const ArchitectureBody& body) {
  Shape shape;
  body("llama", shape);
  shape.ropeFactors = true, shape.tied = true;
  body("llama", shape);
  shape = {};
  shape.biases = true;
  body("qwen2", shape);
  shape = {};
  body("qwen3", shape);
  shape.tied = true;
  body("gemma2", shape);
}

inline void forEveryArchitecture(const ArchitectureBody& body, bool experts = true) {
  forArchitectures(body);
  Shape shape;
  for (const char* architecture : {"qwen3moe", "gpt-oss"}) {
    shape.biases = std::string(architecture) == "gpt-oss";
    shape.feedForward = 32;
    if (experts) body(architecture, shape);
  }
  shape = {};
  shape.ropeFactors = true, shape.rotatedWidth = 10;
  body("phi3", shape);
  shape = {};
  for (const char* architecture : {"olmo2", "mistral3"}) body(architecture, shape);
  shape.tied = true;
  for (const char* architecture : {"gemma3", "granite", "smollm3"}) body(architecture, shape);
}

}  // namespace isopro::testing
