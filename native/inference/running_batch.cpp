#include "inference/running_batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/error.h"

namespace isopro {
namespace {

// Each kept sequence has an id, and llama.cpp a row of logits for each id.
constexpr int kMaxKept = 16;
// Full calls of prompts that a step makes at most where many wait: replies wait for them, but few
// replies a step would cost more.
constexpr int kMostPromptCalls = 4;
// What a reply is promised at least beyond what it has.
constexpr int kReplyCells = 256;

std::vector<llama_seq_id> idsFrom(int first, int count) {
  std::vector<llama_seq_id> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

int keptSequences(const BatchSettings& settings) {
  return settings.prefixTokens == 0
             ? 0
             : std::clamp(kMaxSequences - 1 - settings.maxSequences, 0, kMaxKept);
}

}  // namespace

Token RunningBatch::BatchRow::tokenAt(int position) const {
  const int length = promptLength();
  return position < length ? request.prompt[static_cast<size_t>(position)]
                           : reply.tokens[static_cast<size_t>(position - length)];
}

// In proportion to what it has said, so that a long reply seldom asks.
int RunningBatch::BatchRow::wantedCells() const {
  return std::min(mostCells(),
                  known() + std::max(kReplyCells, static_cast<int>(reply.tokens.size())));
}

RunningBatch::RunningBatch(Context& context, ThreadPool& pool, const BatchSettings& settings)
    : context_(context),
      pool_(pool),
      settings_(settingsOf(context.model(), settings)),
      model_(context.model()),
      plan_(CallPlan::of(model_.usesGpu(), std::max(2, settings_.maxSequences),
                         model_.evaluatesAlone())),
      promptRows_(settings_.deterministic || plan_.alone ? plan_.promptRows : kBatchTokens),
      paddingId_(settings_.maxSequences + keptSequences(settings_)),
      prefixes_(settings_.prefixTokens, idsFrom(settings_.maxSequences, keptSequences(settings_))),
      freeIds_(idsFrom(0, settings_.maxSequences)),
      rowAdapters_(pool, model_) {}

void RunningBatch::join(std::int64_t number, BatchRequest request) {
  request.limits.check(model_);
  request.limits.checkPrompt(model_, request.prompt, "the prompt", settings_.cells);
  checkBias(model_, request.sampling);
  context_.checkAdapter(request.adapter.adapter.get());
  BatchRow row;
  row.number = number;
  row.grammar = grammarOf(request.grammar);
  row.request = std::move(request);
  row.findActivation();
  enqueue(std::move(row));
}

void RunningBatch::enqueue(BatchRow&& row) {
  const auto place = std::upper_bound(queue_.begin(), queue_.end(), row, precedes);
  queue_.insert(place, std::move(row));
}

// Requests with the same grammar share what was found out about it.
std::shared_ptr<const Grammar> RunningBatch::grammarOf(const std::string& gbnf) {
  if (gbnf.empty()) return nullptr;
  for (auto known = grammars_.begin(); known != grammars_.end();)
    known = known->second.expired() ? grammars_.erase(known) : std::next(known);
  const auto known = grammars_.find(gbnf);
  if (known != grammars_.end()) {
    if (auto grammar = known->second.lock()) return grammar;
  }
  const auto grammar = std::make_shared<const Grammar>(model_.vocabulary(), gbnf);
  grammars_[gbnf] = grammar;
  return grammar;
}

StepReport RunningBatch::step(const std::atomic<bool>& stopped) {
  StepReport report;
  dropCancelled(report);
  try {
    do admit(report);
    while (!promiseMore());
    std::vector<BatchRow*> left;
    for (BatchRow& row : rows_) left.push_back(&row);
    if (own_.live > 0 && !plan_.alone) closeGaps();
    const auto prompts = std::count_if(rows_.begin(), rows_.end(),
                                       [](const BatchRow& row) { return row.isPrompt(); });
    int promptTokens = promptRows_ * std::clamp(static_cast<int>(prompts), 1, kMostPromptCalls);
    // Keys and values do not know which adapter made them: calls of one step may have several.
    while (!left.empty()) {
      const AppliedAdapter adapter = callAdapter(*left.front());
      const auto others = std::stable_partition(left.begin(), left.end(), [&](const BatchRow* row) {
        return callAdapter(*row) == adapter;
      });
      const std::vector<BatchRow*> rows(left.begin(), others);
      left.erase(left.begin(), others);
      context_.setAdapter(adapter.adapter, adapter.scale);
      bool room = true;
      const auto calls = own_.live > 0 ? ownCallsOf(rows, promptTokens) : callsOf(rows);
      for (const SharedCall& call : calls) room = room && evaluate(call, stopped, report);
      if (!room) break;
    }
    retire(report);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::aborted) {
      failRunning(std::current_exception(), report);
    } else {
      StepReport all = fail(std::current_exception());
      report.failed.insert(report.failed.end(), all.failed.begin(), all.failed.end());
    }
  } catch (...) {
    failRunning(std::current_exception(), report);
  }
  if (rows_.empty()) forgetAdapter();
  return report;
}

AppliedAdapter RunningBatch::callAdapter(const BatchRow& row) const {
  const AppliedAdapter& adapter = row.request.adapter;
  const bool beside =
      adapter.activated() || (!settings_.deterministic && RowAdapters::takes(model_, adapter));
  return beside ? AppliedAdapter{} : row.request.adapter;
}

// An adapter that no reply needs is not held any longer than its owner holds it.
void RunningBatch::forgetAdapter() {
  rowAdapters_.clear();
  try {
    context_.setAdapter(nullptr, 1.0f);
  } catch (...) {
    prefixes_.clear();  // the context was given up
  }
}

StepReport RunningBatch::fail(std::exception_ptr failure) {
  StepReport report;
  failRunning(failure, report);
  for (const BatchRow& row : queue_) report.failed.push_back({row.number, failure});
  queue_.clear();
  return report;
}

// What the cache holds then is not known: the next request begins with an empty one.
void RunningBatch::failRunning(std::exception_ptr failure, StepReport& report) {
  for (BatchRow& row : rows_) {
    report.failed.push_back({row.number, row.failure == nullptr ? failure : row.failure});
    promised_ -= row.promised;
    if (own_.live == 0) freeIds_.push_back(row.sequence);
  }
  rows_.clear();
  prefixes_.clear();
}

void RunningBatch::dropCancelled(StepReport& report) {
  const auto cancelled = [&](const BatchRow& row) {
    if (!row.request.cancelled->load(std::memory_order_relaxed)) return false;
    report.failed.push_back({row.number, std::make_exception_ptr(Error(
                                             ErrorCode::aborted, "the request was cancelled"))});
    return true;
  };
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(), cancelled), queue_.end());
  rows_.remove_if([&](BatchRow& row) {
    if (!cancelled(row)) return false;
    letGo(row);
    return true;
  });
}

void RunningBatch::admit(StepReport& report) {
  while (!queue_.empty()) {
    if (rows_.empty() && prefixes_.empty()) {
      try {
        shapeCache();
      } catch (...) {
        report.failed.push_back({queue_.front().number, std::current_exception()});
        queue_.pop_front();
        continue;
      }
    }
    if (rows_.size() >= static_cast<size_t>(settings_.maxSequences) || !makeRoom(queue_.front())) {
      if (rows_.empty() || rows_.back().request.rank <= queue_.front().request.rank) return;
      pauseLast();
      continue;
    }
    if (queue_.front().wantedCells() > own_.cells && own_.live > 0) {
      pauseAll();
      continue;
    }
    const auto place = std::upper_bound(rows_.begin(), rows_.end(), queue_.front(), precedes);
    const auto row = rows_.insert(place, std::move(queue_.front()));
    queue_.pop_front();
    start(*row);
  }
}

// Empty, so that a request that runs alone finds the cells of a fresh context. Where caches that
// are too small for one that runs or waits were just given up, the next are twice as long, so that
// this is seldom.
void RunningBatch::shapeCache() {
  const int outgrown = std::exchange(outgrown_, 0);
  own_ = {};
  if (plan_.alone ||
      (settings_.prefixTokens == 0 && plan_.batchInvariant && settings_.maxSequences > 1)) {
    int needed = std::max(settings_.cells / settings_.maxSequences, 2 * outgrown);
    for (const BatchRow& row : queue_) needed = std::max(needed, row.wantedCells());
    const int cells = roundedUp(needed, kCellGroup);
    const int live =
        std::min(settings_.maxSequences, roundedUp(settings_.cells, kCellGroup) / cells);
    if (plan_.alone || live >= std::min(kRowGroup, settings_.maxSequences))
      own_ = {live, plan_.alone ? live : roundedUp(live, kRowGroup), cells};
  }
  if (own_.live > 0) {
    context_.prepare(
        {own_.cells, own_.slots, std::min(kInvariantRows, own_.slots), CellOwner::kEach});
  } else {
    context_.prepare(
        {settings_.cells + kRowGroup, paddingId_ + 1, settings_.maxSequences + kRowGroup - 1});
  }
}

// Kept prefixes make room for a request; the one that it begins with goes last.
bool RunningBatch::makeRoom(const BatchRow& row) {
  if (own_.live > 0) return rows_.size() < static_cast<size_t>(own_.live);
  const auto fits = [&] {
    return promised_ + prefixes_.tokens() + row.wantedCells() <= settings_.cells;
  };
  if (promised_ + row.wantedCells() > settings_.cells) return false;
  prefixes_.find(prefixAdapter(row), row.request.prompt, row.request.cachePartition);
  while (!fits()) context_.removeSequence(prefixes_.dropOldest());
  return true;
}

void RunningBatch::start(BatchRow& row) {
  row.promised = own_.live > 0 ? own_.cells : row.wantedCells();
  promised_ += row.promised;
  const BatchRequest& request = row.request;
  if (row.sampler == nullptr) {
    row.sampler = std::make_unique<Sampler>(model_.vocabularySize(), request.sampling, request.seed,
                                            row.grammar.get(), request.prompt,
                                            request.limits.heldBack(model_));
  }
  if (own_.live > 0) return;  // a slot when its prompt's turn comes
  row.sequence = freeIds_.back();
  freeIds_.pop_back();
  const auto prefix = prefixes_.find(prefixAdapter(row), request.prompt, request.cachePartition);
  if (!prefix) return;
  row.evaluated = prefixLength(row, prefix->length);
  context_.copySequence(prefix->sequence, row.sequence, row.evaluated);
  if (row.reply.tokens.empty()) row.reused = row.evaluated;
}

void RunningBatch::pauseLast() {
  BatchRow& row = rows_.back();
  letGo(row);
  row.sequence = -1;
  row.evaluated = 0;
  enqueue(std::move(row));
  rows_.pop_back();
}

void RunningBatch::pauseAll() {
  outgrown_ = own_.cells;
  while (!rows_.empty()) pauseLast();
}

// Cells for those that have used what they were promised, the first first; it finds them in the
// end, since each fits when it is alone. False where all were paused: caches of their own are too
// small for one of them.
bool RunningBatch::promiseMore() {
  for (auto row = rows_.begin(); row != rows_.end(); ++row) {
    if (row->known() <= row->promised) continue;
    if (own_.live > 0) {
      pauseAll();
      return false;
    }
    const int more = row->wantedCells() - row->promised;
    while (promised_ + prefixes_.tokens() + more > settings_.cells) {
      if (!prefixes_.empty()) {
        context_.removeSequence(prefixes_.dropOldest());
        continue;
      }
      const bool itself = std::next(row) == rows_.end();
      pauseLast();
      if (itself) return true;
    }
    row->promised += more;
    promised_ += more;
  }
  return true;
}

// False where the cache had no room, which ended the request that came last.
bool RunningBatch::evaluate(const SharedCall& call, const std::atomic<bool>& stopped,
                            StepReport& report) {
  batch_.clear();
  std::vector<BatchRow*> sampled;
  std::vector<int> outputs;
  const auto padded = std::find_if(call.begin(), call.end(),
                                   [](const RowShare& share) { return share.row != nullptr; });
  for (const auto& [row, tokens, padding] : call) {
    if (row == nullptr) {
      batch_.addPadding(padded->row->tokenAt(0), padding);
      continue;
    }
    for (int position = row->evaluated; position < row->evaluated + tokens; ++position) {
      batch_.add(row->tokenAt(position), position, row->sequence, position + 1 == row->known());
    }
    if (row->evaluated + tokens < row->known()) continue;
    sampled.push_back(row);
    outputs.push_back(batch_.size() - 1);
  }
  if (plan_.batchInvariant && own_.live == 0 && call.size() > 1) batch_.pad(paddingId_);
  if (!decode(call, stopped)) return false;
  for (const auto& [row, tokens, padding] : call) {
    if (row != nullptr) row->evaluated += tokens;
  }
  std::vector<const float*> logits;
  for (const int output : outputs) logits.push_back(context_.logits(output));
  sample(sampled, logits, report);
  return true;
}

bool RunningBatch::decode(const SharedCall& call, const std::atomic<bool>& stopped) {
  rowAdapters_.clear();
  for (const auto& [row, tokens, padding] : call) {
    const bool beside = row != nullptr && !(callAdapter(*row) == row->request.adapter);
    for (int i = 0; i < tokens; ++i) {
      const bool acts = beside && row->evaluated + i >= row->activation;
      rowAdapters_.add(acts ? row->request.adapter : AppliedAdapter{},
                       batch_.output(rowAdapters_.rows()));
    }
  }
  while (rowAdapters_.rows() < batch_.size()) rowAdapters_.add({}, true);
  for (;;) {
    try {
      if (rowAdapters_.none()) {
        context_.decode(batch_, stopped);
      } else {
        const Observation observation(context_,
                                      rowAdapters_.observer(context_.governor().threads()));
        context_.decode(batch_, stopped);
        rowAdapters_.check();
      }
      return true;
    } catch (const Error& error) {
      // A sliding window's cache is smaller than the one that is counted here.
      if (error.code() != ErrorCode::contextOverflow) throw;
      if (prefixes_.empty()) {
        rows_.back().failure = std::current_exception();
        rows_.back().done = true;
        return false;
      }
      context_.removeSequence(prefixes_.dropOldest());
    }
  }
}

void RunningBatch::sample(const std::vector<BatchRow*>& rows,
                          const std::vector<const float*>& logits, StepReport& report) {
  std::vector<Sampled> sampled(rows.size());
  pool_.forEach(static_cast<int>(rows.size()), context_.governor().threads(), [&](int i) {
    const auto index = static_cast<size_t>(i);
    try {
      sampled[index] = rows[index]->sampler->next(logits[index]);
    } catch (...) {
      rows[index]->failure = std::current_exception();
    }
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    BatchRow& row = *rows[i];
    row.done = row.failure != nullptr ||
               row.request.limits.accept(model_, sampled[i], row.reply, row.searched);
    if (row.failure != nullptr || !row.request.streamed) continue;
    const std::string& text = row.reply.text;
    const size_t end =
        row.done ? text.size() : std::max(row.streamed, row.request.limits.settled(text));
    report.tokens.push_back({row.number, sampled[i].token, sampled[i].logProbability,
                             sampled[i].sampledLogProbability, std::move(sampled[i].top),
                             text.substr(row.streamed, end - row.streamed)});
    row.streamed = end;
  }
}

void RunningBatch::retire(StepReport& report) {
  rows_.remove_if([&](BatchRow& row) {
    if (!row.done) return false;
    if (row.failure == nullptr) keep(row);
    letGo(row);
    if (row.failure != nullptr) {
      report.failed.push_back({row.number, row.failure});
    } else {
      report.finished.push_back({row.number, std::move(row.reply), row.reused});
    }
    return true;
  });
}

// The last token of a reply was never evaluated.
void RunningBatch::keep(const BatchRow& row) {
  if (settings_.prefixTokens == 0 || !context_.holdsBeginning(row.sequence)) return;
  std::vector<Token> tokens = row.request.prompt;
  tokens.insert(tokens.end(), row.reply.tokens.begin(), row.reply.tokens.end());
  tokens.resize(static_cast<size_t>(prefixLength(row, row.evaluated)));
  const auto evict = [&](llama_seq_id id) { context_.removeSequence(id); };
  const auto kept =
      prefixes_.keep(prefixAdapter(row), std::move(tokens), evict, row.request.cachePartition);
  if (kept) context_.copySequence(row.sequence, kept->sequence, kept->length);
}

void RunningBatch::letGo(BatchRow& row) {
  if (row.sequence >= 0) context_.removeSequence(row.sequence);
  if (own_.live == 0) freeIds_.push_back(row.sequence);
  promised_ -= row.promised;
}

}  // namespace isopro
