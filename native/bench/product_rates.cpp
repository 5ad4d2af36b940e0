#include "bench/product_rates.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include <ggml-backend.h>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include "kernels/gemm.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/random.h"

namespace isopro::bench {
namespace {

using kernels::Engine;
using kernels::Matrix;

using Sgemm = void (*)(int order, int transA, int transB, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc);

struct OpenBlas {
  Sgemm sgemm = nullptr;
  void (*setThreads)(int) = nullptr;
};

OpenBlas openBlas() {
  OpenBlas library;
#if !defined(_WIN32)
  void* handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return library;
  library.sgemm = reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm"));
  library.setThreads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
#endif
  return library;
}

// Of what else runs on this machine, the clock knows and processor time does not.
double seconds(const ProductRequest& r, const std::function<void()>& work) {
  const auto now = [&] {
    return r.peers ? processCpuNanoseconds() / r.threads : wallNanoseconds();
  };
  const std::int64_t start = now();
  work();
  return static_cast<double>(now() - start) * 1e-9;
}

// ggml's own backward of a product: out_prod(w, dyT), as ggml_compute_backward builds it.
class GgmlOutProduct {
 public:
  GgmlOutProduct(const Matrix& w, std::int64_t tokens, const std::vector<float>& dy, int threads) {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) return;
    backend_.reset(ggml_backend_dev_init(device, nullptr));
    const auto setThreads =
        reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
    if (backend_ == nullptr || setThreads == nullptr) return;
    setThreads(backend_.get(), threads);
    context_.reset(ggml_init({ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true}));
    ggml_tensor* weights = ggml_new_tensor_2d(context_.get(), w.type, w.columns, w.rows);
    ggml_tensor* gradient = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, w.rows, tokens);
    ggml_tensor* result =
        ggml_out_prod(context_.get(), weights, ggml_transpose(context_.get(), gradient));
    graph_ = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph_, result);
    buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend_.get()));
    if (buffer_ == nullptr || !ggml_backend_supports_op(backend_.get(), result)) {
      graph_ = nullptr;
      return;
    }
    ggml_backend_tensor_set(weights, w.data, 0, static_cast<std::size_t>(w.rows) * w.rowBytes);
    ggml_backend_tensor_set(gradient, dy.data(), 0, dy.size() * sizeof(float));
  }
  bool ready() const { return graph_ != nullptr; }
  void run() { ggml_backend_graph_compute(backend_.get(), graph_); }

 private:
  struct Free {
    void operator()(ggml_backend_t backend) const { ggml_backend_free(backend); }
    void operator()(ggml_context* context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
  };
  std::unique_ptr<ggml_backend, Free> backend_;
  std::unique_ptr<ggml_context, Free> context_;
  std::unique_ptr<ggml_backend_buffer, Free> buffer_;
  ggml_cgraph* graph_ = nullptr;
};

}  // namespace

ProductRates productRates(const ProductRequest& r) {
  ggml_type type = GGML_TYPE_COUNT;
  for (int t = 0; t < GGML_TYPE_COUNT; ++t) {
    const char* name = ggml_type_name(static_cast<ggml_type>(t));
    if (name != nullptr && r.type == name && kernels::readable(static_cast<ggml_type>(t)))
      type = static_cast<ggml_type>(t);
  }
  if (type == GGML_TYPE_COUNT || r.columns % ggml_blck_size(type) != 0)
    throw Error(ErrorCode::invalidArgument,
                "no such type, or rows that it does not divide: " + r.type);
  Random random(1);
  const auto draw = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random.nextDouble() - 0.5);
    return values;
  };
  std::vector<float> dense = draw(r.rows * r.columns);
  const std::size_t rowBytes = ggml_row_size(type, r.columns);
  std::vector<std::uint8_t> blocks(rowBytes * static_cast<std::size_t>(r.rows));
  ggml_quantize_chunk(type, dense.data(), blocks.data(), 0, r.rows, r.columns, nullptr);
  const Matrix w{blocks.data(), type, r.rows, r.columns, rowBytes, true};
  for (std::int64_t row = 0; row < r.rows; ++row)
    kernels::readRow(kernels::kernels(), w, row, 0, r.columns, dense.data() + row * r.columns);

  const std::int64_t in = r.transposed ? r.rows : r.columns,
                     out = r.transposed ? r.columns : r.rows;
  const std::vector<float> x = draw(r.tokens * in);
  std::vector<float> y(static_cast<std::size_t>(r.tokens * out));
  Engine engine(r.threads);
  kernels::Variant ggmls = kernels::kernels();
  ggmls.dequantise = [](ggml_type, const void*, float*, std::int64_t) { return false; };
  Engine byToFloat(r.threads, ggmls);
  const kernels::Bf16Product* bf16 = kernels::bf16Product();
  Engine rounded(r.threads, kernels::kernels(), bf16);
  const OpenBlas blas = r.peers ? openBlas() : OpenBlas{};
  if (blas.setThreads != nullptr) blas.setThreads(r.threads);
  std::unique_ptr<GgmlOutProduct> ggmlOutProduct;
  if (r.transposed && r.peers)
    ggmlOutProduct = std::make_unique<GgmlOutProduct>(w, r.tokens, x, r.threads);

  std::vector<double> ours, inBf16, toFloat, sgemm, outProd;
  const auto product = [&](Engine& by) {
    return seconds(r, [&] {
      r.transposed ? by.yW(w, x.data(), y.data(), r.tokens)
                   : by.xWt(w, x.data(), y.data(), r.tokens);
    });
  };
  for (int round = 0; round <= r.rounds; ++round) {  // the first warms up
    ours.push_back(product(engine));
    if (r.peers && bf16 != nullptr) inBf16.push_back(product(rounded));
    if (r.peers) toFloat.push_back(product(byToFloat));
    if (blas.sgemm != nullptr) {
      constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
      sgemm.push_back(seconds(r, [&] {
        blas.sgemm(kRowMajor, kPlain, r.transposed ? kPlain : kTransposed,
                   static_cast<int>(r.tokens), static_cast<int>(out), static_cast<int>(in), 1,
                   x.data(), static_cast<int>(in), dense.data(), static_cast<int>(r.columns), 0,
                   y.data(), static_cast<int>(out));
      }));
    }
    // Ten times slower: once is enough.
    if (ggmlOutProduct != nullptr && ggmlOutProduct->ready() && round < 2)
      outProd.push_back(seconds(r, [&] { ggmlOutProduct->run(); }));
  }
  const auto rate = [&](std::vector<double>& times) {
    if (times.size() < 2) return 0.0;
    times.erase(times.begin());
    std::sort(times.begin(), times.end());
    return 2e-9 * static_cast<double>(r.tokens * r.rows * r.columns) / times[times.size() / 2];
  };
  return {rate(ours), rate(inBf16), rate(toFloat), rate(sgemm), rate(outProd)};
}

}  // namespace isopro::bench
