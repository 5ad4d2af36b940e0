// What a step does with its gradients.
#include "training/trainer.h"

namespace isopro::training {

void Trainer::update(StepStatistics& s) {
  const OptimiserOptions& o = options_.optimiser;
  s.clipped = o.maxNorm > 0 && s.gradNorm > static_cast<double>(o.maxNorm);
  const float gradientScale =
      s.clipped ? static_cast<float>(static_cast<double>(o.maxNorm) / s.gradNorm) : 1.0f;
  const auto rate = static_cast<float>(s.learningRate);
  const std::vector<Lora*> adapted = loras();
  const std::vector<Parameter*> all = parameters();
  // What may fail for want of memory, on copies; after it nothing can.
  engine_.pool().parallelFor(
      static_cast<std::int64_t>(adapted.size()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const Lora& lora = *adapted[static_cast<std::size_t>(i)];
          Parameter a = lora.a, b = lora.b;
          adamwStep(o, rate, gradientScale, a);
          adamwStep(o, rate, gradientScale, b);
          s.modules[static_cast<std::size_t>(i)].updateRatio = updateRatio(lora, a.value, b.value);
          s.modules[static_cast<std::size_t>(i)].rankUse = rankUse(a, b);
        }
      });
  engine_.pool().parallelFor(
      static_cast<std::int64_t>(all.size()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          adamwStep(o, rate, gradientScale, *all[static_cast<std::size_t>(i)]);
      });
}

}  // namespace isopro::training
