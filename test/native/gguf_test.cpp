// The GGUF reader: what it reads, and that every cut and many flips of a file end in a typed error
// and nothing else.
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "gguf_bytes.h"
#include "support/error.h"
#include "support/gguf.h"
#include "support/random.h"

namespace {

using isopro::ErrorCode;
using isopro::GgufFile;
using isopro::test::Bytes;

Bytes example() {
  Bytes bytes;
  bytes.header(2, 5);
  bytes.text("general.architecture").number<std::uint32_t>(8).text("llama");
  bytes.text("count").number<std::uint32_t>(4).number<std::uint32_t>(7);
  bytes.text("base").number<std::uint32_t>(6).number(2.5f);
  bytes.text("flag").number<std::uint32_t>(7).number<std::uint8_t>(1);
  bytes.text("words")
      .number<std::uint32_t>(9)
      .number<std::uint32_t>(8)
      .number<std::uint64_t>(3)
      .text("a")
      .text("")
      .text("bc");
  bytes.tensor("t", {3, 2}, GGML_TYPE_F32, 0).tensor("q", {64, 1}, GGML_TYPE_Q8_0, 32);
  bytes.pad(32);
  for (int i = 0; i < 6; ++i) bytes.number(static_cast<float>(i));
  bytes.pad(32);
  bytes.resize(bytes.size() + 68);
  return bytes;
}

TEST(gguf_values_and_tensors_are_read_where_they_are) {
  const Bytes bytes = example();
  const GgufFile file = bytes.parse();
  CHECK(file.version() == 3u);
  CHECK(*file.text("general.architecture") == "llama");
  CHECK(*file.integer("count") == 7u);
  CHECK(*file.real("base") == 2.5);
  CHECK(*file.boolean("flag"));
  const auto words = *file.texts("words");
  CHECK(words.size() == 3u);
  CHECK(words[2] == "bc");
  CHECK(!file.text("absent"));
  CHECK_SAYS((file.text("count")), "MODEL_CORRUPT", "\"count\" is u32, not a text");
  CHECK_SAYS((file.integers("words")), "MODEL_CORRUPT", "array of text");
  const isopro::GgufTensor* tensor = file.findTensor("t");
  CHECK(tensor != nullptr);
  float last;
  std::memcpy(&last, file.data(*tensor) + 20, sizeof last);
  CHECK(last == 5.0f);
  CHECK(file.findTensor("q")->bytes == 68u);
  CHECK(file.findTensor("q")->elements() == 64);
}

TEST(gguf_every_cut_is_a_typed_error) {
  const Bytes bytes = example();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    // A copy of that length, so that the address sanitiser sees a read past its end.
    const std::vector<std::uint8_t> cut(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_SAYS((GgufFile::parse(cut.data(), cut.size())), "MODEL_CORRUPT", "");
  }
}

TEST(gguf_flipped_bytes_are_read_or_are_a_typed_error) {
  isopro::Random random(1);
  int read = 0;
  for (int round = 0; round < 50'000; ++round) {
    Bytes bytes = example();
    const auto flips = 1 + random.nextUint64() % 3;
    for (std::uint64_t i = 0; i < flips; ++i)
      bytes[random.nextUint64() % bytes.size()] = static_cast<std::uint8_t>(random.nextUint64());
    try {
      const GgufFile file = bytes.parse();
      for (const auto& tensor : file.tensors()) CHECK(tensor.offset + tensor.bytes <= bytes.size());
      for (const auto& entry : file.metadata()) {
        if (entry.value.isArray && entry.value.type == isopro::GgufType::Text)
          file.texts(entry.key);
      }
      ++read;
    } catch (const isopro::Error& error) {
      // A version or a type may be that of a file which is newer than this build.
      const std::string said = error.what();
      const bool isNewer = said.find("unknown type") != std::string::npos ||
                           said.find("GGUF version") != std::string::npos;
      CHECK(error.code() == ErrorCode::modelCorrupt ||
            (isNewer && error.code() == ErrorCode::modelUnsupported));
    }
  }
  CHECK(read > 5'000);  // flips in tensor data and in texts are harmless
}

TEST(gguf_what_the_format_forbids_is_named) {
  Bytes wrongMagic = example();
  wrongMagic[0] = 'g';
  CHECK_SAYS((wrongMagic.parse()), "MODEL_CORRUPT", "not a GGUF file");
  CHECK_SAYS((Bytes().header(0, 0, 1).parse()), "MODEL_UNSUPPORTED", "version 1");
  CHECK_SAYS((Bytes().header(0, 0, 4).parse()), "MODEL_UNSUPPORTED", "version 4");
  CHECK_SAYS((Bytes().header(0, 0, 70'000).parse()), "MODEL_CORRUPT", "version 70000");
  CHECK_SAYS((Bytes().header(0, 0, 4).parse(ErrorCode::adapterCorrupt)), "ADAPTER_CORRUPT",
             "version 4");
  CHECK_SAYS((Bytes().header(0, 0, 3u << 24).parse()), "MODEL_UNSUPPORTED", "big-endian");
  CHECK_SAYS((Bytes().header(0, std::uint64_t{1} << 63).parse()), "MODEL_CORRUPT", "too short");
  CHECK_SAYS((Bytes().header(std::uint64_t{1} << 63, 0).parse()), "MODEL_CORRUPT", "too short");
  const auto entry = [](const std::string& key) {
    Bytes bytes;
    bytes.text(key).number<std::uint32_t>(0).number<std::uint8_t>(1);
    return bytes;
  };
  const auto with = [](Bytes bytes, const Bytes& more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
  };
  CHECK_SAYS((with(with(Bytes().header(0, 2), entry("k")), entry("k")).parse()), "MODEL_CORRUPT",
             "twice");
  CHECK_SAYS((with(Bytes().header(0, 1), entry("")).parse()), "MODEL_CORRUPT", "not a key");
  CHECK_SAYS((with(Bytes().header(0, 1), entry(std::string("a\0b", 3))).parse()), "MODEL_CORRUPT",
             "not a key");
  CHECK_SAYS(
      (Bytes().header(0, 1).text("k").number<std::uint32_t>(13).number<std::uint64_t>(1).parse()),
      "MODEL_UNSUPPORTED", "unknown type 13");
  CHECK_SAYS((Bytes()
                  .header(0, 1)
                  .text("k")
                  .number<std::uint32_t>(9)
                  .number<std::uint32_t>(9)
                  .number<std::uint64_t>(1)
                  .parse()),
             "MODEL_CORRUPT", "array of arrays");
  CHECK_SAYS((Bytes()
                  .header(0, 1)
                  .text("k")
                  .number<std::uint32_t>(9)
                  .number<std::uint32_t>(12)
                  .number<std::uint64_t>(std::uint64_t{1} << 61)
                  .parse()),
             "MODEL_CORRUPT", "ends within metadata");
  CHECK_SAYS((Bytes()
                  .header(0, 1)
                  .text("general.alignment")
                  .number<std::uint32_t>(4)
                  .number<std::uint32_t>(24)
                  .parse()),
             "MODEL_CORRUPT", "power of two");
  const auto tensor = [](const std::string& name, std::vector<std::uint64_t> dimensions,
                         std::uint32_t type, std::uint64_t offset) {
    Bytes bytes;
    bytes.header(1, 0).tensor(name, std::move(dimensions), type, offset).pad(32).resize(4096);
    return bytes;
  };
  CHECK(tensor("t", {4}, 0, 0).parse().tensors().size() == 1u);
  CHECK_SAYS((tensor("t", {4}, 4, 0).parse()), "MODEL_UNSUPPORTED", "unknown type 4");
  CHECK_SAYS((tensor("t", {4}, 4096, 0).parse()), "MODEL_CORRUPT", "unknown type 4096");
  CHECK_SAYS((tensor("t", {33}, GGML_TYPE_Q8_0, 0).parse()), "MODEL_CORRUPT", "whole blocks");
  CHECK_SAYS((tensor("t", {1, 1, 1, 1, 1}, 0, 0).parse()), "MODEL_CORRUPT", "rank 5");
  CHECK_SAYS((tensor("t", {}, 0, 0).parse()), "MODEL_CORRUPT", "rank 0");
  CHECK_SAYS((tensor("t", {4, 0}, 0, 0).parse()), "MODEL_CORRUPT", "dimension of 0");
  CHECK_SAYS((tensor("t", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0).parse()),
             "MODEL_CORRUPT", "dimension of");
  CHECK_SAYS((tensor("t", {std::uint64_t{1} << 63}, 0, 0).parse()), "MODEL_CORRUPT",
             "dimension of");
  CHECK_SAYS((tensor("t", {4}, 0, 32).parse()), "MODEL_CORRUPT", "offset 32 instead of 0");
  CHECK_SAYS((tensor("t", {4096}, 0, 0).parse()), "MODEL_CORRUPT", "cut off within tensor");
  CHECK_SAYS((tensor("t", {4096}, 0, 0).parse()), "MODEL_CORRUPT",
             "it has 4096 of 16448 bytes");  // 24 + 33 of the header, padded to 64
  CHECK_SAYS((tensor(std::string(64, 'x'), {4}, 0, 0).parse()), "MODEL_CORRUPT", "no valid name");
}

TEST(gguf_files_are_mapped_and_other_things_refused) {
  CHECK_SAYS((GgufFile::open("/nowhere/model.gguf")), "MODEL_NOT_FOUND", "no file");
  CHECK_SAYS((GgufFile::open(ISOPRO_TEST_DATA)), "MODEL_NOT_FOUND", "no file");
  const std::string path = std::string(ISOPRO_TEST_DATA) + "/native/check.h";
  CHECK_SAYS((GgufFile::open(path, ErrorCode::adapterCorrupt)), "ADAPTER_CORRUPT",
             "not a GGUF file");
}

}  // namespace
