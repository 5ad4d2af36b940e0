#include "inference/compute_threads.h"

#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "inference/llama_call.h"

namespace isopro {
namespace {

template <typename Function>
Function cpuFunction(const char* name) {
  const ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  return reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

}  // namespace

void ComputeThreads::Deleter::operator()(ggml_threadpool* pool) const {
  cpuFunction<decltype(&ggml_threadpool_free)>("ggml_threadpool_free")(pool);
}

ComputeThreads::ComputeThreads(int count) {
  ggml_threadpool_params params = ggml_threadpool_params_default(count);
  params.poll = 0;  // between two graphs the processor is the samplers'
  pool_.reset(callLlama(
      [&] { return cpuFunction<decltype(&ggml_threadpool_new)>("ggml_threadpool_new")(&params); }));
}

void ComputeThreads::attach(llama_context* context) const {
  callLlama([&] { llama_attach_threadpool(context, pool_.get(), nullptr); });
}

}  // namespace isopro
