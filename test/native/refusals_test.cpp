// What the trainer refuses, with its code and reason, and that it then is as it was; edits of an
// adapter value by value.
#include <cstring>

#include "gradient_check.h"
#include "support/error.h"
#include "training/adapter_file.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

std::vector<TrainSequence> batchOf(const Shape& shape) { return randomBatch(shape, 3); }

TrainerOptions wholeModel() {
  TrainerOptions options;
  options.allWeights = true;
  return options;
}

}  // namespace

TEST(edits_that_are_refused_change_nothing) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  trainer.step(batchOf(shape), {}, kNever);
  const auto before = trainer.state();
  const std::string module = "blk.0.attn_q";
  for (const double factor : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    CHECK_SAYS(trainer.rebalance(module, factor), "INVALID_ARGUMENT", "finite and greater than 0");
    CHECK_SAYS(trainer.rescale(module, factor), "INVALID_ARGUMENT", "finite and greater than 0");
    CHECK_SAYS(trainer.setLearningRate(module, static_cast<float>(factor)), "INVALID_ARGUMENT",
               "finite and greater than 0");
  }
  const std::int64_t rank = trainer.lora(module).rank();
  const std::int64_t widest =
      std::min(trainer.lora(module).a.columns, trainer.lora(module).b.columns);
  for (const std::int64_t other : {rank, rank - 1, std::int64_t{0}, widest + 1})
    CHECK_SAYS(trainer.raiseRank(module, other), "INVALID_ARGUMENT",
               "not above " + std::to_string(rank));
  for (const std::int64_t direction : {std::int64_t{-1}, rank})
    CHECK_SAYS(trainer.recycleDirections(module, {0, direction}), "INVALID_ARGUMENT",
               "no direction " + std::to_string(direction));
  CHECK_THROWS(trainer.addTarget({0, 0, 2, 1, 0}), "INVALID_ARGUMENT");  // is there already
  CHECK_THROWS(trainer.addTarget({shape.layers, 0, 2, 1, 0}), "INVALID_ARGUMENT");
  CHECK(trainer.state() == before);
  trainer.raiseRank(module, widest);
  CHECK(trainer.lora(module).rank() == widest);

  Trainer whole(randomModel("llama", shape, 1), wholeModel());
  CHECK_SAYS(whole.addTarget({0, 0, 2, 1, 0}), "INVALID_ARGUMENT",
             "all weights are trained already");
  CHECK_SAYS(whole.setAdapter(factorsOf(trainer)), "INVALID_ARGUMENT",
             "there is no adapter to replace");
  CHECK_SAYS(factorsOf(whole), "INVALID_ARGUMENT", "all weights are trained");
}

TEST(adapters_that_do_not_fit_are_refused) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  trainer.step(batchOf(shape), {}, kNever);
  const auto before = trainer.state();
  const auto refused = [&](const std::function<void(std::vector<AdapterModule>&)>& spoil,
                           const char* code, const char* reason) {
    auto modules = factorsOf(trainer);
    spoil(modules);
    CHECK_SAYS(trainer.setAdapter(std::move(modules)), code, reason);
    CHECK(trainer.state() == before);
  };
  refused([](auto& m) { m.clear(); }, "ADAPTER_CORRUPT", "adapts nothing");
  refused([](auto& m) { m[1].name = "blk.9.attn_q"; }, "ADAPTER_MISMATCH", "does not have");
  refused([](auto& m) { m[1].name = "output"; }, "ADAPTER_MISMATCH", "does not have");
  refused([](auto& m) { m[1] = m[0]; }, "ADAPTER_CORRUPT", "twice");
  refused([](auto& m) { m[0].in += 1; }, "ADAPTER_MISMATCH", "the model's");
  refused([](auto& m) { m[0].out -= 1; }, "ADAPTER_MISMATCH", "the model's");
  refused([](auto& m) { m[0].rank = 0; }, "ADAPTER_CORRUPT", "impossible rank");
  refused([](auto& m) { m[0].rank += 1; }, "ADAPTER_CORRUPT", "impossible rank");
  refused([](auto& m) { m[0].a.pop_back(); }, "ADAPTER_CORRUPT", "impossible rank");
  refused([](auto& m) { m[0].b.push_back(0); }, "ADAPTER_CORRUPT", "impossible rank");
  refused(
      [](auto& m) {
        m[0].rank = std::min(m[0].in, m[0].out) + 1;
        m[0].a.assign(static_cast<std::size_t>(m[0].rank * m[0].in), 0);
        m[0].b.assign(static_cast<std::size_t>(m[0].rank * m[0].out), 0);
      },
      "ADAPTER_CORRUPT", "impossible rank");

  // One that fits is taken whole, with moments of nothing, and steps count on.
  Trainer other(randomModel("llama", shape, 1), allTargets(shape));
  other.setAdapter(factorsOf(trainer));
  CHECK(other.evaluate(batchOf(shape), {}, true, kNever).loss ==
        trainer.evaluate(batchOf(shape), {}, true, kNever).loss);
  trainer.setAdapter(factorsOf(trainer));
  CHECK(trainer.steps() == 1);
  for (const Parameter* p : trainer.parameters())
    CHECK(squaredNorm(p->firstMoment) == 0 && squaredNorm(p->secondMoment) == 0);
}

TEST(scaled_factors_have_scaled_moments) {
  Shape shape;
  for (const bool rescaled : {false, true}) {
    Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
    randomiseB(trainer, 2);
    trainer.step(batchOf(shape), {}, kNever);
    Lora& lora = trainer.lora("blk.1.ffn_down");
    const Parameter a = lora.a, b = lora.b;
    const float scale = lora.scale;
    if (rescaled) {
      trainer.rescale("blk.1.ffn_down", 4);
    } else {
      trainer.rebalance("blk.1.ffn_down", 4);
    }
    const auto times = [](const std::vector<float>& values, float factor) {
      std::vector<float> result = values;
      for (float& value : result) value *= factor;
      return result;
    };
    // powers of two are exact
    const float ofA = rescaled ? 1 : 4;
    CHECK(lora.scale == (rescaled ? 4 * scale : scale));
    CHECK(lora.a.value == times(a.value, ofA) && lora.b.value == times(b.value, 0.25f));
    CHECK(lora.a.firstMoment == times(a.firstMoment, 1 / ofA) &&
          lora.b.firstMoment == times(b.firstMoment, 4));
    CHECK(lora.a.secondMoment == times(a.secondMoment, 1 / (ofA * ofA)) &&
          lora.b.secondMoment == times(b.secondMoment, 16));
  }
}

TEST(states_of_another_kind_are_refused) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape)),
      whole(randomModel("llama", shape, 1), wholeModel());
  trainer.step(batchOf(shape), {}, kNever);
  const auto saved = trainer.state(), ofWhole = whole.state();
  CHECK_SAYS(trainer.loadState(ofWhole), "ADAPTER_MISMATCH", "other kind of training");
  CHECK_SAYS(whole.loadState(saved), "ADAPTER_MISMATCH", "other kind of training");
  const auto changed = [&](const std::function<void(std::vector<std::uint8_t>&)>& change) {
    auto bytes = saved;
    change(bytes);
    return bytes;
  };
  for (std::size_t i = 0; i < 4; ++i)
    CHECK_SAYS(trainer.loadState(changed([&](auto& bytes) { bytes[i] ^= 1; })), "ADAPTER_CORRUPT",
               "not a trainer's state");
  CHECK_SAYS(trainer.loadState(changed([](auto& bytes) { bytes.push_back(0); })), "ADAPTER_CORRUPT",
             "bytes after its end");
  CHECK_SAYS(trainer.loadState({}), "ADAPTER_CORRUPT", "ends too early");
  // The first name after magic, version, step, generator, modules and counts: of 4 GB, it says.
  std::uint32_t modules = 0;
  std::memcpy(&modules, saved.data() + 52, 4);
  CHECK(modules == trainer.loras().size());
  CHECK_SAYS(trainer.loadState(changed(
                 [&](auto& bytes) { std::memset(bytes.data() + 60 + 20 * modules, 0xff, 4); })),
             "ADAPTER_CORRUPT", "ends too early");
  CHECK(trainer.state() == saved && whole.state() == ofWhole);
  // A layer that the model does not have.
  Shape deeper = shape;
  deeper.layers += 1;
  Trainer more(randomModel("llama", deeper, 1), allTargets(deeper));
  CHECK_SAYS(trainer.loadState(more.state()), "ADAPTER_MISMATCH",
             "a layer that this model does not have");
  CHECK(trainer.state() == saved);
  // Whatever byte of the first kilobyte differs: a typed error, or another state that is whole.
  for (std::size_t i = 0; i < 1024; ++i) {
    const auto bytes = changed([&](auto& all) { all[i] ^= 0x55; });
    try {
      trainer.loadState(bytes);
      CHECK(trainer.state() == bytes);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::adapterCorrupt ||
            error.code() == ErrorCode::adapterMismatch);
    }
  }
  trainer.loadState(saved);
  CHECK(trainer.state() == saved);
}

TEST(batches_are_refused_with_their_reason) {
  Shape shape;
  auto options = allTargets(shape, 1);
  Trainer trainer(randomModel("llama", shape, 1), options);
  const auto good = batchOf(shape);
  std::vector<std::uint16_t> halves(9 * 64);
  Objective policy, withReference;
  policy.policy = withReference.policy = true;
  withReference.klCoefficient = 0.1f;
  using Spoil = std::function<void(TrainSequence&)>;
  const auto says = [&](const Spoil& spoil, const char* code, const std::string& reason,
                        const Objective& objective = {}) {
    auto batch = good;
    spoil(batch[0]);
    CHECK_SAYS(trainer.differentiate(batch, objective, kNever), code, reason);
  };
  const auto taken = [&](const Spoil& spoil, const Objective& objective = {}) {
    auto batch = good;
    spoil(batch[0]);
    CHECK(trainer.differentiate(batch, objective, kNever).nonFinite.empty());
  };
  const char* const invalid = "INVALID_ARGUMENT";
  CHECK_SAYS(trainer.differentiate({}, {}, kNever), invalid, "the batch is empty");
  says([](auto& s) { s.tokens.resize(1), s.labelled.resize(1); }, invalid,
       "sequence 0 has fewer than two tokens");
  taken([](auto& s) { s.tokens.resize(2), s.labelled.resize(2); });
  says([](auto& s) { s.tokens.resize(65), s.labelled.resize(65); }, "CONTEXT_OVERFLOW",
       "sequence 0 has 65 tokens, the model's context 64");
  taken([](auto& s) { s.tokens.resize(64), s.labelled.resize(64); });
  says([](auto& s) { s.tokens[2] = 50; }, invalid,
       "sequence 0 has token 50 outside the vocabulary");
  says([](auto& s) { s.tokens[2] = -1; }, invalid,
       "sequence 0 has token -1 outside the vocabulary");
  taken([](auto& s) { s.tokens[1] = 49, s.tokens[2] = 0; });
  says([](auto& s) { s.labelled.pop_back(); }, invalid, "a label mask of another length");
  says([](auto& s) { s.labelled[0] = 1; }, invalid, "labels its first token");
  says([](auto& s) { s.labelled[1] = 2; }, invalid, "a label mask other than 0 and 1");
  says([](auto& s) { s.weight = INFINITY; }, invalid, "a weight that is not finite");
  const std::vector<float> row(9, 0.5f), shorter(8, 0.5f);
  std::vector<float> broken = row;
  broken[8] = NAN;
  // What is given counts in every objective; what is needed depends on it.
  says([&](auto& s) { s.advantages = shorter; }, invalid,
       "sequence 0 needs advantages for each token");
  says([&](auto& s) { s.advantages = broken; }, invalid, "has advantages that are not finite");
  says([&](auto& s) { s.oldLogprobs = shorter; }, invalid,
       "needs old log-probabilities for each token");
  says([&](auto& s) { s.oldLogprobs = broken; }, invalid,
       "has old log-probabilities that are not finite");
  says([&](auto& s) { s.referenceLogprobs = shorter; }, invalid,
       "needs reference log-probabilities for each token");
  says([&](auto& s) { s.referenceLogprobs = broken; }, invalid,
       "has reference log-probabilities that are not finite");
  says([](auto&) {}, invalid, "sequence 0 needs advantages for each token", policy);
  auto given = good;
  for (TrainSequence& s : given) s.advantages.assign(s.tokens.size(), 1.0f);
  CHECK(trainer.differentiate(given, policy, kNever).nonFinite.empty());
  CHECK_SAYS(trainer.differentiate(given, withReference, kNever), invalid,
             "sequence 0 needs reference log-probabilities for each token");
  CHECK(trainer.evaluate(good, policy, true, kNever).loss == 0);  // advantages count as 0
  CHECK_SAYS(trainer.evaluate(good, withReference, true, kNever), invalid,
             "sequence 0 needs reference log-probabilities");
  withReference.policy = false;
  CHECK(trainer.differentiate(good, withReference, kNever).nonFinite.empty());

  for (const std::size_t rows : {std::size_t{8 * 64}, std::size_t{9 * 64}}) {
    for (const std::int64_t layer : {0, 1})
      taken([&](auto& s) { s.boundary = {halves.data(), rows}, s.boundaryLayer = layer; });
  }
  for (const std::size_t size :
       {std::size_t{7 * 64}, std::size_t{10 * 64}, std::size_t{8 * 64 + 1}, std::size_t{1}}) {
    says(
        [&](auto& s) {
          s.boundary = {halves.data(), size}, s.boundaryLayer = 1;
        },
        invalid, "a boundary of another size than tokens x width");
  }
  for (const std::int64_t layer : {-1, 2}) {
    says(
        [&](auto& s) {
          s.boundary = {halves.data(), halves.size()}, s.boundaryLayer = layer;
        },
        "ADAPTER_MISMATCH",
        "sequence 0 has a boundary at layer " + std::to_string(layer) +
            ", above the lowest trained layer 1");
  }
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{2}, {2, 2}, {4}, {3, 1}, {0, 3}, {-1, 4}, {1, 1, 0, 1}}) {
    CHECK_SAYS(trainer.differentiate(good, {}, kNever, {counts}), invalid,
               "micro-batches do not add up to the batch");
  }
  CHECK(trainer.differentiate(good, {}, kNever, {{1, 2}}).microBatchTokens.size() == 2);
}

TEST(targets_are_refused_with_their_reason) {
  Shape shape;
  const auto refused = [&](const Target& target, const char* reason) {
    TrainerOptions options;
    options.targets = {target};
    CHECK_SAYS(Trainer(randomModel("llama", shape, 1), options), "INVALID_ARGUMENT", reason);
  };
  refused({-1, kKey, 2, 1, 0}, "the model has no layer -1");
  refused({2, kKey, 2, 1, 0}, "the model has no layer 2");
  refused({1, kKey, 0, 1, 0}, "rank of blk.1.attn_k is not between 1 and its width");
  refused({1, kKey, 33, 1, 0}, "rank of blk.1.attn_k is not between 1 and its width");
  for (const float dropout : {-0.1f, 1.0f, 1.5f, NAN})
    refused({1, kKey, 2, 1, dropout}, "dropout is not in [0, 1)");
  TrainerOptions options;
  CHECK_SAYS(Trainer(randomModel("llama", shape, 1), options), "INVALID_ARGUMENT",
             "nothing to train");
  options.targets = {{1, kKey, 32, 1, 0.9f}};
  Trainer trainer(randomModel("llama", shape, 1), options);
  CHECK_SAYS(trainer.addTarget({1, kKey, 2, 1, 0}), "INVALID_ARGUMENT",
             "blk.1.attn_k is a target already");
  CHECK_SAYS(trainer.lora("blk.0.attn_k"), "INVALID_ARGUMENT",
             "module blk.0.attn_k is not a target");
  trainer.addTarget({0, kDown, 1, 1, 0});
  CHECK(trainer.loras().size() == 2 && trainer.lora("blk.0.ffn_down").rank() == 1);

  shape.type = GGML_TYPE_F16;
  CHECK_SAYS(Trainer(randomModel("llama", shape, 1), wholeModel()), "MODEL_UNSUPPORTED",
             "in F32 only; output is f16");
  shape.type = GGML_TYPE_F32;
  auto poisoned = randomModel("llama", shape, 1);
  const_cast<float*>(static_cast<const float*>(poisoned->layers[0].linear[kGate].weight.data))[9] =
      INFINITY;
  CHECK_SAYS(Trainer(std::move(poisoned), wholeModel()), "NUMERIC_FAILURE",
             "tensor blk.0.ffn_gate holds a value that is not finite");
}

TEST(what_is_cancelled_or_given_at_another_layer_is_refused) {
  Shape shape;
  shape.layers = 3;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape, 2));
  const auto batch = batchOf(shape);
  const std::atomic<bool> aborted{true};
  CHECK_SAYS(trainer.evaluate(batch, {}, true, aborted), "ABORTED", "training was cancelled");
  CHECK_SAYS(trainer.captureBoundary(batch, aborted), "ABORTED", "training was cancelled");
  CHECK_SAYS(trainer.step(batch, {}, aborted), "ABORTED", "training was cancelled");
  // Below the lowest trained layer nothing is computed where all begin at it.
  auto captured = batch;
  const auto rows = trainer.captureBoundary(batch, kNever);
  for (std::size_t s = 0; s < batch.size(); ++s) {
    CHECK(rows[s].size() == batch[s].tokens.size() * 64);
    captured[s].boundary = {rows[s].data(), rows[s].size()}, captured[s].boundaryLayer = 2;
  }
  CHECK_SAYS(trainer.differentiate(captured, {}, aborted), "ABORTED", "training was cancelled");
  Network network(trainer.model(), trainer.engine(), 0);
  const MicroBatch packed = pack({&captured[0], &captured[1]}, true, 64);
  CHECK_SAYS(network.hiddenBefore(packed, 1, true, kNever), "ADAPTER_MISMATCH",
             "captured above the lowest trained layer");
  const Buffer hidden = network.hiddenBefore(packed, 2, true, aborted);
  std::vector<float> wide(9 * 64);
  ggml_fp16_to_fp32_row(rows[0].data(), wide.data(), 9 * 64);
  CHECK(std::equal(wide.begin(), wide.end(), hidden.begin()));
  // Without buffers of an earlier step all is as before.
  const StepStatistics once = trainer.differentiate(batch, {}, kNever);
  trainer.releaseBuffers();
  CHECK(trainer.differentiate(batch, {}, kNever).gradNorm == once.gradNorm);

  // Rows are kept in f16.
  auto loud = randomModel("llama", shape, 1);
  for (float& value : loud->layers[1].feedForwardNorm.weight) value = 1e6f;
  Trainer deaf(std::move(loud), allTargets(shape, 2));
  CHECK_SAYS(deaf.captureBoundary(batch, kNever), "NUMERIC_FAILURE", "at layer boundary 2 is");
}
