// A decode that is stopped in the middle of its graph and made again, as the governor of threads
// does where another process takes a core: whoever decodes gets the same bits as from one that ran
// through.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "inference/boundary.h"
#include "inference/embedding.h"
#include "inference/rollouts.h"
#include "inference/running_batch.h"
#include "inference/scoring.h"
#include "llama_backends.h"
#include "support/random.h"
#include "temporary_file.h"
#include "training/adapter_file.h"

using namespace isopro;

namespace {

// Stops decodes before nodes of its choice, some of them several times; never on its own account.
class Stopping : public ThreadGovernor {
 public:
  explicit Stopping(bool stops) : ThreadGovernor(1, true), stops_(stops), random_(77) { choose(); }

  bool stepIsStarved() override { return stops_ && left_-- == 0; }
  void abandonStep() override {
    ++stopped_;
    choose();
  }

  int stopped() const { return stopped_; }

 private:
  // How many nodes pass before the next stop, over the ends of decodes: the embedded model's graph
  // has some hundreds.
  void choose() {
    left_ = static_cast<int>(random_.nextDouble() * (random_.nextDouble() < 0.3 ? 20 : 900));
  }

  const bool stops_;
  Random random_;
  int left_ = 0;
  int stopped_ = 0;
};

std::shared_ptr<Model> stoppableModel() {
  static const std::shared_ptr<Model> model = [] {
    isopro::testing::loadLlamaBackends();
    return Model::load({std::string(ISOPRO_TEST_DATA) + "/../assets/models/tiny.gguf", 0, ""}, {});
  }();
  return model;
}

// An adapter that changes what is said.
std::shared_ptr<Adapter> someAdapter(std::uint64_t seed) {
  static std::map<std::uint64_t, std::shared_ptr<Adapter>> made;
  std::shared_ptr<Adapter>& adapter = made[seed];
  if (adapter != nullptr) return adapter;
  const isopro::testing::TemporaryFile file("adapter.gguf");
  training::TrainerOptions options;
  options.seed = seed;
  for (const auto module : {training::kQuery, training::kOutput, training::kDown})
    options.targets.push_back({1, module, 4, 8.0f, 0});
  training::Trainer trainer(stoppableModel()->path(), options);
  Random random(seed);
  for (training::Parameter* parameter : trainer.parameters()) {
    for (float& value : parameter->value)
      value = static_cast<float>(random.nextDouble() - 0.5) * 0.4f;
  }
  file.write(training::encodeAdapter(trainer));
  return adapter = Adapter::load(stoppableModel(), file.path(), true);
}

std::vector<Token> drawnTokens(Random& random, int count) {
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(5 + static_cast<Token>(random.nextDouble() * 200));
  return tokens;
}

// What a call returned, as bytes.
class Bits {
 public:
  template <typename Value>
  void add(const std::vector<Value>& values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    bytes_.append(std::to_string(values.size())).append(bytes, values.size() * sizeof(Value));
  }
  void add(double value) { add(std::vector<double>{value}); }
  void add(const Reply& reply) {
    add(reply.tokens);
    add(reply.logProbabilities);
    add(reply.sampledLogProbabilities);
  }
  void add(const TokenScores& scores) {
    add(scores.logProbabilities);
    add(scores.ranks);
    for (const std::vector<TokenChance>& top : scores.top) {
      for (const TokenChance& chance : top) {
        add(static_cast<double>(chance.token));
        add(static_cast<double>(chance.logProbability));
      }
    }
  }
  const std::string& all() const { return bytes_; }

 private:
  std::string bytes_;
};

// Runs a call twice in contexts of its own: without a stop, and with at least `least`.
template <typename Call>
void checkSameBits(const std::string& name, int least, Call call) {
  const auto run = [&](bool stops) {
    auto governor = std::make_unique<Stopping>(stops);
    const Stopping& stopping = *governor;
    Context context(stoppableModel(), std::move(governor), false);
    ThreadPool pool(1);
    Bits bits;
    call(context, pool, bits);
    check::report(stops ? stopping.stopped() >= least : stopping.stopped() == 0, __FILE__, __LINE__,
                  name + " was stopped " + std::to_string(stopping.stopped()) + " times");
    return bits.all();
  };
  const std::string expected = run(false);
  CHECK(!expected.empty());
  check::report(run(true) == expected, __FILE__, __LINE__,
                name + " gave other bits where decodes were stopped");
}

RolloutRequest rolloutRequest(std::uint64_t seed, int prompts, int samples) {
  Random random(seed);
  const std::vector<Token> frame = drawnTokens(random, 40);
  RolloutRequest request;
  for (int p = 0; p < prompts; ++p) {
    std::vector<Token> tokens = frame;
    for (const Token token : drawnTokens(random, 5 + 30 * p)) tokens.push_back(token);
    std::vector<std::uint64_t> seeds;
    for (int s = 0; s < samples; ++s) seeds.push_back(static_cast<std::uint64_t>(10 * p + s));
    request.prompts.push_back({tokens, seeds});
  }
  request.limits.maxTokens = 24;
  request.limits.ignoreEndOfSequence = true;
  request.cellBudget = 4096;
  return request;
}

void generate(const RolloutRequest& request, Context& context, ThreadPool& pool, Bits& bits) {
  generateRollouts(context, pool, request,
                   {[&](Rollout&& rollout) {
                      bits.add(rollout);
                      bits.add(rollout.boundary);
                    },
                    [](const auto&) {}},
                   kNotStopped);
}

void runBatch(const BatchSettings& settings, bool adapters, Context& context, ThreadPool& pool,
              Bits& bits) {
  RunningBatch batch(context, pool, settings);
  Random random(5);
  const std::vector<Token> beginning = drawnTokens(random, 30);
  std::int64_t next = 0;
  for (int step = 0; step < 12 || !batch.idle(); ++step) {
    if (step % 2 == 0 && step < 12) {
      BatchRequest request;
      request.prompt = beginning;
      for (const Token token : drawnTokens(random, 3 + 9 * static_cast<int>(next)))
        request.prompt.push_back(token);
      request.seed = static_cast<std::uint64_t>(next);
      request.limits.maxTokens = 15 + 4 * static_cast<int>(next % 3);
      request.limits.ignoreEndOfSequence = true;
      if (adapters && next % 3 > 0)
        request.adapter = {someAdapter(static_cast<std::uint64_t>(next % 3)), 1.0f};
      request.cancelled = std::make_shared<std::atomic<bool>>(false);
      batch.join(next++, std::move(request));
    }
    const StepReport report = batch.step(kNotStopped);
    CHECK(report.failed.empty());
    for (const FinishedReply& finished : report.finished) {
      bits.add(static_cast<double>(finished.request));
      bits.add(finished.reply);
    }
  }
  CHECK(next == 6);
}

// The threads of a call of one row that has room for `cells`, of a context with fixed threads that
// has two, of which another process holds one.
int threadsOfOneRow(Matmul matmul, const char* kvType, int cells) {
  const auto model = Model::load({stoppableModel()->path(), 0, kvType, matmul}, {});
  auto governor = std::make_unique<ThreadGovernor>(2, false);
  ThreadGovernor& governed = *governor;
  Context context(model, std::move(governor), true);
  context.prepare({cells, 1, 1});
  governed.abandonStep();
  DecodeBatch batch;
  for (int position = 0; position < 3; ++position) {
    batch.clear();
    batch.add(300 + position, position, 0, true);
    context.decode(batch, kNotStopped);
  }
  return governed.stepThreads();
}

}  // namespace

// Decided by who computes the attention of the call. Keys and values of f32 are cast to f16 in
// llama.cpp's graph.
TEST(one_row_is_held_to_all_threads_where_ggml_computes_its_attention) {
  CHECK(threadsOfOneRow(Matmul::kGgml, "f16", 512) == 2);
#if defined(__x86_64__)
  CHECK(threadsOfOneRow(Matmul::kGgml, "f16", 256) == 1);
  CHECK(threadsOfOneRow(Matmul::kGgml, "q8_0", 512) == 1);
  if (!Model::load({stoppableModel()->path(), 0, "f16", Matmul::kAuto}, {})->hasOwnProducts())
    return;
  CHECK(threadsOfOneRow(Matmul::kAuto, "f16", 512) == 1);
  CHECK(threadsOfOneRow(Matmul::kAuto, "f16", 4096) == 1);
  CHECK(threadsOfOneRow(Matmul::kAuto, "f32", 512) == 1);
#endif
}

TEST(stopped_decodes_of_generate) {
  checkSameBits("several samples of several prompts", 10,
                [](Context& context, ThreadPool& pool, Bits& bits) {
                  generate(rolloutRequest(1, 3, 4), context, pool, bits);
                });
  checkSameBits("samples that wait for others", 20,
                [](Context& context, ThreadPool& pool, Bits& bits) {
                  RolloutRequest request = rolloutRequest(2, 3, 4);
                  request.maxSequences = 5;
                  generate(request, context, pool, bits);
                });
  checkSameBits("one sample", 10, [](Context& context, ThreadPool& pool, Bits& bits) {
    generate(rolloutRequest(3, 1, 1), context, pool, bits);
  });
  checkSameBits("more samples than a call takes", 10,
                [](Context& context, ThreadPool& pool, Bits& bits) {
                  generate(rolloutRequest(4, 2, 40), context, pool, bits);
                });
  checkSameBits("with an adapter and a boundary", 10,
                [](Context& context, ThreadPool& pool, Bits& bits) {
                  RolloutRequest request = rolloutRequest(5, 2, 3);
                  request.boundary = 1;
                  context.setAdapter(someAdapter(1), 1.0f);
                  generate(request, context, pool, bits);
                });
}

// One cache for all; with kept prefixes; caches of their own; one request at a time.
TEST(stopped_decodes_of_the_running_batch) {
  for (const bool adapters : {false, true}) {
    for (const BatchSettings& settings : {BatchSettings{600, 6, 0, false},
                                          {600, 6, 200, false},
                                          {1100, 6, 0, false},
                                          {1800, 6, 0, false},
                                          {1024, 1, 0, true}}) {
      const std::string name = "a batch of " + std::to_string(settings.cells) + " cells, " +
                               (adapters ? "with" : "without") + " adapters";
      checkSameBits(name, 10, [&, adapters](Context& context, ThreadPool& pool, Bits& bits) {
        runBatch(settings, adapters, context, pool, bits);
      });
    }
  }
}

TEST(stopped_decodes_of_score) {
  Random random(8);
  const std::vector<Token> prefix = drawnTokens(random, 133), opening = drawnTokens(random, 9);
  std::vector<std::vector<Token>> continuations;
  for (const int length : {1, 4, 30, 70}) {
    continuations.push_back(opening);
    for (const Token token : drawnTokens(random, length)) continuations.back().push_back(token);
  }
  for (const bool stepwise : {false, true}) {
    checkSameBits(stepwise ? "score, a token a call" : "score", stepwise ? 20 : 2,
                  [&](Context& context, ThreadPool& pool, Bits& bits) {
                    // a few calls each: several texts, so that stops fall on most of their kinds
                    for (const int alternatives : {-1, 0, 3, -1}) {
                      for (const TokenScores& scores :
                           scoreContinuations(context, pool, prefix, continuations, 2048, stepwise,
                                              alternatives, kNotStopped)) {
                        bits.add(scores);
                      }
                    }
                  });
  }
}

TEST(stopped_decodes_of_score_branches) {
  Random random(9);
  const std::vector<Token> trunk = drawnTokens(random, 150), statement = drawnTokens(random, 12);
  std::vector<Branch> branches;
  for (const int at : {1, 3, 40, 41, 97, 150}) {
    for (int answer = 0; answer < 3; ++answer) {
      std::vector<Token> tokens = statement;
      for (const Token token : drawnTokens(random, 2 + answer)) tokens.push_back(token);
      branches.push_back({at, tokens, static_cast<int>(statement.size())});
    }
  }
  checkSameBits("branches", 5, [&](Context& context, ThreadPool& pool, Bits& bits) {
    for (const int cells : {2048, 400, 220, 2048}) {
      for (const TokenScores& scores :
           scoreBranches(context, pool, trunk, branches, cells, kNotStopped).scores)
        bits.add(scores);
    }
  });
}

TEST(stopped_decodes_of_whoever_reads_hidden_states) {
  Random random(10);
  const std::vector<Token> tokens = drawnTokens(random, 150);
  checkSameBits("hidden states", 10, [&](Context& context, ThreadPool&, Bits& bits) {
    const int layers = context.model().layers();
    for (int round = 0; round < 5; ++round) {
      bits.add(embed(context, tokens, kNotStopped));
      for (const auto& [boundary, rows] : hiddenRows(context, tokens, {0, 1, layers}, kNotStopped))
        bits.add(rows);
      for (const auto& [block, norms] : hiddenNorms(context, tokens, {0, layers - 1}, kNotStopped))
        bits.add(norms.update);
    }
  });
}
