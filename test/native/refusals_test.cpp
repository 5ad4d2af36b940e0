// What the trainer refuses, with its code and reason, and that it then is as it was; edits of an adapter value by value.
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
    CHECK_SAYS(trainer.setLearningRate(module, static_cast<float>(factor)), "INVALID_ARGUMENT", "finite and greater than 0");
  }
  const std::int64_t rank = trainer.lora(module).rank();
  const std::int64_t widest = std::min(trainer.lora(module).a.columns, trainer.lora(module).b.columns);
  for (const std::int64_t other : {rank, rank - 1, std::int64_t{0}, widest + 1})
    CHECK_SAYS(trainer.raiseRank(module, other), "INVALID_ARGUMENT", "not above " + std::to_string(rank));
  for (const std::int64_t direction : {std::int64_t{-1}, rank})
    CHECK_SAYS(trainer.recycleDirections(module, {0, direction}), "INVALID_ARGUMENT", "no direction " + std::to_string(direction));
  CHECK_THROWS(trainer.addTarget({0, 0, 2, 1, 0}), "INVALID_ARGUMENT");  // is there already
  CHECK_THROWS(trainer.addTarget({shape.layers, 0, 2, 1, 0}), "INVALID_ARGUMENT");
  CHECK(trainer.state() == before);
  trainer.raiseRank(module, widest);
  CHECK(trainer.lora(module).rank() == widest);

  Trainer whole(randomModel("llama", shape, 1), wholeModel());
  CHECK_SAYS(whole.addTarget({0, 0, 2, 1, 0}), "INVALID_ARGUMENT", "all weights are trained already");
  CHECK_SAYS(whole.setAdapter(factorsOf(trainer)), "INVALID_ARGUMENT", "there is no adapter to replace");
  CHECK_SAYS(factorsOf(whole), "INVALID_ARGUMENT", "all weights are trained");
}

TEST(adapters_that_do_not_fit_are_refused) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  trainer.step(batchOf(shape), {}, kNever);
  const auto before = trainer.state();
  const auto refused = [&](const std::function<void(std::vector<AdapterModule>&)>& spoil, const char* code, const char* reason) {
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
  CHECK(other.evaluate(batchOf(shape), {}, true, kNever).loss == trainer.evaluate(batchOf(shape), {}, true, kNever).loss);
  trainer.setAdapter(factorsOf(trainer));
  CHECK(trainer.steps() == 1);
  for (const Parameter* p : trainer.parameters()) CHECK(squaredNorm(p->firstMoment) == 0 && squaredNorm(p->secondMoment) == 0);
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
    CHECK(lora.a.firstMoment == times(a.firstMoment, 1 / ofA) && lora.b.firstMoment == times(b.firstMoment, 4));
    CHECK(lora.a.secondMoment == times(a.secondMoment, 1 / (ofA * ofA)) && lora.b.secondMoment == times(b.secondMoment, 16));
  }
}

TEST(states_of_another_kind_are_refused) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape)), whole(randomModel("llama", shape, 1), wholeModel());
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
    CHECK_SAYS(trainer.loadState(changed([&](auto& bytes) { bytes[i] ^= 1; })), "ADAPTER_CORRUPT", "not a trainer's state");
  CHECK_SAYS(trainer.loadState(changed([](auto& bytes) { bytes.push_back(0); })), "ADAPTER_CORRUPT", "bytes after its end");
  CHECK_SAYS(trainer.loadState({}), "ADAPTER_CORRUPT", "ends too early");
  CHECK(trainer.state() == saved && whole.state() == ofWhole);
  // A layer that the model does not have.
  Shape deeper = shape;
  deeper.layers += 1;
  Trainer more(randomModel("llama", deeper, 1), allTargets(deeper));
  CHECK_SAYS(trainer.loadState(more.state()), "ADAPTER_MISMATCH", "a layer that this model does not have");
  CHECK(trainer.state() == saved);
  // Whatever byte of the first kilobyte differs: a typed error, or another state that is whole.
  for (std::size_t i = 0; i < 1024; ++i) {
    const auto bytes = changed([&](auto& all) { all[i] ^= 0x55; });
    try {
      trainer.loadState(bytes);
      CHECK(trainer.state() == bytes);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::adapterCorrupt || error.code() == ErrorCode::adapterMismatch);
    }
  }
  trainer.loadState(saved);
  CHECK(trainer.state() == saved);
}
