// The whole loss and every gradient against the reference model in double; determinism,
// recomputation, state, edits.
#include "gradient_check.h"
#include "support/error.h"

using namespace isopro;
using namespace isopro::testing;

TEST(gradients_of_every_lora_target_likelihood) {
  forEveryArchitecture([](const std::string& architecture, const Shape& shape) {
    const auto trainer = adapterTrainer(architecture, shape);
    randomiseB(*trainer, 2);
    checkGradients(*trainer, randomBatch(shape, 3), {}, 1e-4);
  });
}

TEST(gradients_of_every_lora_target_policy) {
  forArchitectures([](const std::string& architecture, const Shape& shape) {
    Trainer trainer(randomModel(architecture, shape, 1), allTargets(shape));
    randomiseB(trainer, 2);
    Objective objective;
    objective.policy = true;
    objective.temperature = 0.8f;
    objective.klCoefficient = 0.1f;
    objective.clipHigh = 0.3f;
    checkGradients(trainer, randomBatch(shape, 4, true), objective, 1e-4);
  });
}

TEST(gradients_through_quantised_weights) {
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_F16}) {
    Shape shape;
    shape.type = type;
    Trainer trainer(randomModel("qwen2", shape, 1), allTargets(shape));
    randomiseB(trainer, 2);
    checkGradients(trainer, randomBatch(shape, 3), {}, 1e-4);
  }
  for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q5_K}) {
    Shape shape;
    shape.type = type;
    shape.layers = 1, shape.width = 256, shape.headWidth = 64, shape.feedForward = 256;
    Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
    randomiseB(trainer, 2);
    checkGradients(trainer, randomBatch(shape, 3), {}, 1e-4, 3);
  }
}

TEST(gradients_through_quantised_experts) {
  Shape shape;
  shape.type = GGML_TYPE_MXFP4, shape.biases = true, shape.feedForward = 32;
  const auto trainer = adapterTrainer("gpt-oss", shape);
  randomiseB(*trainer, 2);
  checkGradients(*trainer, randomBatch(shape, 3), {}, 1e-4, 3);
}

TEST(gradients_of_all_weights) {
  forEveryArchitecture(
      [](const std::string& architecture, const Shape& shape) {
        TrainerOptions options;
        options.allWeights = true;
        options.threads = 2;
        Trainer trainer(randomModel(architecture, shape, 1), options);
        checkGradients(trainer, randomBatch(shape, 3), {}, 1e-4, 4);
      },
      false);
}

TEST(modules_that_an_architecture_has_not_are_refused_by_name) {
  Shape shape;
  const auto target = [&](const char* architecture, int module) {
    TrainerOptions options;
    options.targets = {{0, module, 2, 1, 0}};
    Trainer trainer(randomModel(architecture, shape, 1), options);
  };
  target("phi3", kFused), target("phi3", kUp), target("gpt-oss", kQuery);
  for (const int module : {kQuery, kKey, kValue})
    CHECK_SAYS(target("phi3", module), "INVALID_ARGUMENT", "q, k and v in one matrix");
  CHECK_SAYS(target("phi3", kGate), "INVALID_ARGUMENT", "gate and up in one matrix");
  CHECK_SAYS(target("llama", kFused), "INVALID_ARGUMENT", "no matrix attn_qkv");
  CHECK_SAYS(target("qwen3moe", kDown), "INVALID_ARGUMENT", "no matrix ffn_down");
  TrainerOptions all;
  all.allWeights = true;
  CHECK_SAYS(Trainer(randomModel("gpt-oss", shape, 1), all), "MODEL_UNSUPPORTED", "experts");
}

TEST(lower_layers_stay_frozen_and_their_boundary_can_be_passed_in) {
  Shape shape;
  shape.layers = 4;
  const auto batch = randomBatch(shape, 3);
  Trainer trainer(randomModel("qwen3", shape, 1), allTargets(shape, 2));
  randomiseB(trainer, 2);
  checkGradients(trainer, batch, {}, 1e-4, 3);
  CHECK(trainer.information().lowestTrained == 2);

  std::vector<std::vector<float>> plain;
  for (const Parameter* p : trainer.parameters()) plain.push_back(p->gradient);
  auto cached = batch;
  const auto boundaries = trainer.captureBoundary(batch, kNever);
  // One sequence stays without: both kinds mix in a batch.
  for (std::size_t s = 0; s < 2; ++s)
    cached[s].boundary = {boundaries[s].data(), boundaries[s].size()}, cached[s].boundaryLayer = 2;
  trainer.differentiate(cached, {}, kNever);
  double difference = 0, size = 0;
  const auto parameters = trainer.parameters();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (std::size_t k = 0; k < plain[i].size(); ++k) {
      difference += std::pow(static_cast<double>(plain[i][k] - parameters[i]->gradient[k]), 2);
      size += std::pow(static_cast<double>(plain[i][k]), 2);
    }
  }
  CHECK(difference > 0);  // f16 rows are not the f32 ones
  CHECK(std::sqrt(difference / size) < 1e-3);

  trainer.addTarget({1, kQuery, 2, 1, 0});
  CHECK_THROWS(trainer.differentiate(cached, {}, kNever), "ADAPTER_MISMATCH");
}

TEST(kept_and_recomputed_activations_give_identical_gradients) {
  Shape shape;
  shape.layers = 3, shape.width = 256, shape.headWidth = 64, shape.feedForward = 512,
  shape.context = 256;
  std::vector<std::vector<float>> expected;
  for (const float dropout : {0.0f, 0.3f}) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{6'500'000}, std::size_t{600'000'000}}) {
      auto options = allTargets(shape);
      for (Target& target : options.targets) target.dropout = dropout;
      Trainer trainer(randomModel("gemma2", shape, 1), options);
      randomiseB(trainer, 2);
      Network network(trainer.model(), trainer.engine(), bytes);
      TrainSequence s;
      for (int t = 0; t < 200; ++t) s.tokens.push_back(t % 50), s.labelled.push_back(t > 0);
      CHECK(network.keptLayers(200) == (bytes == 0 ? 0 : bytes > 100'000'000 ? 3 : 1));
      network.differentiate(pack({&s}, true, shape.width), {}, 1, 77, kNever);
      std::vector<std::vector<float>> gradients;
      for (const Parameter* p : trainer.parameters()) gradients.push_back(p->gradient);
      if (bytes == 0) expected = gradients;
      CHECK(gradients == expected);
    }
  }
}

TEST(any_number_of_threads_gives_the_same_adapter) {
  Shape shape;
  std::vector<std::uint8_t> expected;
  for (const int threads : {1, 2, 4}) {
    auto options = allTargets(shape);
    options.threads = threads;
    for (Target& target : options.targets) target.dropout = 0.1f;
    Trainer trainer(randomModel("gemma2", shape, 1), options);
    for (std::uint64_t i = 0; i < 4; ++i)
      CHECK(trainer.step(randomBatch(shape, i), {}, kNever).applied);
    if (threads == 1) expected = trainer.state();
    CHECK(trainer.state() == expected);
  }
}

TEST(micro_batches_accumulate_to_the_gradient_of_the_whole) {
  Shape shape;
  auto batch = randomBatch(shape, 3);
  batch.push_back(batch[0]);
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  const StepStatistics whole = trainer.differentiate(batch, {}, kNever, {{4}});
  std::vector<std::vector<float>> expected;
  for (const Parameter* p : trainer.parameters()) expected.push_back(p->gradient);
  const StepStatistics parts = trainer.differentiate(batch, {}, kNever, {{1, 1, 1, 1}});
#if defined(ISOPRO_BLAS)  // whose sums are its own for each shape
  CHECK_NEAR(whole.loss, parts.loss, 1e-6);
#else
  CHECK_NEAR(whole.loss, parts.loss, 1e-9);
#endif
  CHECK(parts.microBatchNorms.size() == 4 && whole.microBatchNorms.size() == 1);
  CHECK_NEAR(whole.microBatchNorms[0], whole.gradNorm, 1e-12);
  const auto parameters = trainer.parameters();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      difference += std::pow(static_cast<double>(expected[i][k] - parameters[i]->gradient[k]), 2);
      size += std::pow(static_cast<double>(expected[i][k]), 2);
    }
  }
  CHECK(std::sqrt(difference / size) < 1e-6);
  CHECK_THROWS(trainer.differentiate(batch, {}, kNever, {{2, 1}}), "INVALID_ARGUMENT");
}

TEST(policy_ratio_is_exactly_one_before_the_first_update) {
  Shape shape;
  Trainer trainer(randomModel("qwen2", shape, 1), allTargets(shape));
  auto batch = randomBatch(shape, 4, true);
  Objective objective;
  objective.policy = true;
  objective.temperature = 0.7f;
  for (auto& s : batch) s.oldLogprobs.clear();
  const Evaluation before = trainer.evaluate(batch, objective, true, kNever);
  double meanAdvantage = 0, tokens = 0;
  for (std::size_t s = 0; s < batch.size(); ++s) {
    batch[s].oldLogprobs = before.sequences[s].logprobs;
    batch[s].weight = 1;
    for (std::size_t t = 0; t < batch[s].tokens.size(); ++t) {
      if (batch[s].labelled[t])
        meanAdvantage += static_cast<double>(batch[s].advantages[t]), tokens += 1;
    }
  }
  const StepStatistics s = trainer.step(batch, objective, kNever);
  CHECK(s.oldPolicyGap == 0);
  CHECK_NEAR(s.loss, -meanAdvantage / tokens, 1e-12);
  CHECK(s.clipFraction == 0);
  // After an update the ratio has moved.
  CHECK(trainer.step(batch, objective, kNever).oldPolicyGap > 0);
}

TEST(adapter_off_is_the_base_model) {
  Shape shape;
  const auto batch = randomBatch(shape, 3);
  Trainer trainer(randomModel("qwen3", shape, 1), allTargets(shape));
  const double base = trainer.evaluate(batch, {}, true, kNever).loss;  // B = 0
  randomiseB(trainer, 2);
  CHECK(trainer.evaluate(batch, {}, true, kNever).loss != base);
  CHECK(trainer.evaluate(batch, {}, false, kNever).loss == base);
}

TEST(dropout_is_unbiased_and_only_in_training) {
  Shape shape;
  auto options = allTargets(shape);
  for (Target& target : options.targets) target.dropout = 0.5f;
  Trainer trainer(randomModel("llama", shape, 1), options);
  randomiseB(trainer, 2);
  const auto batch = randomBatch(shape, 3);
  const double without = trainer.evaluate(batch, {}, true, kNever).loss;
  CHECK(trainer.evaluate(batch, {}, true, kNever).loss == without);
  const double with = trainer.differentiate(batch, {}, kNever).loss;
  CHECK(with != without && std::fabs(with - without) < 0.5);
}

TEST(each_micro_batch_draws_its_own_dropout) {
  Shape shape;
  auto options = allTargets(shape);
  for (Target& target : options.targets) target.dropout = 0.5f;
  Trainer trainer(randomModel("llama", shape, 1), options);
  randomiseB(trainer, 2);
  // The same sequences in each: without dropout, or with one draw for all, the gradients are the
  // same.
  auto batch = randomBatch(shape, 3);
  batch.resize(1);
  batch.resize(3, batch[0]);
  const StepStatistics s = trainer.differentiate(batch, {}, kNever, {{1, 1, 1}});
  CHECK(s.microBatchNorms.size() == 3);
  CHECK(s.microBatchNorms[0] != s.microBatchNorms[1] &&
        s.microBatchNorms[1] != s.microBatchNorms[2]);
  CHECK(s.microBatchNorms[0] != s.microBatchNorms[2]);
  // The next step draws others.
  CHECK(trainer.step(batch, {}, kNever, {{1, 1, 1}}).microBatchNorms == s.microBatchNorms);
  const std::vector<double> next =
      trainer.differentiate(batch, {}, kNever, {{1, 1, 1}}).microBatchNorms;
  CHECK(next[0] != s.microBatchNorms[0] && next[1] != s.microBatchNorms[1]);
}

TEST(norms_and_biases_do_not_decay) {
  for (const char* architecture : {"llama", "qwen2", "gemma2"}) {
    Shape shape;
    const auto stepped = [&](float decay) {
      TrainerOptions options;
      options.allWeights = true;
      options.threads = 1;
      options.optimiser.learningRate = 1e-2f;
      options.optimiser.weightDecay = decay;
      auto trainer = std::make_unique<Trainer>(randomModel(architecture, shape, 1), options);
      CHECK(trainer->step(randomBatch(shape, 3), {}, kNever).applied);
      return trainer;
    };
    const auto without = stepped(0), with = stepped(1);
    int kept = 0;
    for (std::size_t i = 0; i < with->parameters().size(); ++i) {
      const Parameter& p = *with->parameters()[i];
      const bool isMatrix =
          p.name.find("norm") == std::string::npos && p.name.find("bias") == std::string::npos;
      kept += isMatrix ? 0 : 1;
      check::report(
          (p.value == without->parameters()[i]->value) != isMatrix, __FILE__, __LINE__,
          std::string(architecture) + " " + p.name + (isMatrix ? " does not decay" : " decays"));
    }
    CHECK(kept > 0);
  }
}

TEST(a_maximum_norm_of_zero_clips_nothing) {
  Shape shape;
  const auto stepped = [&](float maxNorm) {
    auto options = allTargets(shape);
    options.optimiser.maxNorm = maxNorm;
    Trainer trainer(randomModel("llama", shape, 1), options);
    randomiseB(trainer, 2);
    const StepStatistics s = trainer.step(randomBatch(shape, 3), {}, kNever);
    CHECK(s.applied && s.gradNorm > 0);
    // Adam hides the size of a gradient, its first moment does not.
    return std::pair(s, trainer.parameters()[1]->firstMoment);
  };
  const auto [free, moment] = stepped(0);
  CHECK(!free.clipped);
  CHECK(moment == stepped(1e30f).second);
  CHECK(std::any_of(moment.begin(), moment.end(), [](float value) { return value != 0; }));
  const auto [clipped, smaller] = stepped(static_cast<float>(free.gradNorm / 2));
  CHECK(clipped.clipped);
  for (std::size_t i = 0; i < moment.size(); ++i) CHECK_NEAR(smaller[i], moment[i] / 2, 1e-6);
}

TEST(entropy_and_log_probabilities) {
  Shape shape;
  const auto batch = randomBatch(shape, 3);
  Trainer trainer(randomModel("gemma2", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  const Evaluation e = trainer.evaluate(batch, {}, true, kNever);
  const ReferenceModel reference(trainer.model());
  for (std::size_t s = 0; s < batch.size(); ++s) {
    const Values logprobs = reference.logprobs(batch[s].tokens, 1);
    const Values logits = reference.logits(batch[s].tokens);
    const auto V = static_cast<std::size_t>(shape.vocabulary);
    double entropy = 0;
    for (std::size_t t = 1; t < batch[s].tokens.size(); ++t) {
      CHECK_NEAR(e.sequences[s].logprobs[t], batch[s].labelled[t] ? logprobs[t] : 0, 1e-5);
      if (!batch[s].labelled[t]) continue;
      const Values row(logits.begin() + static_cast<std::ptrdiff_t>((t - 1) * V),
                       logits.begin() + static_cast<std::ptrdiff_t>(t * V));
      const double z = kernels::reference::logSumExp(row);
      for (const double y : row)
        entropy -= std::exp(y - z) * (y - z) / static_cast<double>(batch[s].labels());
    }
    CHECK_NEAR(e.sequences[s].entropy, entropy, 1e-5);
  }
}

TEST(adamw_by_hand_and_clipping) {
  OptimiserOptions o;
  o.weightDecay = 0.1f;
  Parameter p("p", 1, 2);
  p.value = {1.0f, -2.0f};
  double m[2] = {}, v[2] = {}, x[2] = {1, -2};
  for (int step = 1; step <= 5; ++step) {
    p.gradient = {0.3f * static_cast<float>(step), -4.0f};
    adamwStep(o, 0.01f, 0.5f, p);
    for (int i = 0; i < 2; ++i) {
      const double g = 0.5 * static_cast<double>(p.gradient[static_cast<std::size_t>(i)]);
      m[i] = 0.9 * m[i] + 0.1 * g, v[i] = 0.999 * v[i] + 0.001 * g * g;
      x[i] -= 0.01 * 0.1 * x[i];
      x[i] -= 0.01 * m[i] / (1 - std::pow(0.9, step)) /
              (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
      CHECK_NEAR(p.value[static_cast<std::size_t>(i)], x[i], 2e-6);
    }
  }
  o.schedule = Schedule::cosine, o.warmupSteps = 10, o.totalSteps = 110, o.learningRate = 1,
  o.finalFactor = 0.1f;
  CHECK_NEAR(learningRateAt(o, 5), 0.5, 1e-6);
  CHECK_NEAR(learningRateAt(o, 60), 0.55, 1e-6);
  CHECK_NEAR(learningRateAt(o, 400), 0.1, 1e-6);
  CHECK_NEAR(learningRateAt(o, 35), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-6);
  o.schedule = Schedule::linear;
  CHECK_NEAR(learningRateAt(o, 10), 1, 1e-6);
  CHECK_NEAR(learningRateAt(o, 35), 0.775, 1e-6);
  CHECK_NEAR(learningRateAt(o, 110), 0.1, 1e-6);
  o.totalSteps = 10;
  CHECK_NEAR(learningRateAt(o, 11), 1, 1e-6);
}

TEST(edits_keep_the_function_and_restart_their_rows) {
  Shape shape;
  const auto batch = randomBatch(shape, 3);
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  for (int i = 0; i < 3; ++i) trainer.step(batch, {}, kNever);
  const double loss = trainer.evaluate(batch, {}, true, kNever).loss;
  trainer.raiseRank("blk.0.attn_k", 9);
  CHECK(trainer.evaluate(batch, {}, true, kNever).loss == loss);
  CHECK(trainer.lora("blk.0.attn_k").a.steps.front() == 3 &&
        trainer.lora("blk.0.attn_k").a.steps.back() == 0);
  trainer.rebalance("blk.1.attn_q", 4);
  trainer.rescale("blk.1.ffn_down", 2);
  CHECK_NEAR(trainer.evaluate(batch, {}, true, kNever).loss, loss, 1e-6);
}

TEST(a_recycled_direction_is_fresh) {
  Shape shape;
  const auto batch = randomBatch(shape, 3);
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  trainer.step(batch, {}, kNever);
  Lora& lora = trainer.lora("blk.1.attn_output");
  const std::vector<float> a = lora.a.value;
  trainer.recycleDirections("blk.1.attn_output", {1});
  const auto width = static_cast<std::ptrdiff_t>(lora.a.columns);
  CHECK(std::equal(a.begin(), a.begin() + width, lora.a.value.begin()));
  CHECK(!std::equal(a.begin() + width, a.begin() + 2 * width, lora.a.value.begin() + width));
  for (std::int64_t i = 0; i < lora.b.columns; ++i)
    CHECK(lora.b.value[static_cast<std::size_t>(lora.b.columns + i)] == 0);
  CHECK(lora.a.steps[1] == 0 && lora.b.steps[1] == 0 && lora.a.steps[0] == 1);
  CHECK_THROWS(trainer.recycleDirections("blk.1.attn_output", {99}), "INVALID_ARGUMENT");
  CHECK_THROWS(trainer.raiseRank("blk.7.attn_q", 3), "INVALID_ARGUMENT");
}

TEST(state_continues_bit_for_bit) {
  Shape shape;
  const auto options = allTargets(shape);
  Trainer first(randomModel("qwen3", shape, 1), options);
  for (std::uint64_t i = 0; i < 3; ++i) first.step(randomBatch(shape, i), {}, kNever);
  first.raiseRank("blk.0.ffn_gate", 7);
  first.rescale("blk.0.attn_v", 2);
  const auto saved = first.state();

  // Into a trainer of other targets: the state says which there are.
  auto fewer = options;
  fewer.targets.resize(3);
  Trainer second(randomModel("qwen3", shape, 1), fewer);
  second.loadState(saved);
  CHECK(second.state() == saved);
  for (std::uint64_t i = 3; i < 6; ++i) {
    const StepStatistics a = first.step(randomBatch(shape, i), {}, kNever),
                         b = second.step(randomBatch(shape, i), {}, kNever);
    CHECK(a.loss == b.loss && a.gradNorm == b.gradNorm && a.step == b.step);
  }
  first.recycleDirections("blk.0.attn_q", {0});
  second.recycleDirections("blk.0.attn_q", {0});
  CHECK(first.state() == second.state());

  // Any truncation and any changed byte of the structure is refused or read as another valid state;
  // never a crash.
  const auto now = second.state();
  for (std::size_t size = 0; size < saved.size(); size += size < 400 ? 1 : 997) {
    CHECK_THROWS(
        second.loadState({saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(size)}),
        "ADAPTER_CORRUPT");
  }
  CHECK(second.state() == now);
  Shape wider;
  wider.width = 80;
  Trainer other(randomModel("qwen3", wider, 1), options);
  CHECK_THROWS(other.loadState(saved), "ADAPTER_MISMATCH");
}

TEST(state_of_all_weights_continues_bit_for_bit) {
  Shape shape;
  TrainerOptions options;
  options.allWeights = true;
  Trainer first(randomModel("gemma2", shape, 1), options),
      second(randomModel("gemma2", shape, 1), options);
  for (std::uint64_t i = 0; i < 2; ++i) first.step(randomBatch(shape, i), {}, kNever);
  second.loadState(first.state());
  CHECK(first.step(randomBatch(shape, 9), {}, kNever).loss ==
        second.step(randomBatch(shape, 9), {}, kNever).loss);
  CHECK(first.state() == second.state());
}

TEST(bad_batches_are_refused_and_leave_the_state) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  const auto good = randomBatch(shape, 3);
  trainer.step(good, {}, kNever);
  const auto before = trainer.state();
  const auto refused = [&](const std::function<void(std::vector<TrainSequence>&)>& spoil,
                           const char* code, const Objective& objective = {}) {
    auto batch = good;
    spoil(batch);
    CHECK_THROWS(trainer.step(batch, objective, kNever), code);
    CHECK(trainer.state() == before);
  };
  refused([](auto& b) { b.clear(); }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].tokens[1] = 50; }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].tokens[1] = -1; }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].labelled[0] = 1; }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].labelled.pop_back(); }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].labelled[1] = 2; }, "INVALID_ARGUMENT");
  refused(
      [](auto& b) {
        for (auto& s : b) std::fill(s.labelled.begin(), s.labelled.end(), std::uint8_t{0});
      },
      "INVALID_ARGUMENT");
  refused([](auto& b) { b[1].tokens.assign(65, 1), b[1].labelled.assign(65, 0); },
          "CONTEXT_OVERFLOW");
  refused([](auto& b) { b[0].weight = NAN; }, "INVALID_ARGUMENT");
  refused([](auto& b) { b[0].boundary.size = 3; }, "INVALID_ARGUMENT");
  Objective policy;
  policy.policy = true;
  refused([](auto&) {}, "INVALID_ARGUMENT", policy);
  const std::atomic<bool> aborted{true};
  CHECK_THROWS(trainer.step(good, {}, aborted), "ABORTED");
  CHECK(trainer.state() == before);
}

TEST(a_gradient_that_is_not_finite_is_never_applied) {
  Shape shape;
  auto model = randomModel("llama", shape, 1);
  // Not in a trained module: those are checked when the trainer is made.
  auto* norm = model->outputNorm.weight.data();
  Trainer trainer(std::move(model), allTargets(shape));
  const auto before = trainer.state();
  norm[3] = INFINITY;
  const StepStatistics s = trainer.step(randomBatch(shape, 3), {}, kNever);
  CHECK(!s.applied && !s.nonFinite.empty() && s.nonFinite[0] == "loss");
  CHECK(trainer.state() == before);

  auto poisoned = randomModel("llama", shape, 1);
  const_cast<float*>(static_cast<const float*>(poisoned->layers[1].linear[kUp].weight.data))[7] =
      NAN;
  CHECK_THROWS(Trainer(std::move(poisoned), allTargets(shape)), "NUMERIC_FAILURE");
}

TEST(a_few_steps_overfit) {
  for (const bool all : {false, true}) {
    Shape shape;
    auto options = allTargets(shape);
    if (all) options.targets.clear(), options.allWeights = true;
    Trainer trainer(randomModel("qwen2", shape, 1), options);
    const auto batch = randomBatch(shape, 3);
    double loss = 0;
    for (int i = 0; i < 300; ++i) loss = trainer.step(batch, {}, kNever).loss;
    CHECK_NEAR(loss, 0, 0.05);
  }
}
