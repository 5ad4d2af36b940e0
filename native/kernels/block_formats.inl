// How a file has the weights of each format; of a tile of rows at once.
//
// A format: bytes of kSpan blocks, and `read`, which calls `use(i, groups, scales)` with the
// integers [8][lanes][4] and the scales of each of kStripe blocks in ascending order. The integers
// are at most kMost and kOffset above those of the format. Of kParts equal parts of a block each
// has a scale; where kHasMinimum, the second scale is the minimum.

struct Q4_1 {
  static constexpr std::int64_t kBytes = 20, kSpan = 1,
                                kStripe = 1;  // d and m as f16, then 16 bytes of two weights
  static constexpr int kMost = 15, kOffset = 0, kParts = 1;
  static constexpr bool kHasMinimum = true;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
    const Integers pairs = foursAt(tile, block * kBytes);  // m above d
    scales[0] = floatsOfLowHalves(pairs);
    scales[1] = floatsOfHighHalves(pairs);
    halfBytesAt(tile, block * kBytes + 4, groups);
    use(0, groups, scales);
  }
};

struct Q5_0 {
  static constexpr std::int64_t
      kBytes = 22,
      kSpan = 1, kStripe = 1;  // d as f16, a fifth bit of each weight, then 16 bytes of two weights
  static constexpr int kMost = 31, kOffset = 16, kParts = 1;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
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
    use(0, groups, scales);
  }
};

struct Q8_0 {
  static constexpr std::int64_t kBytes = 34, kSpan = 1, kStripe = 1;  // d as f16, then the weights
  static constexpr int kMost = 255, kOffset = kSignOffset, kParts = 1;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
    const std::int64_t at = block * kBytes;
    scales[0] = scales[1] = halvesAt(tile, at);
    groupsAt(tile, at + 2, groups);
    groupsAt(tile, at + 18, groups + 4);
    for (int g = 0; g < kGroups; ++g) groups[g] = signedBytes(groups[g]);
    use(0, groups, scales);
  }
};

struct Q6_K {
  // 128 bytes of two weights' low halves, 64 of four weights' high bits, 16 scales of eight bits, d
  // as f16.
  static constexpr std::int64_t kBytes = 210, kSpan = 8, kStripe = 4;
  static constexpr int kMost = 63, kOffset = 32, kParts = 2;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kStripe][kGroups];
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
      const Floats scales[kBlockScales] = {
          multiplied(d, asFloats(signedByte<0>(i % 2 == 0 ? eight[i / 2] : upHalf(eight[i / 2])))),
          multiplied(d, asFloats(signedByte<1>(i % 2 == 0 ? eight[i / 2] : upHalf(eight[i / 2]))))};
      use(i, groups[i], scales);
    }
  }
};

// Of the 256 weights of a Q4_K or Q5_K, which begin with 16 bytes: d and the minimums' d as f16,
// then a scale and a minimum of six bits for each 32.
struct SuperBlockScales {
  Integers codes[4];  // scales of the blocks 0 to 3 and 4 to 7, minimums of the same
  Floats d, minimumD;

  SuperBlockScales(PackedTile tile, std::int64_t at) {
    Integers head[4];
    groupsAt(tile, at, head);
    d = floatsOfLowHalves(head[0]);
    // It is subtracted.
    minimumD = multiplied(floatsOfHighHalves(head[0]), all(-1.0f));
    // Of the blocks from 4 on the low halves lie together, the other bits above those of 0 to 3.
    const Integers sixBits = allBytes(63), twoBits = allBytes(0x30);
    codes[0] = both(head[1], sixBits);
    codes[1] = either(lowHalves(head[3]), both(down<2>(head[1]), twoBits));
    codes[2] = both(head[2], sixBits);
    codes[3] = either(lowHalves(down<4>(head[3])), both(down<2>(head[2]), twoBits));
  }

  void of(int block, Floats* scales) const {
    scales[0] = multiplied(d, asFloats(unsignedByte(codes[block / 4], block % 4)));
    scales[1] = multiplied(minimumD, asFloats(unsignedByte(codes[2 + block / 4], block % 4)));
  }
};

struct Q4_K {
  // Scales, then 128 bytes: the low halves of 32 of them are a block, the high ones the next.
  static constexpr std::int64_t kBytes = 144, kSpan = 8, kStripe = 8;
  static constexpr int kMost = 15, kOffset = 0, kParts = 1;
  static constexpr bool kHasMinimum = true;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    const std::int64_t from = block / kSpan * kBytes;
    const SuperBlockScales all(tile, from);
    for (int i = 0; i < kStripe; i += 2) {
      Integers bytes[kGroups], groups[kGroups];
      Floats scales[kBlockScales];
      groupsAt(tile, from + 16 + 16 * i, bytes);
      groupsAt(tile, from + 32 + 16 * i, bytes + 4);
      for (int g = 0; g < kGroups; ++g) groups[g] = lowHalves(bytes[g]);
      all.of(i, scales);
      use(i, groups, scales);
      for (int g = 0; g < kGroups; ++g) groups[g] = lowHalves(down<4>(bytes[g]));
      all.of(i + 1, scales);
      use(i + 1, groups, scales);
    }
  }
};

struct Q5_K {
  // Scales, then 32 bytes whose bits are the fifths of 32 weights of each block, then as Q4_K.
  static constexpr std::int64_t kBytes = 176, kSpan = 8, kStripe = 8;
  static constexpr int kMost = 31, kOffset = 0, kParts = 1;
  static constexpr bool kHasMinimum = true;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    const std::int64_t from = block / kSpan * kBytes;
    const SuperBlockScales all(tile, from);
    const Integers fifth = allBytes(16);
    Integers bits[kGroups];
    groupsAt(tile, from + 16, bits);
    groupsAt(tile, from + 32, bits + 4);
    for (int i = 0; i < kStripe; i += 2) {
      Integers bytes[kGroups], groups[kGroups];
      Floats scales[kBlockScales];
      groupsAt(tile, from + 48 + 16 * i, bytes);
      groupsAt(tile, from + 64 + 16 * i, bytes + 4);
      for (int g = 0; g < kGroups; ++g)
        groups[g] = either(lowHalves(bytes[g]), both(up<4>(bits[g]), fifth));
      all.of(i, scales);
      use(i, groups, scales);
      for (int g = 0; g < kGroups; ++g)
        groups[g] = either(lowHalves(down<4>(bytes[g])), both(up<3>(bits[g]), fifth));
      all.of(i + 1, scales);
      use(i + 1, groups, scales);
      // The next two's to the end.
      for (int g = 0; g < kGroups; ++g) bits[g] = down<2>(bits[g]);
    }
  }
};

struct Q4_0 {
  static constexpr std::int64_t kBytes = 18, kSpan = 1,
                                kStripe = 1;  // d as f16, then 16 bytes of two weights
  static constexpr int kMost = 15, kOffset = 8, kParts = 1;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
    scales[0] = scales[1] = halvesAt(tile, block * kBytes);
    halfBytesAt(tile, block * kBytes + 2, groups);
    use(0, groups, scales);
  }
};

struct IQ4_XS {
  // d as f16, two high bits of each block's scale, their low halves, then 16 bytes of two places in
  // a table for each block.
  static constexpr std::int64_t kBytes = 136, kSpan = 8, kStripe = 8;
  static constexpr int kMost = 255, kOffset = kSignOffset, kParts = 1;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    const std::int64_t from = block / kSpan * kBytes;
    const Integers table = signedBytes(
        sixteenBytes<-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113>());
    const Integers head = foursAt(tile, from), lows = foursAt(tile, from + 4);
    const Floats d = floatsOfLowHalves(head);
    const Integers low[2] = {lowHalves(lows), lowHalves(down<4>(lows))};
    const Integers twoBits = allBytes(0x30);
    const Integers high[4] = {both(up<4>(head), twoBits), both(up<2>(head), twoBits),
                              both(head, twoBits), both(down<2>(head), twoBits)};
    for (int i = 0; i < kStripe; ++i) {
      Integers groups[kGroups];
      Floats scales[kBlockScales];
      const Integers code =
          either(unsignedByte(low[i % 2], i / 2), unsignedByte(high[i % 4], 2 + i / 4));
      scales[0] = scales[1] = multiplied(d, fused(asFloats(code), all(1.0f), all(-32.0f)));
      halfBytesAt(tile, from + 8 + 16 * i, groups);
      for (int g = 0; g < kGroups; ++g) groups[g] = lookedUp(table, groups[g]);
      use(i, groups, scales);
    }
  }
};

// 2^(e - 128) of each e, as f32: the table of MXFP4's weights has their doubles.
struct HalvedPowersOfTwo {
  std::int32_t bits[256];

  constexpr HalvedPowersOfTwo() : bits() {
    for (int e = 0; e < 256; ++e) bits[e] = e < 2 ? 0x00200000 << e : (e - 1) << 23;
  }
};
constexpr HalvedPowersOfTwo kHalvedPowersOfTwo;

struct MXFP4 {
  static constexpr std::int64_t kBytes = 17, kSpan = 1,
                                kStripe = 1;  // e, then 16 bytes of two places in a table
  static constexpr int kMost = 31, kOffset = 12, kParts = 1;
  static constexpr bool kHasMinimum = false;

  template <class Use>
  static void read(PackedTile tile, std::int64_t block, const Use& use) {
    Integers groups[kGroups];
    Floats scales[kBlockScales];
    scales[0] = scales[1] = powersAt(tile, block * kBytes);
    halfBytesAt(tile, block * kBytes + 1, groups);
    // The sign is the highest bit; 12 more than the weights' doubles.
    const Integers table =
        sixteenBytes<12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0>();
    for (int g = 0; g < kGroups; ++g) groups[g] = lookedUp(table, groups[g]);
    use(0, groups, scales);
  }

 private:
  static Floats powersAt(PackedTile tile, std::int64_t at) {
    alignas(64) float each[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i)
      std::memcpy(each + i, kHalvedPowersOfTwo.bits + static_cast<std::uint8_t>(tile.row(i)[at]),
                  sizeof *each);
    return load(each);
  }
};
