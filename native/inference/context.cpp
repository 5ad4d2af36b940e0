#include "inference/context.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include <ggml-backend.h>

#include "support/error.h"

namespace isopro {
namespace {

// Every id once, in order: a row's sequences are a part of it.
std::array<llama_seq_id, kMaxSequences> sequenceIds = [] {
  std::array<llama_seq_id, kMaxSequences> ids{};
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}();

}  // namespace

void DecodeBatch::clear() {
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  sequenceCounts_.clear();
  output_.clear();
  paddingSequences_.clear();
}

void DecodeBatch::add(Token token, llama_pos position, llama_seq_id sequence, bool output,
                      int sequences) {
  tokens_.push_back(token);
  positions_.push_back(position);
  sequences_.push_back(sequence);
  sequenceCounts_.push_back(sequences);
  output_.push_back(output ? 1 : 0);
}

void DecodeBatch::pad(llama_seq_id sequence) {
  if (size() % kRowGroup == 0) return;
  paddingSequences_.push_back(sequence);
  for (llama_pos position = 0; size() % kRowGroup != 0; ++position)
    add(tokens_.front(), position, sequence, true);
}

void DecodeBatch::addPadding(Token token, llama_seq_id sequence) {
  paddingSequences_.push_back(sequence);
  add(token, 0, sequence, true);
}

void DecodeBatch::padOutputs() {
  auto count = std::count(output_.begin(), output_.end(), 1);
  for (auto row = output_.begin(); row != output_.end() && count % kRowGroup != 0; ++row) {
    count += 1 - *row;
    *row = 1;
  }
}

std::map<llama_seq_id, llama_pos> DecodeBatch::begins() const {
  std::map<llama_seq_id, llama_pos> begins;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    for (int s = 0; s < sequenceCounts_[i]; ++s) {
      const auto found = begins.emplace(sequences_[i] + s, positions_[i]).first;
      found->second = std::min(found->second, positions_[i]);
    }
  }
  return begins;
}

llama_batch DecodeBatch::view() {
  sequencePointers_.resize(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i)
    sequencePointers_[i] = &sequenceIds[static_cast<size_t>(sequences_[i])];
  llama_batch batch{};
  batch.n_tokens = size();
  batch.token = tokens_.data();
  batch.pos = positions_.data();
  batch.n_seq_id = sequenceCounts_.data();
  batch.seq_id = sequencePointers_.data();
  batch.logits = output_.data();
  return batch;
}

Context::Context(std::shared_ptr<Model> model, int threads, bool fixedThreads)
    // On a GPU the CPU idles while it waits, which is not contention.
    : Context(model, std::make_unique<ThreadGovernor>(threads, model->usesGpu()), fixedThreads) {}

Context::Context(std::shared_ptr<Model> model, std::unique_ptr<ThreadGovernor> governor,
                 bool fixedThreads)
    : model_(std::move(model)),
      fixedThreads_(fixedThreads),
      governor_(std::move(governor)),
      ownProducts_(model_->hasOwnProducts() ? std::make_unique<OwnProducts>(governor_->maxThreads())
                                            : nullptr),
      ownAttention_(model_->hasOwnProducts()
                        ? std::make_unique<OwnAttention>(governor_->maxThreads())
                        : nullptr),
      ownOperations_(model_->hasOwnProducts() && kernels::rowOperations() != nullptr
                         ? std::make_unique<OwnOperations>(governor_->maxThreads())
                         : nullptr),
      // A call of a model with a state cannot be repeated.
      ownAttends_(ownAttention_ != nullptr && !model_->evaluatesAlone()) {}

void Context::prepare(const Capacity& wanted) {
  // One sequence has the whole of either kind of cache, or its own.
  const bool alike = wanted.owner == capacity_.owner || wanted.sequences == 1;
  const bool fits = context_ != nullptr && alike && wanted.cells <= capacity_.cells &&
                    wanted.sequences <= capacity_.sequences && wanted.outputs <= capacity_.outputs;
  if (fits) {
    llama_memory_clear(llama_get_memory(context_.get()), false);
    return;
  }
  Capacity grown = wanted;
  // Long sequences of one request times many sequences of another would be more than either.
  if (alike && capacity_.owner == CellOwner::kAll) {
    grown.cells = std::max(wanted.cells, capacity_.cells);
    grown.sequences = std::max(wanted.sequences, capacity_.sequences);
    grown.outputs = std::max(wanted.outputs, capacity_.outputs);
    grown.owner = CellOwner::kAll;
  }
  grown.cells = (grown.cells + kCellGroup - 1) / kCellGroup * kCellGroup;
  grown.sequences = std::min(kMaxSequences, grown.sequences);
  // llama.cpp wants room for a row of every sequence.
  grown.outputs = std::max(grown.outputs, grown.sequences);
  const int cells = grown.owner == CellOwner::kAll ? grown.cells : grown.cells * grown.sequences;
  release();
  if (!threads_) threads_.emplace(governor_->maxThreads());

  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(cells);
  params.n_batch = params.n_ubatch = kBatchTokens;
  params.n_seq_max = static_cast<std::uint32_t>(grown.sequences);
  params.n_outputs_max = static_cast<std::uint32_t>(std::min(grown.outputs, kBatchTokens));
  params.n_threads = params.n_threads_batch = governor_->threads();
  params.kv_unified = grown.owner == CellOwner::kAll;
  params.type_k = params.type_v = model_->kvType();
  params.no_perf = true;
  params.cb_eval = onEvaluated;
  params.cb_eval_user_data = this;
  params.abort_callback = onAbortQuery;
  params.abort_callback_data = this;

  context_.reset(
      callLlama([&] { return llama_init_from_model(model_->handle(), params); }, schedulerBytes()));
  if (context_ == nullptr) {
    const std::string reason = takeLlamaError();
    const bool unfit = !model_->isKnown() && !reason.empty();
    throw Error(refusalIn(reason, unfit ? ErrorCode::modelUnsupported : ErrorCode::outOfMemory),
                "no context of " + std::to_string(cells) + " tokens could be made (" +
                    std::to_string(cells * model_->kvBytesPerToken() / 1'000'000) +
                    " MB of keys and values)" + (reason.empty() ? "" : ": " + reason));
  }
  threads_->attach(context_.get());
  newGraph_ = true;
  capacity_ = grown;
  applyAdapter();
}

std::size_t Context::schedulerBytes() const {
  // 60 tensors and indices, 24 kB, for each node that a graph may have, at least 1,024 and 8 for
  // each tensor of the model, of which about half are matrices.
  const std::size_t nodes = std::max<std::size_t>(1024, 20 * model_->inventory().matrices.size());
  return nodes * 24 * 1024;
}

void Context::release() {
  context_.reset();
  capacity_ = {};
  releaseWeights();
  releaseFreeBlocks();
}

// ggml was left in the middle of a graph: where `new` threw in it, freeing its context frees a
// buffer twice.
void Context::abandon() {
  static_cast<void>(context_.release());
  threads_->abandon();
  threads_.reset();
  release();
}

void Context::checkAdapter(const Adapter* adapter) const {
  if (adapter != nullptr && adapter->model() != model_.get()) {
    throw Error(ErrorCode::adapterMismatch, "the adapter was loaded onto another model");
  }
}

void Context::setAdapter(std::shared_ptr<Adapter> adapter, float scale) {
  checkAdapter(adapter.get());
  if (adapter == adapter_ && scale == adapterScale_) return;
  // The context refers to the old adapter until the new one is applied.
  std::shared_ptr<Adapter> old = std::exchange(adapter_, std::move(adapter));
  adapterScale_ = scale;
  if (context_ != nullptr) applyAdapter();
}

AppliedAdapter Context::rowAdapter() const {
  const AppliedAdapter set{adapter_, adapterScale_};
  return set.activated() ? set : AppliedAdapter{};
}

void Context::refuseActivated(const char* what) const {
  if (rowAdapter().adapter != nullptr)
    throw Error(ErrorCode::invalidArgument,
                std::string(what) + " cannot have an adapter that acts from the reply on");
}

void Context::applyAdapter() {
  const bool whole = adapter_ != nullptr && !adapter_->activated();
  llama_adapter_lora* handle = whole ? adapter_->handle() : nullptr;
  std::int32_t status = -1;
  try {
    status = callLlama([&] {
      return llama_set_adapters_lora(context_.get(), &handle, whole ? 1 : 0, &adapterScale_);
    });
  } catch (...) {
    release();  // a context with another adapter than the one that is set must not answer
    throw;
  }
  newGraph_ = true;
  if (status == 0) return;
  release();
  throw Error(ErrorCode::nativeFailure,
              "llama.cpp did not apply the adapter: status " + std::to_string(status));
}

bool Context::onAbortQuery(void* self) {
  auto& context = *static_cast<Context*>(self);
  if (context.cancelled_ == nullptr) return false;
  if (context.cancelled_->load(std::memory_order_relaxed) || context.misjudged_) return true;
  if (context.model_->evaluatesAlone()) return false;  // what was begun changes the state
  return context.starved_ = context.governor_->stepIsStarved();
}

// llama.cpp maps the whole file and reads all of it while loading, but of a matrix that it repacked
// it uses the copy alone from then on. The first graph gives everything back once; what is used
// comes again.
void Context::findMappedWeights(const ggml_tensor* node) {
  for (const ggml_tensor* source : node->src) {
    if (source == nullptr || source->buffer == nullptr) continue;
    if (std::strcmp(ggml_backend_buffer_name(source->buffer), "CPU_Mapped") != 0) continue;
    mappedWeights_ = ggml_backend_buffer_get_base(source->buffer);
    mappedBytes_ = ggml_backend_buffer_get_size(source->buffer);
    releaseWeights();
    return;
  }
}

bool Context::onEvaluated(ggml_tensor* node, bool ask, void* self) {
  auto& context = *static_cast<Context*>(self);
  context.computing_ = true;
  if (ask && !context.decoded_ && context.mappedWeights_ == nullptr)
    context.findMappedWeights(node);
  if (ask && context.ownProducts_ != nullptr) {
    context.ownProducts_->take(node);
    context.ownAttention_->take(node);
    if (context.ownOperations_ != nullptr) context.ownOperations_->take(node);
    context.allHaveOneResult_ = context.allHaveOneResult_ && OwnOperations::hasOneResult(node);
    if (node->op == GGML_OP_FLASH_ATTN_EXT) {
      context.ownAttends_ = false;
      context.misjudged_ = context.restsOnOwn_;
    }
  }
  const NodeObserver& observer = context.observer_;
  if (ask) {
    const bool measured = context.operationTimes_ && OperationTimes::counts(node);
    if (measured) context.operationTimes_->begin(node);
    const bool splits = measured || (observer.wants && observer.wants(node));
    if (splits && context.ownOperations_ != nullptr) context.ownOperations_->onSplit();
    return splits;
  }
  if (context.operationTimes_) {
    context.operationTimes_->end();
    if (!observer.wants || !observer.wants(node)) return true;
  }
  context.observer_.receive(node);
  return !context.observer_.last;
}

bool Context::hasOwnBits() {
  if (ownOperations_ == nullptr) return false;
  prepare({1, 1, 1});
  allHaveOneResult_ = true;
  DecodeBatch batch;
  batch.add(0, 0, 0, true);
  const std::atomic<bool> stopped{true};
  try {
    decode(batch, stopped);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::aborted) throw;
  }
  release();
  return allHaveOneResult_;
}

void Context::decode(DecodeBatch& batch, const std::atomic<bool>& cancelled) {
  const llama_batch rows = batch.view();
  std::int32_t status = 0;
  do {
    // What is refused before llama.cpp has begun leaves the context as it is.
    const LlamaCall call(kUncheckedBytes + (newGraph_ ? schedulerBytes() : 0));
    newGraph_ = false;
    starved_ = computing_ = misjudged_ = false;
    cancelled_ = &cancelled;
    const bool held = fixedThreads_ &&
                      !sameWithAnyThreads(batch.size(), capacity_.cells, model_->kvType(), false);
    restsOnOwn_ =
        held && sameWithAnyThreads(batch.size(), capacity_.cells, model_->kvType(), ownAttends_);
    governor_->beginStep(held && !restsOnOwn_);
    try {
      llama_set_n_threads(context_.get(), governor_->stepThreads(), governor_->stepThreads());
      status = llama_decode(context_.get(), rows);
    } catch (...) {
      cancelled_ = nullptr;
      computing_ ? abandon() : release();
      throw;
    }
    cancelled_ = nullptr;
    // Of a call that was stopped llama.cpp takes back the first sequence of each row alone. A state
    // cannot be taken back.
    const bool alone = model_->evaluatesAlone();
    if (status != 0 && !(alone && status == 1)) {
      for (const auto& [sequence, begin] : batch.begins())
        removeSequence(sequence, alone ? -1 : begin);
    }
    if (status == 2 && starved_) {
      governor_->abandonStep();
    } else if (!misjudged_) {
      governor_->endStep();
    }
  } while (status == 2 && (starved_ || misjudged_) && !cancelled.load(std::memory_order_relaxed));
  decoded_ = true;

  switch (status) {
    case 0:
      for (const llama_seq_id sequence : batch.paddingSequences()) removeSequence(sequence);
      return;
    case 1:
      throw Error(ErrorCode::contextOverflow,
                  "no room for " + std::to_string(batch.size()) + " more tokens in the KV cache");
    case 2:
      throw Error(ErrorCode::aborted, "the evaluation was cancelled");
    default: {
      const std::string reason = takeLlamaError();
      throw Error(refusalIn(reason, ErrorCode::nativeFailure),
                  "llama_decode failed with status " + std::to_string(status) +
                      (reason.empty() ? "" : ": " + reason));
    }
  }
}

const float* Context::logits(int row) {
  const float* values = llama_get_logits_ith(context_.get(), row);
  if (values == nullptr)
    throw Error(ErrorCode::nativeFailure,
                "llama.cpp returned no logits for row " + std::to_string(row));
  return values;
}

void Context::copySequence(llama_seq_id from, llama_seq_id to, llama_pos end) {
  const bool whole = capacity_.owner == CellOwner::kEach;
  freeLlama([&] {
    llama_memory_seq_cp(llama_get_memory(context_.get()), from, to, -1, whole ? -1 : end);
  });
  if (whole && end >= 0) removeSequence(to, end);
}

void Context::removeSequence(llama_seq_id sequence, llama_pos begin) {
  freeLlama([&] { llama_memory_seq_rm(llama_get_memory(context_.get()), sequence, begin, -1); });
}

void Context::moveDown(llama_seq_id sequence) {
  callLlama([&] {
    std::vector<std::uint8_t> state(llama_state_seq_get_size(context_.get(), sequence));
    llama_state_seq_get_data(context_.get(), state.data(), state.size(), sequence);
    if (llama_state_seq_set_data(context_.get(), state.data(), state.size(), sequence) == 0)
      throw Error(ErrorCode::nativeFailure,
                  "llama.cpp did not move a sequence within its KV cache");
  });
}

bool Context::holdsBeginning(llama_seq_id sequence) const {
  return llama_memory_seq_pos_min(llama_get_memory(context_.get()), sequence) == 0;
}

}  // namespace isopro
