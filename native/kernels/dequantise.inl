// Blocks of the common types to f32, bit for bit what ggml's to_float gives (tested). Layouts:
// ggml-common.h of llama.cpp; a K-quant super-block is 256 values. Types not here go through ggml's
// own to_float (gemm.cpp).

inline float half(std::uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#elif defined(__aarch64__)
  __fp16 h;  // GCC before 13 has no _Float16 in C++ here
  __builtin_memcpy(&h, &bits, sizeof h);
  return static_cast<float>(h);
#else
  return ggml_fp16_to_fp32(bits);
#endif
}

struct BlockQ80 {
  std::uint16_t scale;
  std::int8_t values[32];
};
struct BlockQ40 {
  std::uint16_t scale;
  std::uint8_t nibbles[16];
};
struct BlockQ41 {
  std::uint16_t scale, minimum;
  std::uint8_t nibbles[16];
};
struct BlockQ50 {
  std::uint16_t scale;
  std::uint8_t high[4];  // bit i: fifth bit of value i
  std::uint8_t nibbles[16];
};
struct BlockQ51 {
  std::uint16_t scale, minimum;
  std::uint8_t high[4];
  std::uint8_t nibbles[16];
};
struct BlockQ3K {
  std::uint8_t high[32];  // bit b of byte i: third bit of value i + 32 b
  std::uint8_t low[64];
  std::uint8_t scales[12];  // 16 scales of 6 bits
  std::uint16_t scale;
};
struct BlockQ4K {
  std::uint16_t scale, minimum;
  std::uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  std::uint8_t nibbles[128];
};
struct BlockQ5K {
  std::uint16_t scale, minimum;
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t nibbles[128];
};
struct BlockQ6K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  std::uint16_t scale;
};
struct BlockIQ4NL {
  std::uint16_t scale;
  std::uint8_t nibbles[16];
};
struct BlockIQ4XS {
  std::uint16_t scale;
  std::uint16_t highScales;   // 8 scales of 6 bits: two bits each,
  std::uint8_t lowScales[4];  // and four
  std::uint8_t nibbles[128];
};
struct BlockMXFP4 {
  std::uint8_t exponent;
  std::uint8_t nibbles[16];
};
static_assert(sizeof(BlockQ80) == 34 && sizeof(BlockQ40) == 18 && sizeof(BlockQ41) == 20 &&
              sizeof(BlockQ50) == 22 && sizeof(BlockQ51) == 24 && sizeof(BlockQ3K) == 110 &&
              sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210 &&
              sizeof(BlockIQ4NL) == 18 && sizeof(BlockIQ4XS) == 136 && sizeof(BlockMXFP4) == 17);

typedef std::uint8_t Bytes __attribute__((vector_size(kLanes)));
typedef std::int8_t SignedBytes __attribute__((vector_size(kLanes)));
typedef std::uint16_t Words __attribute__((vector_size(2 * kLanes)));
typedef std::int16_t SignedWords __attribute__((vector_size(2 * kLanes)));

inline Bytes loadBytes(const std::uint8_t* p) {
  Bytes v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Bytes are widened before they are shifted or masked: no instruction set here shifts bytes. With
// intrinsics where GCC 12 would put each half together apart; else twice as wide at each step, for
// what widens more it converts lane by lane.
#if defined(__AVX512F__)
inline IntVector widen(Bytes bytes) {
  return reinterpret_cast<IntVector>(
      _mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(bytes)));
}
inline IntVector widen(SignedBytes bytes) {
  return reinterpret_cast<IntVector>(
      _mm512_maskz_cvtepi8_epi32(0xffff, reinterpret_cast<__m128i>(bytes)));
}
inline IntVector widen(Words words) {
  return reinterpret_cast<IntVector>(
      _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(words)));
}
#elif defined(__AVX2__)
inline __m128i lowHalf(long long bytes) { return _mm_cvtsi64_si128(bytes); }
inline IntVector widen(Bytes bytes) {
  return reinterpret_cast<IntVector>(
      _mm256_cvtepu8_epi32(lowHalf(reinterpret_cast<long long>(bytes))));
}
inline IntVector widen(SignedBytes bytes) {
  return reinterpret_cast<IntVector>(
      _mm256_cvtepi8_epi32(lowHalf(reinterpret_cast<long long>(bytes))));
}
inline IntVector widen(Words words) {
  return reinterpret_cast<IntVector>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(words)));
}
#else
inline IntVector widen(Words words) { return __builtin_convertvector(words, IntVector); }
inline IntVector widen(Bytes bytes) { return widen(__builtin_convertvector(bytes, Words)); }
inline IntVector widen(SignedBytes bytes) {
  return __builtin_convertvector(__builtin_convertvector(bytes, SignedWords), IntVector);
}
#endif

inline Vector toFloat(IntVector integers) { return __builtin_convertvector(integers, Vector); }

void dequantiseQ80(const BlockQ80* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    for (int i = 0; i < 32; i += kLanes) {
      SignedBytes q;
      __builtin_memcpy(&q, block->values + i, sizeof q);
      store(y + i, toFloat(widen(q)) * scale);
    }
  }
}

void dequantiseQ40(const BlockQ40* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    for (int i = 0; i < 16; i += kLanes) {
      const IntVector q = widen(loadBytes(block->nibbles + i));
      store(y + i, toFloat((q & 15) - 8) * scale);
      store(y + i + 16, toFloat((q >> 4) - 8) * scale);
    }
  }
}

void dequantiseQ41(const BlockQ41* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale), minimum = half(block->minimum);
    for (int i = 0; i < 16; i += kLanes) {
      const IntVector q = widen(loadBytes(block->nibbles + i));
      store(y + i, toFloat(q & 15) * scale + minimum);
      store(y + i + 16, toFloat(q >> 4) * scale + minimum);
    }
  }
}

// Bit i + lane of `bits` as the fifth bit of a value.
inline IntVector fifthBits(std::uint32_t bits, int i) {
  IntVector lane;
  for (int j = 0; j < kLanes; ++j) lane[j] = j;
  return (((IntVector{} + static_cast<std::int32_t>(bits >> i)) >> lane) & 1) << 4;
}

void dequantiseQ50(const BlockQ50* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    std::uint32_t high;
    __builtin_memcpy(&high, block->high, sizeof high);
    for (int i = 0; i < 16; i += kLanes) {
      const IntVector q = widen(loadBytes(block->nibbles + i));
      store(y + i, toFloat(((q & 15) | fifthBits(high, i)) - 16) * scale);
      store(y + i + 16, toFloat(((q >> 4) | fifthBits(high, i + 16)) - 16) * scale);
    }
  }
}

void dequantiseQ51(const BlockQ51* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale), minimum = half(block->minimum);
    std::uint32_t high;
    __builtin_memcpy(&high, block->high, sizeof high);
    for (int i = 0; i < 16; i += kLanes) {
      const IntVector q = widen(loadBytes(block->nibbles + i));
      store(y + i, toFloat((q & 15) | fifthBits(high, i)) * scale + minimum);
      store(y + i + 16, toFloat((q >> 4) | fifthBits(high, i + 16)) * scale + minimum);
    }
  }
}

void dequantiseQ3K(const BlockQ3K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    const float scale = half(block->scale);
    for (int part = 0; part < 8; ++part, y += 32) {
      float scales[2];  // of the first and the last 16 values
      for (int i = 0; i < 2; ++i) {
        const int j = 2 * part + i;
        const int low = j < 8 ? block->scales[j] & 15 : block->scales[j - 8] >> 4,
                  high = (block->scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        scales[i] = scale * static_cast<float>((low | (high << 4)) - 32);
      }
      for (int i = 0; i < 32; i += kLanes) {
        const IntVector low = widen(loadBytes(block->low + part / 4 * 32 + i)) >> (part % 4 * 2);
        const IntVector high = widen(loadBytes(block->high + i)) >> part;
        store(y + i, toFloat(((low & 3) | ((high & 1) << 2)) - 4) * scales[i / 16]);
      }
    }
  }
}

// Scale and minimum j of a Q4_K or Q5_K super-block: 6 bits each, packed into 12 bytes.
inline void scaleAndMinimum(int j, const std::uint8_t* packed, float* scale, float* minimum) {
  const int low = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
  const int high = j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
  *scale *= static_cast<float>(low);
  *minimum *= static_cast<float>(high);
}

void dequantiseQ4K(const BlockQ4K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    for (int j = 0; j < 8; j += 2, y += 64) {
      float scale0 = half(block->scale), minimum0 = half(block->minimum), scale1 = scale0,
            minimum1 = minimum0;
      scaleAndMinimum(j, block->scales, &scale0, &minimum0);
      scaleAndMinimum(j + 1, block->scales, &scale1, &minimum1);
      for (int i = 0; i < 32; i += kLanes) {
        const IntVector q = widen(loadBytes(block->nibbles + j * 16 + i));
        store(y + i, toFloat(q & 15) * scale0 - minimum0);
        store(y + i + 32, toFloat(q >> 4) * scale1 - minimum1);
      }
    }
  }
}

void dequantiseQ5K(const BlockQ5K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    for (int j = 0; j < 8; j += 2, y += 64) {
      float scale0 = half(block->scale), minimum0 = half(block->minimum), scale1 = scale0,
            minimum1 = minimum0;
      scaleAndMinimum(j, block->scales, &scale0, &minimum0);
      scaleAndMinimum(j + 1, block->scales, &scale1, &minimum1);
      for (int i = 0; i < 32; i += kLanes) {
        const IntVector q = widen(loadBytes(block->nibbles + j * 16 + i)),
                        high = widen(loadBytes(block->high + i));
        store(y + i, toFloat((q & 15) | (((high >> j) & 1) << 4)) * scale0 - minimum0);
        store(y + i + 32, toFloat((q >> 4) | (((high >> (j + 1)) & 1) << 4)) * scale1 - minimum1);
      }
    }
  }
}

void dequantiseQ6K(const BlockQ6K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    const float scale = half(block->scale);
    for (int part = 0; part < 2; ++part, y += 128) {
      const std::uint8_t* low = block->low + part * 64;
      const std::uint8_t* high = block->high + part * 32;
      const std::int8_t* scales = block->scales + part * 8;
      for (int i = 0; i < 32; i += kLanes) {
        const IntVector low0 = widen(loadBytes(low + i)), low1 = widen(loadBytes(low + i + 32)),
                        top = widen(loadBytes(high + i));
        const int group = i / 16;
        const auto put = [&](int at, IntVector q) {
          store(y + i + at, toFloat(q - 32) * (scale * scales[group + at / 16]));
        };
        put(0, (low0 & 15) | ((top & 3) << 4));
        put(32, (low1 & 15) | (((top >> 2) & 3) << 4));
        put(64, (low0 >> 4) | (((top >> 4) & 3) << 4));
        put(96, (low1 >> 4) | ((top >> 6) << 4));
      }
    }
  }
}

typedef std::int8_t Table __attribute__((vector_size(16)));
constexpr Table kNonLinear4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of e2m1: OCP Microscaling Formats 1.0, section 5.3.3.
constexpr Table kE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 32 values of a block: 16 nibbles choose entries of the table, the lower ones the first 16 values.
inline void dequantiseByTable(Table table, const std::uint8_t* nibbles, float scale, float* y) {
#if defined(__AVX2__) || defined(__aarch64__)
  typedef std::uint8_t Index __attribute__((vector_size(16)));
  Index q;
  __builtin_memcpy(&q, nibbles, sizeof q);
  const auto lookUp = [table](Index index) {
#if defined(__AVX2__)
    return reinterpret_cast<Table>(
        _mm_shuffle_epi8(reinterpret_cast<__m128i>(table), reinterpret_cast<__m128i>(index)));
#else
    return reinterpret_cast<Table>(
        vqtbl1q_s8(reinterpret_cast<int8x16_t>(table), reinterpret_cast<uint8x16_t>(index)));
#endif
  };
  const Table found[2] = {lookUp(q & 15), lookUp(q >> 4)};
  for (int i = 0; i < 32; i += kLanes) {
    SignedBytes some;
    __builtin_memcpy(&some, reinterpret_cast<const char*>(found) + i, sizeof some);
    store(y + i, toFloat(widen(some)) * scale);
  }
#else
  for (int i = 0; i < 16; ++i) {
    y[i] = static_cast<float>(table[nibbles[i] & 15]) * scale;
    y[i + 16] = static_cast<float>(table[nibbles[i] >> 4]) * scale;
  }
#endif
}

void dequantiseIQ4NL(const BlockIQ4NL* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block)
    dequantiseByTable(kNonLinear4, block->nibbles, half(block->scale), y);
}

void dequantiseIQ4XS(const BlockIQ4XS* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    const float scale = half(block->scale);
    for (int part = 0; part < 8; ++part, y += 32) {
      const int low = (block->lowScales[part / 2] >> (part % 2 * 4)) & 15,
                high = (block->highScales >> (part * 2)) & 3;
      dequantiseByTable(kNonLinear4, block->nibbles + part * 16,
                        scale * static_cast<float>((low | (high << 4)) - 32), y);
    }
  }
}

void dequantiseMXFP4(const BlockMXFP4* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    // 2^(exponent - 128): half of the scale, for the table has the double of the values; subnormal
    // below an exponent of 2.
    const std::uint32_t exponent = block->exponent,
                        bits = exponent < 2 ? 0x200000u << exponent : (exponent - 1) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    dequantiseByTable(kE2M1, block->nibbles, scale, y);
  }
}

void dequantiseBF16(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Words words;
    __builtin_memcpy(&words, x + i, sizeof words);
    store(y + i, reinterpret_cast<Vector>(widen(words) << 16));
  }
  for (; i < count; ++i) {
    const std::uint32_t bits = std::uint32_t{x[i]} << 16;
    __builtin_memcpy(y + i, &bits, sizeof bits);
  }
}

void dequantiseF16(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Words words;
    __builtin_memcpy(&words, x + i, sizeof words);
    const IntVector bits = widen(words);
    // Exponent and mantissa in their new places are the value times 2^-112, subnormals included.
    const IntVector moved = (bits & 0x7fff) << 13;
    const IntVector finite =
        reinterpret_cast<IntVector>(reinterpret_cast<Vector>(moved) * 0x1p112f);
    const IntVector largest = moved >= 31 << 23;  // infinity and NaN
    const IntVector magnitude = (largest & (moved | 0x7f800000)) | (~largest & finite);
    store(y + i, reinterpret_cast<Vector>(magnitude | ((bits & 0x8000) << 16)));
  }
  for (; i < count; ++i) y[i] = half(x[i]);
}

bool dequantise(ggml_type type, const void* blocks, float* values, std::int64_t count) {
  switch (type) {
#define ISOPRO_DEQUANTISE(name, function, Block)                \
  case GGML_TYPE_##name:                                        \
    function(static_cast<const Block*>(blocks), values, count); \
    return true
    ISOPRO_DEQUANTISE(F16, dequantiseF16, std::uint16_t);
    ISOPRO_DEQUANTISE(BF16, dequantiseBF16, std::uint16_t);
    ISOPRO_DEQUANTISE(Q8_0, dequantiseQ80, BlockQ80);
    ISOPRO_DEQUANTISE(Q4_0, dequantiseQ40, BlockQ40);
    ISOPRO_DEQUANTISE(Q4_1, dequantiseQ41, BlockQ41);
    ISOPRO_DEQUANTISE(Q5_0, dequantiseQ50, BlockQ50);
    ISOPRO_DEQUANTISE(Q5_1, dequantiseQ51, BlockQ51);
    ISOPRO_DEQUANTISE(Q3_K, dequantiseQ3K, BlockQ3K);
    ISOPRO_DEQUANTISE(Q4_K, dequantiseQ4K, BlockQ4K);
    ISOPRO_DEQUANTISE(Q5_K, dequantiseQ5K, BlockQ5K);
    ISOPRO_DEQUANTISE(Q6_K, dequantiseQ6K, BlockQ6K);
    ISOPRO_DEQUANTISE(IQ4_NL, dequantiseIQ4NL, BlockIQ4NL);
    ISOPRO_DEQUANTISE(IQ4_XS, dequantiseIQ4XS, BlockIQ4XS);
    ISOPRO_DEQUANTISE(MXFP4, dequantiseMXFP4, BlockMXFP4);
#undef ISOPRO_DEQUANTISE
    default:
      return false;
  }
}
