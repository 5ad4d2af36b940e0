// Random models of every architecture that has a validator, in every format that kernels of ours
// multiply with, with random requests: a reply has the same bits alone, in company, scored and in a
// running batch, with adapters that act on all tokens and from the reply on; what is aborted leaves
// nothing behind. Experts are ggml's, and attention where the cache is not f16.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "gradient_check.h"
#include "inference/rollouts.h"
#include "inference/running_batch.h"
#include "inference/scoring.h"
#include "llama_backends.h"
#include "support/error.h"
#include "temporary_file.h"
#include "training/adapter_file.h"
#include "write_model.h"

using namespace isopro;
using isopro::testing::Shape;
using isopro::testing::TemporaryFile;

// Others of these names are in the same unit.
namespace company {
namespace {

constexpr ggml_type kTypes[] = {GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,   GGML_TYPE_Q4_0,
                                GGML_TYPE_Q8_0, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4,
                                GGML_TYPE_Q4_1, GGML_TYPE_Q6_K,   GGML_TYPE_Q5_0};
const std::vector<Token> kInvocation = {7, 31, 4};
constexpr int kContext = 1024;

struct Draw {
  Random random;
  int below(int count) { return static_cast<int>(random.nextDouble() * count); }
  int from(int least, int most) { return least + below(most - least + 1); }
  bool once(int in) { return below(in) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<size_t>(below(static_cast<int>(values.size())))];
  }
};

// The embedded model's vocabulary.
int putVocabulary(gguf_context* into) {
  static const std::unique_ptr<gguf_context, decltype(&gguf_free)> vocabulary = [] {
    const std::string tiny = std::string(ISOPRO_TEST_DATA) + "/../assets/models/tiny.gguf";
    gguf_context* gguf = gguf_init_from_file(tiny.c_str(), {true, nullptr});
    std::vector<std::string> others;
    for (std::int64_t i = 0; i < gguf_get_n_kv(gguf); ++i) {
      if (std::strncmp(gguf_get_key(gguf, i), "tokenizer.", 10) != 0)
        others.emplace_back(gguf_get_key(gguf, i));
    }
    for (const std::string& key : others) gguf_remove_key(gguf, key.c_str());
    return std::unique_ptr<gguf_context, decltype(&gguf_free)>(gguf, gguf_free);
  }();
  if (into != nullptr) gguf_set_kv(into, vocabulary.get());
  return static_cast<int>(
      gguf_get_arr_n(vocabulary.get(), gguf_find_key(vocabulary.get(), "tokenizer.ggml.tokens")));
}

Shape drawnShape(Draw& draw, const std::string& architecture, ggml_type type) {
  Shape shape;
  shape.type = type;
  shape.layers = draw.from(1, 3);
  shape.width = 256;
  // llama.cpp takes a head's width of some architectures from these.
  shape.heads = draw.of<std::int64_t>({2, 4, 8});
  shape.headWidth = shape.width / shape.heads;
  shape.keyHeads = draw.once(2) ? shape.heads : shape.heads / 2;
  shape.feedForward = draw.once(2) ? 256 : 512;
  shape.vocabulary = putVocabulary(nullptr);
  shape.context = kContext;
  shape.window = draw.of<std::int64_t>({3, 17, 64});
  shape.tied = architecture == "gemma2" ||
               (architecture != "olmo2" && architecture != "gpt-oss" && draw.once(2));
  shape.biases = architecture == "qwen2" || architecture == "gpt-oss";
  shape.ropeFactors = architecture == "phi3" || (architecture == "llama" && draw.once(2));
  if (architecture == "phi3") shape.rotatedWidth = shape.headWidth / 2;
  return shape;
}

std::shared_ptr<Adapter> drawnAdapter(Draw& draw, const std::shared_ptr<Model>& model,
                                      const Shape& shape, bool activated) {
  auto weights = training::loadWeights(model->path());
  training::TrainerOptions options = isopro::testing::allTargets(*weights, shape);
  options.threads = 1;
  options.seed = draw.random.nextUint64();
  if (activated) options.invocationTokens = kInvocation;
  training::Trainer trainer(std::move(weights), options);
  isopro::testing::randomiseB(trainer, options.seed);
  const TemporaryFile file("adapter.gguf");
  file.write(training::encodeAdapter(trainer));
  return Adapter::load(model, file.path(), true);
}

using Bits = std::vector<std::uint32_t>;

template <typename T>
void append(Bits& bits, const std::vector<T>& values) {
  for (const T& value : values) {
    std::uint32_t each;
    static_assert(sizeof each == sizeof value);
    std::memcpy(&each, &value, sizeof each);
    bits.push_back(each);
  }
}

Bits bitsOf(const Reply& reply) {
  Bits bits;
  append(bits, reply.tokens);
  append(bits, reply.logProbabilities);
  append(bits, reply.sampledLogProbabilities);
  bits.push_back(reply.notActivated ? 1 : 0);
  return bits;
}

std::vector<Token> drawnTokens(Draw& draw, int count) {
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(draw.from(5, 204));
  return tokens;
}

// Some begin as one before them does, most of them with the invocation tokens near their end.
std::vector<std::vector<Token>> drawnPrompts(Draw& draw, int count) {
  std::vector<std::vector<Token>> prompts;
  while (static_cast<int>(prompts.size()) < count) {
    std::vector<Token> prompt;
    if (!prompts.empty() && draw.once(2)) {
      prompt = draw.of(prompts);
      prompt.resize(static_cast<size_t>(draw.from(0, static_cast<int>(prompt.size()))));
    }
    const std::vector<Token> more =
        drawnTokens(draw, draw.once(4) ? draw.from(50, 130) : draw.from(1, 20));
    prompt.insert(prompt.end(), more.begin(), more.end());
    if (!draw.once(4)) prompt.insert(prompt.end(), kInvocation.begin(), kInvocation.end());
    if (draw.once(4)) prompt.push_back(11);
    if (prompt.size() < 250) prompts.push_back(std::move(prompt));
  }
  return prompts;
}

SamplingSettings drawnSampling(Draw& draw) {
  SamplingSettings sampling;
  sampling.temperature = draw.of<float>({0, 0.7f, 1});
  if (draw.once(3)) sampling.topK = 20;
  if (draw.once(3)) sampling.topP = 0.9f;
  if (draw.once(4)) sampling.repeatPenalty = 1.2f;
  return sampling;
}

// A model, what is asked of it, and who is asked.
struct Company {
  Company(const std::string& architecture, int number, ggml_type of)
      : draw{Random(static_cast<std::uint64_t>(number))},
        type(of),
        shape(drawnShape(draw, architecture, type)) {
    isopro::testing::loadLlamaBackends();
    const TemporaryFile file("model.gguf");
    isopro::testing::writeModel(
        *isopro::testing::randomModel(architecture, shape, draw.random.nextUint64()), file.path(),
        [](gguf_context* gguf, const std::string&) { putVocabulary(gguf); });
    ModelOptions options;
    options.path = file.path();
    options.matmul = Matmul::kAuto;
    options.kvType = draw.of<std::string>({"", "", "f32", "bf16", "q8_0"});
    model = Model::load(options, {});
    adapters = {{},
                {drawnAdapter(draw, model, shape, false), 1.0f},
                {drawnAdapter(draw, model, shape, true), draw.once(2) ? 1.0f : 0.5f}};
    threads = draw.once(6) ? 2 : 1;
    pool = std::make_unique<ThreadPool>(threads);
    context = std::make_unique<Context>(model, threads, true);
    name = architecture + " " + std::to_string(number) + ", " + ggml_type_name(type) +
           (model->hasOwnProducts() ? ", own" : ", ggml") + ", " + ggml_type_name(model->kvType());
  }

  void check(bool holds, int line, const std::string& what) const {
    check::report(holds, __FILE__, line, name + ": " + what);
  }

  std::map<std::pair<int, int>, Rollout> generated(const RolloutRequest& request,
                                                   int abortAfter = -1) {
    std::map<std::pair<int, int>, Rollout> rollouts;
    std::atomic<bool> cancelled{false};
    const RolloutEvents events = {
        [&](Rollout&& rollout) {
          const std::pair<int, int> place = {rollout.prompt, rollout.sample};
          check(rollouts.emplace(place, std::move(rollout)).second, __LINE__, "told twice");
        },
        [&](const RolloutProgress&) {
          if (abortAfter-- == 0) cancelled = true;
        }};
    generateRollouts(*context, *pool, request, events, cancelled);
    return rollouts;
  }

  RolloutRequest drawnRequest() {
    RolloutRequest request;
    for (std::vector<Token>& prompt : drawnPrompts(draw, draw.from(1, 4))) {
      std::vector<std::uint64_t> seeds;
      for (int i = draw.from(0, 4); i >= 0; --i) seeds.push_back(draw.random.nextUint64());
      request.prompts.push_back({std::move(prompt), std::move(seeds)});
    }
    request.prompts.front().seeds.push_back(draw.random.nextUint64());  // of several samples
    request.sampling = drawnSampling(draw);
    request.limits.maxTokens = draw.from(1, 8);
    request.limits.ignoreEndOfSequence = draw.once(2);
    drawRoom(request);
    return request;
  }

  void drawRoom(RolloutRequest& request) {
    request.cellBudget = draw.of<int>({280, 600, kContext});
    request.maxSequences = draw.of<int>({1, 3, 8, 64});
  }

  void replies();
  void scores(const RolloutRequest& request, const std::map<std::pair<int, int>, Rollout>& all);
  void oneSample(const RolloutRequest& request);
  void branches();
  void runningBatch();

  Draw draw;
  ggml_type type;
  Shape shape;
  std::shared_ptr<Model> model;
  std::vector<AppliedAdapter> adapters;  // none, on all tokens, from the reply on
  AppliedAdapter adapter;
  int threads = 1;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Context> context;
  std::string name;
};

// Alone, in company and after calls that were aborted.
void Company::replies() {
  const RolloutRequest request = drawnRequest();
  const auto all = generated(request);
  size_t samples = 0;
  for (const RolloutPrompt& prompt : request.prompts) samples += prompt.seeds.size();
  check(all.size() == samples, __LINE__, "samples are missing");
  RolloutRequest aborted = request;
  aborted.limits.maxTokens = 30;
  aborted.limits.ignoreEndOfSequence = true;
  aborted.cellBudget = kContext;
  CHECK_THROWS(generated(aborted, draw.below(4)), "ABORTED");
  // One prompt with some of its samples, or with one of them twice.
  const int of = draw.below(static_cast<int>(request.prompts.size()));
  const RolloutPrompt& prompt = request.prompts[static_cast<size_t>(of)];
  RolloutRequest fewer = request;
  fewer.prompts = {{prompt.tokens, {draw.of(prompt.seeds), draw.of(prompt.seeds)}}};
  drawRoom(fewer);
  for (const auto& [place, rollout] : generated(fewer)) {
    const auto sample =
        std::find(prompt.seeds.begin(), prompt.seeds.end(), rollout.seed) - prompt.seeds.begin();
    check(bitsOf(rollout) == bitsOf(all.at({of, static_cast<int>(sample)})), __LINE__,
          "other bits alone");
  }
  scores(request, all);
  oneSample(request);
}

void Company::scores(const RolloutRequest& request,
                     const std::map<std::pair<int, int>, Rollout>& all) {
  for (int p = 0; p < static_cast<int>(request.prompts.size()); ++p) {
    const RolloutPrompt& prompt = request.prompts[static_cast<size_t>(p)];
    std::vector<std::vector<Token>> continuations;
    for (int s = 0; s < static_cast<int>(prompt.seeds.size()); ++s)
      continuations.push_back(all.at({p, s}).tokens);
    const auto scored = scoreContinuations(*context, *pool, prompt.tokens, continuations,
                                           draw.of<int>({300, kContext}), false, -1, kNotStopped);
    for (int s = 0; s < static_cast<int>(prompt.seeds.size()); ++s) {
      check(scored[static_cast<size_t>(s)].logProbabilities == all.at({p, s}).logProbabilities,
            __LINE__, "other bits scored");
    }
  }
}

// A request for one: as it is scored a token a call, and as a batch that is deterministic runs it.
void Company::oneSample(const RolloutRequest& request) {
  const RolloutPrompt& prompt = draw.of(request.prompts);
  RolloutRequest one = request;
  one.prompts = {{prompt.tokens, {draw.of(prompt.seeds)}}};
  const Rollout rollout = generated(one).at({0, 0});
  const auto scored = scoreContinuations(*context, *pool, prompt.tokens, {rollout.tokens}, kContext,
                                         true, -1, kNotStopped);
  check(scored[0].logProbabilities == rollout.logProbabilities, __LINE__, "one, scored otherwise");
  Context other(model, threads, true);
  // The bits of a text do not depend on the room that others have.
  RunningBatch batch(other, *pool, {draw.of<int>({600, 2 * kContext}), 1, 0, true});
  BatchRequest joining;
  joining.prompt = prompt.tokens;
  joining.sampling = request.sampling;
  joining.seed = rollout.seed;
  joining.limits = request.limits;
  joining.adapter = adapter;
  joining.cancelled = std::make_shared<std::atomic<bool>>(false);
  batch.join(1, joining);
  for (int steps = 0; !batch.idle() && steps < 100; ++steps) {
    const StepReport report = batch.step(kNotStopped);
    CHECK(report.failed.empty());
    for (const FinishedReply& finished : report.finished)
      check(bitsOf(finished.reply) == bitsOf(rollout), __LINE__, "one, batched otherwise");
  }
}

// As the continuations of what stands before them, in whatever trees.
void Company::branches() {
  const std::vector<Token> trunk = drawnTokens(draw, draw.from(5, 90));
  std::vector<Branch> asked;
  for (int i = draw.from(1, 12); i > 0; --i) {
    Branch branch;
    branch.at = draw.from(1, static_cast<int>(trunk.size()));
    branch.tokens =
        draw.once(2) || asked.empty() ? drawnTokens(draw, draw.from(0, 6)) : draw.of(asked).tokens;
    branch.from = draw.from(0, static_cast<int>(branch.tokens.size()));
    asked.push_back(std::move(branch));
  }
  const BranchScores scores =
      scoreBranches(*context, *pool, trunk, asked, draw.of<int>({300, kContext}), kNotStopped);
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto& [at, tokens, from] = asked[i];
    const int begin = (at - 1) / kRowGroup * kRowGroup;
    if (begin == 0) continue;
    const auto place = [&](int token) { return trunk.begin() + token; };
    std::vector<Token> all(place(begin), place(at));
    all.insert(all.end(), tokens.begin(), tokens.end());
    const auto whole = scoreContinuations(*context, *pool, {place(0), place(begin)}, {all},
                                          kContext, false, -1, kNotStopped);
    const std::vector<float>& each = whole[0].logProbabilities;
    check(scores.scores[i].logProbabilities ==
              std::vector<float>(each.begin() + (at - begin + from), each.end()),
          __LINE__, "a branch is scored otherwise");
  }
}

// Requests with any adapter come, go and are cancelled: each is reported once. What a deterministic
// batch says is what generate says; in another a text's cells may lie in another order.
void Company::runningBatch() {
  BatchSettings settings;
  settings.deterministic = draw.once(2);
  settings.cells = draw.of<int>({300, 600, 1800});
  settings.maxSequences = draw.from(2, 6);
  settings.prefixTokens = draw.once(2) ? 0 : 200;
  if (settings.deterministic) settings.maxSequences = 1, settings.prefixTokens = 0;
  std::map<std::int64_t, BatchRequest> asked;
  std::map<std::int64_t, Reply> said;
  std::set<std::int64_t> ended;
  {
    Context other(model, threads, true);
    RunningBatch batch(other, *pool, settings);
    const int count = draw.from(3, 8);
    for (int step = 0; step < 400 && (step < 40 || !batch.idle()); ++step) {
      if (static_cast<int>(asked.size()) < count && !draw.once(3)) {
        const std::int64_t number = static_cast<std::int64_t>(asked.size());
        BatchRequest request;
        request.prompt = asked.empty() || draw.once(2) ? drawnPrompts(draw, 1).front()
                                                       : asked.at(draw.below(number)).prompt;
        request.sampling = drawnSampling(draw);
        request.seed = draw.random.nextUint64();
        request.limits.maxTokens = draw.from(1, 8);
        request.limits.ignoreEndOfSequence = draw.once(2);
        request.adapter = draw.of(adapters);
        request.streamed = draw.once(2);
        request.rank = draw.once(4) ? 1 : 0;
        request.cancelled = std::make_shared<std::atomic<bool>>(false);
        asked.emplace(number, request);
        batch.join(number, request);
      }
      if (!asked.empty() && draw.once(8))
        asked.at(draw.below(static_cast<int>(asked.size()))).cancelled->store(true);
      const StepReport report = batch.step(kNotStopped);
      for (const FinishedReply& finished : report.finished) {
        check(ended.insert(finished.request).second, __LINE__, "ended twice");
        said[finished.request] = finished.reply;
      }
      for (const FailedReply& failed : report.failed) {
        check(ended.insert(failed.request).second, __LINE__, "ended twice");
        CHECK_THROWS(std::rethrow_exception(failed.failure), "ABORTED");
        CHECK(asked.at(failed.request).cancelled->load());
      }
    }
    check(batch.idle() && ended.size() == asked.size(), __LINE__, "requests are left");
  }
  for (const auto& [number, reply] : said) {
    const BatchRequest& request = asked.at(number);
    context->setAdapter(request.adapter.adapter, request.adapter.scale);
    if (settings.deterministic) {
      RolloutRequest alone;
      alone.prompts = {{request.prompt, {request.seed}}};
      alone.sampling = request.sampling;
      alone.limits = request.limits;
      alone.cellBudget = kContext;
      check(bitsOf(reply) == bitsOf(generated(alone).at({0, 0})), __LINE__, "batched otherwise");
    }
  }
}

// Formats take turns, beginning with another one for each architecture.
void keepCompany(const std::string& architecture, int first, int number) {
  Company company(architecture, 1000 * first + number,
                  kTypes[static_cast<size_t>(first + number) % std::size(kTypes)]);
  for (const AppliedAdapter& adapter : company.adapters) {
    company.adapter = adapter;
    company.context->setAdapter(adapter.adapter, adapter.scale);
    company.replies();
    if (!adapter.activated()) company.branches();
  }
  company.runningBatch();
}

void keepCompany(const std::string& architecture, int first) {
  const int count = check::full() ? 170 : 1;
  for (int i = 0; i < count; ++i) keepCompany(architecture, first, i);
}

}  // namespace

TEST(company_of_llama) { keepCompany("llama", 0); }
TEST(company_of_qwen2) { keepCompany("qwen2", 1); }
TEST(company_of_qwen3) { keepCompany("qwen3", 2); }
TEST(company_of_gemma2) { keepCompany("gemma2", 3); }
TEST(company_of_gemma3) { keepCompany("gemma3", 4); }
TEST(company_of_smollm3) { keepCompany("smollm3", 5); }
TEST(company_of_granite) { keepCompany("granite", 6); }
TEST(company_of_mistral3) { keepCompany("mistral3", 7); }
TEST(company_of_olmo2) { keepCompany("olmo2", 8); }
TEST(company_of_phi3) { keepCompany("phi3", 9); }
TEST(company_of_qwen3moe) { keepCompany("qwen3moe", 10); }
TEST(company_of_gpt_oss) { keepCompany("gpt-oss", 11); }

// All live samples end in one call while their prompt waits for its other samples: the cells before
// it become free, and its next sample would take them.
TEST(company_of_a_prompt_whose_other_samples_wait) { keepCompany("smollm3", 5, 12); }

}  // namespace company
