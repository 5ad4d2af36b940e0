// Continuous batching of requests that come and go (Yu et al. 2022, Orca, section 3.1: scheduling
// by iteration): each has settings of its own and joins or leaves between two steps. A step
// evaluates one token of every reply that runs and, in what room its calls have left, tokens of the
// prompts that joined (Agrawal et al. 2023, SARATHI, section 4: chunked prefills).
//
// A row of attention walks every cell of its cache. Where requests are short enough that several
// have room for caches of their own, each has one, and an idle batch decides that anew. Otherwise,
// and where prefixes are kept, all share one. Of a model that evaluates each sample by itself each
// has one of its own, and calls of its own.
//
// A reply is promised cells as it needs them (Kwon et al. 2023, PagedAttention, section 4.5:
// preemption, recomputation): one that nobody bounded takes no more than it says. Where none are
// left, the youngest pauses: it goes to the front of the queue, and what it was told and has said
// is evaluated anew.
//
// Which rows share a call depends on who else runs, and with it the last bits of their logits; a
// deterministic batch runs one request at a time, in the calls that generateRollouts would make for
// one sample of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "inference/context.h"
#include "inference/prefix_cache.h"
#include "inference/reply.h"
#include "inference/row_adapters.h"
#include "support/thread_pool.h"

namespace isopro {

struct BatchSettings {
  int cells = 0;         // tokens of KV cache
  int maxSequences = 0;  // replies that run at once
  int prefixTokens = 0;  // tokens that finished sequences may keep; 0: none
  bool deterministic = false;
};

struct BatchRequest {
  std::vector<Token> prompt;
  SamplingSettings sampling;
  std::uint64_t seed = 0;
  ReplyLimits limits;
  std::string grammar;  // GBNF; empty: none
  AppliedAdapter adapter;
  bool streamed = false;       // an event a token
  bool deterministic = false;  // for who owns several batches: this request has one to itself
  std::string cachePartition;  // requests share kept prefixes with those of the same one alone
  int rank = 0;                // where there is not room for all, a lower one runs first
  std::shared_ptr<std::atomic<bool>> cancelled;
};

struct TokenEvent {
  std::int64_t request;
  Token token;
  float logProbability;
  float sampledLogProbability;
  std::vector<TokenChance> top;
  std::string text;  // what the reply's text has grown by and keeps; whole UTF-8 characters
};

struct FinishedReply {
  std::int64_t request;
  Reply reply;
  int reusedTokens;  // of the prompt, from the prefix cache
};

struct FailedReply {
  std::int64_t request;
  std::exception_ptr failure;
};

// What a step has to say; of one request, tokens come before its end.
struct StepReport {
  std::vector<TokenEvent> tokens;
  std::vector<FinishedReply> finished;
  std::vector<FailedReply> failed;
};

// Used by one thread at a time, like its context, which is its own.
class RunningBatch {
 public:
  RunningBatch(Context& context, ThreadPool& pool, const BatchSettings& settings);

  // Queues a request under a number of the caller's. Throws INVALID_ARGUMENT, CONTEXT_OVERFLOW,
  // GRAMMAR_INVALID, ADAPTER_MISMATCH.
  void join(std::int64_t number, BatchRequest request);

  // Lets cancelled requests go, starts those that have room, by rank and then first come, first
  // served, where one of a higher rank pauses for one of a lower, and evaluates one token of each
  // reply. A failure ends whom it concerns; `stopped` ends all.
  StepReport step(const std::atomic<bool>& stopped);

  // Ends all.
  StepReport fail(std::exception_ptr failure);

  bool idle() const { return queue_.empty() && rows_.empty(); }

 private:
  static BatchSettings settingsOf(const Model& model, BatchSettings settings);

  struct BatchRow {
    std::int64_t number = 0;
    BatchRequest request;
    std::shared_ptr<const Grammar> grammar;
    std::unique_ptr<Sampler> sampler;  // where it runs
    Reply reply;
    llama_seq_id sequence = -1;
    int evaluated = 0;  // tokens of prompt and reply in the KV cache
    int promised = 0;   // cells, where it runs
    int reused = 0;
    int activation = 0;   // the first token that an activated adapter acts on
    size_t searched = 0;  // bytes of text in which no stop string ends
    size_t streamed = 0;  // bytes of text that were sent
    bool done = false;
    std::exception_ptr failure;

    int promptLength() const { return static_cast<int>(request.prompt.size()); }
    int known() const { return promptLength() + static_cast<int>(reply.tokens.size()); }  // tokens
    int mostCells() const { return promptLength() + request.limits.maxTokens; }
    int wantedCells() const;
    // Whether it is a prompt yet, or paused as one would: more than its last token is to be
    // evaluated.
    bool isPrompt() const { return reply.tokens.empty() || evaluated + 1 < known(); }
    Token tokenAt(int position) const;
    // The base model answers a prompt that its adapter does not act on.
    void findActivation() {
      if (!request.adapter.activated()) return;
      activation = request.adapter.adapter->activationIn(request.prompt);
      reply.notActivated = activation == Adapter::kNever;
      if (reply.notActivated) request.adapter = {};
    }
  };
  // Tokens of a row that one call evaluates.
  struct RowShare {
    BatchRow* row;  // null: a row that pads, of a sequence that has no other
    int tokens;
    llama_seq_id padding = -1;
  };
  using SharedCall = std::vector<RowShare>;

  void dropCancelled(StepReport& report);
  // By rank, and then by who came first.
  static bool precedes(const BatchRow& first, const BatchRow& second) {
    return std::tie(first.request.rank, first.number) <
           std::tie(second.request.rank, second.number);
  }
  void enqueue(BatchRow&& row);
  void admit(StepReport& report);
  void shapeCache();
  std::vector<bool> takenSlots() const;
  void move(BatchRow& row, llama_seq_id to);
  void closeGaps();
  std::vector<SharedCall> ownCallsOf(const std::vector<BatchRow*>& rows, int& promptTokens);
  bool makeRoom(const BatchRow& row);
  void start(BatchRow& row);
  void pauseLast();
  void pauseAll();
  bool promiseMore();
  std::vector<SharedCall> callsOf(const std::vector<BatchRow*>& rows) const;
  // The adapter that llama.cpp applies to the row's calls; none where what the row's own adds is
  // computed beside its graph.
  AppliedAdapter callAdapter(const BatchRow& row) const;
  // Whose keys and values of its prompt can be kept and found, and how many of them: what stands
  // before an activation is the base model's.
  static AppliedAdapter prefixAdapter(const BatchRow& row) {
    return row.request.adapter.activated() ? AppliedAdapter{} : row.request.adapter;
  }
  static int prefixLength(const BatchRow& row, int length) {
    return row.request.adapter.activated() ? std::min(length, row.activation) : length;
  }
  bool evaluate(const SharedCall& call, const std::atomic<bool>& stopped, StepReport& report);
  bool decode(const SharedCall& call, const std::atomic<bool>& stopped);
  void sample(const std::vector<BatchRow*>& rows, const std::vector<const float*>& logits,
              StepReport& report);
  void retire(StepReport& report);
  void keep(const BatchRow& row);
  void failRunning(std::exception_ptr failure, StepReport& report);
  void letGo(BatchRow& row);
  void forgetAdapter();
  std::shared_ptr<const Grammar> grammarOf(const std::string& gbnf);

  Context& context_;
  ThreadPool& pool_;
  const BatchSettings settings_;
  const Model& model_;
  const CallPlan plan_;
  const int promptRows_;  // most tokens of prompts in one call
  const llama_seq_id paddingId_;
  PrefixCache prefixes_;
  std::vector<llama_seq_id> freeIds_;  // of one cache
  struct OwnCaches {
    int live = 0;   // requests that may run at once; 0: all share one cache
    int slots = 0;  // sequences, with those that only pad
    int cells = 0;  // of each
  } own_;
  int outgrown_ = 0;  // cells of the own caches that were just given up
  int promised_ = 0;  // cells of the replies that run
  std::deque<BatchRow> queue_;
  std::list<BatchRow> rows_;  // as the queue in the order of rank, then of arrival
  std::map<std::string, std::weak_ptr<const Grammar>> grammars_;
  DecodeBatch batch_;
  RowAdapters rowAdapters_;
};

}  // namespace isopro
