// What the trainer counts and decides, against counts and closed forms of its own: optimiser,
// objectives, dropout, packing, memory.
#include <map>
#include <set>

#include "gradient_check.h"
#include "support/error.h"
#include "training/adapter_file.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

std::int64_t sizeOf(std::initializer_list<const Buffer*> buffers) {
  std::size_t size = 0;
  for (const Buffer* buffer : buffers) size += buffer->size();
  return static_cast<std::int64_t>(size * sizeof(float));
}

std::vector<float> draw(Random& random, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.nextDouble() * 2 - 1);
  return values;
}

}  // namespace

// The defaults that callers, documents and papers name; measurements begin at nothing.
TEST(what_is_not_given_has_its_documented_default) {
  const OptimiserOptions o;
  CHECK(o.learningRate == 1e-4f && o.factorB == 1 && o.beta1 == 0.9f && o.beta2 == 0.999f &&
        o.epsilon == 1e-8f);
  CHECK(o.weightDecay == 0 && o.maxNorm == 1 && o.schedule == Schedule::constant);
  CHECK(o.warmupSteps == 0 && o.totalSteps == 0 && o.finalFactor == 0);
  const Objective objective;
  CHECK(!objective.policy && objective.temperature == 1 && objective.klCoefficient == 0);
  CHECK(objective.clipLow == 0.2f && objective.clipHigh == 0.2f);
  const TrainerOptions t;
  CHECK(t.targets.empty() && !t.allWeights && t.seed == 0 && t.threads == 1 && t.sharePrefixes);
  CHECK(t.memoryBytes == 600'000'000 && t.microBatchTokens == 512);
  CHECK(Division().counts.empty() && Division().least == 1);
  const TrainSequence s;
  CHECK(s.weight == 1 && s.boundary.empty() && s.boundary.data == nullptr &&
        s.boundaryLayer == -1 && s.labels() == 0);
  const StepStatistics m;
  CHECK(m.step == 0 && m.learningRate == 0 && m.tokens == 0 && m.loss == 0 && m.gradNorm == 0 &&
        !m.clipped && !m.applied);
  CHECK(m.clipFraction == 0 && m.klToReference == 0 && m.oldPolicyGap == 0);
  const ModuleStatistics of;
  CHECK(of.pairGradNorm == 0 && of.updateRatio == 0 && of.dormantFraction == 0 && of.rankUse == 0);
  CHECK(Evaluation().loss == 0 && Evaluation().tokens == 0);
  CHECK(SequenceResult().loss == 0 && SequenceResult().entropy == 0 &&
        SequenceResult().clippedTokens == 0);
  const Lora lora;
  CHECK(lora.scale == 1 && lora.dropout == 0 && lora.rank() == 0 && lora.activityTokens == 0 &&
        lora.baseNorm == 0);
  CHECK(lora.a.learningRateFactor == 1 && lora.a.decays && lora.a.columns == 0);
}

TEST(the_learning_rate_at_each_border_of_its_schedule) {
  OptimiserOptions o;
  o.learningRate = 0.5f;
  for (const std::int64_t step : {1, 2, 1000}) CHECK(learningRateAt(o, step) == 0.5f);
  o.warmupSteps = 4, o.totalSteps = 12, o.finalFactor = 0.25f;
  CHECK(learningRateAt(o, 1) == 0.125f && learningRateAt(o, 3) == 0.375f &&
        learningRateAt(o, 4) == 0.5f);
  for (const std::int64_t step : {5, 12, 13}) CHECK(learningRateAt(o, step) == 0.5f);  // constant
  o.schedule = Schedule::linear;
  CHECK_NEAR(learningRateAt(o, 1), 0.125, 1e-7);
  CHECK_NEAR(learningRateAt(o, 5), 0.5 * (0.25 + 0.75 * 7 / 8), 1e-7);
  CHECK_NEAR(learningRateAt(o, 11), 0.5 * (0.25 + 0.75 / 8), 1e-7);
  CHECK(learningRateAt(o, 12) == 0.125f && learningRateAt(o, 13) == 0.125f);
  o.schedule = Schedule::cosine;
  CHECK_NEAR(learningRateAt(o, 8), 0.5 * (0.25 + 0.75 / 2), 1e-7);
  CHECK_NEAR(learningRateAt(o, 10), 0.5 * (0.25 + 0.75 * (1 - std::sqrt(0.5)) / 2), 1e-7);
  CHECK_NEAR(learningRateAt(o, 12), 0.125, 1e-7);
  CHECK_NEAR(learningRateAt(o, 900), 0.125, 1e-7);
  // A schedule of one step after the warm-up, and of none.
  o.totalSteps = 5;
  CHECK_NEAR(learningRateAt(o, 5), 0.125, 1e-7);
  for (const std::int64_t total : {4, 3, 0}) {
    o.totalSteps = total;
    CHECK(learningRateAt(o, 5) == 0.5f && learningRateAt(o, 4) == 0.5f);
  }
}

// Rows that were drawn anew have a bias correction of their own; a factor multiplies the rate, and
// with it the decay.
TEST(adamw_of_rows_with_counters_of_their_own) {
  OptimiserOptions o;
  o.weightDecay = 0.5f, o.beta1 = 0.8f, o.beta2 = 0.9f, o.epsilon = 0.01f;
  Random random(3);
  Parameter p("p", 3, 5);
  p.value = draw(random, 15), p.learningRateFactor = 4;
  p.steps = {0, 7, 2};
  std::vector<double> x(p.value.begin(), p.value.end()), m(15), v(15);
  for (int step = 1; step <= 3; ++step) {
    p.gradient = draw(random, 15);
    adamwStep(o, 0.02f, 0.75f, p);
    for (std::size_t i = 0; i < 15; ++i) {
      const double g = 0.75 * static_cast<double>(p.gradient[i]), t = (i < 5    ? 0
                                                                       : i < 10 ? 7
                                                                                : 2) +
                                                                      step;
      m[i] = 0.8 * m[i] + 0.2 * g, v[i] = 0.9 * v[i] + 0.1 * g * g;
      x[i] -= 0.08 * 0.5 * x[i];
      x[i] -= 0.08 * (m[i] / (1 - std::pow(0.8, t))) /
              (std::sqrt(v[i] / (1 - std::pow(0.9, t))) + 0.01);
      CHECK_NEAR(p.value[i], x[i], 3e-6);
      CHECK_NEAR(p.firstMoment[i], m[i], 1e-6);
      CHECK_NEAR(p.secondMoment[i], v[i], 1e-6);
    }
  }
  CHECK((p.steps == std::vector<std::int64_t>{3, 10, 5}));
  p.decays = false;
  const float before = p.value[0];
  p.gradient.assign(15, 0), p.firstMoment.assign(15, 0);
  adamwStep(o, 0.02f, 1, p);
  CHECK(p.value[0] == before);
}

TEST(objectives_of_one_token) {
  Objective o;
  TrainSequence s;
  s.weight = 0.5f;
  const auto is = [&](double logprob, double loss, double slope, bool clipped) {
    const RowLoss row = rowLoss(o, s, 1, logprob);
    CHECK_NEAR(row.loss, loss, 1e-6);
    CHECK_NEAR(row.slope, slope, 1e-6);
    CHECK(row.clipped == clipped);
  };
  is(-2, 1, -0.5, false);
  o.policy = true, o.clipLow = 0.1f, o.clipHigh = 0.3f;
  is(-2, 0, 0, false);  // no advantage
  s.advantages = {9, 2};
  is(-2, -1, -1, false);  // no old log-probability: a ratio of 1
  s.oldLogprobs = {9, -2};
  is(-2, -1, -1, false);
  const double up = std::log(1.5), down = std::log(0.5);
  is(-2 + up, -1.3, 0, true);        // good and already likelier
  is(-2 + down, -0.5, -0.5, false);  // good and less likely: pulled back with its whole ratio
  is(-2 + std::log(1.2), -1.2, -1.2, false);
  s.advantages[1] = -2;
  is(-2 + up, 1.5, 1.5, false);
  is(-2 + down, 0.9, 0, true);
  is(-2 + std::log(0.95), 0.95, 0.95, false);
  // k3 = e^gap - gap - 1 with gap = reference - logprob; its slope is -(e^gap - 1).
  s.advantages.clear();
  o.klCoefficient = 4, s.referenceLogprobs = {9, -1};
  is(-2, 0.5 * 4 * (std::exp(1) - 2), -0.5 * 4 * (std::exp(1) - 1), false);
  is(-1, 0, 0, false);
  is(0, 0.5 * 4 * std::exp(-1), 0.5 * 4 * (1 - std::exp(-1)), false);
}

// Of a step with policy gradient, from the log-probabilities that an evaluation gives.
TEST(figures_of_a_policy_step) {
  Shape shape;
  Trainer trainer(randomModel("qwen2", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  auto batch = randomBatch(shape, 4, true);
  batch[1].oldLogprobs.clear();
  batch[2].referenceLogprobs.clear();
  Objective o;
  o.policy = true, o.temperature = 0.8f, o.clipLow = 0.05f, o.clipHigh = 0.1f;
  const Evaluation e = trainer.evaluate(batch, o, true, kNever);
  double clipped = 0, gap = 0, kl = 0, loss = 0, tokens = 0, old = 0, reference = 0;
  for (std::size_t s = 0; s < batch.size(); ++s) {
    double ofSequence = 0, clippedOf = 0;
    for (std::size_t t = 0; t < batch[s].tokens.size(); ++t) {
      if (!batch[s].labelled[t]) continue;
      const double lp = e.sequences[s].logprobs[t], a = batch[s].advantages[t];
      const double before = batch[s].oldLogprobs.empty()
                                ? lp
                                : static_cast<double>(batch[s].oldLogprobs[t]),
                   ratio = std::exp(lp - before);
      if (!batch[s].oldLogprobs.empty()) gap += std::fabs(lp - before), old += 1;
      if (!batch[s].referenceLogprobs.empty()) {
        const double d = static_cast<double>(batch[s].referenceLogprobs[t]) - lp;
        kl += std::exp(d) - 1 - d, reference += 1;
      }
      const bool isClipped = a > 0 ? ratio > 1.1 : ratio < 0.95;
      clippedOf += isClipped ? 1 : 0;
      ofSequence -=
          static_cast<double>(batch[s].weight) * a * (isClipped ? (a > 0 ? 1.1 : 0.95) : ratio);
      tokens += 1;
    }
    CHECK_NEAR(e.sequences[s].loss, ofSequence, 1e-5);
    CHECK(e.sequences[s].clippedTokens == clippedOf);
    clipped += clippedOf, loss += ofSequence;
  }
  CHECK(clipped > 1 && clipped < tokens && e.tokens == static_cast<std::int64_t>(tokens));
  const StepStatistics s = trainer.differentiate(batch, o, kNever, {{1, 2}});
  CHECK_NEAR(e.loss, loss / tokens, 1e-6);
  CHECK_NEAR(s.loss, loss / tokens, 1e-5);
  CHECK_NEAR(s.clipFraction, clipped / tokens, 1e-9);
  CHECK_NEAR(s.oldPolicyGap, gap / old, 1e-6);
  CHECK_NEAR(s.klToReference, kl / reference, 1e-6);
  CHECK(s.step == 1 && s.tokens == e.tokens && !s.applied && s.nonFinite.empty());
  // No sequence came with any: nothing to be off from.
  for (TrainSequence& each : batch) each.oldLogprobs.clear(), each.referenceLogprobs.clear();
  const StepStatistics none = trainer.differentiate(batch, o, kNever);
  CHECK(none.oldPolicyGap == 0 && none.klToReference == 0 && none.clipFraction == 0);
}

// A micro-batch's norm is that of its own mean gradient; a sequence without targets adds nothing
// anywhere.
TEST(figures_of_each_micro_batch) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  auto batch = randomBatch(shape, 3);
  batch.push_back(batch[0]);
  std::fill(batch[3].labelled.begin(), batch[3].labelled.end(), std::uint8_t{0});
  batch[3].tokens[0] = (batch[3].tokens[0] + 1) % 50;
  const StepStatistics s = trainer.differentiate(batch, {}, kNever, {{1, 2, 1}});
  const StepStatistics first = trainer.differentiate({batch[0]}, {}, kNever),
                       second = trainer.differentiate({batch[1], batch[2]}, {}, kNever);
  CHECK((s.microBatchTokens == std::vector<std::int64_t>{first.tokens, second.tokens, 0}));
  CHECK_NEAR(s.microBatchNorms[0] / first.gradNorm, 1, 1e-5);
  CHECK_NEAR(s.microBatchNorms[1] / second.gradNorm, 1, 1e-5);
  CHECK(s.microBatchNorms[2] == 0 && s.tokens == first.tokens + second.tokens);
  CHECK(s.modules.size() == trainer.loras().size());
  trainer.differentiate(batch, {}, kNever, {{1, 2, 1}});
  for (std::size_t m = 0; m < s.modules.size(); ++m) {
    const Lora& lora = *trainer.loras()[m];
    double squared = 0;
    for (const auto* gradient : {&lora.a.gradient, &lora.b.gradient}) {
      for (const float value : *gradient)
        squared += static_cast<double>(value) * static_cast<double>(value);
    }
    CHECK(s.modules[m].module == lora.module && squared > 0);
    CHECK_NEAR(s.modules[m].pairGradNorm / std::sqrt(squared), 1, 1e-6);
    CHECK(lora.activityTokens == 9 + 2 + 14 + 9);  // of this call alone
  }
  const Evaluation e = trainer.evaluate(batch, {}, true, kNever);
  CHECK(e.tokens == s.tokens && e.sequences[3].entropy == 0 && e.sequences[3].loss == 0);
  CHECK(e.sequences[3].logprobs == std::vector<float>(9));
}

TEST(a_step_reports_its_rate_and_the_adapter_that_it_leaves) {
  Shape shape;
  auto options = allTargets(shape);
  options.optimiser.warmupSteps = 4;
  Trainer trainer(randomModel("llama", shape, 1), options);
  randomiseB(trainer, 2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    const StepStatistics s = trainer.step(randomBatch(shape, 3), {}, kNever);
    CHECK(s.step == step && trainer.steps() == step && s.applied && s.clipped == (s.gradNorm > 1));
    CHECK_NEAR(s.learningRate, 0.01 * static_cast<double>(step) / 4, 1e-8);
    for (std::size_t m = 0; m < s.modules.size(); ++m) {
      const Lora& lora = *trainer.loras()[m];
      CHECK(s.modules[m].rankUse == rankUse(lora.a, lora.b) && s.modules[m].updateRatio > 0);
      CHECK(s.modules[m].dormantFraction ==
            static_cast<double>(s.modules[m].dormantDirections.size()) /
                static_cast<double>(lora.rank()));
    }
  }
}

// A row of x in both factors' way: A and B are the identity and W is zero, so that y shows what
// dropout left of x.
TEST(dropout_keeps_what_it_should_and_scales_it) {
  kernels::Engine engine(2);
  constexpr std::int64_t width = 64, tokens = 257;
  const std::vector<float> zero(width * width), x(static_cast<std::size_t>(width * tokens), 3.0f);
  std::vector<float> y(x.size()), again(x.size());
  Linear linear;
  linear.weight = kernels::denseMatrix(zero.data(), width, width);
  linear.lora = std::make_unique<Lora>();
  Lora& lora = *linear.lora;
  lora.a = Parameter("a", width, width), lora.b = Parameter("b", width, width);
  for (std::int64_t i = 0; i < width; ++i) {
    lora.a.value[static_cast<std::size_t>(i * width + i)] = 1;
    lora.b.value[static_cast<std::size_t>(i * width + i)] = 1;
  }
  lora.dropoutKey = dropoutKey(3, kKey);
  const auto forward = [&](std::uint64_t seed, bool training, std::vector<float>& out) {
    Pass pass{engine, tokens, true, training, seed};
    linearForward(pass, linear, x.data(), out.data());
  };
  for (const float p : {0.1f, 0.25f, 0.75f}) {
    lora.dropout = p;
    forward(9, true, y);
    double kept = 0;
    for (const float value : y) {
      if (value == 0) continue;
      CHECK_NEAR(value, 3 / (1 - static_cast<double>(p)), 1e-5);
      ++kept;
    }
    const double n = static_cast<double>(y.size()), q = 1 - static_cast<double>(p);
    CHECK_NEAR(kept / n, q, 5 * std::sqrt(q * (1 - q) / n));
    forward(9, true, again);
    CHECK(again == y);
    forward(10, true, again);
    CHECK(again != y);
    lora.dropoutKey = dropoutKey(4, kKey);
    forward(9, true, again);
    CHECK(again != y);
    lora.dropoutKey = dropoutKey(3, kKey);
    forward(9, false, again);
    CHECK(again == x);

    // Down again through the same draw, onto what is there where it is to be added.
    Pass pass{engine, tokens, true, true, 9};
    std::vector<float> dx(x.size(), 7.0f);
    linearBackward(pass, linear, x.data(), x.data(), dx.data(), true);
    for (std::size_t i = 0; i < y.size(); ++i) CHECK_NEAR(dx[i], 7 + y[i], 1e-5);
    linearBackward(pass, linear, x.data(), x.data(), dx.data(), false);
    CHECK(dx == y);
  }
  // Every module of every layer draws for itself, whatever the step draws.
  std::set<std::uint64_t> keys{0};
  for (std::int64_t layer = 0; layer < 300; ++layer) {
    for (int module = 0; module < kModules; ++module) keys.insert(dropoutKey(layer, module) >> 32);
  }
  CHECK(keys.size() == 1 + 300 * kModules);
}

// y is linear in each of x, A and B: differences are exact but for rounding, in the same draw of
// dropout.
TEST(gradients_of_one_adapted_map) {
  kernels::Engine engine(2);
  constexpr std::int64_t in = 11, out = 6, rank = 3, tokens = 5;
  Random random(4);
  const auto w = draw(random, out * in), dy = draw(random, tokens * out);
  auto x = draw(random, tokens * in);
  const std::vector<std::int32_t> copies = {2, 1, 1, 3, 1};
  for (const float dropout : {0.0f, 0.4f}) {
    Linear linear;
    linear.weight = kernels::denseMatrix(w.data(), out, in);
    linear.bias = draw(random, out);
    linear.trainedBias = std::make_unique<Parameter>("bias", 1, out);
    linear.trainedBias->value = draw(random, out);
    linear.lora = std::make_unique<Lora>();
    Lora& lora = *linear.lora;
    lora.a = Parameter("a", rank, in), lora.b = Parameter("b", rank, out);
    lora.a.value = draw(random, rank * in), lora.b.value = draw(random, rank * out);
    lora.scale = 0.75f, lora.dropout = dropout, lora.dropoutKey = dropoutKey(0, kQuery);
    Pass pass{engine, tokens, true, true, 5, copies.data()};
    const auto loss = [&] {
      std::vector<float> y(static_cast<std::size_t>(tokens * out));
      linearForward(pass, linear, x.data(), y.data());
      double total = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        total += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
      return total;
    };
    std::vector<float> dx(x.size());
    linearBackward(pass, linear, x.data(), dy.data(), dx.data(), false);
    const auto check = [&](std::vector<float>& values, const std::vector<float>& gradient) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float kept = values[i];
        values[i] = kept + 0.5f;
        const double more = loss();
        values[i] = kept - 0.5f;
        CHECK_NEAR(gradient[i], more - loss(), 2e-5);
        values[i] = kept;
      }
    };
    check(x, dx);
    check(lora.a.value, lora.a.gradient);
    check(lora.b.value, lora.b.gradient);
    check(linear.trainedBias->value, linear.trainedBias->gradient);
    // Where nothing below is trained, the factors' gradients are the same, added to what is there.
    const auto a = lora.a.gradient, b = lora.b.gradient, bias = linear.trainedBias->gradient;
    linearBackward(pass, linear, x.data(), dy.data(), nullptr, false);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK_NEAR(lora.a.gradient[i], 2 * a[i], 1e-5);
    for (std::size_t i = 0; i < b.size(); ++i) CHECK_NEAR(lora.b.gradient[i], 2 * b[i], 1e-5);
    for (std::size_t i = 0; i < bias.size(); ++i)
      CHECK_NEAR(linear.trainedBias->gradient[i], 2 * bias[i], 1e-5);
    // Twice 8 tokens were seen, each with |(A x)_j|.
    CHECK(lora.activityTokens == 16);
    if (dropout == 0) {
      for (std::int64_t j = 0; j < rank; ++j) {
        double expected = 0;
        for (std::int64_t t = 0; t < tokens; ++t) {
          double low = 0;
          for (std::int64_t i = 0; i < in; ++i)
            low += static_cast<double>(x[static_cast<std::size_t>(t * in + i)]) *
                   static_cast<double>(lora.a.value[static_cast<std::size_t>(j * in + i)]);
          expected += 2 * copies[static_cast<std::size_t>(t)] * std::fabs(low);
        }
        CHECK_NEAR(lora.activity[static_cast<std::size_t>(j)], expected, 1e-5);
      }
    }
    // The base model alone takes no part of the adapter, nor does a measurement count.
    Pass plain{engine, tokens, false, true, 5};
    linearBackward(plain, linear, x.data(), dy.data(), dx.data(), false);
    Pass measured{engine, tokens};
    linearBackward(measured, linear, x.data(), dy.data(), dx.data(), false);
    CHECK(lora.activityTokens == 16);
  }
}

// Rows are the distinct beginnings of the batch's sequences, and each row's text is that of every
// sequence that has it.
TEST(packing_of_random_trees_by_brute_force) {
  Random random(21);
  const auto below = [&](std::uint64_t bound) { return random.nextUint64() % bound; };
  for (int round = 0; round < 300; ++round) {
    std::vector<TrainSequence> batch(1 + below(8));
    for (TrainSequence& s : batch) {
      for (std::uint64_t t = 1 + below(7); t > 0; --t)
        s.tokens.push_back(static_cast<std::int32_t>(below(2)));
    }
    Packer packer(true, 4);
    std::map<std::vector<std::int32_t>, std::int32_t> beginnings;
    for (const TrainSequence& s : batch) {
      const std::size_t before = beginnings.size();
      for (auto end = s.tokens.begin() + 1;; ++end) {
        ++beginnings[{s.tokens.begin(), end}];
        if (end == s.tokens.end()) break;
      }
      CHECK(packer.rowsOf(s) == static_cast<std::int64_t>(beginnings.size() - before));
      packer.add(s);
      CHECK(packer.rows() == static_cast<std::int64_t>(beginnings.size()));
    }
    const MicroBatch tree = packer.packed();
    CHECK(tree.shared && tree.sequences.size() == batch.size() && packer.size() == batch.size());
    CHECK(tree.rows() == static_cast<std::int64_t>(beginnings.size()) &&
          tree.copies.size() == beginnings.size());
    std::size_t longest = 0;
    std::int64_t next = 0;
    for (std::size_t i = 0; i < tree.segments.size(); ++i) {
      const Segment& segment = tree.segments[i];
      CHECK(segment.rows.begin == next && segment.rows.end > next &&
            segment.parent < static_cast<std::int64_t>(i));
      CHECK(
          segment.position ==
          (segment.parent < 0 ? 0 : tree.segments[static_cast<std::size_t>(segment.parent)].end()));
      next = segment.rows.end;
    }
    CHECK(next == tree.rows());
    for (std::size_t s = 0; s < batch.size(); ++s) {
      longest = std::max(longest, batch[s].tokens.size());
      CHECK(tree.rowOf[s].size() == batch[s].tokens.size());
      std::set<std::int64_t> rows;
      for (std::size_t t = 0; t < batch[s].tokens.size(); ++t) {
        const std::int64_t row = tree.rowOf[s][t];
        rows.insert(row);
        const std::vector<std::int32_t> beginning(
            batch[s].tokens.begin(), batch[s].tokens.begin() + static_cast<std::ptrdiff_t>(t) + 1);
        CHECK(tree.copies[static_cast<std::size_t>(row)] == beginnings[beginning]);
        const auto [of, token] = tree.places[static_cast<std::size_t>(row)];
        CHECK(token == static_cast<std::int64_t>(t));
        CHECK(std::equal(beginning.begin(), beginning.end(), batch[of].tokens.begin()));
      }
      CHECK(rows.size() == batch[s].tokens.size());
    }
    CHECK(tree.longest() == static_cast<std::int64_t>(longest));
  }
}

// What a pass keeps, counted in the buffers that it has filled.
TEST(bytes_of_activations_are_those_that_a_pass_fills) {
  for (const char* architecture :
       {"llama", "qwen2", "qwen3", "gemma2", "olmo2", "phi3", "qwen3moe"}) {
    Shape shape;
    shape.width = 48, shape.headWidth = 8, shape.heads = 6, shape.feedForward = 80;
    auto model = randomModel(architecture, shape, 1);
    const Hyperparameters& h = model->hyper;
    kernels::Engine engine(1);
    constexpr std::int64_t tokens = 7;
    const Rotations rotations = makeRotations(h, {}, tokens);
    CHECK(rotations.whole.cosine.size() == 7 * 4 && rotations.whole.sine.size() == 7 * 4);
    const Segments segments = {{{0, 3}, -1, 0}, {{3, tokens}, 0, 3}};
    BlockScratch scratch;
    Pass pass{engine, tokens};
    BlockContext context{pass, h, rotations, segments, scratch};
    BlockActivations act;
    Random random(1);
    act.input = draw(random, tokens * shape.width);
    std::vector<float> output(act.input.size());
    blockForward(context, model->layers[0], 0, act, output.data());
    const std::int64_t kept =
        sizeOf({&act.input, &act.inputRms, &act.middleRms, &act.q, &act.k, &act.v, &act.rawQ,
                &act.rawK, &act.queryRms, &act.keyRms, &act.attended, &act.projected,
                &act.projectedRms, &act.middle, &act.gate, &act.up, &act.fed, &act.fedRms,
                &act.routing.shares}) +
        static_cast<std::int64_t>(act.routing.experts.size() * sizeof(std::int32_t));
    CHECK(static_cast<std::int64_t>(BlockActivations::bytes(h, tokens)) == kept);
    CHECK(BlockActivations::bytes(h, 0) == 0);
    if (std::string(architecture) != "gemma2") continue;
    // With all that a block may need: beside its own, two shares of the heads' gradients in
    // attention, and the gradient itself.
    blockBackward(context, model->layers[0], 0, act, output.data(), true);
    const std::int64_t used =
        sizeOf({&scratch.normed, &scratch.h, &scratch.dh, &scratch.dNormed, &scratch.dAdded,
                &scratch.dq, &scratch.dk, &scratch.dv, &scratch.dAttended, &output});
    const std::int64_t shares =
        2 * tokens * h.queryWidth() * static_cast<std::int64_t>(sizeof(float));
    CHECK(static_cast<std::int64_t>(BlockScratch::bytes(h, tokens)) == used + shares);
  }
}

TEST(layers_are_kept_as_long_as_they_fit_to_the_byte) {
  Shape shape;
  shape.layers = 4;
  Trainer trainer(randomModel("qwen3", shape, 1), allTargets(shape, 1));
  const Hyperparameters& h = trainer.model().hyper;
  Network network(trainer.model(), trainer.engine(), 0);
  CHECK(network.lowestTrained() == 1 && network.activationBytes() == 0);
  // Three layers are differentiated. Those that are kept, and one in whose place the others are
  // computed again from their inputs.
  const std::size_t each = BlockActivations::bytes(h, 100), input = 100 * 64 * 4;
  CHECK(network.activationBytes(100, 0) == each + 3 * input);
  CHECK(network.activationBytes(100, 1) == 2 * each + 2 * input);
  CHECK(network.activationBytes(100, 2) == 3 * each + input);
  CHECK(network.activationBytes(100, 3) == 3 * each);
  for (std::int64_t kept = 1; kept <= 3; ++kept) {
    network.setActivationBytes(network.activationBytes(100, kept));
    CHECK(network.keptLayers(100) >= kept);
    network.setActivationBytes(
        std::min(network.activationBytes(100, kept), network.activationBytes(100, 3)) - 1);
    CHECK(network.keptLayers(100) < kept || kept == 3);
  }
  network.setActivationBytes(network.activationBytes(100, 0));
  CHECK(network.fits(100) && network.keptLayers(100) == 0);
  network.setActivationBytes(network.activationBytes(100, 0) - 1);
  CHECK(!network.fits(100) && network.keptLayers(100) == 0);
  // Of the working buffers, what is beyond 512 rows counts.
  network.setActivationBytes(network.activationBytes(512, 0));
  CHECK(network.fits(512));
  const std::size_t row = BlockScratch::bytes(h, 1);
  network.setActivationBytes(network.activationBytes(515, 0) + 3 * row);
  CHECK(network.fits(515));
  network.setActivationBytes(network.activationBytes(515, 0) + 3 * row - 1);
  CHECK(!network.fits(515));
  network.setActivationBytes(network.activationBytes(515, 3) + 3 * row);
  CHECK(network.keptLayers(515) == 3);
  network.setActivationBytes(network.activationBytes(515, 3) + 3 * row - 1);
  CHECK(network.keptLayers(515) < 3);
}

TEST(a_batch_beyond_the_memory_is_told_what_would_fit) {
  Shape shape;
  shape.layers = 1, shape.feedForward = 65'536, shape.context = 512, shape.width = 32,
  shape.heads = 2, shape.headWidth = 16;
  auto options = allTargets(shape);
  options.memoryBytes = 1000;
  Trainer trainer(randomModel("llama", shape, 1), options);
  TrainSequence s;
  for (int t = 0; t < 400; ++t) s.tokens.push_back(t % 50), s.labelled.push_back(t > 0);
  TrainSequence other = s;
  other.tokens[200] = 7, other.tokens[201] = 7;
  std::size_t optimiser = 0;
  for (const Parameter* p : trainer.parameters())
    optimiser += p->value.size() * 12;  // value's gradient and two moments
  // The least memory for activations is 150 MB.
  const auto bytes = [&](std::size_t rows) {
    return BlockActivations::bytes(trainer.model().hyper, static_cast<std::int64_t>(rows)) +
           rows * 32 * 4;
  };
  const auto says = [&](const std::string& what, std::size_t rows, const std::string& one) {
    return "memoryBytes of 1000 does not hold the activations of " + what + " of " +
           std::to_string(rows) + " tokens: it takes " + std::to_string(bytes(rows) + optimiser) +
           ", or a " + one + " of at most " + std::to_string(rows * 150'000'000 / bytes(rows)) +
           " tokens, or fewer trained layers";
  };
  CHECK_SAYS(trainer.differentiate({s}, {}, kNever), "INVALID_ARGUMENT",
             says("a sequence", 400, "sequence"));
  CHECK_SAYS(trainer.differentiate({s, other}, {}, kNever, {{2}}), "INVALID_ARGUMENT",
             says("2 sequences in one micro-batch", 600, "micro-batch"));
  CHECK(trainer.information().keptLayers == 0);
}

TEST(a_trainer_says_what_it_trains) {
  Shape shape;
  shape.layers = 3;
  TrainerOptions options;
  options.targets = {{1, kKey, 3, 2, 0.25f}, {2, kDown, 5, 1, 0}};
  options.optimiser.factorB = 8;
  options.seed = 77;
  Trainer trainer(randomModel("llama", shape, 1), options);
  const TrainerInformation i = trainer.information();
  CHECK(i.modelBytes == 0);  // of no file
  CHECK(i.layers == 3 && i.width == 64 && i.vocabulary == 50 && i.contextLength == 64 &&
        i.lowestTrained == 1);
  CHECK(i.parameters == 3 * (64 + 32) + 5 * (96 + 64) && i.keptLayers == 2 &&
        i.architecture == "llama");
  const auto loras = trainer.loras();
  CHECK(loras.size() == 2 && loras[0]->module == "blk.1.attn_k" &&
        loras[1]->module == "blk.2.ffn_down");
  CHECK(&trainer.lora("blk.2.ffn_down") == loras[1]);
  CHECK(loras[0]->scale == 2 && loras[0]->dropout == 0.25f &&
        loras[0]->dropoutKey == dropoutKey(1, kKey) && loras[0]->activity.size() == 3);
  // A: uniform in +-1 / sqrt(in), direction after direction from the seed; B: zero.
  Random random(77);
  for (const Lora* lora : loras) {
    CHECK(lora->a.rows == lora->b.rows && lora->a.name == lora->module + ".A" &&
          lora->b.name == lora->module + ".B");
    CHECK(lora->a.learningRateFactor == 1 && lora->b.learningRateFactor == 8);
    const double bound = 1 / std::sqrt(static_cast<double>(lora->a.columns));
    for (const float value : lora->a.value)
      CHECK_NEAR(value, (2 * random.nextDouble() - 1) * bound, 1e-7);
    CHECK(squaredNorm(lora->b.value) == 0);
    double squared = 0;
    const Layer& layer = trainer.model().layers[lora == loras[0] ? 1 : 2];
    const Matrix& w = layer.linear[lora == loras[0] ? kKey : kDown].weight;
    for (std::int64_t k = 0; k < w.rows * w.columns; ++k)
      squared += std::pow(static_cast<double>(static_cast<const float*>(w.data)[k]), 2);
    CHECK_NEAR(lora->baseNorm, std::sqrt(squared), 1e-6);
  }
  trainer.setLearningRate("blk.1.attn_k", 0.5f);
  CHECK(loras[0]->a.learningRateFactor == 0.5f && loras[0]->b.learningRateFactor == 4 &&
        loras[1]->a.learningRateFactor == 1);
  trainer.raiseRank("blk.1.attn_k", 4);
  CHECK(loras[0]->activity.size() == 4 && loras[0]->a.value.size() == 4 * 64 &&
        loras[0]->b.steps.size() == 4);
  for (std::size_t k = 3 * 64; k < 4 * 64; ++k)
    CHECK_NEAR(loras[0]->a.value[k], (2 * random.nextDouble() - 1) / 8, 1e-7);
  // A recycled direction has no moments and no steps, its neighbours keep theirs.
  for (Parameter* p : {&loras[0]->a, &loras[0]->b}) {
    p->firstMoment.assign(p->firstMoment.size(), 2),
        p->secondMoment.assign(p->secondMoment.size(), 2), p->steps.assign(4, 6);
    p->value.assign(p->value.size(), 5);
  }
  trainer.recycleDirections("blk.1.attn_k", {2});
  for (const Parameter* p : {&loras[0]->a, &loras[0]->b}) {
    CHECK((p->steps == std::vector<std::int64_t>{6, 6, 0, 6}));
    for (std::size_t k = 0; k < p->value.size(); ++k) {
      const bool recycled = k / static_cast<std::size_t>(p->columns) == 2;
      CHECK(p->firstMoment[k] == (recycled ? 0.0f : 2.0f) &&
            p->secondMoment[k] == (recycled ? 0.0f : 2.0f));
      CHECK((p->value[k] == 5) == !recycled);
    }
  }
}

TEST(all_weights_by_their_names) {
  Shape shape;
  shape.layers = 1;
  const auto namesOf = [&](const char* architecture, bool tied) {
    shape.tied = tied, shape.biases = std::string(architecture) == "qwen2";
    TrainerOptions options;
    options.allWeights = true;
    auto model = randomModel(architecture, shape, 1);
    if (shape.biases) model->head.bias.assign(50, 0.5f);
    Trainer trainer(std::move(model), options);
    CHECK(trainer.information().lowestTrained == 0);
    std::set<std::string> names;
    for (const Parameter* p : trainer.parameters()) {
      CHECK(names.insert(p->name).second);
      CHECK(p->decays == (p->name.find("norm") == std::string::npos &&
                          p->name.find("bias") == std::string::npos));
    }
    return names;
  };
  std::set<std::string> expected = {
      "token_embd.weight",      "output.weight",         "output_norm.weight",
      "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "blk.0.attn_q.weight",
      "blk.0.attn_k.weight",    "blk.0.attn_v.weight",   "blk.0.attn_output.weight",
      "blk.0.ffn_gate.weight",  "blk.0.ffn_up.weight",   "blk.0.ffn_down.weight"};
  CHECK(namesOf("llama", false) == expected);
  auto biased = expected;
  biased.insert({"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias", "output.bias"});
  CHECK(namesOf("qwen2", false) == biased);
  expected.erase("output.weight");
  auto heads = expected;
  heads.insert({"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"});
  CHECK(namesOf("qwen3", true) == heads);
  auto post = expected;
  post.insert({"blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight"});
  CHECK(namesOf("gemma2", true) == post);
}

// A bias on every map, the head's included, an odd number of everything, a scaled rotation and a
// window of one row more than fits.
TEST(gradients_with_every_bias_and_odd_sizes) {
  Shape shape;
  shape.width = 36, shape.heads = 3, shape.keyHeads = 1, shape.headWidth = 10,
  shape.feedForward = 23, shape.vocabulary = 31, shape.layers = 3;
  shape.window = 3;
  for (const char* architecture : {"qwen2", "gemma2"}) {
    for (const bool all : {true, false}) {
      auto model = randomModel(architecture, shape, 1);
      model->hyper.rope.scale = model->hyper.windowRope.scale = 0.25f;
      Random random(6);
      for (Layer& layer : model->layers) {
        for (Linear& linear : layer.linear) linear.bias = draw(random, linear.outputs());
      }
      model->head.bias = draw(random, shape.vocabulary);
      auto options = allTargets(shape);
      if (all) options.targets.clear(), options.allWeights = true;
      Trainer trainer(std::move(model), options);
      randomiseB(trainer, 2);
      auto batch = randomBatch(shape, 3);
      checkGradients(trainer, batch, {}, 1e-4, 2);
    }
  }
}

// More than one block of 128 queries, with a window that crosses it.
TEST(gradients_across_blocks_of_queries) {
  Shape shape;
  shape.width = 16, shape.heads = 2, shape.keyHeads = 1, shape.headWidth = 8,
  shape.feedForward = 16, shape.context = 256, shape.window = 60;
  TrainerOptions options;
  options.targets = {
      {0, kQuery, 2, 1, 0}, {0, kKey, 2, 1, 0}, {0, kValue, 2, 1, 0}, {1, kKey, 2, 1, 0}};
  options.threads = 2;
  Trainer trainer(randomModel("gemma2", shape, 1), options);
  randomiseB(trainer, 2);
  Random random(5);
  TrainSequence s;
  for (int t = 0; t < 140; ++t) {
    s.tokens.push_back(static_cast<std::int32_t>(random.nextUint64() % 50));
    s.labelled.push_back(t > 100 ? 1 : 0);
  }
  checkGradients(trainer, {s}, {}, 2e-4, 2);
  // A shorter text and then a longer one than before: the angles of each are its own.
  TrainSequence start = s;
  start.tokens.resize(20), start.labelled.assign(20, 1), start.labelled[0] = 0;
  const ReferenceModel reference(trainer.model());
  const Values expected = reference.logprobs(start.tokens, 1);
  const Evaluation e = trainer.evaluate({start}, {}, true, kNever);
  for (std::size_t t = 1; t < 20; ++t) CHECK_NEAR(e.sequences[0].logprobs[t], expected[t], 1e-5);
}

// The head takes as many rows at a time as its memory allows; a batch of more is as its parts.
TEST(more_targets_than_the_head_takes_at_once) {
  Shape shape;
  shape.layers = 1, shape.width = 16, shape.heads = 2, shape.headWidth = 8, shape.feedForward = 16,
  shape.vocabulary = 90'000, shape.context = 128;
  for (const char* architecture : {"llama", "gemma2"}) {
    TrainerOptions options;
    options.targets = {{0, kDown, 2, 1, 0}};
    options.threads = 2;
    Trainer trainer(randomModel(architecture, shape, 1), options);
    randomiseB(trainer, 2);
    Random random(5);
    std::vector<TrainSequence> batch(2);
    for (TrainSequence& s : batch) {
      for (int t = 0; t < 76; ++t) {
        s.tokens.push_back(static_cast<std::int32_t>(random.nextUint64() % 90'000));
        s.labelled.push_back(t > 0 ? 1 : 0);
      }
    }
    trainer.differentiate(batch, {}, kNever, {{2}});
    const auto together = trainer.lora("blk.0.ffn_down").a.gradient;
    trainer.differentiate(batch, {}, kNever, {{1, 1}});
    const auto& apart = trainer.lora("blk.0.ffn_down").a.gradient;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < apart.size(); ++i) {
      difference += std::pow(static_cast<double>(apart[i]) - static_cast<double>(together[i]), 2);
      size += std::pow(static_cast<double>(apart[i]), 2);
    }
    CHECK(size > 0 && std::sqrt(difference / size) < 1e-6);
    const Evaluation both = trainer.evaluate(batch, {}, true, kNever);
    for (std::size_t s = 0; s < 2; ++s) {
      const Evaluation one = trainer.evaluate({batch[s]}, {}, true, kNever);
      CHECK_NEAR(one.sequences[0].loss / both.sequences[s].loss, 1, 1e-9);
      CHECK_NEAR(one.sequences[0].entropy, both.sequences[s].entropy, 1e-9);
      for (std::size_t t = 0; t < 76; ++t)
        CHECK_NEAR(one.sequences[0].logprobs[t], both.sequences[s].logprobs[t], 1e-5);
    }
  }
}
