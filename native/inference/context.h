// One llama.cpp context: KV cache and compute buffers, grown when a request needs more, and the
// decode call with cancelling, contention control and typed errors around it. Used by one thread at
// a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "inference/adapter.h"
#include "inference/compute_threads.h"
#include "inference/llama_call.h"
#include "inference/model.h"
#include "inference/operation_times.h"
#include "inference/own_attention.h"
#include "inference/own_operations.h"
#include "inference/own_products.h"
#include "inference/thread_governor.h"
#include "support/resident_memory.h"

namespace isopro {

// Tokens that one decode call may take: llama.cpp's default physical batch. llama.cpp runs a call
// as a single graph over its rows in the order given, which boundary capture relies on: always with
// one cache for all sequences; where each has its own, a call has rows of one sequence, or one row
// of each of several whose ids follow each other.
constexpr int kBatchTokens = 512;
constexpr int kMaxSequences = 256;  // llama.cpp's LLAMA_MAX_SEQ

// Which kernels llama.cpp's CPU backend runs for a row depends on how many rows share its call:
// attention changes its kernel at 64 rows, repacked weights take four rows at a time and a
// remainder in another way, and one row alone is a kernel of its own. A row's values are the same,
// bit for bit, in every call of 4, 8, … 60 rows, with each of ggml's back ends for x86
// (scripts/test-processors.mjs); `doctor --selftest` measures it on the processor at hand.
constexpr int kRowGroup = 4;
constexpr int kInvariantRows = 60;

constexpr int roundedUp(int count, int group) { return (count + group - 1) / group * group; }

// Whether a call's values are the same, bit for bit, with any number of threads. On x86 ggml's
// threads share out what is computed, never the order in which a sum is taken, but for the
// attention of one row alone to 512 cells of f16 or f32, which they share; not where OwnAttention
// computes it.
constexpr bool sameWithAnyThreads(int rows, int cells, ggml_type kvType, bool ownAttention) {
#if defined(__x86_64__) || defined(_M_X64)
  return rows > 1 || cells < 512 || ownAttention ||
         (kvType != GGML_TYPE_F16 && kvType != GGML_TYPE_F32);
#else
  return ownAttention && rows < 0;  // not known
#endif
}

// Whether a sample of a request for several has the same bits whatever else is asked for with it:
// kInvariantRows holds of ggml's kernels for x86. On a Mac products of 32 rows and more are
// Accelerate's; of arm64's kernels nobody has measured it. Where each sample is evaluated by itself
// it has no company.
inline bool isBatchInvariant(const Model& model) {
  if (model.evaluatesAlone()) return true;
#if (defined(__x86_64__) || defined(_M_X64)) && !defined(__APPLE__)
  return !model.usesGpu();
#else
  return false;
#endif
}

// How the rows of a request are cut into calls.
struct CallPlan {
  bool batchInvariant = false;    // a sampled row has the same values whatever rows share its call
  int promptRows = kBatchTokens;  // most tokens of a prompt in one call
  bool alone = false;  // a call has rows of one sequence, which shares nothing with another

  // A GPU has none of these kernels; what it is fed in small pieces it computes slowly. One sample
  // alone has no rows to be like.
  static CallPlan of(bool gpu, std::int64_t samples, bool alone = false) {
    return {!gpu && !alone && samples > 1, gpu ? kBatchTokens : kInvariantRows, alone};
  }

  // Of `live` sequences, a token each: how many share the next call. What exceeds one call is cut
  // in pieces of 36: two calls of 36 and 28 rows take 3 % longer than one of 64, two of 32 take 20
  // % (dev/log.md).
  int sampledRows(int live) const {
    if (alone) return 1;
    return live <= kInvariantRows || !batchInvariant ? live : 36;
  }
};

// How many sequences may be live at once, where each has a state: as many as take this many bytes.
constexpr std::int64_t kMostStateBytes = std::int64_t{1} << 30;
constexpr int sequencesWithState(std::int64_t stateBytes) {
  return stateBytes == 0 ? kMaxSequences
                         : static_cast<int>(std::clamp<std::int64_t>(kMostStateBytes / stateBytes,
                                                                     1, kMaxSequences));
}

// Rows of one decode call.
class DecodeBatch {
 public:
  void clear();
  // Of `sequences` sequences whose ids follow each other from `sequence` on; of several only in one
  // cache for all.
  void add(Token token, llama_pos position, llama_seq_id sequence, bool output, int sequences = 1);
  // Fills up to a multiple of kRowGroup with rows of a sequence that holds nothing else.
  void pad(llama_seq_id sequence);
  // One row of a sequence that holds nothing else.
  void addPadding(Token token, llama_seq_id sequence);
  // Takes rows of logits more, until their number is a multiple of kRowGroup; the last matrices are
  // multiplied with these rows alone.
  void padOutputs();
  int size() const { return static_cast<int>(tokens_.size()); }
  bool output(int row) const { return output_[static_cast<size_t>(row)] != 0; }
  // Sequences of rows that only pad.
  const std::vector<llama_seq_id>& paddingSequences() const { return paddingSequences_; }
  bool empty() const { return tokens_.empty(); }
  // The first position of each sequence that it has rows of.
  std::map<llama_seq_id, llama_pos> begins() const;
  llama_batch view();

 private:
  std::vector<Token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> sequences_;  // the first of each row
  std::vector<std::int32_t> sequenceCounts_;
  std::vector<llama_seq_id*> sequencePointers_;
  std::vector<std::int8_t> output_;
  std::vector<llama_seq_id> paddingSequences_;
};

// Whose tokens the cells of the KV cache hold. Every row of llama.cpp's attention walks all cells
// of its cache, masked ones too.
enum class CellOwner {
  kAll,   // one cache for all sequences: a copy shares cells, of any part of a sequence
  kEach,  // one a sequence: a row walks its own alone, and a copy copies all of them, used or not
};

struct Capacity {
  int cells = 0;      // tokens of KV cache: over all sequences, or of each
  int sequences = 1;  // live at once
  int outputs = 1;    // rows of logits in one decode call
  CellOwner owner = CellOwner::kAll;
};

// llama.cpp makes caches of multiples of this.
constexpr int kCellGroup = 256;

// Receives every graph node that `wants` accepts, on the decoding thread, after it was computed.
struct NodeObserver {
  std::function<bool(const ggml_tensor*)> wants;
  std::function<void(ggml_tensor*)> receive;
  bool last =
      false;  // what the graph has after the first such node is not computed: there are no logits
};

class Context {
 public:
  // fixedThreads: the results are those of this many threads.
  Context(std::shared_ptr<Model> model, int threads, bool fixedThreads);
  // With a governor of the caller's.
  Context(std::shared_ptr<Model> model, std::unique_ptr<ThreadGovernor> governor,
          bool fixedThreads);

  const Model& model() const { return *model_; }
  bool fixedThreads() const { return fixedThreads_; }
  ThreadGovernor& governor() { return *governor_; }

  // Makes room for a request and empties the cache. Throws OUT_OF_MEMORY.
  void prepare(const Capacity& capacity);
  // Whether every node of the bare model's graph is computed by us, or exact: its bits are then
  // those of OwnOperations on any processor. Builds one graph and computes nothing of it to its
  // end. Throws as `prepare`.
  bool hasOwnBits();
  // Frees cache, compute buffers and the pages of the model file; the next request takes them
  // again.
  void release();

  // Throws ADAPTER_MISMATCH.
  void checkAdapter(const Adapter* adapter) const;
  // The adapter of the following decodes; null for the bare base. Throws ADAPTER_MISMATCH.
  // An activated one is not applied by the context: rowAdapter() is for whoever adds the rows.
  void setAdapter(std::shared_ptr<Adapter> adapter, float scale);
  // The activated adapter that is set, or none.
  AppliedAdapter rowAdapter() const;
  // Throws INVALID_ARGUMENT where an activated adapter is set: `what` has no prompt.
  void refuseActivated(const char* what) const;

  // Evaluates the rows; those that only pad leave nothing in the cache. Throws ABORTED when
  // `cancelled` was set meanwhile, CONTEXT_OVERFLOW when no KV slot is left, NATIVE_FAILURE
  // otherwise; after a throw the cache holds none of these rows.
  void decode(DecodeBatch& batch, const std::atomic<bool>& cancelled);
  // Logits [vocabulary] of row i of the last decode; valid until the next one.
  const float* logits(int row);

  // Of the positions below `end`; -1: of all.
  void copySequence(llama_seq_id from, llama_seq_id to, llama_pos end = -1);
  // In one cache for all: into the first free cells, in the order in which it lies; it shares none
  // with another any more.
  void moveDown(llama_seq_id sequence);
  // From a position on.
  void removeSequence(llama_seq_id sequence, llama_pos begin = -1);
  // Whether the cache has a sequence from its first token on: a sliding window lets go of it.
  bool holdsBeginning(llama_seq_id sequence) const;

  // One observer for the following decodes, or none.
  void observe(NodeObserver observer) { observer_ = std::move(observer); }
  void stopObserving() { observer_ = {}; }

  // Measures the following decodes, which then take longer.
  void measureOperations() { operationTimes_.emplace(); }
  // What was measured since then; null where nothing is measured.
  const OperationTimes* operationTimes() const {
    return operationTimes_ ? &*operationTimes_ : nullptr;
  }

 private:
  struct ContextDeleter {
    void operator()(llama_context* context) const {
      freeLlama([&] { llama_free(context); });
    }
  };

  static bool onEvaluated(ggml_tensor* node, bool ask, void* self);
  static bool onAbortQuery(void* self);
  void applyAdapter();
  // What llama.cpp's scheduler takes for its graphs without looking whether it got it.
  std::size_t schedulerBytes() const;
  void abandon();
  void findMappedWeights(const ggml_tensor* node);
  void releaseWeights() const { releasePages(mappedWeights_, mappedBytes_); }

  std::shared_ptr<Model> model_;
  const bool fixedThreads_;
  const std::unique_ptr<ThreadGovernor> governor_;
  Capacity capacity_;
  std::optional<ComputeThreads> threads_;
  std::unique_ptr<llama_context, ContextDeleter> context_;
  std::shared_ptr<Adapter> adapter_;
  float adapterScale_ = 1.0f;
  NodeObserver observer_;
  std::optional<OperationTimes> operationTimes_;
  const std::unique_ptr<OwnProducts> ownProducts_;    // where the model has them
  const std::unique_ptr<OwnAttention> ownAttention_;  // with them
  const std::unique_ptr<OwnOperations> ownOperations_;
  // The part of llama.cpp's mapping of the model file that it keeps; known once a graph has shown
  // one of its tensors.
  const void* mappedWeights_ = nullptr;
  std::size_t mappedBytes_ = 0;
  bool decoded_ = false;
  bool allHaveOneResult_ = true;  // of the nodes of the graphs that were asked about
  bool newGraph_ = false;         // the next decode makes llama.cpp's scheduler anew
  const std::atomic<bool>* cancelled_ = nullptr;
  bool starved_ = false;
  bool computing_ = false;   // the call under way has come to its graph
  bool ownAttends_;          // until a graph has left some attention to ggml
  bool restsOnOwn_ = false;  // the call under way is not held to all threads because of that
  bool misjudged_ = false;   // and wrongly: it is repeated
};

// An observer for the decodes of a scope.
class Observation {
 public:
  Observation(Context& context, NodeObserver observer) : context_(context) {
    context_.observe(std::move(observer));
  }
  ~Observation() { context_.stopObserving(); }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  Context& context_;
};

}  // namespace isopro
