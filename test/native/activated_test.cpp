// Adapters that act from the generation prompt on: gradients, what is shared and held of prompts,
// and what is refused.
#include "gradient_check.h"
#include "support/error.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

const std::vector<std::int32_t> kInvocation = {7, 31, 4};

std::vector<std::int32_t> joined(std::vector<std::int32_t> tokens,
                                 const std::vector<std::int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// Groups of replies to prompts of one frame; one prompt has the invocation tokens twice, and one
// reply has them too. adapterFrom is where the adapter has to act.
std::vector<TrainSequence> promptBatch(const Shape& shape, std::uint64_t seed,
                                       bool policy = false) {
  Random random(seed);
  const auto draw = [&](std::size_t count) {
    std::vector<std::int32_t> tokens;
    for (std::size_t t = 0; t < count; ++t) {
      tokens.push_back(
          static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(shape.vocabulary)));
    }
    return tokens;
  };
  const auto frame = draw(6), first = joined(frame, draw(5)),
             second = joined(joined(joined(frame, kInvocation), draw(3)), {7});
  struct Text {
    std::vector<std::int32_t> prompt, reply;
  };
  const auto opening = draw(2);
  const std::vector<Text> texts = {{first, joined(opening, draw(4))},
                                   {first, joined(opening, draw(1))},
                                   {second, draw(5)},
                                   {first, joined(draw(2), kInvocation)},
                                   {second, draw(1)}};
  std::vector<TrainSequence> batch;
  for (const auto& [prompt, reply] : texts) {
    TrainSequence s;
    s.adapterFrom = static_cast<std::int64_t>(prompt.size());
    const std::size_t begin = prompt.size() + kInvocation.size();
    s.tokens = joined(joined(prompt, kInvocation), reply);
    for (std::size_t t = 0; t < s.tokens.size(); ++t) {
      s.labelled.push_back(t >= begin ? 1 : 0);
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

TrainerOptions activatedTargets(const Shape& shape, std::int64_t lowest = 0) {
  TrainerOptions options = allTargets(shape, lowest);
  options.invocationTokens = kInvocation;
  return options;
}

std::vector<std::vector<float>> gradients(Trainer& trainer) {
  std::vector<std::vector<float>> all;
  for (const Parameter* p : trainer.parameters()) all.push_back(p->gradient);
  return all;
}

std::vector<std::vector<float>> logprobs(const Evaluation& evaluation) {
  std::vector<std::vector<float>> all;
  for (const SequenceResult& result : evaluation.sequences) all.push_back(result.logprobs);
  return all;
}

}  // namespace

TEST(activated_gradients_likelihood) {
  forArchitectures([](const std::string& architecture, const Shape& shape) {
    Trainer trainer(randomModel(architecture, shape, 1), activatedTargets(shape));
    randomiseB(trainer, 2);
    checkGradients(trainer, promptBatch(shape, 3), {}, 1e-4);
  });
}

TEST(activated_gradients_policy) {
  forArchitectures([](const std::string& architecture, const Shape& shape) {
    Trainer trainer(randomModel(architecture, shape, 1), activatedTargets(shape));
    randomiseB(trainer, 2);
    Objective objective;
    objective.policy = true;
    objective.temperature = 0.8f;
    objective.klCoefficient = 0.1f;
    checkGradients(trainer, promptBatch(shape, 4, true), objective, 1e-4);
  });
}

TEST(activated_gradients_above_a_boundary) {
  Shape shape;
  shape.layers = 4;
  Trainer trainer(randomModel("qwen2", shape, 1), activatedTargets(shape, 2));
  randomiseB(trainer, 2);
  auto batch = promptBatch(shape, 3);
  checkGradients(trainer, batch, {}, 1e-4);
  const auto without = gradients(trainer);
  const auto rows = trainer.captureBoundary(batch, kNever);
  for (std::size_t s = 0; s < batch.size(); s += 2) {  // some of a group have one, some not
    batch[s].boundary = {rows[s].data(), rows[s].size()};
    batch[s].boundaryLayer = 2;
  }
  trainer.differentiate(batch, {}, kNever);
  const auto with = gradients(trainer);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < with.size(); ++i) {
    for (std::size_t k = 0; k < with[i].size(); ++k) {
      difference += std::pow(static_cast<double>(with[i][k] - without[i][k]), 2);
      size += std::pow(static_cast<double>(without[i][k]), 2);
    }
  }
  CHECK(difference > 0 && std::sqrt(difference / size) < 1e-2);  // they are f16
}

// The base model's log-probabilities, bit for bit, whatever the adapter is; and the adapter's where
// it would act on every row, only where it acts on every row.
TEST(an_activated_adapter_leaves_the_prompt_to_the_base_model) {
  Shape shape;
  const auto batch = promptBatch(shape, 3);
  Trainer ordinary(randomModel("llama", shape, 1), allTargets(shape)),
      activated(randomModel("llama", shape, 1), activatedTargets(shape));
  randomiseB(ordinary, 2);
  randomiseB(activated, 2);
  const auto base = logprobs(ordinary.evaluate(batch, {}, false, kNever));
  CHECK(logprobs(activated.evaluate(batch, {}, false, kNever)) == base);
  const auto all = logprobs(ordinary.evaluate(batch, {}, true, kNever)),
             some = logprobs(activated.evaluate(batch, {}, true, kNever));
  CHECK(all != some && some != base);
  // A text that begins with its invocation tokens has no prompt.
  TrainSequence whole;
  whole.tokens = joined(kInvocation, {1, 2, 3});
  whole.labelled = {0, 0, 0, 1, 1, 1};
  CHECK(logprobs(ordinary.evaluate({whole}, {}, true, kNever)) ==
        logprobs(activated.evaluate({whole}, {}, true, kNever)));
}

TEST(held_prompts_give_the_bits_of_evaluated_ones) {
  for (const char* architecture : {"llama", "gemma2"}) {
    Shape shape;
    const auto batch = promptBatch(shape, 3), other = promptBatch(shape, 8);
    const auto run = [&](bool forget, int threads, std::int64_t rows) {
      auto options = activatedTargets(shape);
      options.threads = threads;
      options.microBatchTokens = rows;
      Trainer trainer(randomModel(architecture, shape, 1), options);
      for (int i = 0; i < 3; ++i) {
        trainer.step(batch, {}, kNever);
        trainer.step(other, {}, kNever);
        if (forget) trainer.releaseBuffers();
      }
      return trainer.state();
    };
    const auto held = run(false, 2, 512);
    CHECK(run(true, 2, 512) == held);
#ifndef __APPLE__
    CHECK(run(false, 3, 512) == held);
    CHECK(run(true, 1, 512) == held);
#endif
    CHECK(run(true, 2, 8) == run(false, 2, 8));
  }
}

// With rows of its own each sequence still refers to its prompt.
TEST(activated_gradients_of_shared_and_separate_replies) {
  Shape shape;
  const auto batch = promptBatch(shape, 3);
  auto options = activatedTargets(shape);
  Trainer shared(randomModel("qwen3", shape, 1), options);
  options.sharePrefixes = false;
  Trainer apart(randomModel("qwen3", shape, 1), options);
  randomiseB(shared, 2);
  randomiseB(apart, 2);
  const StepStatistics one = shared.differentiate(batch, {}, kNever),
                       other = apart.differentiate(batch, {}, kNever);
  CHECK_NEAR(one.loss, other.loss, 1e-9);
  CHECK_NEAR(one.gradNorm, other.gradNorm, 1e-6 * one.gradNorm);
  const auto a = gradients(shared), b = gradients(apart);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k)
      CHECK_NEAR(static_cast<double>(a[i][k]), static_cast<double>(b[i][k]), 1e-6);
  }
}

TEST(rows_of_an_activated_batch_are_those_of_replies) {
  Shape shape;
  const auto batch = promptBatch(shape, 3);
  std::vector<const TrainSequence*> sequences;
  for (const TrainSequence& sequence : batch) sequences.push_back(&sequence);
  const MicroBatch packed = pack(sequences, true, shape.width);
  CHECK(packed.prompts == (std::vector<const TrainSequence*>{&batch[0], &batch[2]}));
  std::int64_t rows = 0;
  for (std::size_t s = 0; s < batch.size(); ++s) {
    for (std::size_t t = 0; t < batch[s].tokens.size(); ++t) {
      const std::int64_t row = packed.rowOf[s][t];
      CHECK((row < 0) == (static_cast<std::int64_t>(t) < batch[s].adapterFrom));
      if (row < 0) continue;
      const auto [of, token] = packed.places[static_cast<std::size_t>(row)];
      CHECK(batch[of].tokens[static_cast<std::size_t>(token)] == batch[s].tokens[t]);
      CHECK(token == static_cast<std::int64_t>(t));
      rows = std::max(rows, row + 1);
    }
  }
  CHECK(rows == packed.rows());
  // Three invocation tokens a prompt, shared; and two replies begin with the same two tokens.
  CHECK(packed.rows() == 2 * 3 + (6 + 3 - 2) + 5 + 5 + 1);
  for (const Segment& segment : packed.segments) CHECK((segment.past >= 0) == (segment.parent < 0));
}

TEST(activated_adapters_drop_rows_of_replies_alone) {
  Shape shape;
  auto options = activatedTargets(shape);
  for (Target& target : options.targets) target.dropout = 0.5f;
  Trainer trainer(randomModel("llama", shape, 1), options);
  randomiseB(trainer, 2);
  const auto batch = promptBatch(shape, 3);
  const double without = trainer.evaluate(batch, {}, true, kNever).loss;
  const double with = trainer.differentiate(batch, {}, kNever).loss;
  CHECK(with != without && std::fabs(with - without) < 0.5);
  CHECK(trainer.differentiate(batch, {}, kNever).loss == with);
}

TEST(what_an_activated_adapter_cannot_have_is_refused) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), activatedTargets(shape));
  const auto good = promptBatch(shape, 3);
  trainer.step(good, {}, kNever);
  const auto before = trainer.state();
  auto batch = good;
  batch[2].tokens[9] = 8, batch[2].tokens[13] = 8;
  for (std::size_t t = 0; t < batch[2].tokens.size(); ++t)
    if (batch[2].tokens[t] == 31) batch[2].tokens[t] = 30;
  CHECK_THROWS(trainer.step(batch, {}, kNever), "INVALID_ARGUMENT");
  // Only in the reply, or cut by its first label.
  batch = good;
  std::fill(batch[0].labelled.begin() + 1, batch[0].labelled.end(), std::uint8_t{1});
  CHECK_THROWS(trainer.step(batch, {}, kNever), "INVALID_ARGUMENT");
  CHECK(trainer.state() == before);

  TrainerOptions whole;
  whole.allWeights = true;
  whole.invocationTokens = kInvocation;
  CHECK_THROWS(Trainer(randomModel("llama", shape, 1), whole), "INVALID_ARGUMENT");
  for (const std::int32_t token : {-1, static_cast<std::int32_t>(shape.vocabulary)}) {
    auto options = activatedTargets(shape);
    options.invocationTokens.push_back(token);
    CHECK_THROWS(Trainer(randomModel("llama", shape, 1), options), "INVALID_ARGUMENT");
  }
}
