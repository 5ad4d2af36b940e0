// The vectors of block_product.cpp on arm64 with dot products: four lanes, whose integers and
// orders of sums are those of the wider ones.
constexpr int kLanes = 4;
constexpr int kTilesAtOnce = 2;

typedef long long Integers __attribute__((vector_size(4 * kLanes), may_alias));
typedef float Floats __attribute__((vector_size(4 * kLanes), may_alias));

// ggml stores both scales of a block as f16: with them, only the order of the sums differs from its
// products.
float asHalf(float value) { return static_cast<float>(static_cast<__fp16>(value)); }

Integers loadBytes(const void* from) {
  return reinterpret_cast<Integers>(vld1q_u8(static_cast<const std::uint8_t*>(from)));
}
Floats load(const float* from) { return reinterpret_cast<Floats>(vld1q_f32(from)); }
void store(float* to, Floats values) { vst1q_f32(to, reinterpret_cast<float32x4_t>(values)); }
Floats all(float value) { return reinterpret_cast<Floats>(vdupq_n_f32(value)); }
Floats multiplied(Floats a, Floats b) { return a * b; }
Floats fused(Floats a, Floats b, Floats c) {
  return reinterpret_cast<Floats>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                            reinterpret_cast<float32x4_t>(a),
                                            reinterpret_cast<float32x4_t>(b)));
}
Integers allBytes(int value) {
  return reinterpret_cast<Integers>(vdupq_n_u8(static_cast<std::uint8_t>(value)));
}
Integers allFours(int value) { return reinterpret_cast<Integers>(vdupq_n_s32(value)); }
Integers both(Integers a, Integers b) { return a & b; }
Integers either(Integers a, Integers b) { return a | b; }
Integers leastBytes(Integers a, Integers b) {
  return reinterpret_cast<Integers>(
      vminq_u8(reinterpret_cast<uint8x16_t>(a), reinterpret_cast<uint8x16_t>(b)));
}
template <int kBits>
Integers up(Integers pairs) {
  return reinterpret_cast<Integers>(vshlq_n_u16(reinterpret_cast<uint16x8_t>(pairs), kBits));
}
template <int kBits>
Integers down(Integers pairs) {
  return reinterpret_cast<Integers>(vshrq_n_u16(reinterpret_cast<uint16x8_t>(pairs), kBits));
}
template <int kByte>
Integers signedByte(Integers fours) {
  return reinterpret_cast<Integers>(
      vshrq_n_s32(vshlq_n_s32(reinterpret_cast<int32x4_t>(fours), 24 - 8 * kByte), 24));
}
Integers upHalf(Integers fours) {
  return reinterpret_cast<Integers>(vshrq_n_u32(reinterpret_cast<uint32x4_t>(fours), 16));
}
Integers lookedUp(Integers bytes, Integers order) {
  return reinterpret_cast<Integers>(
      vqtbl1q_u8(reinterpret_cast<uint8x16_t>(bytes), reinterpret_cast<uint8x16_t>(order)));
}
Integers inEachQuarter(const std::int8_t* bytes) { return loadBytes(bytes); }
Floats asFloats(Integers fours) {
  return reinterpret_cast<Floats>(vcvtq_f32_s32(reinterpret_cast<int32x4_t>(fours)));
}
Integers lowPairs(Integers a, Integers b) {
  return reinterpret_cast<Integers>(
      vzip1q_s32(reinterpret_cast<int32x4_t>(a), reinterpret_cast<int32x4_t>(b)));
}
Integers highPairs(Integers a, Integers b) {
  return reinterpret_cast<Integers>(
      vzip2q_s32(reinterpret_cast<int32x4_t>(a), reinterpret_cast<int32x4_t>(b)));
}
Integers lowQuads(Integers a, Integers b) {
  return reinterpret_cast<Integers>(
      vzip1q_s64(reinterpret_cast<int64x2_t>(a), reinterpret_cast<int64x2_t>(b)));
}
Integers highQuads(Integers a, Integers b) {
  return reinterpret_cast<Integers>(
      vzip2q_s64(reinterpret_cast<int64x2_t>(a), reinterpret_cast<int64x2_t>(b)));
}

Floats floatsOfHalves(uint16x4_t halves) {
  return reinterpret_cast<Floats>(vcvt_f32_f16(vreinterpret_f16_u16(halves)));
}
Floats floatsOfLowHalves(Integers pairs) {
  return floatsOfHalves(vmovn_u32(reinterpret_cast<uint32x4_t>(pairs)));
}
Floats floatsOfHighHalves(Integers pairs) {
  return floatsOfHalves(vshrn_n_u32(reinterpret_cast<uint32x4_t>(pairs), 16));
}

Integers gathered(const char* rows, std::size_t) { return loadBytes(rows); }

constexpr int kSignOffset = 0;
Integers signedBytes(Integers bytes) { return bytes; }

template <int kMost, int kCount, int kRows, int kTiles>
void addDots(Integers (*sums)[kTiles], const Integers* weights, const std::int8_t* q,
             std::int64_t qStride) {
#pragma GCC unroll 2
  for (int from = 0; from < kCount; from += 4, weights += 4 * kTiles) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const int8x16_t x = vld1q_s8(q + row * qStride + 4 * from);
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t) {
        const auto group = [&](int g) {
          return reinterpret_cast<int8x16_t>(weights[g * kTiles + t]);
        };
        auto sum = reinterpret_cast<int32x4_t>(sums[row][t]);
        sum = vdotq_laneq_s32(sum, group(0), x, 0);
        sum = vdotq_laneq_s32(sum, group(1), x, 1);
        sum = vdotq_laneq_s32(sum, group(2), x, 2);
        sum = vdotq_laneq_s32(sum, group(3), x, 3);
        sums[row][t] = reinterpret_cast<Integers>(sum);
      }
    }
  }
}

void quantise(const float* x, std::int64_t blocks, std::int8_t* q, QuantisedBlock* xBlocks) {
  for (std::int64_t block = 0; block < blocks; ++block, x += kProductBlock, q += kProductBlock) {
    float32x4_t largest = vdupq_n_f32(0.0f);
    for (int i = 0; i < kProductBlock; i += 4)
      largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i)));
    const float magnitude = vmaxvq_f32(largest);
    const float inverse = magnitude == 0.0f ? 0.0f : 127.0f / magnitude;
    std::int32_t halves[2];
    for (int half = 0; half < 2; ++half) {
      int32x4_t whole[4];
      for (int i = 0; i < 4; ++i)
        whole[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 16 * half + 4 * i), inverse));
      const int16x8_t low = vcombine_s16(vqmovn_s32(whole[0]), vqmovn_s32(whole[1]));
      const int16x8_t high = vcombine_s16(vqmovn_s32(whole[2]), vqmovn_s32(whole[3]));
      vst1q_s8(q + 16 * half, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
      halves[half] =
          vaddvq_s32(vaddq_s32(vaddq_s32(whole[0], whole[1]), vaddq_s32(whole[2], whole[3])));
    }
    const float scale = magnitude / 127.0f;
    xBlocks[block] = {asHalf(scale),
                      asHalf(scale * static_cast<float>(halves[0] + halves[1])),
                      {halves[0], halves[1]}};
  }
}
