// The kernels of products and attention of our own, on every instruction set here, arm64 under qemu
// included (scripts/test-native.mjs --arm64): the sums written out, and bits that are the same
// everywhere.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"
#include "kernels/attention_rows.h"
#include "product_formats.h"
#include "support/random.h"

using namespace isopro;
using namespace isopro::testing;
using kernels::BlockProducts;
using kernels::kProductBlock;

namespace {

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
    const std::int64_t blocks = ggml_blck_size(type) / kProductBlock;
    const std::uint8_t* b = row + static_cast<std::size_t>(at / blocks) * ggml_type_size(type);
    const auto part = static_cast<int>(at % blocks);
    scale[0] = scale[1] = halfAt(type == GGML_TYPE_Q6_K ? b + 208 : b);
    for (int i = 0; i < 2 && type == GGML_TYPE_Q6_K; ++i)
      scale[i] *= static_cast<float>(static_cast<std::int8_t>(b[192 + 2 * part + i]));
    if (type == GGML_TYPE_Q4_1) minimum = halfAt(b + 2);
    if (type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K) {
      const std::uint8_t* codes = b + 4;
      const auto code = [&](int of) {
        return part < 4 ? codes[of * 4 + part] & 63
                        : (codes[4 + part] >> of * 4 & 15) | codes[of * 4 + part - 4] >> 6 << 4;
      };
      scale[0] *= static_cast<float>(code(0));
      minimum = -halfAt(b + 2) * static_cast<float>(code(1));
    }
    if (type == GGML_TYPE_IQ4_XS)
      scale[0] *= static_cast<float>((b[4 + part / 2] >> part % 2 * 4 & 15) +
                                     (b[2 + part / 4] >> part % 4 * 2 & 3) * 16 - 32);
    if (type == GGML_TYPE_MXFP4) scale[0] = std::ldexp(1.0f, b[0] - 128);
    constexpr int kOfIQ4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
    constexpr int kOfMXFP4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
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
      if (type == GGML_TYPE_Q4_0) q[k] = (b[2 + nibbleOf] >> above & 15) - 8;
      if (type == GGML_TYPE_IQ4_XS) q[k] = kOfIQ4[b[8 + 16 * part + nibbleOf] >> above & 15];
      if (type == GGML_TYPE_MXFP4) q[k] = kOfMXFP4[b[1 + nibbleOf] >> above & 15];
      const int halfByte = part / 2 * 32 + k, halfBits = part % 2 * 4;
      if (type == GGML_TYPE_Q4_K) q[k] = b[16 + halfByte] >> halfBits & 15;
      if (type == GGML_TYPE_Q5_K)
        q[k] = (b[48 + halfByte] >> halfBits & 15) + (b[16 + k] >> part & 1) * 16;
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
    if (type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K)
      sum = std::fma(block.minimum, asHalf(most / 127 * static_cast<float>(total)), sum);
  }
  return sum;
}

// Weights that no quantiser writes too: all bits are drawn but those of the scales.
std::vector<std::uint8_t> anyWeights(ggml_type type, std::int64_t rows, std::int64_t width,
                                     std::uint64_t seed) {
  std::vector<std::uint8_t> bytes = weightsOf(type, uniformNumbers(rows * width, seed), width);
  Random random(seed + 1);
  const std::size_t size = ggml_type_size(type);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t at = i % size;
    const bool hasMinimum =
        type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K;
    const std::size_t scales = type == GGML_TYPE_MXFP4 ? 1 : hasMinimum ? 4 : 2;
    const bool isScale = type == GGML_TYPE_Q6_K ? at >= 208 : at < scales;
    const std::uint64_t drawn = random.nextUint64();
    if (!isScale)
      bytes[i] = drawn % 4 == 0 ? (drawn & 4 ? 0x80 : 0xff) : static_cast<std::uint8_t>(drawn >> 8);
  }
  return bytes;
}

// Bit for bit: the order of the sums is the same in every instruction set and for any number of
// rows. `blocks` of x and of the weights' rows.
int different(const BlockProducts& kernels, const ProductFormat& format, std::int64_t lanes,
              std::int64_t blocks, std::int64_t rows, std::uint64_t seed) {
  const std::int64_t width = blocks * kProductBlock;
  std::vector<float> x = uniformNumbers(rows * width, seed, 10);
  for (std::size_t k = 0; k < kProductBlock; ++k) x[k] = 0;
  // What takes the integers to their ends.
  for (std::size_t k = kProductBlock; k < std::min<std::size_t>(2 * kProductBlock, x.size()); ++k)
    x[k] = rows % 2 == 0 ? 10.0f : -10.0f;
  const std::vector<std::uint8_t> weights = anyWeights(format.type, lanes, width, seed + 1);
  const std::size_t rowBytes = ggml_row_size(format.type, width);
  std::vector<std::int8_t> q(x.size());
  std::vector<kernels::QuantisedBlock> xBlocks(static_cast<std::size_t>(rows * blocks));
  std::vector<float> y(static_cast<std::size_t>(rows * lanes));
  kernels.quantise(x.data(), rows * blocks, q.data(), xBlocks.data());
  kernels.of(format.block)(weights.data(), rowBytes, lanes, blocks, q.data(), xBlocks.data(), rows,
                           y.data(), lanes);
  int found = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::uint8_t* from = weights.data() + static_cast<std::size_t>(lane) * rowBytes;
      const float sum = writtenOut(format.type, x.data() + row * width, from, blocks);
      found += sum == y[static_cast<std::size_t>(row * lanes + lane)] ? 0 : 1;
    }
  }
  return found;
}

}  // namespace

TEST(own_products_are_the_sums_that_they_say) {
  forProducts([](const BlockProducts& kernels, const ProductFormat& format) {
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 8, 21}) {
      const std::int64_t blocks = (1 + rows) * (isWide(format.type) ? 8 : 1);
      CHECK(different(kernels, format, 3 * kernels::kMostLanes, blocks, rows, 5) == 0);
    }
  });
}

TEST(own_products_of_random_shapes_are_the_sums_that_they_say) {
  forProducts([](const BlockProducts& kernels, const ProductFormat& format) {
    Random random(11);
    const auto upTo = [&](std::uint64_t most) {
      return 1 + static_cast<std::int64_t>(random.nextUint64() % most);
    };
    for (int i = 0; i < 120; ++i) {
      const std::int64_t blocks = isWide(format.type) ? 8 * upTo(3) : upTo(24);
      const std::int64_t lanes = kernels::kMostLanes * upTo(4);
      CHECK(different(kernels, format, lanes, blocks, upTo(12), random.nextUint64()) == 0);
    }
  });
}

// What it is on every processor: 16 lanes, whatever a register has.
TEST(own_attention_has_the_same_bits_on_every_instruction_set) {
  constexpr std::int64_t kCells = 37, kHeads = 5, kWidth = 80;
  const std::vector<float> q = uniformNumbers(kHeads * kWidth, 1, 3);
  const auto halves = [](std::uint64_t seed) {
    std::vector<std::uint16_t> values;
    for (const float value : uniformNumbers(kCells * kWidth, seed, 2))
      values.push_back(ggml_fp32_to_fp16(value));
    return values;
  };
  const std::vector<std::uint16_t> k = halves(2), v = halves(3);
  int tried = 0;
  for (const kernels::AttentionRows* const* rows = kernels::runnableAttentionRows();
       *rows != nullptr; ++rows, ++tried) {
    std::vector<std::uint16_t> mask(kCells, ggml_fp32_to_fp16(-INFINITY));
    for (std::size_t i = 0; i < kCells; ++i) {
      if (i % 7 != 3) mask[i] = 0;
    }
    std::vector<std::int32_t> cells(48);
    const std::int64_t count = (*rows)->visible(mask.data(), kCells, cells.data());
    CHECK(count == 32);
    std::vector<float> y(kHeads * kWidth), scores(kHeads * 48);
    (*rows)->attend({q.data(), kWidth, k.data(), kWidth, v.data(), kWidth, y.data(), kWidth, kHeads,
                     kWidth, kWidth, 0.11f},
                    cells.data(), count, scores.data());
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a of the bits
    for (const float value : y) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3u;
    }
    CHECK(hash == 0xe6ee314e9f1c913a);
  }
  CHECK(tried > 0 || kernels::blockProducts() == nullptr);
}
