#include "inference/rollouts.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "inference/boundary.h"
#include "support/error.h"

namespace isopro {
namespace {

constexpr int kMaxLive = kMaxSequences - 3;  // a prompt whose samples wait, the finished and the padding have ids too
constexpr int kMaxFinishedCells = 2048;      // every row of attention walks them: 10 % of the time of a model of 1 M parameters
constexpr std::int64_t kLeastCells = 8192;   // what a request may have, live or not

// One live sample.
struct LiveSample {
  Rollout rollout;
  std::unique_ptr<Sampler> sampler;
  llama_seq_id id = 0;
  int promptLength = 0;
  size_t searchedUpTo = 0;  // bytes of text that hold no stop string
  bool done = false;
  std::vector<std::uint16_t> sampledBoundary;
};

// A prompt whose cache is being built or that still has samples to start. It keeps a sequence id of its own, which its
// last sample takes over.
struct PromptGroup {
  int index = 0;
  llama_seq_id id = 0;
  int length = 0;     // tokens
  int evaluated = 0;  // tokens
  int samples = 0;
  int admitted = 0;  // samples that may start: each has its cells
  int started = 0;
  std::vector<float> logits;  // [vocabulary] after its last token
  std::vector<std::uint16_t> boundary;

  bool evaluatedWhole() const { return evaluated == length; }
};

class Scheduler {
 public:
  Scheduler(Context& context, ThreadPool& pool, const RolloutRequest& request, const RolloutEvents& events,
            const std::atomic<bool>& cancelled)
      : context_(context),
        pool_(pool),
        request_(request),
        events_(events),
        cancelled_(cancelled),
        model_(context.model()),
        capture_(context, request.boundary) {}

  void run();

 private:
  void check() const;
  std::int64_t cellsOfLive() const;
  void admit();
  void admitSamples(PromptGroup& group);
  void evaluatePrompts();
  void startSamples();
  void extendLive();
  void extend(const std::vector<LiveSample*>& sequences);
  void decode(StageTime& stage);
  void evictFinished();
  void startSample(PromptGroup& group);
  void sample(const std::vector<LiveSample*>& sequences, const std::vector<const float*>& rows);
  void retire();
  void deliver(LiveSample& sequence);

  const RolloutPrompt& promptOf(const PromptGroup& group) const { return request_.prompts[static_cast<size_t>(group.index)]; }

  Context& context_;
  ThreadPool& pool_;
  const RolloutRequest& request_;
  const RolloutEvents& events_;
  const std::atomic<bool>& cancelled_;
  const Model& model_;
  std::optional<Grammar> grammar_;
  BoundaryCapture capture_;
  DecodeBatch batch_;

  size_t nextPrompt_ = 0;
  // Cells of the request, those promised to no sequence, those in use, and those of them that only finished sequences hold.
  int cells_ = 0;
  int freeCells_ = 0;
  int occupiedCells_ = 0;
  int finishedCells_ = 0;
  llama_seq_id finishedId_ = 0;
  llama_seq_id paddingId_ = 0;
  CallPlan plan_;
  int freeSlots_ = 0;                  // samples that may still be live
  std::vector<llama_seq_id> freeIds_;  // one more than slots: a prompt whose samples wait holds one
  std::vector<int> unfinished_;        // per prompt: samples not yet finished
  std::deque<PromptGroup> groups_;
  std::deque<LiveSample> live_;
  RolloutProgress progress_;
};

void Scheduler::check() const {
  if (request_.boundary >= model_.layers()) {
    throw Error("INVALID_ARGUMENT", "boundary " + std::to_string(request_.boundary) + " is not below the model's " +
                                        std::to_string(model_.layers()) + " layers");
  }
  request_.limits.check(model_);
  for (size_t i = 0; i < request_.prompts.size(); ++i) {
    request_.limits.checkPrompt(model_, request_.prompts[i].tokens, "prompt " + std::to_string(i), request_.cellBudget);
  }
}

void Scheduler::run() {
  check();
  if (!request_.grammar.empty()) grammar_.emplace(model_.vocabulary(), request_.grammar);

  std::int64_t cells = 0;
  std::int64_t samples = 0;
  for (const auto& prompt : request_.prompts) {
    const auto count = static_cast<std::int64_t>(prompt.seeds.size());
    unfinished_.push_back(static_cast<int>(count));
    samples += count;
    cells += static_cast<std::int64_t>(prompt.tokens.size()) + count * request_.limits.maxTokens;
  }
  if (samples == 0) return;
  progress_.total = static_cast<int>(samples);
  freeSlots_ = static_cast<int>(std::min<std::int64_t>(std::clamp(request_.maxSequences, 1, kMaxLive), samples));
  plan_ = CallPlan::of(model_.usesGpu(), samples);
  freeCells_ = request_.cellBudget;
  for (int id = freeSlots_; id >= 0; --id) freeIds_.push_back(id);
  finishedId_ = freeSlots_ + 1;
  paddingId_ = freeSlots_ + 2;
  // Every row of attention walks the whole cache: one for hundreds of prompts would cost more time than the model.
  cells = std::min(cells, std::max(kLeastCells, cellsOfLive() + kMaxFinishedCells));
  cells_ = static_cast<int>(std::min<std::int64_t>(cells, request_.cellBudget)) + kRowGroup;
  const int groups = (freeSlots_ + kRowGroup - 1) / kRowGroup;
  context_.prepare({cells_, freeSlots_ + 3, plan_.batchInvariant ? std::min(kInvariantRows, groups * kRowGroup) : freeSlots_});

  try {
    while (progress_.finished < progress_.total) {
      admit();
      evaluatePrompts();
      startSamples();
      retire();
      extendLive();
      retire();
      progress_.live = static_cast<int>(live_.size());
      progress_.threads = context_.governor().threads();
      events_.progress(progress_);
    }
  } catch (const Error& error) {
    if (error.code() == "ABORTED") {
      for (LiveSample& sequence : live_) {
        sequence.rollout.finish = Finish::kAborted;
        deliver(sequence);
      }
    }
    throw;
  }
}

// The most that prompts and samples hold which are live together: each sample may have a prompt of its own, and one prompt waits.
std::int64_t Scheduler::cellsOfLive() const {
  std::vector<std::int64_t> lengths;
  for (const RolloutPrompt& prompt : request_.prompts) lengths.push_back(static_cast<std::int64_t>(prompt.tokens.size()));
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  lengths.resize(std::min(lengths.size(), static_cast<std::size_t>(freeSlots_) + 1));
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{freeSlots_} * request_.limits.maxTokens);
}

// First come, first served: a prompt enters when its cells and those of one sample are free; nothing overtakes a prompt
// whose samples still wait.
void Scheduler::admit() {
  if (!groups_.empty()) admitSamples(groups_.back());
  while (nextPrompt_ < request_.prompts.size()) {
    if (!groups_.empty() && groups_.back().admitted < groups_.back().samples) return;
    const RolloutPrompt& prompt = request_.prompts[nextPrompt_];
    PromptGroup group;
    group.index = static_cast<int>(nextPrompt_);
    group.length = static_cast<int>(prompt.tokens.size());
    group.samples = static_cast<int>(prompt.seeds.size());
    if (group.samples > 0) {
      if (freeSlots_ == 0 || group.length + request_.limits.maxTokens > freeCells_) return;
      freeCells_ -= group.length;
      admitSamples(group);
      group.id = freeIds_.back();
      freeIds_.pop_back();
      groups_.push_back(std::move(group));
    }
    ++nextPrompt_;
  }
}

void Scheduler::admitSamples(PromptGroup& group) {
  const int count = std::min({group.samples - group.admitted, freeSlots_, freeCells_ / request_.limits.maxTokens});
  group.admitted += count;
  freeSlots_ -= count;
  freeCells_ -= count * request_.limits.maxTokens;
}

// The rows of one llama_decode call are either tokens of one prompt or one token of every live sequence, never both:
// score() can only agree with generate() where both evaluate a prompt in the same pieces.
void Scheduler::evaluatePrompts() {
  for (PromptGroup& group : groups_) {
    while (!group.evaluatedWhole()) {
      batch_.clear();
      capture_.beginStep();
      while (!group.evaluatedWhole() && batch_.size() < plan_.promptRows) {
        const bool last = group.evaluated + 1 == group.length;
        batch_.add(promptOf(group).tokens[static_cast<size_t>(group.evaluated)], group.evaluated, group.id, last);
        capture_.expectRow(&group.boundary);
        ++group.evaluated;
      }
      decode(progress_.prefill);
      progress_.promptTokens += batch_.size();
    }
    if (group.logits.empty()) {
      const float* row = context_.logits(batch_.size() - 1);
      group.logits.assign(row, row + model_.vocabularySize());
    }
  }
}

// One token of every live sequence.
void Scheduler::extendLive() {
  std::vector<LiveSample*> sequences;
  for (LiveSample& sequence : live_) sequences.push_back(&sequence);
  while (!sequences.empty()) {
    const auto end = sequences.begin() + plan_.sampledRows(static_cast<int>(sequences.size()));
    const std::vector<LiveSample*> piece(sequences.begin(), end);
    sequences.erase(sequences.begin(), end);
    extend(piece);
  }
}

void Scheduler::extend(const std::vector<LiveSample*>& sequences) {
  batch_.clear();
  capture_.beginStep();
  for (LiveSample* sequence : sequences) {
    const auto& tokens = sequence->rollout.tokens;
    batch_.add(tokens.back(), sequence->promptLength + static_cast<int>(tokens.size()) - 1, sequence->id, true);
    capture_.expectRow(&sequence->sampledBoundary);
  }
  if (plan_.batchInvariant) batch_.pad(paddingId_);
  for (int i = 0; i < batch_.padding(); ++i) capture_.expectRow(nullptr);
  decode(progress_.decode);
  std::vector<const float*> rows;
  for (size_t i = 0; i < sequences.size(); ++i) rows.push_back(context_.logits(static_cast<int>(i)));
  sample(sequences, rows);
}

void Scheduler::decode(StageTime& stage) {
  const Timed timed(stage);
  if (occupiedCells_ + batch_.size() > cells_ || finishedCells_ > kMaxFinishedCells) evictFinished();
  try {
    context_.decode(batch_, cancelled_);
  } catch (const Error& error) {
    // A sliding window's cache is smaller than the one that is counted here.
    if (error.code() != "CONTEXT_OVERFLOW" || finishedCells_ == 0) throw;
    evictFinished();
    context_.decode(batch_, cancelled_);
  }
  occupiedCells_ += batch_.size() - batch_.padding();
  capture_.endStep();
}

// Frees the cells of finished sequences. Not at once: a sequence that continues in cells below its
// earlier ones has its attention summed in another order, and llama.cpp sums in f16.
void Scheduler::evictFinished() {
  if (finishedCells_ == 0) return;
  context_.removeSequence(finishedId_);
  occupiedCells_ -= finishedCells_;
  finishedCells_ = 0;
}

// Draws a token for each sequence from its row of logits [vocabulary].
void Scheduler::sample(const std::vector<LiveSample*>& sequences, const std::vector<const float*>& rows) {
  const Timed timed(progress_.draw);
  std::vector<Sampled> sampled(sequences.size());
  pool_.forEach(static_cast<int>(sequences.size()), context_.governor().threads(), [&](int i) {
    const auto index = static_cast<size_t>(i);
    sampled[index] = sequences[index]->sampler->next(rows[index]);
  });
  for (size_t i = 0; i < sampled.size(); ++i) {
    LiveSample& sequence = *sequences[i];
    sequence.done = request_.limits.accept(model_, sampled[i], sequence.rollout, sequence.searchedUpTo);
    ++progress_.sampledTokens;
  }
}

// Every admitted sample draws its first token from its prompt's one row of logits.
void Scheduler::startSamples() {
  for (PromptGroup& group : groups_) {
    const size_t first = live_.size();
    while (group.started < group.admitted) startSample(group);
    std::vector<LiveSample*> sequences;
    for (size_t i = first; i < live_.size(); ++i) sequences.push_back(&live_[i]);
    sample(sequences, std::vector<const float*>(sequences.size(), group.logits.data()));
  }
  while (!groups_.empty() && groups_.front().started == groups_.front().samples) groups_.pop_front();
}

void Scheduler::startSample(PromptGroup& group) {
  const RolloutPrompt& prompt = promptOf(group);
  LiveSample sequence;
  sequence.rollout.prompt = group.index;
  sequence.rollout.sample = group.started;
  sequence.rollout.seed = prompt.seeds[static_cast<size_t>(group.started)];
  sequence.rollout.boundary = group.boundary;
  sequence.promptLength = group.length;
  sequence.sampler = std::make_unique<Sampler>(model_.vocabularySize(), request_.sampling, sequence.rollout.seed,
                                               grammar_ ? &*grammar_ : nullptr, prompt.tokens);
  if (++group.started == group.samples) {
    sequence.id = group.id;
  } else {
    sequence.id = freeIds_.back();
    freeIds_.pop_back();
    context_.copySequence(group.id, sequence.id);
  }
  live_.push_back(std::move(sequence));
}

void Scheduler::retire() {
  for (LiveSample& sequence : live_) {
    if (!sequence.done) continue;
    context_.copySequence(sequence.id, finishedId_);
    context_.removeSequence(sequence.id);
    finishedCells_ += static_cast<int>(sequence.rollout.tokens.size()) - 1;  // the last token was never evaluated
    freeIds_.push_back(sequence.id);
    ++freeSlots_;
    freeCells_ += request_.limits.maxTokens;
    const auto prompt = static_cast<size_t>(sequence.rollout.prompt);
    if (--unfinished_[prompt] == 0) {
      freeCells_ += sequence.promptLength;
      finishedCells_ += sequence.promptLength;
    }
    ++progress_.finished;
    deliver(sequence);
  }
  live_.erase(std::remove_if(live_.begin(), live_.end(), [](const LiveSample& sequence) { return sequence.done; }), live_.end());
}

void Scheduler::deliver(LiveSample& sequence) {
  Rollout& rollout = sequence.rollout;
  rollout.boundary.insert(rollout.boundary.end(), sequence.sampledBoundary.begin(), sequence.sampledBoundary.end());
  events_.finished(std::move(rollout));
}

}  // namespace

void generateRollouts(Context& context, ThreadPool& pool, const RolloutRequest& request, const RolloutEvents& events,
                      const std::atomic<bool>& cancelled) {
  Scheduler(context, pool, request, events, cancelled).run();
}

}  // namespace isopro
