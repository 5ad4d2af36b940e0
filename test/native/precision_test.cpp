// Training in bf16 next to training in f32: the direction of each module's gradient, determinism,
// and the refusal where a processor does not multiply so.
#include <cstdio>
#include <cstdlib>

#include "gradient_check.h"
#include "support/error.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

// The goal of issue 37, which the embedded model meets. Through many layers, or with weights drawn
// at random, bf16's eight bits leave less: 0.99950 in the shape of SmolLM2-135M and 0.99936 in its
// own file (dev/log.md, 2026-11-27).
constexpr double kLeastCosine = 0.9999;
constexpr double kLeastCosineOfDeep = 0.999;

// Gradients of both factors, module by module.
std::vector<std::vector<float>> moduleGradients(Trainer& trainer) {
  std::vector<std::vector<float>> gradients;
  for (const Lora* lora : trainer.loras()) {
    gradients.push_back(lora->a.gradient);
    gradients.back().insert(gradients.back().end(), lora->b.gradient.begin(),
                            lora->b.gradient.end());
  }
  return gradients;
}

double cosine(const std::vector<float>& x, const std::vector<float>& y) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i];
    xy += a * b, xx += a * a, yy += b * b;
  }
  return xy / std::sqrt(xx * yy);
}

// B as long as A is after some training, so that A has a gradient and the adapter has a say.
void smallB(Trainer& trainer) {
  Random random(2);
  for (Lora* lora : trainer.loras()) {
    for (float& value : lora->b.value)
      value = static_cast<float>((random.nextDouble() * 2 - 1) * 0.01);
  }
}

TrainerOptions everyModule(std::int64_t layers, std::int64_t rank, Precision precision,
                           int threads = 1) {
  TrainerOptions options;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (int m = 0; m < kFused; ++m) options.targets.push_back({layer, m, rank, 2, 0});
  }
  options.seed = 5;
  options.threads = threads;
  options.precision = precision;
  return options;
}

// A text of tokens that repeat with a period, and its last third labelled.
std::vector<TrainSequence> texts(std::int64_t vocabulary, std::size_t count, std::size_t length) {
  Random random(11);
  std::vector<TrainSequence> all(count);
  for (TrainSequence& s : all) {
    for (std::size_t t = 0; t < length; ++t) {
      const bool again = t >= 16 && random.nextDouble() < 0.7;
      s.tokens.push_back(
          again ? s.tokens[t - 16]
                : static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(vocabulary)));
      s.labelled.push_back(t > length * 2 / 3 ? 1 : 0);
    }
  }
  return all;
}

// The least cosine of a module's gradient in bf16 with that in f32.
double leastCosine(const std::function<std::unique_ptr<ModelWeights>()>& model, std::int64_t layers,
                   const std::vector<TrainSequence>& batch) {
  std::vector<std::vector<float>> exact;
  double least = 1;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    Trainer trainer(model(), everyModule(layers, 8, precision));
    smallB(trainer);
    CHECK(std::isfinite(trainer.differentiate(batch, {}, kNever).gradNorm));
    const auto gradients = moduleGradients(trainer);
    if (precision == Precision::f32) exact = gradients;
    for (std::size_t i = 0; i < exact.size(); ++i)
      least = std::min(least, cosine(gradients[i], exact[i]));
    if (precision == Precision::bf16) CHECK(gradients != exact);
  }
  return least;
}

}  // namespace

TEST(bf16_gradients_point_where_those_of_f32_do) {
  if (!available(Precision::bf16)) return;
  forArchitectures([](const std::string& architecture, const Shape& given) {
    Shape shape = given;
    shape.layers = 4, shape.width = 128, shape.headWidth = 32, shape.feedForward = 256,
    shape.vocabulary = 300, shape.context = 128;
    const double least = leastCosine([&] { return randomModel(architecture, shape, 1); },
                                     shape.layers, texts(shape.vocabulary, 3, 90));
    std::printf("     %s: least cosine %.6f\n", architecture.c_str(), least);
    CHECK(least >= kLeastCosineOfDeep);
  });
}

// The shape of SmolLM2-135M, of which the vocabulary is a tenth.
TEST(bf16_gradients_point_where_those_of_f32_do_through_thirty_layers) {
  if (!available(Precision::bf16)) return;
  Shape shape;
  shape.layers = 30, shape.width = 576, shape.heads = 9, shape.keyHeads = 3, shape.headWidth = 64,
  shape.feedForward = 1536, shape.vocabulary = 4915, shape.context = 512, shape.tied = true,
  shape.type = GGML_TYPE_Q4_1;
  const double least =
      leastCosine([&] { return randomModel("llama", shape, 1); }, 30, texts(4915, 1, 120));
  std::printf("     least cosine %.6f\n", least);
  CHECK(least >= kLeastCosineOfDeep);
}

// The embedded model, or the one that ISOPRO_TEST_MODEL names.
TEST(bf16_gradients_of_a_trained_model) {
  if (!available(Precision::bf16)) return;
  const char* given = std::getenv("ISOPRO_TEST_MODEL");
  const std::string file =
      given != nullptr ? given : std::string(ISOPRO_TEST_DATA) + "/../assets/models/tiny.gguf";
  const auto hyper = loadWeights(file)->hyper;
  const double least =
      leastCosine([&] { return loadWeights(file); }, hyper.layers, texts(hyper.vocabulary, 2, 150));
  std::printf("     least cosine %.6f\n", least);
  CHECK(least >= (given == nullptr ? kLeastCosine : kLeastCosineOfDeep));
}

TEST(bf16_steps_are_the_same_for_any_number_of_threads) {
  if (!available(Precision::bf16)) return;
  Shape shape;
  std::vector<std::uint8_t> expected, exact;
  for (const int threads : {1, 2, 5}) {
    auto options = allTargets(shape);
    options.threads = threads;
    options.precision = Precision::bf16;
    for (Target& target : options.targets) target.dropout = 0.1f;
    Trainer trainer(randomModel("gemma2", shape, 1), options);
    for (std::uint64_t i = 0; i < 4; ++i)
      CHECK(trainer.step(randomBatch(shape, i), {}, kNever).applied);
    if (threads == 1) expected = trainer.state();
    CHECK(trainer.state() == expected);
  }
  Trainer trainer(randomModel("gemma2", shape, 1), allTargets(shape));
  for (std::uint64_t i = 0; i < 4; ++i) trainer.step(randomBatch(shape, i), {}, kNever);
  CHECK(trainer.state() != expected);
}

TEST(bf16_trains_all_weights_of_an_f32_model) {
  if (!available(Precision::bf16)) return;
  Shape shape;
  TrainerOptions options;
  options.allWeights = true;
  std::vector<std::vector<float>> exact;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    options.precision = precision;
    Trainer trainer(randomModel("llama", shape, 1), options);
    trainer.differentiate(randomBatch(shape, 3), {}, kNever);
    std::size_t i = 0;
    for (const Parameter* p : trainer.parameters()) {
      if (precision == Precision::f32)
        exact.push_back(p->gradient);
      else
        CHECK(cosine(p->gradient, exact[i++]) >= kLeastCosineOfDeep);
    }
  }
}

TEST(a_precision_that_the_processor_lacks_is_refused) {
  if (available(Precision::bf16)) return;
  Shape shape;
  auto options = allTargets(shape);
  options.precision = Precision::bf16;
  CHECK_SAYS(Trainer(randomModel("llama", shape, 1), options), "INVALID_ARGUMENT", "bf16");
}
