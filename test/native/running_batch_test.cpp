// The running batch on the embedded model: requests come, go and are cancelled in every order, and
// each is reported once.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "inference/rollouts.h"
#include "inference/running_batch.h"
#include "inference/scoring.h"
#include "llama_backends.h"
#include "support/error.h"
#include "support/random.h"
#include "temporary_file.h"
#include "training/adapter_file.h"

using namespace isopro;

namespace {

std::shared_ptr<Model> loadTiny(const std::string& kvType) {
  isopro::testing::loadLlamaBackends();
  return Model::load({std::string(ISOPRO_TEST_DATA) + "/../assets/models/tiny.gguf", 0, kvType},
                     {});
}

std::shared_ptr<Model> tinyModel() {
  static const std::shared_ptr<Model> model = loadTiny("");
  return model;
}

// Whose attention adds in f32: what the order of its sums does is small.
std::shared_ptr<Model> exactModel() {
  static const std::shared_ptr<Model> model = loadTiny("bf16");
  return model;
}

struct Bench {
  explicit Bench(const BatchSettings& settings, const std::shared_ptr<Model>& model = tinyModel())
      : context(model, 1, true), pool(1), batch(context, pool, settings) {}

  Context context;
  ThreadPool pool;
  RunningBatch batch;
};

BatchRequest requestOf(std::vector<Token> prompt, int maxTokens, std::uint64_t seed) {
  BatchRequest request;
  request.prompt = std::move(prompt);
  request.seed = seed;
  request.limits.maxTokens = maxTokens;
  request.limits.ignoreEndOfSequence = true;
  request.cancelled = std::make_shared<std::atomic<bool>>(false);
  return request;
}

std::vector<Token> someTokens(Random& random, int count) {
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(5 + static_cast<Token>(random.nextDouble() * 200));
  return tokens;
}

std::vector<Token> generated(const BatchRequest& request, Bench& bench) {
  RolloutRequest alone;
  alone.prompts = {{request.prompt, {request.seed}}};
  alone.sampling = request.sampling;
  alone.limits = request.limits;
  alone.cellBudget = 1024;
  std::vector<Token> tokens;
  generateRollouts(bench.context, bench.pool, alone,
                   {[&](Rollout&& rollout) { tokens = rollout.tokens; }, [](const auto&) {}},
                   kNotStopped);
  return tokens;
}

// Runs all that has joined; the order in which they ended, and what they said, checked by another
// evaluation of the same tokens.
std::vector<std::int64_t> runAndScore(Bench& bench,
                                      const std::map<std::int64_t, BatchRequest>& requests) {
  std::vector<std::int64_t> order;
  std::map<std::int64_t, Reply> replies;
  while (!bench.batch.idle()) {
    StepReport report = bench.batch.step(kNotStopped);
    CHECK(report.failed.empty());
    for (FinishedReply& finished : report.finished) {
      order.push_back(finished.request);
      replies[finished.request] = std::move(finished.reply);
    }
  }
  CHECK(replies.size() == requests.size());
  Context other(exactModel(), 1, true);
  for (const auto& [number, reply] : replies) {
    const BatchRequest& request = requests.at(number);
    CHECK(static_cast<int>(reply.tokens.size()) == request.limits.maxTokens);
    const auto scores = scoreContinuations(other, bench.pool, request.prompt, {reply.tokens}, 2048,
                                           false, -1, kNotStopped);
    // A bit that an activation's quantisation rounds differently moves single tokens by hundredths;
    // a token lost or misplaced, all.
    double difference = 0;
    for (size_t i = 0; i < reply.tokens.size(); ++i)
      difference += std::abs(scores[0].logProbabilities[i] - reply.logProbabilities[i]);
    CHECK(difference < 0.01 * static_cast<double>(reply.tokens.size()));
  }
  return order;
}

}  // namespace

TEST(running_batch_that_is_deterministic_is_generate) {
  Random random(1);
  Bench bench({1024, 1, 0, true});
  for (const int length : {1, 59, 60, 61, 130}) {
    const BatchRequest request = requestOf(someTokens(random, length), 20, 9);
    bench.batch.join(length, request);
    std::vector<Token> tokens;
    while (!bench.batch.idle()) {
      for (const FinishedReply& finished : bench.batch.step(kNotStopped).finished)
        tokens = finished.reply.tokens;
    }
    CHECK(tokens == generated(request, bench));
  }
}

TEST(running_batch_reports_each_request_once_whatever_comes_and_goes) {
  // One cache for all; with prefixes; caches of their own, fewer and as many as may run.
  for (const BatchSettings& settings :
       {BatchSettings{600, 6, 0}, {600, 6, 200}, {1100, 6, 0}, {1800, 6, 0}}) {
    Random random(3);
    const auto draw = [&](int below) { return static_cast<int>(random.nextDouble() * below); };
    Bench bench(settings);
    std::map<std::int64_t, std::shared_ptr<std::atomic<bool>>> open;
    std::map<std::int64_t, int> lengths, events;
    std::map<std::int64_t, std::string> texts;
    std::vector<std::vector<Token>> prompts;
    std::set<std::int64_t> ended;
    int aborted = 0, reused = 0;
    std::int64_t next = 0;
    const auto hear = [&](const StepReport& report) {
      for (const TokenEvent& token : report.tokens) {
        CHECK(token.request % 2 == 0 && ended.count(token.request) == 0);
        ++events[token.request];
        texts[token.request] += token.text;
      }
      for (const FinishedReply& finished : report.finished) {
        CHECK(ended.insert(finished.request).second);
        CHECK(static_cast<int>(finished.reply.tokens.size()) == lengths[finished.request]);
        CHECK(finished.request % 2 != 0 || events[finished.request] == lengths[finished.request]);
        CHECK(finished.request % 2 != 0 || texts[finished.request] == finished.reply.text);
        reused += finished.reusedTokens;
        open.erase(finished.request);
      }
      for (const FailedReply& failed : report.failed) {
        CHECK(ended.insert(failed.request).second);
        CHECK_THROWS(std::rethrow_exception(failed.failure), "ABORTED");
        CHECK(open[failed.request]->load());
        ++aborted;
        open.erase(failed.request);
      }
    };
    for (int step = 0; step < 400; ++step) {
      if (step < 250 && draw(3) == 0) {
        std::vector<Token> prompt =
            prompts.empty() || draw(2) == 0
                ? someTokens(random, 1 + draw(90))
                : prompts[static_cast<size_t>(draw(static_cast<int>(prompts.size())))];
        for (const Token token : someTokens(random, draw(4))) prompt.push_back(token);
        if (prompt.size() < 150) prompts.push_back(prompt);
        BatchRequest request =
            requestOf(std::move(prompt), 1 + draw(40), static_cast<std::uint64_t>(next));
        request.streamed = next % 2 == 0;
        open[next] = request.cancelled;
        lengths[next] = request.limits.maxTokens;
        bench.batch.join(next++, std::move(request));
      }
      if (!open.empty() && draw(12) == 0)
        std::next(open.begin(), draw(static_cast<int>(open.size())))->second->store(true);
      hear(bench.batch.step(kNotStopped));
    }
    while (!bench.batch.idle()) hear(bench.batch.step(kNotStopped));
    CHECK(next > 50 && static_cast<std::int64_t>(ended.size()) == next);
    CHECK(aborted > 5);
    CHECK((reused > 0) == (settings.prefixTokens > 0));
  }
}

// A client that goes away has its flag set while a step runs, at the latest; the next one computes
// nothing for it.
TEST(running_batch_gives_a_request_no_token_after_it_was_cancelled) {
  for (const BatchSettings& settings : {BatchSettings{600, 6, 0}, {600, 6, 200}, {1800, 6, 0}}) {
    Random random(4);
    Bench bench(settings);
    std::map<std::int64_t, BatchRequest> requests;
    for (int i = 0; i < 3; ++i) {
      requests[i] = requestOf(someTokens(random, 20), 60, static_cast<std::uint64_t>(i));
      requests[i].streamed = true;
      bench.batch.join(i, requests[i]);
    }
    const auto told = [](const StepReport& report) {
      std::vector<std::int64_t> to;
      for (const TokenEvent& token : report.tokens) to.push_back(token.request);
      std::sort(to.begin(), to.end());
      return to;
    };
    for (int step = 0; step < 5; ++step) bench.batch.step(kNotStopped);
    CHECK(told(bench.batch.step(kNotStopped)) == std::vector<std::int64_t>({0, 1, 2}));
    requests[1].cancelled->store(true);
    const StepReport report = bench.batch.step(kNotStopped);
    CHECK(told(report) == std::vector<std::int64_t>({0, 2}));
    CHECK(report.failed.size() == 1 && report.failed.front().request == 1 &&
          report.finished.empty());
    CHECK(told(bench.batch.step(kNotStopped)) == std::vector<std::int64_t>({0, 2}));
    // one that waits, or is to be evaluated, is left as soon
    requests[3] = requestOf(someTokens(random, 20), 60, 3);
    requests[3].cancelled->store(true);
    bench.batch.join(3, requests[3]);
    CHECK(bench.batch.step(kNotStopped).failed.size() == 1);
    while (!bench.batch.idle()) CHECK(bench.batch.step(kNotStopped).failed.empty());
  }
}

// Who did not say how long replies may be asked for all that there is, and takes what they need:
// caches of their own; one for all, with kept prefixes and without.
TEST(running_batch_runs_replies_of_any_length_together) {
  struct Case {
    BatchSettings settings;
    int prompt;
  };
  for (const auto& [settings, prompt] :
       {Case{{2048, 8, 0}, 20}, {{1200, 8, 0}, 20}, {{1200, 8, 300}, 20}, {{1000, 2, 0}, 200}}) {
    Random random(8);
    Bench bench(settings, exactModel());
    std::map<std::int64_t, BatchRequest> requests;
    std::set<std::int64_t> speaking;
    for (int i = 0; i < std::min(4, settings.maxSequences); ++i) {
      requests[i] =
          requestOf(someTokens(random, prompt + i), 590 - prompt, static_cast<std::uint64_t>(i));
      requests[i].streamed = true;
      bench.batch.join(i, requests[i]);
    }
    for (int step = 0; step < 10; ++step) {
      const StepReport report = bench.batch.step(kNotStopped);
      CHECK(report.finished.empty() && report.failed.empty());
      for (const TokenEvent& token : report.tokens) speaking.insert(token.request);
    }
    CHECK(speaking.size() == requests.size());
    const std::vector<std::int64_t> order = runAndScore(bench, requests);
    CHECK(!order.empty() && order.front() == 0);
  }
}

// What is longer than the caches that others have makes them longer and fewer: others pause, the
// oldest go on with it.
TEST(running_batch_gives_a_long_request_room_among_short_ones) {
  Random random(4);
  Bench bench({2048, 8, 0}, exactModel());
  std::map<std::int64_t, BatchRequest> requests;
  for (int i = 0; i < 3; ++i) requests[i] = requestOf(someTokens(random, 20), 10 + 2 * i, 1);
  requests[3] = requestOf(someTokens(random, 200), 300, 1);
  requests[4] = requestOf(someTokens(random, 20), 2, 1);
  for (int i = 0; i < 3; ++i) bench.batch.join(i, requests[i]);
  bench.batch.step(kNotStopped);
  for (int i = 3; i < 5; ++i) bench.batch.join(i, requests[i]);
  CHECK((runAndScore(bench, requests) == std::vector<std::int64_t>{0, 1, 4, 2, 3}));
}

TEST(running_batch_refuses_one_request_and_goes_on) {
  Bench bench({256, 4, 0});
  Random random(5);
  bench.batch.join(0, requestOf(someTokens(random, 10), 10, 1));
  CHECK_THROWS(bench.batch.join(1, requestOf({}, 10, 1)), "INVALID_ARGUMENT");
  CHECK_THROWS(bench.batch.join(1, requestOf({1'000'000}, 10, 1)), "INVALID_ARGUMENT");
  CHECK_THROWS(bench.batch.join(1, requestOf(someTokens(random, 200), 57, 1)), "CONTEXT_OVERFLOW");
  BatchRequest broken = requestOf({5}, 10, 1);
  broken.grammar = "root ::= ";
  broken.grammar += "absent";
  CHECK_THROWS(bench.batch.join(1, broken), "GRAMMAR_INVALID");
  int finished = 0;
  while (!bench.batch.idle())
    finished += static_cast<int>(bench.batch.step(kNotStopped).finished.size());
  CHECK(finished == 1);
}

TEST(running_batch_that_is_stopped_ends_all_and_begins_anew) {
  Bench bench({256, 2, 100});
  Random random(6);
  for (int i = 0; i < 5; ++i) bench.batch.join(i, requestOf(someTokens(random, 10), 10, 1));
  bench.batch.step(kNotStopped);
  const std::atomic<bool> stopped{true};
  const StepReport report = bench.batch.step(stopped);
  CHECK(report.failed.size() == 5 && bench.batch.idle());
  bench.batch.join(9, requestOf(someTokens(random, 10), 10, 1));
  size_t finished = 0;
  while (!bench.batch.idle()) finished += bench.batch.step(kNotStopped).finished.size();
  CHECK(finished == 1);
}

// Neither what is kept of its rows nor the last call does.
TEST(running_batch_holds_an_adapter_no_longer_than_its_replies) {
  const isopro::testing::TemporaryFile file("adapter.gguf");
  {
    training::TrainerOptions options;
    options.targets = {{0, training::kQuery, 2, 1.0f, 0}};
    training::Trainer trainer(tinyModel()->path(), options);
    file.write(training::encodeAdapter(trainer));
  }
  for (const BatchSettings& settings :
       {BatchSettings{256, 4, 0}, {256, 4, 100}, {256, 1, 0, true}}) {
    Bench bench(settings);
    std::shared_ptr<Adapter> adapter = Adapter::load(tinyModel(), file.path(), true);
    CHECK(!adapter->pairs().empty());
    const std::weak_ptr<Adapter> held = adapter;
    Random random(7);
    BatchRequest request = requestOf(someTokens(random, 10), 5, 1);
    request.adapter = {std::move(adapter), 1.0f};
    bench.batch.join(0, std::move(request));
    size_t finished = 0;
    while (!bench.batch.idle()) finished += bench.batch.step(kNotStopped).finished.size();
    CHECK(finished == 1 && held.expired());
  }
}
