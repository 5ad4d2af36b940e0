// How a file has the weights of each format, and how its blocks are added to a sum; of a tile of
// rows at once.
//
// A format: bytes of kSpan blocks, `read` for the weights [8][lanes][4] and scales of kStripe
// blocks, and `add`, the order of every sum.

struct Q4_1 {
  static constexpr std::int64_t kBytes = 20, kSpan = 1,
                                kStripe = 1;  // d and m as f16, then 16 bytes of two weights

  static void read(PackedTile tile, std::int64_t block, Integers (*stripe)[kGroups],
                   Floats (*stripeScales)[kBlockScales]) {
    Integers* groups = stripe[0];
    Floats* scales = stripeScales[0];
    const Integers pairs = foursAt(tile, block * kBytes);  // m above d
    scales[0] = floatsOfLowHalves(pairs);
    scales[1] = floatsOfHighHalves(pairs);
    halfBytesAt(tile, block * kBytes + 4, groups);
  }

  static Floats add(Floats sum, const Integers* groups, const Floats* scales, const std::int8_t* q,
                    const QuantisedBlock& x) {
    const Floats dot = asFloats(dots<8, 15>(allFours(0), groups, q));
    sum = fused(multiplied(scales[0], all(x.scale)), dot, sum);
    return fused(scales[1], all(x.scaledSum), sum);
  }
};

struct Q5_0 {
  static constexpr std::int64_t
      kBytes = 22,
      kSpan = 1, kStripe = 1;  // d as f16, a fifth bit of each weight, then 16 bytes of two weights

  static void read(PackedTile tile, std::int64_t block, Integers (*stripe)[kGroups],
                   Floats (*stripeScales)[kBlockScales]) {
    Integers* groups = stripe[0];
    Floats* scales = stripeScales[0];
    const std::int64_t at = block * kBytes;
    scales[0] = scales[1] = halvesAt(tile, at);
    halfBytesAt(tile, at + 6, groups);
    const Integers fifths = foursAt(tile, at + 2);
    for (int g = 0; g < kGroups; ++g) {
      // A byte has the bits of two groups: the one that is asked for, above; each bit then to the
      // byte of its weight.
      Integers bits = ofEachLane(fifths, g / 2);
      if (g % 2 == 0) bits = up<4>(bits);
      groups[g] = either(
          groups[g],
          leastBytes(both(bits, allFours(static_cast<std::int32_t>(0x80402010))), allBytes(16)));
    }
  }

  static Floats add(Floats sum, const Integers* groups, const Floats* scales, const std::int8_t* q,
                    const QuantisedBlock& x) {
    const Floats dot =
        asFloats(dots<8, 31>(allFours(-16 * (x.halves[0] + x.halves[1])), groups, q));
    return fused(multiplied(scales[0], all(x.scale)), dot, sum);
  }
};

struct Q8_0 {
  static constexpr std::int64_t kBytes = 34, kSpan = 1, kStripe = 1;  // d as f16, then the weights

  static void read(PackedTile tile, std::int64_t block, Integers (*stripe)[kGroups],
                   Floats (*stripeScales)[kBlockScales]) {
    Integers* groups = stripe[0];
    Floats* scales = stripeScales[0];
    const std::int64_t at = block * kBytes;
    scales[0] = scales[1] = halvesAt(tile, at);
    groupsAt(tile, at + 2, groups);
    groupsAt(tile, at + 18, groups + 4);
    for (int g = 0; g < kGroups; ++g) groups[g] = signedBytes(groups[g]);
  }

  static Floats add(Floats sum, const Integers* groups, const Floats* scales, const std::int8_t* q,
                    const QuantisedBlock& x) {
    const Floats dot =
        asFloats(dots<8, 255>(allFours(-kSignOffset * (x.halves[0] + x.halves[1])), groups, q));
    return fused(multiplied(scales[0], all(x.scale)), dot, sum);
  }
};

struct Q6_K {
  // 128 bytes of two weights' low halves, 64 of four weights' high bits, 16 scales of eight bits, d
  // as f16.
  static constexpr std::int64_t kBytes = 210, kSpan = 8, kStripe = 4;

  static void read(PackedTile tile, std::int64_t block, Integers (*groups)[kGroups],
                   Floats (*scales)[kBlockScales]) {
    const std::int64_t from = block / kSpan * kBytes;
    const std::int64_t half = block % kSpan / kStripe;
    Integers low[2][kGroups], high[kGroups];
    for (int i = 0; i < 4; ++i) groupsAt(tile, from + 64 * half + 16 * i, low[i / 2] + i % 2 * 4);
    for (int i = 0; i < 2; ++i) groupsAt(tile, from + 128 + 32 * half + 16 * i, high + 4 * i);
    const Integers twoBits = allBytes(0x30);
    for (int g = 0; g < kGroups; ++g) {
      groups[0][g] = either(lowHalves(low[0][g]), both(up<4>(high[g]), twoBits));
      groups[1][g] = either(lowHalves(low[1][g]), both(up<2>(high[g]), twoBits));
      groups[2][g] = either(lowHalves(down<4>(low[0][g])), both(high[g], twoBits));
      groups[3][g] = either(lowHalves(down<4>(low[1][g])), both(down<2>(high[g]), twoBits));
    }
    const Floats d = halvesAt(tile, from + 208);
    const Integers eight[2] = {foursAt(tile, from + 192 + 8 * half),
                               foursAt(tile, from + 192 + 8 * half + 4)};
    for (int i = 0; i < kStripe; ++i) {
      scales[i][0] =
          multiplied(d, asFloats(signedByte<0>(i % 2 == 0 ? eight[i / 2] : upHalf(eight[i / 2]))));
      scales[i][1] =
          multiplied(d, asFloats(signedByte<1>(i % 2 == 0 ? eight[i / 2] : upHalf(eight[i / 2]))));
    }
  }

  static Floats add(Floats sum, const Integers* groups, const Floats* scales, const std::int8_t* q,
                    const QuantisedBlock& x) {
    const Floats first = asFloats(dots<4, 63>(allFours(-32 * x.halves[0]), groups, q));
    const Floats second = asFloats(dots<4, 63>(allFours(-32 * x.halves[1]), groups + 4, q + 16));
    sum = fused(multiplied(scales[0], all(x.scale)), first, sum);
    return fused(multiplied(scales[1], all(x.scale)), second, sum);
  }
};
