// Products of our own inside ggml's graphs: against the same sums written out, against ggml's
// kernel and exact values, whatever threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "check.h"
#include "inference/own_products.h"
#include "llama_backends.h"
#include "support/random.h"

using namespace isopro;
using kernels::BlockFormat;
using kernels::BlockProduct;
using kernels::BlockProducts;
using kernels::kProductBlock;

namespace {

struct Format {
  ggml_type type;
  BlockFormat block;
};
constexpr Format kFormats[] = {{GGML_TYPE_Q4_1, BlockFormat::kQ4_1},
                               {GGML_TYPE_Q5_0, BlockFormat::kQ5_0},
                               {GGML_TYPE_Q6_K, BlockFormat::kQ6_K},
                               {GGML_TYPE_Q8_0, BlockFormat::kQ8_0}};

std::vector<float> draw(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((random.nextDouble() * 2 - 1) * scale);
  return values;
}

std::vector<std::uint8_t> quantised(ggml_type type, const std::vector<float>& weights,
                                    std::int64_t width) {
  const std::int64_t rows = static_cast<std::int64_t>(weights.size()) / width;
  std::vector<std::uint8_t> bytes(ggml_row_size(type, width) * static_cast<std::size_t>(rows));
  ggml_quantize_chunk(type, weights.data(), bytes.data(), 0, rows, width, nullptr);
  return bytes;
}

// A product of [rows, width] with weights [height, width] on ggml's CPU back end.
struct Graph {
  Graph(ggml_type type, std::int64_t width, std::int64_t height, std::int64_t rows,
        std::uint64_t seed) {
    isopro::testing::loadLlamaBackends();
    backend.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    context.reset(ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    weights = ggml_new_tensor_2d(context.get(), type, width, height);
    x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, width, rows);
    product = ggml_mul_mat(context.get(), weights, x);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    const std::vector<std::uint8_t> bytes = quantised(type, draw(width * height, seed), width);
    const std::vector<float> values = draw(width * rows, seed + 1, 3);
    std::memcpy(weights->data, bytes.data(), bytes.size());
    std::memcpy(x->data, values.data(), values.size() * sizeof(float));
  }

  std::vector<float> computed(int threads) const {
    ggml_backend_dev_t device = ggml_backend_get_device(backend.get());
    const auto setThreads =
        reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
    setThreads(backend.get(), threads);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 4, false);
    ggml_build_forward_expand(graph, product);
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(product)), NAN);
    std::memcpy(product->data, values.data(), values.size() * sizeof(float));
    CHECK(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_SUCCESS);
    std::memcpy(values.data(), product->data, values.size() * sizeof(float));
    return values;
  }

  std::vector<double> exact() const {
    std::vector<float> w(static_cast<std::size_t>(ggml_nelements(weights)));
    ggml_get_type_traits(weights->type)->to_float(weights->data, w.data(), ggml_nelements(weights));
    std::vector<double> values;
    for (std::int64_t row = 0; row < x->ne[1]; ++row) {
      for (std::int64_t i = 0; i < weights->ne[1]; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < x->ne[0]; ++k) {
          const float number = static_cast<const float*>(x->data)[row * x->ne[0] + k];
          sum += static_cast<double>(number) * w[static_cast<std::size_t>(i * x->ne[0] + k)];
        }
        values.push_back(sum);
      }
    }
    return values;
  }

  struct Free {
    void operator()(ggml_backend_t freed) const { ggml_backend_free(freed); }
    void operator()(ggml_context* freed) const { ggml_free(freed); }
    void operator()(ggml_backend_buffer_t freed) const { ggml_backend_buffer_free(freed); }
  };
  std::unique_ptr<ggml_backend, Free> backend;
  std::unique_ptr<ggml_context, Free> context;
  std::unique_ptr<ggml_backend_buffer, Free> buffer;
  ggml_tensor* weights;
  ggml_tensor* x;
  ggml_tensor* product;
};

double rootMeanSquare(const std::vector<float>& actual, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    sum += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

void forProducts(const std::function<void(const BlockProducts&, const Format&)>& body) {
  for (const BlockProducts* const* products = kernels::runnableBlockProducts();
       *products != nullptr; ++products) {
    for (const Format& format : kFormats) body(**products, format);
  }
}

float halfAt(const std::uint8_t* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  return ggml_fp16_to_fp32(half);
}

// 32 weights of a row as the file's format says, block by block: scale[k / 16] * q[k] + minimum.
struct Block {
  int q[kProductBlock];
  float scale[2];
  float minimum = 0;

  Block(ggml_type type, const std::uint8_t* row, std::int64_t at) {
    const std::uint8_t* b = row + at * (type == GGML_TYPE_Q4_1   ? 20
                                        : type == GGML_TYPE_Q5_0 ? 22
                                                                 : 34);
    if (type == GGML_TYPE_Q6_K) b = row + at / 8 * 210;
    const auto part = static_cast<int>(at % 8);
    scale[0] = scale[1] = halfAt(type == GGML_TYPE_Q6_K ? b + 208 : b);
    for (int i = 0; i < 2 && type == GGML_TYPE_Q6_K; ++i)
      scale[i] *= static_cast<float>(static_cast<std::int8_t>(b[192 + 2 * part + i]));
    if (type == GGML_TYPE_Q4_1) minimum = halfAt(b + 2);
    for (int k = 0; k < kProductBlock; ++k) {
      const int nibbleOf = k % 16, above = k / 16 * 4;
      if (type == GGML_TYPE_Q4_1) q[k] = b[4 + nibbleOf] >> above & 15;
      if (type == GGML_TYPE_Q5_0)
        q[k] = (b[6 + nibbleOf] >> above & 15) + (b[2 + k / 8] >> k % 8 & 1) * 16 - 16;
      if (type == GGML_TYPE_Q8_0) q[k] = static_cast<std::int8_t>(b[2 + k]);
      if (type == GGML_TYPE_Q6_K) {
        const int low = b[part / 4 * 64 + part % 2 * 32 + k] >> part % 4 / 2 * 4 & 15;
        q[k] = low + (b[128 + part / 4 * 32 + k] >> part % 4 * 2 & 3) * 16 - 32;
      }
    }
  }
};

// A row of x times a row of weights, in the order that block_product.h says.
float writtenOut(ggml_type type, const float* x, const std::uint8_t* weights, std::int64_t blocks) {
  float sum = 0;
  for (std::int64_t at = 0; at < blocks; ++at) {
    const Block block(type, weights, at);
    const float* from = x + at * kProductBlock;
    float most = 0;
    for (int k = 0; k < kProductBlock; ++k) most = std::max(most, std::fabs(from[k]));
    int dot[2] = {0, 0}, total = 0;
    for (int k = 0; k < kProductBlock; ++k) {
      const int number = static_cast<int>(std::nearbyint(from[k] * (most == 0 ? 0 : 127 / most)));
      dot[type == GGML_TYPE_Q6_K ? k / 16 : 0] += number * block.q[k];
      total += number;
    }
    const auto asHalf = [](float value) { return ggml_fp16_to_fp32(ggml_fp32_to_fp16(value)); };
    const float scale = asHalf(most / 127);
    sum = std::fma(block.scale[0] * scale, static_cast<float>(dot[0]), sum);
    if (type == GGML_TYPE_Q6_K)
      sum = std::fma(block.scale[1] * scale, static_cast<float>(dot[1]), sum);
    if (type == GGML_TYPE_Q4_1)
      sum = std::fma(block.minimum, asHalf(most / 127 * static_cast<float>(total)), sum);
  }
  return sum;
}

// Weights that no quantiser writes too: all bits are drawn but those of the scales.
std::vector<std::uint8_t> anyWeights(ggml_type type, std::int64_t rows, std::int64_t width,
                                     std::uint64_t seed) {
  std::vector<std::uint8_t> bytes = quantised(type, draw(rows * width, seed), width);
  Random random(seed + 1);
  const std::size_t size = ggml_type_size(type);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t at = i % size;
    const bool isScale =
        type == GGML_TYPE_Q6_K ? at >= 208 : at < (type == GGML_TYPE_Q4_1 ? 4U : 2U);
    const std::uint64_t drawn = random.nextUint64();
    if (!isScale)
      bytes[i] = drawn % 4 == 0 ? (drawn & 4 ? 0x80 : 0xff) : static_cast<std::uint8_t>(drawn >> 8);
  }
  return bytes;
}

}  // namespace

// Bit for bit: the order of the sums is the same in every instruction set and for any number of
// rows.
TEST(own_products_are_the_sums_that_they_say) {
  forProducts([](const BlockProducts& kernels, const Format& format) {
    const BlockProduct& kernel = kernels.of(format.block);
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 8, 21}) {
      const std::int64_t blocks = (1 + rows) * (format.type == GGML_TYPE_Q6_K ? 8 : 1),
                         width = blocks * kProductBlock;
      std::vector<float> x = draw(rows * width, 5, 10);
      for (std::size_t k = 0; k < kProductBlock; ++k) x[k] = 0;
      // What takes the integers to their ends.
      for (std::size_t k = kProductBlock; k < 2 * kProductBlock; ++k)
        x[k] = rows % 2 == 0 ? 10.0f : -10.0f;
      const std::vector<std::uint8_t> weights = anyWeights(format.type, kernels.lanes, width, 6);
      const std::size_t rowBytes = ggml_row_size(format.type, width);
      std::vector<std::int8_t> q(x.size());
      std::vector<kernels::QuantisedBlock> xBlocks(static_cast<std::size_t>(rows * blocks));
      std::vector<float> tileScales(
          static_cast<std::size_t>(kernels::kBlockScales * kernels.lanes * blocks));
      std::vector<std::uint8_t> tile(static_cast<std::size_t>(kernels.lanes * width));
      std::vector<float> y(static_cast<std::size_t>(rows * kernels.lanes));
      kernels.quantise(x.data(), rows * blocks, q.data(), xBlocks.data());
      kernel.unpack(weights.data(), rowBytes, blocks, tile.data(), tileScales.data());
      kernel.multiply(tile.data(), tileScales.data(), blocks, q.data(), xBlocks.data(), rows,
                      y.data(), kernels.lanes);
      if (rows < kernels::kUnpackedRows) {
        std::vector<float> packed(y.size());
        kernel.multiplyPacked(weights.data(), rowBytes, blocks, q.data(), xBlocks.data(), rows,
                              packed.data(), kernels.lanes);
        CHECK(packed == y);
      }
      int different = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t lane = 0; lane < kernels.lanes; ++lane) {
          const std::uint8_t* from = weights.data() + static_cast<std::size_t>(lane) * rowBytes;
          const float sum = writtenOut(format.type, x.data() + row * width, from, blocks);
          different += sum == y[static_cast<std::size_t>(row * kernels.lanes + lane)] ? 0 : 1;
        }
      }
      CHECK(different == 0);
    }
  });
}

TEST(own_products_take_the_place_of_ggmls_and_are_as_exact_on_any_threads) {
  struct Shape {
    std::int64_t width, height, rows;
  };
  forProducts([](const BlockProducts& kernels, const Format& format) {
    const bool isWide = format.type == GGML_TYPE_Q6_K;
    for (const auto& [blocks, height, rows] : {Shape{1, 16, 4},
                                               {18, 192, 5},
                                               {2, 1536, 32},
                                               {3, 48, 130},
                                               {48, 64, 257},
                                               // whose last tile reaches back
                                               {2, 17, 5},
                                               {3, 24, 130},
                                               {1, 1103, 33},
                                               {2, 1039, 4}}) {
      const std::int64_t width = (isWide ? (blocks + 7) / 8 * 8 : blocks) * kProductBlock;
      Graph graph(format.type, width, height, rows, static_cast<std::uint64_t>(rows));
      const std::vector<double> exact = graph.exact();
      const std::vector<float> ggmls = graph.computed(1);
      const double theirs = rootMeanSquare(ggmls, exact);
      OwnProducts own(kernels, 3);
      CHECK(isProduct(graph.product));
      own.take(graph.product);
      CHECK(graph.product->op == GGML_OP_CUSTOM && isProduct(graph.product));
      const std::vector<float> values = graph.computed(1);
      CHECK(rootMeanSquare(values, exact) < 1.1 * theirs);
      // Both round x in the same way; the order of the sums alone differs. Q6_K: ggml rounds 256
      // numbers by one scale.
      if (!isWide)
        CHECK(rootMeanSquare(values, {ggmls.begin(), ggmls.end()}) < 1e-4 * theirs + 1e-6);
      // A graph that llama.cpp uses again.
      own.take(graph.product);
      for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
      // The same rows among fewer others, and by themselves.
      for (const int few : {1, 2, 3, 4}) {
        Graph fewer(format.type, width, height, few, static_cast<std::uint64_t>(rows));
        std::memcpy(fewer.x->data, graph.x->data, ggml_nbytes(fewer.x));
        own.take(fewer.product);
        CHECK(fewer.product->op == GGML_OP_CUSTOM);
        const std::vector<float> first = fewer.computed(2);
        CHECK(std::equal(first.begin(), first.end(), values.begin()));
      }
    }
  });
}

// Matrices of f32 that are as short as an adapter's A or B: the sums written out, bit for bit,
// whatever the other rows, the threads and the instruction set.
TEST(own_products_of_an_adapters_pairs_are_the_sums_that_they_say) {
  struct Shape {
    std::int64_t width, height;
  };
  for (const BlockProducts* const* kernels = kernels::runnableBlockProducts(); *kernels != nullptr;
       ++kernels) {
    for (const auto& [width, height] : {Shape{576, 8},
                                        {576, 16},
                                        {1536, 64},
                                        {576, 13},
                                        {80, 64},
                                        {48, 1},
                                        {16, 64},
                                        {8, 576},
                                        {1, 16},
                                        {64, 1536},
                                        {13, 48},
                                        {65, 1536},
                                        {576, 65},
                                        {200, 576},
                                        {128, 128}}) {
      const bool widens = height % kernels::kMostLanes == 0 && (width <= 64 || width < height);
      for (const std::int64_t rows : {1, 3, 4, 5, 150}) {
        Graph graph(GGML_TYPE_F32, width, height, rows, 9);
        OwnProducts own(**kernels, 3);
        own.take(graph.product);
        CHECK(graph.product->op == GGML_OP_CUSTOM && isProduct(graph.product));
        const std::vector<float> values = graph.computed(1);
        for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
        const auto* x = static_cast<const float*>(graph.x->data);
        const auto* w = static_cast<const float*>(graph.weights->data);
        int different = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < height; ++i) {
            float sums[kernels::kMostLanes] = {};
            for (std::int64_t k = 0; k < width; ++k) {
              float& sum = sums[widens ? 0 : k % kernels::kMostLanes];
              sum = std::fma(x[row * width + k], w[i * width + k], sum);
            }
            for (std::int64_t half = widens ? 0 : kernels::kMostLanes / 2; half > 0; half /= 2) {
              for (std::int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[half + lane];
            }
            different += sums[0] == values[static_cast<std::size_t>(row * height + i)] ? 0 : 1;
          }
        }
        CHECK(different == 0);
      }
    }
    OwnProducts own(**kernels, 1);
    Graph other(GGML_TYPE_F32, 17, 17, 4, 9);
    own.take(other.product);
    CHECK(other.product->op == GGML_OP_MUL_MAT);
  }
}

// As the graph of one adapter for all rows computes it, bit for bit.
TEST(own_products_add_an_adapters_pair_to_a_row_as_the_graph_does) {
  for (const BlockProducts* const* kernels = kernels::runnableBlockProducts(); *kernels != nullptr;
       ++kernels) {
    for (const std::int64_t rank : {1, 8, 70}) {
      constexpr std::int64_t kInputs = 96, kOutputs = 192;
      const auto& lowRank = (*kernels)->lowRank;
      const std::vector<float> x = draw(kInputs, 1), a = draw(rank * kInputs, 2),
                               b = draw(kOutputs * rank, 3);
      std::vector<float> y = draw(kOutputs, 4), expected = y, transposed(b.size()),
                         inner(static_cast<std::size_t>(rank)), wide(kOutputs);
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        for (std::int64_t k = 0; k < rank; ++k)
          transposed[static_cast<std::size_t>(k * kOutputs + o)] =
              b[static_cast<std::size_t>(o * rank + k)];
      }
      lowRank.narrow(a.data(), rank, kInputs, x.data(), 1, inner.data());
      for (std::int64_t o = 0; o < kOutputs; o += kernels::kMostLanes)
        lowRank.widen(b.data() + o * rank, rank, inner.data(), 1, wide.data() + o, kOutputs);
      for (std::size_t o = 0; o < kOutputs; ++o) {
        const volatile float scaled = wide[o] * 0.3f;
        expected[o] += scaled;
      }
      std::fill(inner.begin(), inner.end(), NAN);
      lowRank.add(x.data(), a.data(), transposed.data(), 0.3f, rank, kInputs, kOutputs,
                  inner.data(), y.data());
      CHECK(y == expected);
    }
  }
}

TEST(own_products_leave_what_they_have_no_kernel_for) {
  forProducts([](const BlockProducts& kernels, const Format& format) {
    OwnProducts own(kernels, 1);
    // Of 8 lanes or 16: which products are ours is the same with every instruction set.
    Graph low(format.type, 256, 15, 3, 1), half(format.type, 256, 8, 8, 2),
        even(format.type, 256, 32, 3, 3);
    ggml_tensor* apart = ggml_mul_mat(even.context.get(), even.weights,
                                      ggml_view_2d(even.context.get(), even.x, 256, 2, 2048, 0));
    for (ggml_tensor* node : {low.product, half.product, apart}) {
      own.take(node);
      CHECK(node->op == GGML_OP_MUL_MAT);
    }
    Graph unknown(GGML_TYPE_Q5_1, 64, 32, 3, 4);
    own.take(unknown.product);
    CHECK(unknown.product->op == GGML_OP_MUL_MAT);
  });
}
