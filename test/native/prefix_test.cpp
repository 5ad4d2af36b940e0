// Prefixes that sequences share: evaluated once, and every figure and gradient as if each sequence
// had its own.
#include "gradient_check.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

// Two problems of one frame with a group of replies each, one of them twice, one that another
// continues, and a text of its own. Replies of a group begin alike, and what they share is
// labelled.
std::vector<TrainSequence> treeBatch(const Shape& shape, std::uint64_t seed, bool policy = false) {
  Random random(seed);
  const auto draw = [&](std::size_t count) {
    std::vector<std::int32_t> tokens;
    for (std::size_t t = 0; t < count; ++t) {
      tokens.push_back(
          static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(shape.vocabulary)));
    }
    return tokens;
  };
  const auto joined = [](std::vector<std::int32_t> tokens, const std::vector<std::int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  const auto frame = draw(7), first = joined(frame, draw(6)), second = joined(frame, draw(3)),
             opening = draw(2);
  struct Text {
    std::size_t prompt;
    std::vector<std::int32_t> tokens;
  };
  std::vector<Text> texts;
  for (const std::size_t length : {std::size_t{4}, std::size_t{9}, std::size_t{1}}) {
    texts.push_back({first.size(), joined(joined(first, opening), draw(length))});
  }
  texts.push_back(texts[1]);
  texts.push_back({first.size(), joined(texts[0].tokens, draw(5))});
  texts.push_back({3, draw(8)});
  for (const std::size_t length : {std::size_t{6}, std::size_t{3}})
    texts.push_back({second.size(), joined(second, draw(length))});
  std::vector<TrainSequence> batch;
  for (const auto& [prompt, tokens] : texts) {
    TrainSequence s;
    s.tokens = tokens;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      s.labelled.push_back(t >= prompt ? 1 : 0);
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

MicroBatch packed(const std::vector<TrainSequence>& batch, bool shares, std::int64_t width = 64) {
  std::vector<const TrainSequence*> sequences;
  for (const TrainSequence& sequence : batch) sequences.push_back(&sequence);
  return pack(sequences, shares, width);
}

std::vector<std::vector<float>> gradients(Trainer& trainer) {
  std::vector<std::vector<float>> all;
  for (const Parameter* p : trainer.parameters()) all.push_back(p->gradient);
  return all;
}

// ||shared - apart|| / ||apart|| of each module, whose A and B follow each other.
void checkEqual(Trainer& trainer, const std::vector<std::vector<float>>& shared,
                const std::vector<std::vector<float>>& apart, double tolerance) {
  const auto loras = trainer.loras();
  CHECK(2 * loras.size() == apart.size());
  for (std::size_t m = 0; m < loras.size(); ++m) {
    double difference = 0, size = 0;
    for (const std::size_t i : {2 * m, 2 * m + 1}) {
      for (std::size_t k = 0; k < apart[i].size(); ++k) {
        difference +=
            std::pow(static_cast<double>(shared[i][k]) - static_cast<double>(apart[i][k]), 2);
        size += std::pow(static_cast<double>(apart[i][k]), 2);
      }
    }
    CHECK(size > 0);
    check::report(std::sqrt(difference / size) < tolerance, __FILE__, __LINE__,
                  loras[m]->module + " differs by " +
                      std::to_string(1e6 * std::sqrt(difference / size)) + "e-6");
  }
}

// Boundary rows of a batch, which they point to.
std::vector<std::vector<std::uint16_t>> giveBoundaries(Trainer& trainer,
                                                       std::vector<TrainSequence>& batch) {
  auto rows = trainer.captureBoundary(batch, kNever);
  for (std::size_t s = 0; s < batch.size(); ++s) {
    batch[s].boundary = {rows[s].data(), rows[s].size()};
    batch[s].boundaryLayer = trainer.information().lowestTrained;
  }
  return rows;
}

Objective policyObjective() {
  Objective objective;
  objective.policy = true;
  objective.temperature = 0.8f;
  objective.klCoefficient = 0.1f;
  return objective;
}

}  // namespace

TEST(packing_lays_out_a_tree_of_beginnings) {
  std::vector<TrainSequence> batch;
  for (const std::vector<std::int32_t>& tokens : {std::vector<std::int32_t>{1, 2, 3, 4},
                                                  {1, 2, 5},
                                                  {9, 2},
                                                  {1, 2, 3, 6, 7},
                                                  {1, 2, 5},
                                                  {1, 2, 5, 8},
                                                  {1}}) {
    TrainSequence s;
    s.tokens = tokens;
    batch.push_back(s);
  }
  Packer packer(true, 1);
  for (const std::int64_t expected : {4, 1, 2, 2, 0, 1, 0}) {
    CHECK(packer.rowsOf(batch[packer.size()]) == expected);
    packer.add(batch[packer.size()]);
  }
  const MicroBatch tree = packer.packed();
  CHECK(packer.rows() == 10 && tree.rows() == 10 && tree.longest() == 5);
  // 1 | 2 | 3 | 4, 6 7 | 5 | 8 and 9 2
  const std::vector<std::vector<std::int64_t>> expected = {
      {0, 1, -1, 0}, {1, 2, 0, 1}, {2, 3, 1, 2}, {3, 4, 2, 3},
      {4, 6, 2, 3},  {6, 7, 1, 2}, {7, 8, 5, 3}, {8, 10, -1, 0}};
  CHECK(tree.segments.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Segment& s = tree.segments[i];
    CHECK((std::vector<std::int64_t>{s.rows.begin, s.rows.end, s.parent, s.position}) ==
          expected[i]);
  }
  CHECK((tree.copies == std::vector<std::int32_t>{6, 5, 2, 1, 1, 1, 3, 1, 1, 1}));
  for (std::size_t s = 0; s < batch.size(); ++s) {
    CHECK(tree.rowOf[s].size() == batch[s].tokens.size());
    for (std::size_t t = 0; t < batch[s].tokens.size(); ++t) {
      const auto [of, token] = tree.places[static_cast<std::size_t>(tree.rowOf[s][t])];
      CHECK(token == static_cast<std::int64_t>(t) && batch[of].tokens[t] == batch[s].tokens[t]);
    }
  }
  const MicroBatch apart = packed(batch, false, 1);
  CHECK(apart.rows() == 22 && apart.segments.size() == batch.size() &&
        apart.rowOf[1] == (std::vector<std::int64_t>{4, 5, 6}));
}

TEST(rows_at_a_boundary_are_shared_where_their_bits_are_equal) {
  std::vector<std::vector<std::uint16_t>> rows = {
      {1, 1, 2, 2, 3, 3}, {1, 1, 2, 2, 3, 3}, {1, 1, 2, 9, 3, 3}, {1, 1, 2, 2}, {}};
  std::vector<TrainSequence> batch(rows.size());
  for (std::size_t s = 0; s < rows.size(); ++s) {
    batch[s].tokens = {4, 5, 6};
    batch[s].boundary = {rows[s].data(), rows[s].size()};
    batch[s].boundaryLayer = 1;
  }
  // The fourth comes without its last row, the fifth without any.
  Packer packer(true, 2);
  for (const std::int64_t expected : {3, 0, 2, 1, 3}) {
    CHECK(packer.rowsOf(batch[packer.size()]) == expected);
    packer.add(batch[packer.size()]);
  }
  batch[1].boundaryLayer = 2;
  CHECK(packed({batch[0], batch[1]}, true, 2).rows() == 6);
}

TEST(gradients_through_shared_prefixes) {
  forArchitectures([](const std::string& architecture, const Shape& shape) {
    Trainer trainer(randomModel(architecture, shape, 1), allTargets(shape));
    randomiseB(trainer, 2);
    CHECK(packed(treeBatch(shape, 3), true).rows() < packed(treeBatch(shape, 3), false).rows() / 2);
    checkGradients(trainer, treeBatch(shape, 3), {}, 1e-4, check::full() ? 4 : 2);
    checkGradients(trainer, treeBatch(shape, 4, true), policyObjective(), 1e-4,
                   check::full() ? 4 : 2);
  });
}

TEST(gradients_of_all_weights_through_shared_prefixes) {
  forArchitectures([](const std::string& architecture, const Shape& shape) {
    TrainerOptions options;
    options.allWeights = true;
    options.threads = 2;
    Trainer trainer(randomModel(architecture, shape, 1), options);
    checkGradients(trainer, treeBatch(shape, 3), {}, 1e-4, check::full() ? 3 : 2);
  });
}

TEST(shared_prefixes_give_the_gradients_and_statistics_of_separate_ones) {
  forEveryArchitecture([](const std::string& architecture, const Shape& shape) {
    for (const std::int64_t lowest : {0, 1}) {
      for (const bool captured : {false, true}) {
        if (captured && lowest == 0) continue;
        std::vector<std::vector<float>> shared;
        StepStatistics together;
        for (const int threads : {1, 2, 4}) {
          auto model = randomModel(architecture, shape, 1);
          auto options = allTargets(*model, shape, lowest);
          options.threads = threads;
          Trainer trainer(std::move(model), options);
          randomiseB(trainer, 2);
          auto batch = treeBatch(shape, 4);
          const auto rows =
              captured ? giveBoundaries(trainer, batch) : std::vector<std::vector<std::uint16_t>>{};
          const StepStatistics s = trainer.differentiate(batch, {}, kNever);
          if (threads == 1) shared = gradients(trainer), together = s;
          CHECK(gradients(trainer) == shared && s.loss == together.loss);
          for (std::size_t m = 0; m < s.modules.size(); ++m) {
            CHECK(s.modules[m].dormantDirections == together.modules[m].dormantDirections);
          }
        }
        auto model = randomModel(architecture, shape, 1);
        auto options = allTargets(*model, shape, lowest);
        options.sharePrefixes = false;
        Trainer trainer(std::move(model), options);
        randomiseB(trainer, 2);
        auto batch = treeBatch(shape, 4);
        const auto rows =
            captured ? giveBoundaries(trainer, batch) : std::vector<std::vector<std::uint16_t>>{};
        const StepStatistics apart = trainer.differentiate(batch, {}, kNever);
        checkEqual(trainer, shared, gradients(trainer), 1e-6);
        CHECK_NEAR(together.loss, apart.loss, 1e-6);
        CHECK_NEAR(together.gradNorm / apart.gradNorm, 1, 1e-6);
        CHECK(together.tokens == apart.tokens &&
              together.microBatchTokens == apart.microBatchTokens);
      }
    }
  });
}

// Across several blocks of queries, with a window that ends within a shared segment.
TEST(long_shared_prefixes_give_the_gradients_of_separate_ones) {
  for (const char* architecture : {"qwen2", "gemma2"}) {
    Shape shape;
    shape.context = 512, shape.window = 190;
    Random random(8);
    std::vector<TrainSequence> batch(3);
    for (std::size_t s = 0; s < batch.size(); ++s) {
      for (std::size_t t = 0; t < 310; ++t) {
        const auto token =
            static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(shape.vocabulary));
        batch[s].tokens.push_back(s > 0 && t < 150 ? batch[0].tokens[t] : token);
        batch[s].labelled.push_back(t > 150 ? 1 : 0);
      }
    }
    std::vector<std::vector<float>> found[2];
    std::vector<SequenceResult> results[2];
    auto options = allTargets(shape);
    options.microBatchTokens = 2000;
    for (const bool shares : {true, false}) {
      options.sharePrefixes = shares;
      Trainer trainer(randomModel(architecture, shape, 1), options);
      randomiseB(trainer, 2);
      trainer.differentiate(batch, {}, kNever);
      found[shares] = gradients(trainer);
      results[shares] = trainer.evaluate(batch, {}, true, kNever).sequences;
      if (!shares) checkEqual(trainer, found[1], found[0], 1e-6);
    }
#if !defined(ISOPRO_BLAS)  // whose sums are its own for each shape
    for (std::size_t s = 0; s < batch.size(); ++s)
      CHECK(results[0][s].logprobs == results[1][s].logprobs);
#endif
  }
}

TEST(what_is_evaluated_through_shared_prefixes_is_the_same_to_the_last_bit) {
  forEveryArchitecture([](const std::string& architecture, const Shape& shape) {
    const auto batch = treeBatch(shape, 5, true);
    Evaluation found[2];
    std::vector<std::vector<std::uint16_t>> boundaries[2];
    for (const bool shares : {true, false}) {
      auto model = randomModel(architecture, shape, 1);
      auto options = allTargets(*model, shape, 1);
      options.sharePrefixes = shares;
      Trainer trainer(std::move(model), options);
      randomiseB(trainer, 2);
      found[shares] = trainer.evaluate(batch, policyObjective(), true, kNever);
      boundaries[shares] = trainer.captureBoundary(batch, kNever);
    }
#if !defined(ISOPRO_BLAS)
    CHECK(found[0].loss == found[1].loss && boundaries[0] == boundaries[1]);
    for (std::size_t s = 0; s < batch.size(); ++s) {
      CHECK(found[0].sequences[s].logprobs == found[1].sequences[s].logprobs);
      CHECK(found[0].sequences[s].entropy == found[1].sequences[s].entropy);
    }
#else
    CHECK_NEAR(found[0].loss, found[1].loss, 1e-6);
#endif
  });
}

TEST(dropout_through_shared_prefixes_is_one_draw_a_row) {
  Shape shape;
  auto options = allTargets(shape);
  for (Target& target : options.targets) target.dropout = 0.3f;
  Trainer trainer(randomModel("qwen3", shape, 1), options);
  randomiseB(trainer, 2);
  const auto batch = treeBatch(shape, 3);
  const StepStatistics once = trainer.differentiate(batch, {}, kNever),
                       again = trainer.differentiate(batch, {}, kNever);
  CHECK(once.loss == again.loss);
  // The same reply twice: one draw, and so one log-probability.
  const std::vector<TrainSequence> twice = {batch[1], batch[1]};
  const MicroBatch tree = packed(twice, true);
  Network network(trainer.model(), trainer.engine(), 600'000'000);
  const auto results = network.differentiate(tree, {}, 1, 77, kNever);
  CHECK(tree.rows() == static_cast<std::int64_t>(batch[1].tokens.size()) &&
        results[0].logprobs == results[1].logprobs);
}

// Eight replies of 10 labelled tokens to one prompt of 40.
std::vector<TrainSequence> groupOfEight() {
  std::vector<TrainSequence> batch(8);
  for (std::size_t s = 0; s < batch.size(); ++s) {
    for (std::size_t t = 0; t < 50; ++t) {
      batch[s].tokens.push_back(static_cast<std::int32_t>(t < 40 ? t : s));
      batch[s].labelled.push_back(t >= 40 ? 1 : 0);
    }
  }
  return batch;
}

TEST(micro_batches_count_a_shared_row_once_and_grow_where_that_is_cheaper) {
  using Tokens = std::vector<std::int64_t>;
  Shape shape;
  const auto labelled = [&](bool shares, std::int64_t limit,
                            const std::vector<TrainSequence>& batch, std::int64_t least = 1) {
    auto options = allTargets(shape);
    options.sharePrefixes = shares;
    options.microBatchTokens = limit;
    return Trainer(randomModel("llama", shape, 1), options)
        .differentiate(batch, {}, kNever, {{}, least})
        .microBatchTokens;
  };
  const auto group = groupOfEight();
  CHECK(labelled(true, 120, group) == (Tokens{80}));
  CHECK(labelled(false, 120, group) == (Tokens{20, 20, 20, 20}));
  CHECK(labelled(true, 60, group) == (Tokens{80}));
  const std::vector<TrainSequence> five(group.begin(), group.begin() + 5);
  CHECK(labelled(true, 512, five, 2) == (Tokens{30, 20}) &&
        labelled(false, 512, five, 2) == (Tokens{30, 20}));
  CHECK(labelled(true, 512, {group[0]}, 2) == (Tokens{10}));
  CHECK(labelled(true, 50, five, 2) == (Tokens{30, 20}) &&
        labelled(false, 50, five, 2) == (Tokens{10, 10, 10, 10, 10}));
  // Nothing to share: no longer ones.
  auto alone = group;
  for (std::size_t s = 0; s < alone.size(); ++s) alone[s].tokens[0] = static_cast<std::int32_t>(s);
  CHECK(labelled(true, 120, alone) == (Tokens{20, 20, 20, 20}));
}

TEST(longer_micro_batches_stay_within_the_memory) {
  Shape shape;
  shape.layers = 1, shape.feedForward = 16'384, shape.context = 512;
  std::vector<TrainSequence> batch = groupOfEight();
  for (TrainSequence& s : batch) {
    s.tokens.insert(s.tokens.begin(), 360, 1), s.tokens.resize(500, s.tokens.back());
    s.labelled.assign(400, 0), s.labelled.resize(500, 1);
  }
  auto options = allTargets(shape);
  options.microBatchTokens = 600;
  const auto labelled = [&](std::size_t memory) {
    options.memoryBytes = memory;
    return Trainer(randomModel("llama", shape, 1), options)
        .differentiate(batch, {}, kNever)
        .microBatchTokens;
  };
  // 130 KB of activations a row.
  CHECK((labelled(0) == std::vector<std::int64_t>{200, 200, 200, 200}));
  CHECK((labelled(2'000'000'000) == std::vector<std::int64_t>{800}));
}
