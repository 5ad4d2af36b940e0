// Which rows of a running batch share a call of llama.cpp, in one cache and in caches of their own.
#include <algorithm>
#include <utility>

#include "inference/running_batch.h"

namespace isopro {
namespace {

// A call with fewer rows left is not filled with a prompt's tokens; they have a call of their own.
constexpr int kLeastPromptRows = 16;

}  // namespace

// What a model that evaluates each sample by itself keeps of a prompt is of no use to another.
BatchSettings RunningBatch::settingsOf(const Model& model, BatchSettings settings) {
  if (!model.evaluatesAlone()) return settings;
  settings.prefixTokens = 0;
  settings.maxSequences = std::min(settings.maxSequences, sequencesWithState(model.stateBytes()));
  return settings;
}

// One token of each reply that runs, then tokens of prompts: as many as the last call has room for,
// or one call of them.
std::vector<RunningBatch::SharedCall> RunningBatch::callsOf(
    const std::vector<BatchRow*>& rows) const {
  std::vector<BatchRow*> replies;
  std::vector<BatchRow*> prompts;
  for (BatchRow* row : rows) (row->isPrompt() ? prompts : replies).push_back(row);
  std::vector<SharedCall> calls;
  int room = 0;
  for (size_t begin = 0; begin < replies.size();) {
    const int count =
        std::min(plan_.sampledRows(static_cast<int>(replies.size() - begin)), kBatchTokens);
    calls.emplace_back();
    for (int i = 0; i < count; ++i) calls.back().push_back({replies[begin++], 1});
    room = promptRows_ - count;
  }
  if (prompts.empty()) return calls;
  if (calls.empty() || room < kLeastPromptRows) {
    calls.emplace_back();
    room = promptRows_;
  }
  for (BatchRow* row : prompts) {
    const int tokens = std::min(room, row->known() - row->evaluated);
    if (tokens > 0) calls.back().push_back({row, tokens});
    room -= tokens;
  }
  return calls;
}

std::vector<bool> RunningBatch::takenSlots() const {
  std::vector<bool> taken(static_cast<size_t>(own_.slots), false);
  for (const BatchRow& row : rows_) {
    if (row.sequence >= 0) taken[static_cast<size_t>(row.sequence)] = true;
  }
  return taken;
}

void RunningBatch::move(BatchRow& row, llama_seq_id to) {
  context_.copySequence(row.sequence, to);
  context_.removeSequence(row.sequence);
  row.sequence = to;
}

// llama.cpp evaluates rows of caches of their own in one graph where their ids follow each other:
// the replies of an adapter move together, those of the next follow, as far as there is room to
// move.
void RunningBatch::closeGaps() {
  std::vector<std::vector<BatchRow*>> groups;
  std::vector<BatchRow*> replies;
  for (BatchRow& row : rows_) {
    if (!row.isPrompt()) replies.push_back(&row);
  }
  std::sort(replies.begin(), replies.end(),
            [](const BatchRow* a, const BatchRow* b) { return a->sequence < b->sequence; });
  for (BatchRow* row : replies) {
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const std::vector<BatchRow*>& group) {
          return callAdapter(*group.front()) == callAdapter(*row);
        });
    if (same == groups.end()) {
      groups.push_back({row});
    } else {
      same->push_back(row);
    }
  }
  std::vector<bool> taken = takenSlots();
  const auto moveInto = [&](BatchRow& row, int first, int end) {
    const auto begin = taken.begin() + first;
    const auto free = std::find(begin, taken.begin() + end, false);
    if (free == taken.begin() + end) return;
    taken[static_cast<size_t>(row.sequence)] = false;
    *free = true;
    move(row, static_cast<llama_seq_id>(free - taken.begin()));
  };
  int first = 0;
  for (const std::vector<BatchRow*>& group : groups) {
    const int end =
        std::min(own_.slots, first + roundedUp(static_cast<int>(group.size()), kRowGroup));
    const auto inside = [&](const BatchRow* row) {
      return row->sequence >= first && row->sequence < end;
    };
    for (BatchRow* row : replies) {
      if (inside(row) && !(callAdapter(*row) == callAdapter(*group.front())))
        moveInto(*row, end, own_.slots);
    }
    for (BatchRow* row : group) {
      if (!inside(row)) moveInto(*row, first, end);
    }
    first = end;
  }
}

// One token of each reply, those whose ids follow each other together; then prompts, a call each,
// one after the other.
std::vector<RunningBatch::SharedCall> RunningBatch::ownCallsOf(const std::vector<BatchRow*>& rows,
                                                               int& promptTokens) {
  std::vector<BatchRow*> replies;
  for (BatchRow* row : rows) {
    if (!row->isPrompt()) replies.push_back(row);
  }
  std::sort(replies.begin(), replies.end(),
            [](const BatchRow* a, const BatchRow* b) { return a->sequence < b->sequence; });
  std::vector<bool> taken = takenSlots();
  const auto isFree = [&](llama_seq_id id) {
    return id < own_.slots && !taken[static_cast<size_t>(id)];
  };
  std::vector<SharedCall> calls;
  for (size_t i = 0; i < replies.size();) {
    const size_t left = replies.size() - i;
    const size_t most = plan_.alone || left > static_cast<size_t>(kInvariantRows)
                            ? static_cast<size_t>(plan_.sampledRows(static_cast<int>(left)))
                            : static_cast<size_t>(kInvariantRows);
    SharedCall call;
    llama_seq_id next = replies[i]->sequence;
    while (i < replies.size() && call.size() < most) {
      const llama_seq_id id = replies[i]->sequence;
      llama_seq_id gap = next;
      while (gap < id && isFree(gap)) ++gap;
      if (gap < id || id - next >= kRowGroup ||
          call.size() + static_cast<size_t>(id - next) >= most)
        break;
      for (; next < id; ++next) call.push_back({nullptr, 1, next});
      call.push_back({replies[i++], 1});
      ++next;
    }
    while (call.size() > 1 && call.size() % kRowGroup != 0 && isFree(next))
      call.push_back({nullptr, 1, next++});
    calls.push_back(std::move(call));
  }
  for (BatchRow* row : rows) {
    if (!row->isPrompt()) continue;
    for (int evaluated = row->evaluated; promptTokens > 0 && evaluated < row->known();) {
      if (row->sequence < 0) {
        // From the end, where it is in no reply's way.
        const auto free = std::find(taken.rbegin(), taken.rend(), false);
        *free = true;
        row->sequence = static_cast<llama_seq_id>(taken.rend() - free) - 1;
      }
      const int tokens = std::min(promptRows_, row->known() - evaluated);
      calls.push_back({{row, tokens}});
      evaluated += tokens;
      promptTokens -= tokens;
    }
  }
  return calls;
}

}  // namespace isopro
