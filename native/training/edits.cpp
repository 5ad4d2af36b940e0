// Edits of the adapter between steps. Each keeps the function that the adapter computes, except
// recycleDirections, which drops the contribution of the recycled directions.
#include <cmath>
#include <utility>

#include "support/error.h"
#include "training/adapter_file.h"
#include "training/trainer.h"

namespace isopro::training {
namespace {

void multiply(std::vector<float>& values, double factor) {
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) * factor);
}

void checkFactor(double factor) {
  if (!(std::isfinite(factor) && factor > 0))
    throw Error(ErrorCode::invalidArgument, "the factor must be finite and greater than 0");
}

// value *= factor; the gradient of the scaled value is divided by it, and so are its moments.
void scaleParameter(Parameter& p, double factor) {
  multiply(p.value, factor);
  multiply(p.firstMoment, 1 / factor);
  multiply(p.secondMoment, 1 / (factor * factor));
}

}  // namespace

void Trainer::raiseRank(const std::string& module, std::int64_t rank) {
  Lora& target = lora(module);
  const std::int64_t before = target.rank();
  if (rank <= before || rank > std::min(target.a.columns, target.b.columns)) {
    throw Error(ErrorCode::invalidArgument, "rank " + std::to_string(rank) + " of " + module +
                                                " is not above " + std::to_string(before) +
                                                " and within its width");
  }
  // What may fail for want of memory comes before anything is changed, here and below.
  Parameter a = target.a, b = target.b;
  a.resizeRows(rank);
  b.resizeRows(rank);
  target.activity.resize(static_cast<std::size_t>(rank));
  std::swap(target.a, a);
  std::swap(target.b, b);
  for (std::int64_t direction = before; direction < rank; ++direction)
    drawDirection(target, direction);
}

void Trainer::addTarget(const Target& target) {
  if (options_.allWeights)
    throw Error(ErrorCode::invalidArgument, "all weights are trained already");
  attach(target);
}

void Trainer::setAdapter(std::vector<AdapterModule> modules) {
  if (options_.allWeights)
    throw Error(ErrorCode::invalidArgument,
                "all weights are trained: there is no adapter to replace");
  const std::vector<Target> targets = fit(modules, *model_);
  std::vector<std::unique_ptr<Lora>> made;
  for (const Target& target : targets) made.push_back(loraFor(target));
  for (Layer& layer : model_->layers) {
    for (Linear& linear : layer.linear) linear.lora.reset();
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    // The draws are replaced at once, but the generator goes on as if the modules had been
    // attached.
    for (std::int64_t direction = 0; direction < targets[i].rank; ++direction)
      drawDirection(*made[i], direction);
    made[i]->a.value = std::move(modules[i].a);
    made[i]->b.value = std::move(modules[i].b);
    model_->layers[static_cast<std::size_t>(targets[i].layer)].linear[targets[i].module].lora =
        std::move(made[i]);
  }
}

void Trainer::recycleDirections(const std::string& module,
                                const std::vector<std::int64_t>& directions) {
  Lora& target = lora(module);
  for (const std::int64_t direction : directions) {
    if (direction < 0 || direction >= target.rank())
      throw Error(ErrorCode::invalidArgument,
                  module + " has no direction " + std::to_string(direction));
  }
  for (const std::int64_t direction : directions) drawDirection(target, direction);
}

void Trainer::rebalance(const std::string& module, double factor) {
  checkFactor(factor);
  Lora& target = lora(module);
  scaleParameter(target.a, factor);
  scaleParameter(target.b, 1 / factor);
}

void Trainer::rescale(const std::string& module, double factor) {
  checkFactor(factor);
  Lora& target = lora(module);
  // The gradient of B grows by the factor with s; scaleParameter's moments follow.
  target.scale = static_cast<float>(static_cast<double>(target.scale) * factor);
  scaleParameter(target.b, 1 / factor);
}

void Trainer::setLearningRate(const std::string& module, float factor) {
  checkFactor(static_cast<double>(factor));
  Lora& target = lora(module);
  target.a.learningRateFactor = factor;
  target.b.learningRateFactor = factor * options_.optimiser.factorB;
}

}  // namespace isopro::training
