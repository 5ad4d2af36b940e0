#include "inference/rollouts.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "inference/boundary.h"
#include "inference/frame.h"
#include "inference/live_sample.h"
#include "inference/row_adapters.h"
#include "support/error.h"

namespace isopro {
namespace {

class Scheduler {
 public:
  Scheduler(Context& context, ThreadPool& pool, const RolloutRequest& request,
            const RolloutEvents& events, const std::atomic<bool>& cancelled)
      : context_(context),
        pool_(pool),
        request_(request),
        events_(events),
        cancelled_(cancelled),
        model_(context.model()),
        capture_(context, request.boundary),
        activated_(context, pool) {}

  void run();

 private:
  void check() const;
  void shapeCache();
  bool haveFrame() const;
  void startSamples();
  bool nextPrompt();
  void evaluatePrompt();
  size_t takeFrame(const std::vector<Token>& tokens);
  void keepFrame(std::vector<Token> tokens);
  void startSample();
  void extendLive();
  void closeHoles();
  void closeGaps();
  void extend(const std::vector<LiveSample*>& rows, llama_seq_id first);
  void decode(StageTime& stage);
  void sample(const std::vector<LiveSample*>& sequences, const std::vector<const float*>& rows);
  void retire();
  void deliver(LiveSample& sequence);

  const RolloutPrompt& promptOf(const PromptGroup& group) const {
    return request_.prompts[static_cast<size_t>(group.index)];
  }

  Context& context_;
  ThreadPool& pool_;
  const RolloutRequest& request_;
  const RolloutEvents& events_;
  const std::atomic<bool>& cancelled_;
  const Model& model_;
  std::optional<Grammar> grammar_;
  HeldBack heldBack_;
  BoundaryCapture capture_;
  ActivatedRows activated_;
  DecodeBatch batch_;

  CallPlan plan_;
  int rowGroup_ = 1;                                // rows of a call come in multiples of this
  bool apart_ = true;                               // each sample has a cache of its own
  llama_seq_id promptId_ = 0;                       // of the prompt that several samples share
  std::vector<const std::vector<Token>*> prompts_;  // that have samples, in their order
  size_t evaluatedPrompts_ = 0;                     // of these
  bool framed_ = false;                             // whether a frame is kept
  llama_seq_id frameId_ = 0;
  Frame frame_;
  std::set<llama_seq_id> freeIds_;  // of samples that may still be live
  size_t nextPrompt_ = 0;
  std::optional<PromptGroup> group_;
  std::deque<LiveSample> live_;
  RolloutProgress progress_;
};

void Scheduler::check() const {
  if (request_.boundary >= model_.layers()) {
    throw Error(ErrorCode::invalidArgument, "boundary " + std::to_string(request_.boundary) +
                                                " is not below the model's " +
                                                std::to_string(model_.layers()) + " layers");
  }
  request_.limits.check(model_);
  checkBias(model_, request_.sampling);
  for (size_t i = 0; i < request_.prompts.size(); ++i) {
    request_.limits.checkPrompt(model_, request_.prompts[i].tokens, "prompt " + std::to_string(i),
                                request_.cellBudget);
  }
}

void Scheduler::run() {
  check();
  if (!request_.grammar.empty()) grammar_.emplace(model_.vocabulary(), request_.grammar);
  heldBack_ = request_.limits.heldBack(model_);
  for (const auto& prompt : request_.prompts)
    progress_.total += static_cast<int>(prompt.seeds.size());
  if (progress_.total == 0) return;
  shapeCache();

  try {
    while (progress_.finished < progress_.total) {
      startSamples();
      retire();
      extendLive();
      retire();
      progress_.live = static_cast<int>(live_.size());
      progress_.threads = context_.governor().threads();
      events_.progress(progress_);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::aborted) {
      for (LiveSample& sequence : live_) {
        sequence.rollout.finish = Finish::kAborted;
        deliver(sequence);
      }
    }
    throw;
  }
}

// As many samples live as have caches of their own within the budget, beside that of a frame where
// one is worth it. Where not even the smallest call has, as many as fit share one cache with a
// prompt and the rows that pad: attention takes a sequence's cells in the order in which they lie
// there and passes over those of others, so that its rows have the values that they would have in a
// cache of their own as long as that order is the text's.
void Scheduler::shapeCache() {
  size_t longest = 0;
  bool shared = false;
  for (const RolloutPrompt& prompt : request_.prompts) {
    if (prompt.seeds.empty()) continue;
    prompts_.push_back(&prompt.tokens);
    longest = std::max(longest, prompt.tokens.size());
    shared = shared || (prompt.seeds.size() > 1 && !model_.evaluatesAlone());
  }
  const int cells = static_cast<int>(longest) + request_.limits.maxTokens;
  plan_ = CallPlan::of(model_.usesGpu(), progress_.total, model_.evaluatesAlone());
  rowGroup_ = plan_.batchInvariant ? kRowGroup : 1;
  const auto sequences = [&](int live) {
    return roundedUp(live, rowGroup_) + (shared ? 1 : 0) + (framed_ ? 1 : 0);
  };
  const auto fits = [&](int live) {
    return sequences(live) <= kMaxSequences &&
           std::int64_t{sequences(live)} * roundedUp(cells, kCellGroup) <
               std::int64_t{request_.cellBudget} + kCellGroup;
  };
  const int asked = plan_.alone ? 1 : std::clamp(request_.maxSequences, 1, kMaxSequences);
  const int most = std::min(asked, progress_.total);
  framed_ = plan_.batchInvariant && haveFrame();
  if (framed_ && !fits(std::min(most, rowGroup_))) framed_ = false;
  int slots = most;
  while (slots > 1 && !fits(slots)) --slots;
  apart_ = fits(slots);
  if (!apart_) {
    slots = std::clamp((request_.cellBudget - (shared ? static_cast<int>(longest) : 0)) / cells, 1,
                       most);
    while (sequences(slots) > kMaxSequences) --slots;
  }
  const int rows =
      plan_.batchInvariant ? std::min(kInvariantRows, roundedUp(slots, rowGroup_)) : slots;
  if (apart_) {
    context_.prepare({cells, sequences(slots), rows, CellOwner::kEach});
  } else {
    const int prompt =
        shared && slots > 1 ? static_cast<int>(longest) : 0;  // until its last sample has started
    context_.prepare({cells * slots + prompt + kRowGroup, sequences(slots), rows, CellOwner::kAll});
  }
  promptId_ = roundedUp(slots, rowGroup_);
  frameId_ = sequences(slots) - 1;
  for (int id = 0; id < slots; ++id) freeIds_.insert(id);
}

// Whether the prompts have so much in common that it is worth a copy each and the cache.
bool Scheduler::haveFrame() const {
  std::size_t common = 0, all = 0;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    common += static_cast<std::size_t>(commonBeginning(prompts_, i, rowGroup_));
    all += prompts_[i]->size();
  }
  return common * 8 >= all;
}

// First come, first served: a prompt is evaluated when one of its samples can start; nothing
// overtakes one whose samples wait.
void Scheduler::startSamples() {
  while (!freeIds_.empty() && (group_ || nextPrompt())) {
    const size_t first = live_.size();
    if (plan_.alone && group_->started > 0) evaluatePrompt();  // for this sample, too
    while (group_->started < group_->samples && !freeIds_.empty()) startSample();
    std::vector<LiveSample*> sequences;
    for (size_t i = first; i < live_.size(); ++i) sequences.push_back(&live_[i]);
    sample(sequences, std::vector<const float*>(sequences.size(), group_->logits.data()));
    for (const LiveSample* sequence : sequences) {
      if (group_->id == promptId_ && !sequence->done)
        context_.copySequence(promptId_, sequence->id);
    }
    if (group_->started < group_->samples) return;
    if (group_->id == promptId_) {
      context_.removeSequence(promptId_);
      const auto holdsPrompt = [&](const LiveSample& sequence) {
        return sequence.rollout.prompt == group_->index && !sequence.done;
      };
      if (std::none_of(live_.begin(), live_.end(), holdsPrompt)) closeHoles();
    }
    group_.reset();
  }
}

bool Scheduler::nextPrompt() {
  while (nextPrompt_ < request_.prompts.size() && request_.prompts[nextPrompt_].seeds.empty())
    ++nextPrompt_;
  if (nextPrompt_ == request_.prompts.size()) return false;
  group_.emplace();
  group_->index = static_cast<int>(nextPrompt_++);
  group_->activation = activated_.activationIn(promptOf(*group_).tokens);
  group_->samples = static_cast<int>(promptOf(*group_).seeds.size());
  group_->id = group_->samples > 1 && !plan_.alone ? promptId_ : *freeIds_.begin();
  evaluatePrompt();
  return true;
}

// The rows of one llama_decode call are either tokens of one prompt or one token of every live
// sequence, never both: score() can only agree with generate() where both evaluate a prompt in the
// same pieces. A piece that a frame divides has the same values in its parts.
void Scheduler::evaluatePrompt() {
  const std::vector<Token>& tokens = promptOf(*group_).tokens;
  group_->boundary.clear();
  size_t evaluated = takeFrame(tokens);
  const int common = framed_ ? commonBeginning(prompts_, evaluatedPrompts_, rowGroup_) : 0;
  const auto kept =
      static_cast<size_t>(std::min(common, group_->framed(rowGroup_, activated_.any())));
  const auto most = static_cast<size_t>(plan_.promptRows);
  while (evaluated < tokens.size()) {
    size_t end = std::min(tokens.size(), (evaluated / most + 1) * most);
    if (evaluated < kept) end = std::min(end, kept);
    batch_.clear();
    capture_.beginStep();
    activated_.clear();
    for (; evaluated < end; ++evaluated) {
      const bool last = evaluated + 1 == tokens.size();
      batch_.add(tokens[evaluated], static_cast<llama_pos>(evaluated), group_->id, last);
      activated_.add(static_cast<int>(evaluated) >= group_->activation, last);
      capture_.expectRow(&group_->boundary);
    }
    decode(progress_.prefill);
    progress_.promptTokens += batch_.size();
    if (evaluated == kept)
      keepFrame({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept)});
  }
  ++evaluatedPrompts_;
  const float* row = context_.logits(batch_.size() - 1);
  group_->logits.assign(row, row + model_.vocabularySize());
}

// How many of its tokens the prompt under way need not evaluate.
size_t Scheduler::takeFrame(const std::vector<Token>& tokens) {
  const int shared = frame_.sharedWith(tokens, rowGroup_);
  if (shared == 0 || shared > group_->framed(rowGroup_, activated_.any())) return 0;
  context_.copySequence(frameId_, group_->id);
  group_->boundary = frame_.boundary;
  return static_cast<size_t>(shared);
}

// For the prompts that follow the one under way, of which these tokens are evaluated.
void Scheduler::keepFrame(std::vector<Token> tokens) {
  if (!frame_.tokens.empty()) context_.removeSequence(frameId_);
  context_.copySequence(group_->id, frameId_);
  frame_ = {std::move(tokens), group_->boundary};
}

// One token of every live sequence.
void Scheduler::extendLive() {
  if (live_.empty()) return;
  closeGaps();
  std::vector<LiveSample*> rows;
  for (LiveSample& sequence : live_) {
    rows.resize(std::max(rows.size(), static_cast<size_t>(sequence.id) + 1));
    rows[static_cast<size_t>(sequence.id)] = &sequence;
  }
  for (size_t begin = 0; begin < rows.size();) {
    const size_t end =
        begin + static_cast<size_t>(plan_.sampledRows(static_cast<int>(rows.size() - begin)));
    extend({rows.begin() + static_cast<std::ptrdiff_t>(begin),
            rows.begin() + static_cast<std::ptrdiff_t>(end)},
           static_cast<llama_seq_id>(begin));
    begin = end;
  }
}

// After cells were freed: one cache for all gives the next token the first that is free, which may
// lie before those of the text that it goes on. A prompt whose other samples have yet to start is
// such a text, too, when nothing else is left.
void Scheduler::closeHoles() {
  if (apart_) return;
  for (const LiveSample& sequence : live_) {
    if (!sequence.done) context_.moveDown(sequence.id);
  }
  if (group_ && group_->started < group_->samples) context_.moveDown(promptId_);
}

// A call has a row of every sequence between its first and its last: those that live move together,
// to no more gaps than rows that would pad.
void Scheduler::closeGaps() {
  const int span = roundedUp(static_cast<int>(live_.size()), rowGroup_);
  for (LiveSample& sequence : live_) {
    if (sequence.id < span) continue;
    const llama_seq_id id = *freeIds_.begin();
    freeIds_.erase(freeIds_.begin());
    context_.copySequence(sequence.id, id);
    context_.removeSequence(sequence.id);
    freeIds_.insert(sequence.id);
    sequence.id = id;
  }
}

// A token each of sequences whose ids follow each other; null: nobody's, and empty.
void Scheduler::extend(const std::vector<LiveSample*>& rows, llama_seq_id first) {
  batch_.clear();
  capture_.beginStep();
  activated_.clear();
  std::vector<LiveSample*> sequences;
  std::vector<int> outputs;
  const int size = roundedUp(static_cast<int>(rows.size()), rowGroup_);
  for (int i = 0; i < size; ++i) {
    LiveSample* sequence =
        i < static_cast<int>(rows.size()) ? rows[static_cast<size_t>(i)] : nullptr;
    capture_.expectRow(sequence == nullptr ? nullptr : &sequence->sampledBoundary);
    activated_.add(sequence != nullptr && sequence->activated, true);
    if (sequence == nullptr) {
      batch_.addPadding(live_.front().rollout.tokens.back(), first + i);
      continue;
    }
    const auto& tokens = sequence->rollout.tokens;
    batch_.add(tokens.back(), sequence->promptLength + static_cast<int>(tokens.size()) - 1,
               sequence->id, true);
    sequences.push_back(sequence);
    outputs.push_back(i);
  }
  decode(progress_.decode);
  std::vector<const float*> logits;
  for (const int output : outputs) logits.push_back(context_.logits(output));
  sample(sequences, logits);
}

void Scheduler::decode(StageTime& stage) {
  const Timed timed(stage);
  activated_.decode(batch_, cancelled_, capture_.observer());
  capture_.endStep();
}

// Draws a token for each sequence from its row of logits [vocabulary].
void Scheduler::sample(const std::vector<LiveSample*>& sequences,
                       const std::vector<const float*>& rows) {
  const Timed timed(progress_.draw);
  std::vector<Sampled> sampled(sequences.size());
  pool_.forEach(static_cast<int>(sequences.size()), context_.governor().threads(), [&](int i) {
    const auto index = static_cast<size_t>(i);
    sampled[index] = sequences[index]->sampler->next(rows[index]);
  });
  for (size_t i = 0; i < sampled.size(); ++i) {
    LiveSample& sequence = *sequences[i];
    sequence.done =
        request_.limits.accept(model_, sampled[i], sequence.rollout, sequence.searchedUpTo);
    ++progress_.sampledTokens;
  }
}

void Scheduler::startSample() {
  const RolloutPrompt& prompt = promptOf(*group_);
  LiveSample sequence;
  sequence.rollout.prompt = group_->index;
  sequence.rollout.sample = group_->started;
  sequence.rollout.seed = prompt.seeds[static_cast<size_t>(group_->started++)];
  sequence.rollout.boundary = group_->boundary;
  sequence.promptLength = static_cast<int>(prompt.tokens.size());
  sequence.activated = group_->activation != Adapter::kNever;
  sequence.rollout.notActivated = !sequence.activated;
  sequence.sampler =
      std::make_unique<Sampler>(model_.vocabularySize(), request_.sampling, sequence.rollout.seed,
                                grammar_ ? &*grammar_ : nullptr, prompt.tokens, heldBack_);
  sequence.id = *freeIds_.begin();
  freeIds_.erase(freeIds_.begin());
  live_.push_back(std::move(sequence));
}

void Scheduler::retire() {
  for (LiveSample& sequence : live_) {
    if (!sequence.done) continue;
    context_.removeSequence(sequence.id);
    freeIds_.insert(sequence.id);
    ++progress_.finished;
    deliver(sequence);
  }
  const size_t before = live_.size();
  live_.erase(std::remove_if(live_.begin(), live_.end(),
                             [](const LiveSample& sequence) { return sequence.done; }),
              live_.end());
  if (live_.size() < before) closeHoles();
}

void Scheduler::deliver(LiveSample& sequence) {
  Rollout& rollout = sequence.rollout;
  rollout.boundary.insert(rollout.boundary.end(), sequence.sampledBoundary.begin(),
                          sequence.sampledBoundary.end());
  events_.finished(std::move(rollout));
}

}  // namespace

void generateRollouts(Context& context, ThreadPool& pool, const RolloutRequest& request,
                      const RolloutEvents& events, const std::atomic<bool>& cancelled) {
  Scheduler(context, pool, request, events, cancelled).run();
}

}  // namespace isopro
